#!/usr/bin/env bash
# Runs every workload of this folder under the collector, by LD_PRELOAD and by stage2-launch, and
# checks that each range holds exactly the kernels that torch.profiler counted without us.
# Usage: collector.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), STEP_TIMEOUT_S (240), QUICK=1 (a small model and few repetitions).
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
mkdir -p "$3" || exit 2
out=$(cd "$3" && pwd)
if [ -n "$(ls -A "$out")" ]; then
  echo "$0: $out is not empty; give a new folder" >&2
  exit 2
fi
python=${PYTHON:-python3}
case $python in # Some steps change the folder; a link into a virtual environment must stay one.
  */*) python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python") ;;
esac
limit_s=${STEP_TIMEOUT_S:-240}
results=$out/results.txt
: >"$results"

say() { echo "$*" | tee -a "$results"; }

# The launcher looks for the collector beside itself.
mkdir -p "$out/bin"
cp "$1" "$out/bin/libstage2.so" || exit 2
cp "$2" "$out/bin/stage2-launch" || exit 2
collector=$out/bin/libstage2.so
launch=$out/bin/stage2-launch

if ! "$python" -c 'import torch, transformers' 2>"$out/import.log"; then
  say "SKIP no torch or transformers for $python: $(tail -1 "$out/import.log")"
  exit 0
fi
if ! "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
  say "SKIP no GPU"
  exit 0
fi

# limited NAME COMMAND...: runs with a time limit, keeps NAME.out and NAME.err, returns its status.
limited() {
  local name=$1
  shift
  mkdir -p "$(dirname "$out/$name")"
  (
    set -x
    exec timeout --kill-after=15 "$limit_s" "$@"
  ) >"$out/$name.out" 2>"$out/$name.err"
}

# number KEY FILE: the value of an integer in a workload's JSON line.
number() {
  "$python" -c 'import json, sys
print(int(json.loads(open(sys.argv[2]).read().splitlines()[-1])[sys.argv[1]]))' "$1" "$2"
}

# succeeded NAME STATUS: a FAIL line with the last line of NAME.err, unless STATUS is 0.
succeeded() {
  [ "$2" -eq 0 ] && return 0
  local why="exit status $2"
  [ "$2" -ne 124 ] && [ "$2" -ne 137 ] || why="ended after the limit of $limit_s s"
  say "FAIL $1: $why: $(tail -1 "$out/$1.err")"
  return 1
}

if [ "${QUICK:-0}" = 1 ]; then
  layers=4 hidden=512 prompt=64 new=8 reps=2 replays=10
else
  layers=16 hidden=2048 prompt=512 new=64 reps=3 replays=100
fi
size=(--layers "$layers" --hidden "$hidden" --reps "$reps")
llm=("${size[@]}" --prompt "$prompt" --new "$new")
graph=("${size[@]}" --replays "$replays")

# 1. What is true on this machine, with no collector loaded.
unset LD_PRELOAD CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH
limited count/llm "$python" "$here/llm.py" "${llm[@]}" --new 4 --count-with torch
succeeded count/llm $? || exit 1
prefill=$(number prefill_kernels "$out/count/llm.out") || exit 1
step=$(number step_kernels "$out/count/llm.out") || exit 1
limited count/graph "$python" "$here/graph_ranges.py" "${graph[@]}" --count-with torch
succeeded count/graph $? || exit 1
replay=$(number replay_kernels "$out/count/graph.out") || exit 1
say "NOTE torch.profiler: $prefill kernels per prefill, $step per decode step, $replay per replay"
counts=(--prefill-kernels "$prefill" --step-kernels "$step")
limited count/threads "$python" "$here/threads_llm.py" "${llm[@]}" --new 4 --reps 1 "${counts[@]}" \
  --count-with torch
succeeded count/threads $? &&
  say "PASS count/threads: torch.profiler agrees with the counts of one thread"
limited count/startend "$python" "$here/startend.py" --count-with torch
succeeded count/startend $? &&
  say "PASS count/startend: torch.profiler agrees with the expected total"

# check NAME BUNDLE: compares the bundle with what the workload said.
check() {
  if [ ! -f "$2/metrics.json" ]; then
    say "FAIL $1: no $2/metrics.json"
    return
  fi
  "$python" "$here/check_counts.py" "$2" "$out/$1.out" >"$out/$1.check" 2>&1
  local status=$?
  sed "s|^\([A-Z]*\) |\1 $1: |" "$out/$1.check" | tee -a "$results"
  [ "$status" -le 1 ] || say "FAIL $1: the counts could not be compared"
}

# 2. Each workload by both doors.
both() {
  local name=$1 status
  shift
  limited "preload/$name" env LD_PRELOAD="$collector" STAGE2_OUT="$out/preload/$name" "$@"
  status=$?
  if succeeded "preload/$name" "$status"; then
    if compgen -G "$out/preload/$name/*.s2t" >/dev/null && [ -s "$out/preload/$name/kernels.md" ]; then
      say "PASS preload/$name: spool and kernels.md written"
    else
      say "FAIL preload/$name: no spool or no kernels.md in $out/preload/$name"
    fi
    if "$launch" --help | grep -q "^ *merge "; then
      limited "merge/$name" "$launch" merge --spool "$out/preload/$name" -o "$out/merge/$name"
      status=$?
      cp "$out/preload/$name.out" "$out/merge/$name.out"
      succeeded "merge/$name" "$status" && check "merge/$name" "$out/merge/$name"
    else
      say "SKIP merge/$name: this stage2-launch has no command merge"
    fi
  fi

  limited "launch/$name" "$launch" --run-dir "$out/launch/$name" run.mode=light -- "$@"
  succeeded "launch/$name" $? && check "launch/$name" "$out/launch/$name"
}

both llm "$python" "$here/llm.py" "${llm[@]}" "${counts[@]}"
both llm-steps "$python" "$here/llm.py" "${llm[@]}" "${counts[@]}" --steps
both threads "$python" "$here/threads_llm.py" "${llm[@]}" "${counts[@]}"
both threads-4 "$python" "$here/threads_llm.py" "${llm[@]}" "${counts[@]}" --threads 4
both graph "$python" "$here/graph_ranges.py" "${graph[@]}" --replay-kernels "$replay"
both startend "$python" "$here/startend.py"

# 3. The example workload, with the same model and ranges around every layer.
runner() {
  local name=runner-$1
  shift
  limited "launch/$name" env -C "$here/../../examples" \
    "$launch" --run-dir "$out/launch/$name" run.mode=light -- "$python" -m runner \
    backend=torch device=cuda model=llama_1b hydra.run.dir="$out/launch/$name-stage1" \
    model.config.num_hidden_layers="$layers" model.config.hidden_size="$hidden" \
    model.config.intermediate_size=$((4 * hidden)) \
    model.config.num_attention_heads=$((hidden / 64)) \
    model.config.num_key_value_heads=$((hidden / 256)) \
    infer.prompt_tokens="$prompt" infer.max_new_tokens="$new" run.repeats="$reps" "$@"
  succeeded "launch/$name" $? || return
  "$python" - "$prefill" $((step * new)) "$reps" >>"$out/launch/$name.out" <<'PY'
import json
import sys

prefill, decode, reps = map(int, sys.argv[1:])
expect = [
    {"path": path, "instances": reps, "kernels": reps * each, "kernels_per_instance": each}
    for path, each in (("prefill", prefill), ("decode", decode))
]
print(json.dumps({"workload": "runner", "expect": expect}))
PY
  check "launch/$name" "$out/launch/$name"
}

if "$python" -c 'import hydra' 2>/dev/null; then
  runner plain
  runner layers nvtx.layers=true nvtx.steps=true
else
  say "SKIP runner: no hydra-core for $python; run: $python -m pip install hydra-core"
fi

passed=$(grep -c '^PASS' "$results")
failed=$(grep -c '^FAIL' "$results")
say "DONE $passed passed, $failed failed; everything is in $out"
[ "$failed" -eq 0 ]
