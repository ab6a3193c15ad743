#!/usr/bin/env bash
# What sampling of hardware counters shows and costs: the bytes that each projection of an LLM reads beside
# its operands, eager and in CUDA graphs, batch 1 and 32, a mixture of experts; the same kernels under ncu;
# and the times of decode, replays and GEMMs without sampling, in bursts and without a pause, in turn.
# About 8 minutes.
# Usage: counters.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), ROUNDS (2), STEP_TIMEOUT_S (200).
# Prints PASS, FAIL, NOTE and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing
# failed (also when all was skipped for lack of a GPU), 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 200 "$@"
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
bundle dense run.mode=light profiling.collector.counters=on@100 -- --reps 4 --new 32
bundle batch run.mode=light profiling.collector.counters=on@100 -- --reps 4 --new 32 --batch 32
bundle experts run.mode=light profiling.collector.counters=on@100 -- \
  --reps 3 --new 32 --experts 8 --layers 8
# Samples of a quarter, of DRAM alone, tell kernels apart that run side by side in all longer ones.
fine='profiling.collector.counters="dram__bytes_read.sum,dram__bytes_write.sum@25"'
bundle dense_25us run.mode=light "$fine" -- --reps 4 --new 32
bundle batch_25us run.mode=light "$fine" -- --reps 4 --new 32 --batch 32
# Few layers: ncu replays each launch for every group of counters.
bundle ncu run.mode=deep "$fine" pipeline.nsys.enable=false \
  pipeline.ncu.ncu_cli.cache_control=none pipeline.ncu.top_n=12 -- --reps 12 --new 32 --layers 4
if [ "$("$python" -c 'import torch; print(torch.cuda.device_count())')" -gt 1 ]; then
  limited run/two "$launch" --run-dir "$out/bundle/two" run.mode=light \
    profiling.collector.counters=on@100 -- "$python" "$here/two_gpus.py"
fi
checked counters counters_check.py "$out"
finish
