#!/usr/bin/env bash
# Runs ranks.py under stage2-launch, tensor-parallel and expert-parallel, as it is and with a rank that
# sleeps and one whose GPU has more work. Checks the kernels of each rank and stage against torch.profiler,
# the bytes of messages against the tensors, and that both late ranks are named with the right cause and how
# late they came.
# Usage: ranks.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR [RANKS]
# Environment: PYTHON (python3), RANKS (2), ROUNDS (3), SLEEP_MS (10), SLEEP_RANK (1), WORK_MS (5), WORK_RANK (0),
# STEP_TIMEOUT_S (120).
# Prints PASS, FAIL, NOTE and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing
# failed (also when all was skipped for lack of GPUs), 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 120 "$@"
ranks=${4:-${RANKS:-2}}
need torch "$ranks"

torchrun=("$python" -m torch.distributed.run --standalone --nproc-per-node "$ranks" "$here/ranks.py")

# NVLink multicast is left alone: setting it up needs more rights than a container has.
export NCCL_NVLS_ENABLE=0
for parallel in tensor expert; do
  # 1. What is true on this machine, with no collector loaded.
  for run in count plain late; do mkdir -p "$out/$parallel/$run"; done
  limited "$parallel/count" "${torchrun[@]}" --out "$out/$parallel/count" --parallel "$parallel" \
    --count-with torch || exit 1
  say "NOTE torch.profiler, $parallel, rank 0: $(cat "$out/$parallel/count/rank.0.json")"

  # 2. Under the collector.
  both() {
    local name=$parallel/$1
    shift
    limited "$name" "$launch" --run-dir "$out/$name/bundle" run.mode=light -- \
      "${torchrun[@]}" --out "$out/$name" --parallel "$parallel" "$@" &&
      checked "$name" check_ranks.py "$out/$name/bundle" "$out/$parallel/count" "$out/$name"
  }
  both plain
  both late --sleep-ms "${SLEEP_MS:-10}" --sleep-rank "${SLEEP_RANK:-1}" \
    --work-ms "${WORK_MS:-5}" --work-rank "${WORK_RANK:-0}"

  # 3. What a decode step takes untraced and under the collector, in turn.
  for round in $(seq "${ROUNDS:-3}"); do
    for way in untraced collector; do
      case $way in
        untraced) runs=() ;;
        collector) runs=("$launch" --run-dir "$out/$parallel/cost.$round" run.mode=light --) ;;
      esac
      mkdir -p "$out/$parallel/$way.$round"
      limited "$parallel/$way.$round" "${runs[@]}" "${torchrun[@]}" --parallel "$parallel" \
        --out "$out/$parallel/$way.$round" --steps 512 &&
        say "NOTE $parallel, round $round, $way, ms a step of each rank: $("$python" -c 'import glob, json, sys
print(*(round(json.load(open(file))["step_ms"], 4) for file in sorted(glob.glob(sys.argv[1] + "/rank.*"))))' \
          "$out/$parallel/$way.$round")"
    done
  done

  # 4. The report of all ranks once more: its time and memory.
  /usr/bin/time -f "NOTE $parallel: report in %e s, %M KiB" "$launch" report "$out/$parallel/late/bundle" \
    >"$out/$parallel/report.out" 2>"$out/$parallel/report.err" ||
    say "FAIL $parallel: no report: $(tail -1 "$out/$parallel/report.err")"
  grep '^NOTE' "$out/$parallel/report.err" | tee -a "$results"
done

finish
