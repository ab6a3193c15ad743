#!/usr/bin/env bash
# A few seconds of bf16 matrix products in one range, an idle GPU in another: joules, power, clocks and
# temperature of each in the report, beside what NVML and nvidia-smi say. About 1 minute.
# Usage: energy.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), SECONDS_OF_WORK (6), STEP_TIMEOUT_S (120).
# Prints PASS, FAIL, NOTE and SKIP lines and a table, and keeps everything in OUTDIR. Exit status: 0 when
# nothing failed (also when all was skipped for lack of a GPU), 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 120 "$@"
need torch
limited run "$launch" --run-dir "$out/run" run.mode=light \
  -- "$python" "$here/energy.py" --seconds "${SECONDS_OF_WORK:-6}" &&
  sed -n '/^## Energy and clocks/,/^## [^E]/p' "$out/run/report.md" | sed '$d' &&
  checked run energy.py --check "$out/run" "$out/run.out"
# Without the readings the report has no section, or the reason alone.
limited off env STAGE2_DEVICE_STATE=off "$launch" --run-dir "$out/off" run.mode=light \
  -- "$python" "$here/energy.py" --seconds 1 &&
  checked off energy.py --check-off "$out/off"
finish
