#!/usr/bin/env bash
# Runs guests with the collector under valgrind: helgrind looks for races, memcheck for invalid and
# uninitialised reads and for leaks. No GPU is needed. Any report that helgrind.supp does not explain fails.
#
#   tests/valgrind/run.sh                   all of it, a few minutes
#   tests/valgrind/run.sh Races             one class of tests, as unittest takes it
#
# Without valgrind, a C compiler or x86-64 it says SKIPPED, and fails with STAGE2_REQUIRE_TOOLS=1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

missing=
for tool in valgrind cc; do
  command -v "$tool" >/dev/null || missing+=" $tool"
done
[ -n "$missing" ] || [ -f /usr/include/valgrind/helgrind.h ] || missing+=" valgrind/helgrind.h"
[ "$(uname -m)" = x86_64 ] || missing+=" x86-64"
if [ -n "$missing" ]; then
  echo "SKIPPED: helgrind and memcheck: this machine lacks$missing"
  [ "${STAGE2_REQUIRE_TOOLS:-}" != 1 ]
  exit
fi

build=${CARGO_TARGET_DIR:-target}
own=$build/valgrind
mkdir -p "$own"
# Without optimisation, whatever the caller's flags are: the wrappers need functions.
cargo build --locked -p stage2 --lib --examples -p stage2-sim
cc -O1 -g -fPIC -shared -fexceptions -fno-omit-frame-pointer -Wall -Wextra -Werror \
  -o "$own/orders.so" tests/valgrind/orders.c
rustc --edition 2024 -g -o "$own/handed_over" tests/valgrind/handed_over.rs

STAGE2_VALGRIND_BUILD=$(realpath "$build")
export STAGE2_VALGRIND_BUILD
cd tests/valgrind
exec python3 -m unittest -v "${@/#/test_guests.}"
