#!/usr/bin/env bash
# Runs the eager LLM without any NVTX range, by LD_PRELOAD and by stage2-launch, and checks that its
# decode step is found in the sequence of kernels, with the prefills apart. About 2 minutes.
# Usage: no_ranges.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), STEP_TIMEOUT_S (240), QUICK=1 (a small model, short decodes).
# Prints PASS, FAIL, NOTE and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing
# failed (also when all was skipped for lack of a GPU), 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 240 "$@"
need "torch, transformers"

if [ "${QUICK:-0}" = 1 ]; then
  size=(--layers 4 --hidden 512 --prompt 512 --new 12 --reps 3)
else
  size=(--layers 16 --hidden 2048 --prompt 512 --new 64 --reps 3)
fi

# What is true on this machine, with no collector loaded.
limited count "$python" "$here/llm.py" "${size[@]}" --new 4 --count-with torch || exit 1
prefill=$(number prefill_kernels "$out/count.out") || exit 1
step=$(number step_kernels "$out/count.out") || exit 1
say "NOTE torch.profiler: $prefill kernels per prefill, $step per decode step"
workload=("$python" "$here/llm.py" "${size[@]}" --no-ranges
  --prefill-kernels "$prefill" --step-kernels "$step")

if limited preload env LD_PRELOAD="$collector" STAGE2_OUT="$out/spool" "${workload[@]}" &&
  limited merge "$launch" merge --spool "$out/spool" -o "$out/merged"; then
  checked preload check_steps.py "$out/merged" "$out/preload.out"
fi
limited launch "$launch" --run-dir "$out/bundle" run.mode=light -- "${workload[@]}" &&
  checked launch check_steps.py "$out/bundle" "$out/launch.out"
finish
