#!/usr/bin/env bash
# What a dormant collector costs: eager decode and graph replay of dormant.py, untraced and with
# STAGE2_START=off, in turn, and the memory of both. The upper bound of 95 % of the draws has to be at
# most 1.01, the memory at most 4 MB.
# Usage: dormant.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), PAIRS (20), STEP_TIMEOUT_S (120), EARLIER (lines.jsonl of runs before, whose
# pairs count as well).
# Prints PASS, FAIL, NOTE and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing
# failed (also when all was skipped for lack of a GPU), 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 120 "$@"
need "torch, transformers"

dormant=(env "LD_PRELOAD=$collector" STAGE2_START=off STAGE2_OUT="$out/traces" STAGE2_SUMMARY=off
  XDG_RUNTIME_DIR="$out/run")
mkdir "$out/traces" "$out/run"

# One process of a pair; the line of its JSON goes into lines.jsonl.
once() {
  local pair=$1 way=$2
  shift 2
  limited "pair.$pair.$way" "$@" "$python" "$here/dormant.py" || return
  tail -1 "$out/pair.$pair.$way.out" |
    sed "s/^{/{\"way\": \"$way\", \"pair\": $pair, /" >>"$out/lines.jsonl"
}

for pair in $(seq "${PAIRS:-20}"); do
  # Every other pair the other way round: what comes second may find a warmer GPU.
  if [ $((pair % 2)) = 0 ]; then
    once "$pair" untraced env && once "$pair" dormant "${dormant[@]}"
  else
    once "$pair" dormant "${dormant[@]}" && once "$pair" untraced env
  fi
done
# shellcheck disable=SC2086 # EARLIER holds words.
checked pairs dormant_check.py "$out/lines.jsonl" ${EARLIER:-}
sed -n '/^|/p' "$out/pairs.check"
if [ -n "$(ls -A "$out/traces")" ]; then say "FAIL a dormant process wrote $(ls "$out/traces")"; fi

finish
