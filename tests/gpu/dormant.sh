#!/usr/bin/env bash
# What a dormant collector costs: eager decode and graph replay of dormant.py, untraced and with
# STAGE2_START=off, by processes that are all there at once and work in turn, and the memory of both. The
# upper bound of 95 % of the draws has to be at most 1.01, the memory at most 4 MB.
# Usage: dormant.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), RUNS (8) of PAIRS (16) groups of three processes, each with 1.1 GB of memory and
# 2 GB of the GPU's (26 groups did not fit into the 141 GB of an H200), ROUNDS (12), BUDGET_S (300, of the turns of
# a run), LAYERS (8, of the model), STEP_TIMEOUT_S (600, of a run), EARLIER (turns.jsonl of runs before, whose
# groups count as well), WATCH (none; 60s: a fourth process of each group is dormant with STAGE2_WATCH=60s, so give
# a quarter fewer PAIRS). A run takes 2.5 minutes. Processes of the same program differ by 3.4 %: the bound needs
# 100 groups and more, and gains little by more rounds.
# Prints PASS, FAIL, NOTE and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing
# failed (also when all was skipped for lack of a GPU), 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 600 "$@"
need "torch, transformers"
mkdir "$out/traces" "$out/run"

"$python" - "$collector" "$out" "${WATCH:-}" >"$out/ways.json" <<'PYTHON'
import json, sys
collector, out, watch = sys.argv[1:]
dormant = {"LD_PRELOAD": collector, "STAGE2_START": "off", "STAGE2_SUMMARY": "off"}
dormant |= {"STAGE2_OUT": f"{out}/traces", "XDG_RUNTIME_DIR": f"{out}/run"}
ways = {"untraced": {}, "again": {}, "dormant": dormant}
if watch:
    ways["watched"] = dormant | {"STAGE2_WATCH": watch}
print(json.dumps(ways))
PYTHON
judged=()
for ((run = 1; run <= ${RUNS:-8}; run++)); do
  limited "turns-$run" "$python" "$here/turns.py" --ways "$out/ways.json" --out "$out/turns-$run.jsonl" \
    --groups "${PAIRS:-16}" --rounds "${ROUNDS:-12}" --budget-s "${BUDGET_S:-300}" --parts eager,graph \
    -- "$python" "$here/dormant.py" --layers "${LAYERS:-8}"
  grep '^FAIL' "$out/turns-$run.out" | tee -a "$results"
  [ ! -s "$out/turns-$run.jsonl" ] || judged+=("$out/turns-$run.jsonl")
done
if [ ${#judged[@]} -gt 0 ]; then
  # shellcheck disable=SC2086 # EARLIER holds words.
  checked groups dormant_check.py "${judged[@]}" ${EARLIER:-}
else
  say "FAIL groups: no process had a turn"
fi
if [ -n "$(ls -A "$out/traces")" ]; then say "FAIL a dormant process wrote $(ls "$out/traces")"; fi

finish
