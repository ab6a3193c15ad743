#!/usr/bin/env bash
# Works for minutes under the collector: four threads, graphs, two processes. Launches equal records,
# memory stays flat, and the program ends in time; once recorded as a whole, once with collection
# switched on and off at ranges, once with samples of them.
# Usage: soak.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), SECONDS_EACH (180).
# Prints PASS, FAIL and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing failed, 1
# when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
seconds=${SECONDS_EACH:-180}
begin $((seconds + 60)) "$@"
need torch

# run NAME OPTIONS SETTING...: the workload with these options under these settings, and its memory.
run() {
  local name=$1 options=$2 began ended
  shift 2
  began=$(date +%s)
  limited "launch/$name" "$launch" --run-dir "$out/launch/$name" run.mode=light "$@" -- \
    "$python" "$here/soak.py" --seconds "$seconds" $options
  if [ $? -eq 77 ]; then
    say "SKIP $name: no GPU"
    return 1
  fi
  ended=$(($(date +%s) - began - seconds))
  say "NOTE launch/$name: start, end and report took $ended s more than the work"
  "$python" - "$out/launch/$name.out" "$name" <<'PYTHON' | tee -a "$results"
import json, sys
memory = json.loads(open(sys.argv[1]).read().splitlines()[-1])["memory_kib"]
for process, (early, late) in memory.items():
    flat = late < early + 16 * 1024
    print("PASS" if flat else "FAIL", f"launch/{sys.argv[2]}: process {process}: {early} KiB, then {late} KiB")
PYTHON
}

run whole "" && checked launch/whole check_counts.py "$out/launch/whole" "$out/launch/whole.out"
# What is not wanted has no kernels in the report.
run switched --only-wanted 'profiling.collector.ranges=wanted*' &&
  checked launch/switched check_counts.py "$out/launch/switched" "$out/launch/switched.out"
run sampled --only-wanted 'profiling.collector.ranges=wanted*' profiling.collector.sample=1/16 || true
finish
