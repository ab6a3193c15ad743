#!/usr/bin/env bash
# Runs one workload with its labels spelled in three ways (`decode_all` in the domain LLM, `LLM@decode_all`, plain)
# under the collector, nsys with a gate, and ncu: the same stages, roles, kernels and counters each time.
# Usage: labels.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Needs nsys and ncu with the right to read counters, PyTorch, and the Python package nvtx. Three deep runs, below
# 4 minutes.
# Environment: PYTHON (python3), STEP_TIMEOUT_S (150).
# Prints PASS, FAIL and SKIP lines, and keeps everything in OUTDIR. Exit status: 0 when nothing failed (also when
# all was skipped), 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 150 "$@"
for tool in nsys ncu; do
  command -v "$tool" >/dev/null || { say "SKIP $tool is not on PATH"; exit 0; }
done
need "torch, nvtx"
for spelling in domain literal plain; do
  limited "$spelling" "$launch" --run-dir "$out/runs/$spelling" profiling/nsys=nsys.gated pipeline.ncu.top_n=3 \
    model/llm=llama_3_8b model.tokens.batch_size=1 model.tokens.prompt_tokens=128 model.tokens.decode_steps=8 \
    -- "$python" "$here/labels.py" workload "$spelling"
done
checked labels labels.py check "$out/runs"
finish
