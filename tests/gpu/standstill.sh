#!/usr/bin/env bash
# Why nothing moves, on a GPU: a kernel that spins on a flag, alone and in a CUDA graph, a deadlock under the GIL, and
# two ranks of which one sleeps, is stopped or has died; each recording and dormant. The first line of `ctl why` has to
# name the cause within 2 s, and every process has to go on once the flag is set. At the end stands
# what the looks of a watch take of an idle process.
#   bash tests/gpu/standstill.sh COLLECTOR LAUNCHER OUT [CASES]
# needs torch and cupy, and two GPUs for the ranks. CASES: all (the default, 5 minutes), or dormant-ranks (the two ranks
# alone, dormant; a minute, without cupy).
set -u
collector=$(realpath "${1:?libstage2.so}")
launcher=$(realpath "${2:?stage2-launch}")
out=${3:?a folder that is not there}
cases=${4:-all}
mkdir -p "$out"
exec timeout -k 10 420 "${PYTHON:-python3}" "$(dirname "$0")/standstill.py" "$cases" "$collector" "$launcher" "$(realpath "$out")"
