#!/usr/bin/env bash
# Works for minutes under the collector: four threads, graphs, two processes. Launches equal records,
# memory stays flat, and the program ends in time; once recorded as a whole, once with collection
# switched on and off at ranges, once with samples of them.
# Usage: soak.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), SECONDS_EACH (180), CASES (whole switched sampled).
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
  "$python" - "$out/launch/$name.out" "$name" "$out/launch/$name/run.json" <<'PYTHON' | tee -a "$results"
import json, sys
said = json.loads(open(sys.argv[1]).read().splitlines()[-1])
run = json.dumps(json.load(open(sys.argv[3])))
# Bare CUPTI 13.0 keeps 16.8 bytes of each launch by its first activity API, 13.5 nothing by its second one.
keeps = 19 if '"cupti.version": "1300' in run else 0
kernels = sum(each["kernels"] for each in said["expect"]) / len(said["memory_kib"])
for process, (early, late) in said["memory_kib"].items():
    # The first reading is after a quarter of the time.
    most = early + 16 * 1024 + 0.75 * kernels * keeps / 1024
    each = (late - early) * 1024 / (0.75 * kernels)
    text = f"process {process}: {early} KiB, then {late} KiB: {each:.2f} bytes a kernel of {kernels:.0f}"
    print("PASS" if late < most else "FAIL", f"launch/{sys.argv[2]}: {text}, of which CUPTI may keep {keeps}")
PYTHON
}

# chosen NAME: whether a case is to run.
chosen() {
  [[ " ${CASES:-$1} " == *" $1 "* ]]
}

chosen whole && run whole "" && checked launch/whole check_counts.py "$out/launch/whole" "$out/launch/whole.out"
# What is not wanted has no kernels in the report.
chosen switched && run switched --only-wanted 'profiling.collector.ranges=wanted*' &&
  checked launch/switched check_counts.py "$out/launch/switched" "$out/launch/switched.out"
chosen sampled && run sampled --only-wanted 'profiling.collector.ranges=wanted*' profiling.collector.sample=1/16
finish
