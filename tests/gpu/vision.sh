#!/usr/bin/env bash
# A vision encoder of DeepSeek-OCR's sizes, its parts as ranges in prefill: the FLOPs that the report
# computes for sam, clip and projector against those that PyTorch counts. About 1 minute.
# Usage: vision.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), STEP_TIMEOUT_S (120).
# Prints PASS, FAIL and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing failed
# (also when all was skipped for lack of a GPU), 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 120 "$@"
need "torch, transformers"
limited run "$launch" --run-dir "$out/run" run.mode=light model/llm=deepseek_ocr \
  model.tokens.batch_size=1 model.tokens.prompt_tokens=512 model.tokens.decode_steps=8 \
  model.tokens.images_per_prompt=1 model.tokens.crops_per_image=0 \
  -- "$python" "$here/vision.py" --layers 4 --hidden 1024 --prompt 512 --new 8 --reps 4 &&
  checked run vision.py --check "$out/run" "$out/run.out"
finish
