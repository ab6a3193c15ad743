#!/usr/bin/env bash
# Tries the forms of range expressions on ncu: those that the configuration takes, by stage2-launch,
# and those of ncu itself. Four runs of ncu with one metric, below 3 minutes.
# Usage: ncu_ranges.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Needs ncu with the right to read counters, and PyTorch; with the Python package nvtx also domains.
# Environment: PYTHON (python3), STEP_TIMEOUT_S (150).
# Prints PASS, FAIL and SKIP lines, writes plain.json, globs.json, literal.json and regex.json (form, missing,
# unwanted, verdict), and keeps everything in OUTDIR. Exit status: 0 when nothing failed (also when all was
# skipped), 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 150 "$@"
command -v ncu >/dev/null || { say "SKIP ncu is not on PATH"; exit 0; }
need torch
say "NOTE $(ncu --version | tail -1)"
workload=("$python" "$here/ncu_ranges.py" workload)

# Every launch in the ranges, one cheap metric.
for kind in plain globs; do
  limited "$kind" "$launch" --run-dir "$out/$kind" pipeline.nsys.enable=false pipeline.ncu.stage=null \
    pipeline.ncu.ncu_cli.set=null 'pipeline.ncu.ncu_cli.sections=[]' \
    'pipeline.ncu.ncu_cli.metrics=[gpu__time_duration.sum]' pipeline.ncu.ncu_cli.launch_count=null \
    "pipeline.ncu.ncu_cli.kernel_name='regex:.'" "$("$python" "$here/ncu_ranges.py" settings "$kind")" \
    -- "${workload[@]}" &&
    checked "$kind" ncu_ranges.py check "$kind" "$out/$kind/ncu/raw.csv" "$out/$kind.json"
done

for kind in literal regex; do
  mapfile -t flags < <("$python" "$here/ncu_ranges.py" flags "$kind")
  limited "$kind" ncu --config-file off --target-processes all --clock-control none --csv --page raw \
    --log-file "$out/$kind.csv" --metrics gpu__time_duration.sum --nvtx "${flags[@]}" "${workload[@]}" &&
    checked "$kind" ncu_ranges.py check "$kind" "$out/$kind.csv" "$out/$kind.json"
done

while read -r form; do
  timeout "$limit_s" ncu --config-file off --nvtx --nvtx-include "$form" true >"$out/refused.out" 2>&1
  if grep -q "Invalid configuration" "$out/refused.out"; then
    say "PASS ncu refuses $form"
  else
    say "FAIL ncu does not refuse $form: $(tail -1 "$out/refused.out")"
  fi
done < <("$python" "$here/ncu_ranges.py" refused)
finish
