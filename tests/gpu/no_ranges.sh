#!/usr/bin/env bash
# Runs the eager LLM without any NVTX range, by LD_PRELOAD and by stage2-launch, and checks that its
# decode step is found in the sequence of kernels, with the prefills apart. About 2 minutes.
# Usage: no_ranges.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), STEP_TIMEOUT_S (240), QUICK=1 (a small model, short decodes).
# Prints PASS, FAIL, NOTE and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing
# failed (also when all was skipped for lack of a GPU), 1 when something failed, 2 for bad usage.
set -uo pipefail

if [ $# -ne 3 ]; then
  sed -n '2,7s/^# //p' "$0" >&2
  exit 2
fi
for file in "$1" "$2"; do
  [ -f "$file" ] || { echo "$0: no file $file; build it with cargo build --release" >&2; exit 2; }
done
here=$(cd "$(dirname "$0")" && pwd) || exit 2
collector=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
launch=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
mkdir -p "$3" || exit 2
out=$(cd "$3" && pwd)
if [ -n "$(ls -A "$out")" ]; then
  echo "$0: $out is not empty; give a new folder" >&2
  exit 2
fi
python=${PYTHON:-python3}
limit_s=${STEP_TIMEOUT_S:-240}
results=$out/results.txt
: >"$results"

say() { echo "$*" | tee -a "$results"; }

if ! "$python" -c 'import torch, transformers' 2>"$out/import.log"; then
  say "SKIP no torch or transformers for $python: $(tail -1 "$out/import.log")"
  exit 0
fi
if ! "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
  say "SKIP no GPU"
  exit 0
fi
unset LD_PRELOAD CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH

# limited NAME COMMAND...: runs with a time limit, keeps NAME.out and NAME.err; a FAIL line with the
# last line of NAME.err, unless it succeeds.
limited() {
  local name=$1 status
  shift
  timeout --kill-after=15 "$limit_s" "$@" >"$out/$name.out" 2>"$out/$name.err"
  status=$?
  [ "$status" -eq 0 ] || say "FAIL $name: exit status $status: $(tail -1 "$out/$name.err")"
  return "$status"
}

# number KEY FILE: the value of an integer in a workload's JSON line.
number() {
  "$python" -c 'import json, sys
print(int(json.loads(open(sys.argv[2]).read().splitlines()[-1])[sys.argv[1]]))' "$1" "$2"
}

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

# check NAME BUNDLE WORKLOAD_OUTPUT
check() {
  "$python" "$here/check_steps.py" "$2" "$3" >"$out/$1.check" 2>&1
  local status=$?
  sed "s|^\([A-Z]*\) |\1 $1: |" "$out/$1.check" | tee -a "$results"
  [ "$status" -le 1 ] || say "FAIL $1: the steps could not be compared"
}

if limited preload env LD_PRELOAD="$collector" STAGE2_OUT="$out/spool" "${workload[@]}" &&
  limited merge "$launch" merge --spool "$out/spool" -o "$out/merged"; then
  check preload "$out/merged" "$out/preload.out"
fi
if limited launch env STAGE2_COLLECTOR="$collector" \
  "$launch" --run-dir "$out/bundle" run.mode=light -- "${workload[@]}"; then
  check launch "$out/bundle" "$out/launch.out"
fi

passed=$(grep -c '^PASS' "$results")
failed=$(grep -c '^FAIL' "$results")
say "DONE $passed passed, $failed failed; everything is in $out"
[ "$failed" -eq 0 ]
