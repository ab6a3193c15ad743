#!/usr/bin/env bash
# The captures of docs/story.md: `vllm serve` with a scheduler that sorts its requests in Python, and without it, in turn.
#   bash tests/gpu/story.sh VLLM OUT [PAIRS]   (one GPU; VLLM: a folder with gen.py of the dummy model, whose packages
#                                              are on PYTHONPATH; 4 pairs unless told)
# Writes OUT/before-1, OUT/after-1, ..., and compares them. Needs stage2-launch (STAGE2_LAUNCH, or on PATH).
set -u
vllm=${1:?a folder with gen.py} out=$(realpath -m "${2:?a folder for the bundles}") pairs=${3:-4}
here=$(cd "$(dirname "$0")" && pwd)
launch=${STAGE2_LAUNCH:-stage2-launch}
failed=0
mkdir -p "$out"
export PYTHONPATH=$here:${PYTHONPATH:-}
python3 "$vllm/gen.py" --make-model-only "$out/dummy-llama" >/dev/null

# served NAME [OPTION...]: a bundle of the server under 12 rounds of 16 streamed requests.
served() {
  local name=$1 began=$SECONDS server
  shift
  timeout -k 10 150 "$launch" run --light --run-dir "$out/$name" -- \
    python3 -m vllm.entrypoints.cli.main serve "$out/dummy-llama" --served-model-name dummy \
    --load-format dummy --skip-tokenizer-init --dtype bfloat16 --max-model-len 2048 --max-num-seqs 32 \
    --gpu-memory-utilization 0.5 --no-enable-prefix-caching --host 127.0.0.1 --port 8000 "$@" >"$out/$name.log" 2>&1 &
  server=$!
  timeout -k 10 140 python3 "$here/engine_client.py" --requests 16 --calls 12 || failed=1
  pkill -INT -P "$(pgrep -P $server)" || failed=1
  wait $server
  echo "== $name: status $? after $((SECONDS - began)) s"
}
for pair in $(seq "$pairs"); do
  served "before-$pair" --scheduler-cls sorting_scheduler.SortingScheduler
  served "after-$pair"
done
"$launch" diff "$out"/before-? --against "$out"/after-? --html "$out/diff.html" || failed=1
exit $failed
