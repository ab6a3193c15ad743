#!/usr/bin/env bash
# Runs unit tests under Miri, which interprets a program and reports undefined behaviour: reads beyond an
# allocation, of freed or uninitialised memory, broken aliasing, data races.
#
#   tests/sanitizers/miri.sh
#
# Miri has no mmap of shared or unreserved memory, no foreign functions but some of libc, and is some
# hundred times slower than the program. So it runs what needs none of these and ends in seconds: the
# trace file's encoding, statistics, texts and settings, and of the collector what is pure computation
# beside the code with `unsafe`. What shares memory between threads is left to loom, ThreadSanitizer
# and helgrind.
#
# Needs a nightly toolchain with miri and rust-src; STAGE2_NIGHTLY names another one than `nightly`.
# Without it the script says SKIPPED, and fails with STAGE2_REQUIRE_TOOLS=1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

nightly=${STAGE2_NIGHTLY:-nightly}
if ! cargo "+$nightly" miri --version >/dev/null 2>&1; then
  echo "SKIPPED: Miri: it takes \`rustup toolchain install $nightly --component miri rust-src\`"
  [ "${STAGE2_REQUIRE_TOOLS:-}" != 1 ]
  exit
fi

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/miri CARGO_INCREMENTAL=0
# Each case of a property takes seconds.
export PROPTEST_CASES=4
# Tests read the clock and the environment. What a process keeps to its end is no fault: memcheck looks
# for what is lost.
export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks ${MIRIFLAGS:-}"

# under_miri PACKAGE WORDS...: the unit tests of a package, as its harness takes the words.
under_miri() {
  local package=$1
  shift
  echo "== $package"
  cargo "+$nightly" miri test --locked --quiet -p "$package" --lib -- "$@"
}

under_miri stage2-contract stats:: settings:: trace::tests trace::record trace::varint libraries_are_known \
  text::numbers
under_miri stage2 base::allocator base::glob times_near guest::blob handles_carry guest::thread \
  --skip every_thread_has_a_number_of_its_own
