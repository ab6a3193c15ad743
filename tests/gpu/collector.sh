#!/usr/bin/env bash
# Runs every workload of this folder under the collector, by LD_PRELOAD and by stage2-launch, and
# checks that each range holds exactly the kernels that torch.profiler counted without us.
# Usage: collector.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), STEP_TIMEOUT_S (240), QUICK=1 (a small model and few repetitions),
# CASES (llm llm-steps threads threads-4 graph startend runner-plain runner-layers).
# Prints PASS, FAIL, NOTE and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing
# failed (also when all was skipped for lack of a GPU), 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 240 "$@"
need "torch, transformers"

if [ "${QUICK:-0}" = 1 ]; then
  layers=4 hidden=512 prompt=64 new=8 reps=2 replays=10
else
  layers=16 hidden=2048 prompt=512 new=64 reps=3 replays=100
fi
size=(--layers "$layers" --hidden "$hidden" --reps "$reps")
llm=("${size[@]}" --prompt "$prompt" --new "$new")
graph=("${size[@]}" --replays "$replays")

# 1. What is true on this machine, with no collector loaded.
limited count/llm "$python" "$here/llm.py" "${llm[@]}" --new 4 --count-with torch || exit 1
prefill=$(number prefill_kernels "$out/count/llm.out") || exit 1
step=$(number step_kernels "$out/count/llm.out") || exit 1
limited count/graph "$python" "$here/graph_ranges.py" "${graph[@]}" --count-with torch || exit 1
replay=$(number replay_kernels "$out/count/graph.out") || exit 1
say "NOTE torch.profiler: $prefill kernels per prefill, $step per decode step, $replay per replay"
counts=(--prefill-kernels "$prefill" --step-kernels "$step")
limited count/threads "$python" "$here/threads_llm.py" "${llm[@]}" --new 4 --reps 1 "${counts[@]}" \
  --count-with torch &&
  say "PASS count/threads: torch.profiler agrees with the counts of one thread"
limited count/startend "$python" "$here/startend.py" --count-with torch &&
  say "PASS count/startend: torch.profiler agrees with the expected total"

# check NAME: compares the bundle with what the workload said.
check() {
  checked "$1" check_counts.py "$out/$1" "$out/$1.out"
}

# chosen NAME: whether a case is to run.
chosen() {
  [[ " ${CASES:-$1} " == *" $1 "* ]]
}

# 2. Each workload by both doors.
both() {
  local name=$1
  shift
  chosen "$name" || return
  if limited "preload/$name" env LD_PRELOAD="$collector" STAGE2_OUT="$out/preload/$name" "$@"; then
    if compgen -G "$out/preload/$name/*.s2t" >/dev/null && [ -s "$out/preload/$name/kernels.md" ]; then
      say "PASS preload/$name: spool and kernels.md written"
    else
      say "FAIL preload/$name: no spool or no kernels.md in $out/preload/$name"
    fi
    if limited "merge/$name" "$launch" merge --spool "$out/preload/$name" -o "$out/merge/$name"; then
      cp "$out/preload/$name.out" "$out/merge/$name.out"
      check "merge/$name"
    fi
  fi
  limited "launch/$name" "$launch" --run-dir "$out/launch/$name" run.mode=light -- "$@" &&
    check "launch/$name"
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
  chosen "$name" || return
  limited "launch/$name" env -C "$here/../../examples" \
    "$launch" --run-dir "$out/launch/$name" run.mode=light -- "$python" -m runner \
    backend=torch device=cuda model=llama_1b hydra.run.dir="$out/launch/$name-stage1" \
    model.config.num_hidden_layers="$layers" model.config.hidden_size="$hidden" \
    model.config.intermediate_size=$((4 * hidden)) \
    model.config.num_attention_heads=$((hidden / 64)) \
    model.config.num_key_value_heads=$((hidden / 256)) \
    infer.prompt_tokens="$prompt" infer.max_new_tokens="$new" run.repeats="$reps" "$@" || return
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
  check "launch/$name"
}

if "$python" -c 'import hydra' 2>/dev/null; then
  runner plain
  runner layers nvtx.layers=true nvtx.steps=true
else
  say "SKIP runner: no hydra-core for $python; run: $python -m pip install hydra-core"
fi

finish
