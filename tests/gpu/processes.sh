#!/usr/bin/env bash
# Runs every case of processes.py under stage2-launch and under LD_PRELOAD alone, and checks that each
# process is recorded exactly, however it was made and however it ends.
# Usage: processes.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), STEP_TIMEOUT_S (90), CASES (all), THREADS (64) and RANGES (500, of each thread) of
# the case threads; STAGE2_CUPTI and STAGE2_CUPTI_API choose the CUPTI and its activity API.
# Prints PASS, FAIL and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing failed,
# 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 90 "$@"
need torch
cases=${CASES:-fork-untouched fork-with-ranges fork-then-parent forkserver spawn prefork os-exit slow-exit main-leaves threads}

for case in $cases; do
  workload=("$python" "$here/processes.py" "$case" --threads "${THREADS:-64}" --ranges "${RANGES:-500}")
  limited "launch/$case" "$launch" --run-dir "$out/launch/$case" run.mode=light -- "${workload[@]}"
  if [ $? -eq 77 ]; then
    say "SKIP $case: no GPU"
    continue
  fi
  checked "launch/$case" check_counts.py "$out/launch/$case" "$out/launch/$case.out"

  limited "preload/$case" env LD_PRELOAD="$collector" STAGE2_OUT="$out/preload/$case" "${workload[@]}"
  limited "merge/$case" "$launch" merge --spool "$out/preload/$case" -o "$out/merge/$case"
  checked "merge/$case" check_counts.py "$out/merge/$case" "$out/preload/$case.out"
done
finish
