#!/usr/bin/env bash
# Runs guests with the collector under ThreadSanitizer, which knows the order of every atomic access:
# the standard library, the collector, the simulated GPU and the guests are all compiled with it. No GPU
# is needed. A report of a race fails.
#
#   tests/sanitizers/tsan.sh                guests, after programs that have to be reported and others
#                                           that must not be
#   tests/sanitizers/tsan.sh --unit-tests   and the collector's unit tests
#
# Needs a nightly toolchain with rust-src, which nothing else does; STAGE2_NIGHTLY names another one than
# `nightly`. Without it the script says SKIPPED, and fails with STAGE2_REQUIRE_TOOLS=1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

nightly=${STAGE2_NIGHTLY:-nightly}
triple=x86_64-unknown-linux-gnu
sysroot=$(rustc "+$nightly" --print sysroot 2>/dev/null || true)
if [ "$(uname -m)" != x86_64 ] || [ -z "$sysroot" ] || [ ! -d "$sysroot/lib/rustlib/src/rust/library" ]; then
  echo "SKIPPED: ThreadSanitizer: it takes x86-64 and \`rustup toolchain install $nightly --component rust-src\`"
  [ "${STAGE2_REQUIRE_TOOLS:-}" != 1 ]
  exit
fi

build=${CARGO_TARGET_DIR:-target}/tsan
# The collector is preloaded and takes the sanitizer's functions from the guest, which has to offer them.
export RUSTFLAGS="-Zsanitizer=thread -Clink-arg=-Wl,--export-dynamic"
export CARGO_TARGET_DIR=$build CARGO_INCREMENTAL=0
cargo=(cargo "+$nightly")
options=(-Zbuild-std --target "$triple" --locked)

"${cargo[@]}" build "${options[@]}" -p stage2 --lib --examples -p stage2-sim
debug=$(realpath "$build/$triple/debug")
rustc "+$nightly" --edition 2024 -g -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --target "$triple" \
  -o "$debug/handed_over" tests/valgrind/handed_over.rs

failed=0
# What ThreadSanitizer ends a program with that it has reported.
reported=66

# expect STATUS WORDS...: runs a command, which has to end with this status.
expect() {
  local wanted=$1 status=0 said
  shift
  said=$(timeout 120 env "$@" 2>&1 >/dev/null) || status=$?
  if [ "$status" != "$wanted" ]; then
    printf 'FAILED (status %s, not %s): %s\n%s\n' "$status" "$wanted" "$*" "$said"
    failed=$((failed + 1))
  else
    printf 'ok (status %s): %s\n' "$status" "${*##*/}"
  fi
}

for way in relaxed stored_relaxed swapped_relaxed; do
  expect "$reported" "$debug/handed_over" "$way"
done
for way in released swapped; do
  expect 0 "$debug/handed_over" "$way"
done

# guest HAZARD SETTINGS...: a hazard of tests/guests, as tests/common starts it.
guest() {
  local hazard=$1 folder
  shift
  folder=$(mktemp -d)
  expect 0 -i "LD_PRELOAD=$debug/libstage2.so" "STAGE2_TEST_SIM=$debug/libstage2_sim.so" \
    "STAGE2_CUPTI=$debug/libstage2_sim.so" STAGE2_SIM_FAST=1 STAGE2_FLUSH_MS=50 STAGE2_SUMMARY=off \
    "STAGE2_OUT=$folder" "$@" "$debug/examples/guest" "$hazard"
  if ! compgen -G "$folder/*.s2t" >/dev/null; then
    echo "FAILED: $hazard left no trace file"
    failed=$((failed + 1))
  fi
  rm -rf "$folder"
}

v2=(STAGE2_SIM_CUPTI_VERSION=13.5 STAGE2_CUPTI_API=v2)
guest threads
guest threads "${v2[@]}"
guest threads STAGE2_ATTRIBUTION=callback
guest start_end
guest graph
guest gated "STAGE2_RANGES=dec*"
guest sampled_threads "STAGE2_RANGES=t*.step" STAGE2_SAMPLE=1/8
guest sampled STAGE2_COUNTERS=on
guest many_threads
guest crowd STAGE2_TEST_THREADS=100
guest come_and_go STAGE2_TEST_THREADS=200
guest nccl
guest popped_elsewhere
guest prefork

if [ "${1:-}" = --unit-tests ]; then
  "${cargo[@]}" test "${options[@]}" -p stage2 --lib || failed=$((failed + 1))
fi
if [ "$failed" != 0 ]; then
  echo "FAILED: $failed of the above"
  exit 1
fi
