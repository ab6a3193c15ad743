#!/usr/bin/env bash
# Runs ranks.py under stage2-launch, once as it is and once with a rank that sleeps, and checks the
# kernels of each rank and stage against torch.profiler, the bytes of messages against the tensors,
# and that the sleeping rank is named with how late it came.
# Usage: ranks.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), RANKS (2), SLEEP_MS (10), SLEEP_RANK (1), STEP_TIMEOUT_S (120).
# Prints PASS, FAIL, NOTE and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing
# failed (also when all was skipped for lack of GPUs), 1 when something failed, 2 for bad usage.
set -uo pipefail

if [ $# -ne 3 ]; then
  sed -n '2,8s/^# //p' "$0" >&2
  exit 2
fi
for file in "$1" "$2"; do
  [ -f "$file" ] || { echo "$0: no file $file; build it with cargo build --release" >&2; exit 2; }
done
here=$(cd "$(dirname "$0")" && pwd) || exit 2
mkdir -p "$3" || exit 2
out=$(cd "$3" && pwd)
if [ -n "$(ls -A "$out")" ]; then
  echo "$0: $out is not empty; give a new folder" >&2
  exit 2
fi
python=${PYTHON:-python3}
ranks=${RANKS:-2}
limit_s=${STEP_TIMEOUT_S:-120}
results=$out/results.txt
: >"$results"

say() { echo "$*" | tee -a "$results"; }

# The launcher looks for the collector beside itself.
mkdir -p "$out/bin"
cp "$1" "$out/bin/libstage2.so" || exit 2
cp "$2" "$out/bin/stage2-launch" || exit 2
launch=$out/bin/stage2-launch

if ! "$python" -c 'import torch' 2>"$out/import.log"; then
  say "SKIP no torch for $python: $(tail -1 "$out/import.log")"
  exit 0
fi
gpus=$("$python" -c 'import torch; print(torch.cuda.device_count())')
if [ "$gpus" -lt "$ranks" ]; then
  say "SKIP $gpus GPUs for $ranks ranks"
  exit 0
fi

# limited NAME COMMAND...: runs with a time limit, keeps NAME.out and NAME.err; a FAIL line unless it
# succeeds.
limited() {
  local name=$1 status why
  shift
  mkdir -p "$out/$name"
  (
    set -x
    exec timeout --kill-after=15 "$limit_s" "$@"
  ) >"$out/$name.out" 2>"$out/$name.err"
  status=$?
  [ "$status" -eq 0 ] && return 0
  why="exit status $status"
  [ "$status" -ne 124 ] && [ "$status" -ne 137 ] || why="ended after the limit of $limit_s s"
  say "FAIL $name: $why: $(tail -1 "$out/$name.err")"
  return 1
}

torchrun=("$python" -m torch.distributed.run --standalone --nproc-per-node "$ranks" "$here/ranks.py")

# 1. What is true on this machine, with no collector loaded.
unset LD_PRELOAD CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH
limited count "${torchrun[@]}" --out "$out/count" --count-with torch || exit 1
say "NOTE torch.profiler, rank 0: $(cat "$out/count/rank.0.json")"

# 2. Under the collector.
both() {
  local name=$1
  shift
  limited "$name" "$launch" --run-dir "$out/$name/bundle" run.mode=light -- \
    "${torchrun[@]}" --out "$out/$name" "$@" || return
  "$python" "$here/check_ranks.py" "$out/$name/bundle" "$out/count" "$out/$name" \
    >"$out/$name.check" 2>&1
  local status=$?
  sed "s|^\([A-Z]*\) |\1 $name: |" "$out/$name.check" | tee -a "$results"
  [ "$status" -le 1 ] || say "FAIL $name: the bundle could not be compared"
}

both plain
both sleeps --sleep-ms "${SLEEP_MS:-10}" --sleep-rank "${SLEEP_RANK:-1}"

passed=$(grep -c '^PASS' "$results")
failed=$(grep -c '^FAIL' "$results")
say "DONE $passed passed, $failed failed; everything is in $out"
[ "$failed" -eq 0 ]
