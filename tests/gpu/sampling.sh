#!/usr/bin/env bash
# Times an eager LLM decode untraced and with STAGE2_SAMPLE=1/16 in turn, and compares what the
# sample says with a full record of the same workload. About 4 to 7 minutes.
# Usage: sampling.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), ROUNDS (3), REPS (6), STEP_TIMEOUT_S (120).
# Prints PASS, FAIL, NOTE and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing
# failed (also when all was skipped for lack of a GPU), 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 120 "$@"
need "torch, transformers"
rounds=${ROUNDS:-3}
one_in=16

# run NAME [VARIABLE=VALUE]... -- COMMAND...: keeps run/NAME.out and run/NAME.err.
run() {
  local name=$1 settings=()
  shift
  while [ "$1" != -- ]; do
    settings+=("$1")
    shift
  done
  shift
  limited "run/$name" env ${settings[@]+"${settings[@]}"} "$@"
}

# traced NAME [VARIABLE=VALUE]... -- COMMAND...: the same under the collector, with a bundle, which is
# empty where no range is wanted.
traced() {
  run "$1" LD_PRELOAD="$collector" STAGE2_OUT="$out/spool/$1" STAGE2_SUMMARY=off "${@:2}" &&
    limited "merge/$1" "$launch" merge --allow-empty --spool "$out/spool/$1" -o "$out/merge/$1"
}

# Every decode step is a range `step`, also where nobody looks on; the GPU is waited for at the end
# of all steps only, so kernels run on after their step has closed.
llm=("$python" "$here/llm.py" --steps --reps "${REPS:-6}")
sample=(STAGE2_RANGES=step STAGE2_SAMPLE="1/$one_in")
for round in $(seq "$rounds"); do
  run "none-$round-a" -- "${llm[@]}"
  traced "sampled-$round" "${sample[@]}" -- "${llm[@]}"
  run "none-$round-b" -- "${llm[@]}"
  if [ "$round" -le 2 ]; then
    traced "full-$round" -- "${llm[@]}"
    # What is left of the cost where no range is wanted.
    traced "unwanted-$round" STAGE2_RANGES=no-range-of-that-name -- "${llm[@]}"
  fi
done

# One replay of a CUDA graph in each of 64 ranges, which close before it has run, or which wait for it.
# The graph is made while nothing is collected.
graph=("$python" "$here/graph_ranges.py" --reps 64 --replays 1)
traced graph-full -- "${graph[@]}" --no-wait
traced graph-sampled STAGE2_RANGES=decode STAGE2_SAMPLE="1/$one_in" -- "${graph[@]}" --no-wait
traced graph-waited-full -- "${graph[@]}"
traced graph-waited-sampled STAGE2_RANGES=decode STAGE2_SAMPLE="1/$one_in" -- "${graph[@]}"
traced graph-waited-ranges STAGE2_RANGES=decode -- "${graph[@]}"

# The same with each replay recorded as a whole. CUPTI crashes where that kind of record is switched.
for wait in "" --no-wait; do
  traced "whole$wait-full" STAGE2_GRAPH=graph -- "${graph[@]}" $wait
  traced "whole$wait-ranges" STAGE2_GRAPH=graph STAGE2_RANGES=decode -- "${graph[@]}" $wait
  traced "whole$wait-sampled" STAGE2_GRAPH=graph STAGE2_RANGES=decode STAGE2_SAMPLE="1/$one_in" \
    -- "${graph[@]}" $wait
done

"$python" "$here/sampling.py" "$out" | tee -a "$results"
grep -h '^stage2:' "$out"/run/*.err | sort | uniq -c | sed 's/^/NOTE the collector said: /' |
  tee -a "$results"
finish
