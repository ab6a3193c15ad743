#!/usr/bin/env bash
# One rank of vLLM is stopped while it generates over two GPUs: `ctl why` names the process within 2 s, recording and
# dormant, and the engine goes on after SIGCONT and ends in order.
# Usage: standstill_vllm.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR GEN    GEN: a dummy model's gen.py
# Environment: PYTHON (python3), STEP_TIMEOUT_S (240, of each of the two runs). Needs vLLM and two GPUs.
# Prints PASS, FAIL and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing failed, else 1 or 2.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 240 "$@"
gen=${4:?the path of gen.py}
need "torch, vllm" 2
for phase in recording dormant; do
  limited "$phase" "$python" "$here/standstill_vllm.py" "$phase" "$collector" "$launch" "$out/$phase-run" "$gen"
  grep -E '^(PASS|FAIL)' "$out/$phase.out" | tee -a "$results"
done
finish
