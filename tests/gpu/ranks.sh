#!/usr/bin/env bash
# Runs ranks.py under stage2-launch, once as it is and once with a rank that sleeps, and checks the
# kernels of each rank and stage against torch.profiler, the bytes of messages against the tensors,
# and that the sleeping rank is named with how late it came.
# Usage: ranks.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), RANKS (2), SLEEP_MS (10), SLEEP_RANK (1), STEP_TIMEOUT_S (120).
# Prints PASS, FAIL, NOTE and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing
# failed (also when all was skipped for lack of GPUs), 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 120 "$@"
ranks=${RANKS:-2}
need torch "$ranks"

torchrun=("$python" -m torch.distributed.run --standalone --nproc-per-node "$ranks" "$here/ranks.py")

# 1. What is true on this machine, with no collector loaded.
mkdir "$out/count" "$out/plain" "$out/sleeps"
limited count "${torchrun[@]}" --out "$out/count" --count-with torch || exit 1
say "NOTE torch.profiler, rank 0: $(cat "$out/count/rank.0.json")"

# 2. Under the collector.
both() {
  local name=$1
  shift
  limited "$name" "$launch" --run-dir "$out/$name/bundle" run.mode=light -- \
    "${torchrun[@]}" --out "$out/$name" "$@" &&
    checked "$name" check_ranks.py "$out/$name/bundle" "$out/count" "$out/$name"
}

both plain
both sleeps --sleep-ms "${SLEEP_MS:-10}" --sleep-rank "${SLEEP_RANK:-1}"

finish
