#!/usr/bin/env bash
# What sampling of hardware counters shows and costs: the bytes that each projection of an LLM reads beside
# its operands, eager and in CUDA graphs, batch 1 and 32, a mixture of experts; the same kernels under ncu;
# and the times of decode, replays and GEMMs without sampling, in bursts and without a pause, in turn.
# About 6 minutes.
# Usage: counters.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), ROUNDS (2), STEP_TIMEOUT_S (120).
# Prints PASS, FAIL, NOTE and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing
# failed (also when all was skipped for lack of a GPU), 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 120 "$@"
need "torch, transformers"

# timed NAME COUNTERS: the workload under the collector alone, with these counters.
timed() {
  limited "time/$1" env LD_PRELOAD="$collector" STAGE2_OUT="$out/spool/$1" STAGE2_SUMMARY=off \
    STAGE2_COUNTERS="$2" "$python" "$here/counters.py" --reps 5 --new 32
}
for round in $(seq "${ROUNDS:-2}"); do
  timed "off-$round" off
  timed "pauseless-$round" on@100
  timed "bursts-$round" on
done

# bundle NAME SETTINGS... -- OPTIONS OF THE WORKLOAD...
bundle() {
  local name=$1 settings=()
  shift
  while [ "$1" != -- ]; do
    settings+=("$1")
    shift
  done
  shift
  limited "run/$name" "$launch" --run-dir "$out/bundle/$name" "${settings[@]}" \
    -- "$python" "$here/counters.py" "$@"
}
# Few kernels for ncu: each configuration is replayed for every group of counters.
bundle dense run.mode=deep pipeline.nsys.enable=false pipeline.ncu.ncu_cli.cache_control=none \
  pipeline.ncu.top_n=4 -- --reps 4 --new 32
light=(run.mode=light profiling.collector.counters=on@100)
bundle batch "${light[@]}" -- --reps 4 --new 32 --batch 32
bundle experts "${light[@]}" -- --reps 3 --new 32 --experts 8 --layers 8
checked counters counters_check.py "$out"
finish
