#!/usr/bin/env bash
# Samples of the host on a GPU: seeded causes against what the program measured, and what samples cost.
#   bash tests/gpu/host.sh OUT      (STAGE2_LAUNCH, STAGE2_COLLECTOR: of one build)
# CASES=lines,item runs only these causes; ROUNDS=0 leaves the cost out. VLLM=FOLDER (with gen.py, its packages on
# PYTHONPATH) takes the first cause out of vLLM as well.
set -u
out=${1:?a folder for the bundles}
here=$(cd "$(dirname "$0")" && pwd)
launch=${STAGE2_LAUNCH:-stage2-launch}
cases=${CASES:-lines,sleep,lock,gil,item,malloc,starved}
failed=0
mkdir -p "$out"
for cause in ${cases//,/ }; do
  timeout -k 10 90 "$launch" run --light --run-dir "$out/$cause" -- \
    python3 "$here/host_causes.py" "$cause" >"$out/$cause.log" 2>&1
  echo "== $cause: status $?"
  python3 "$here/check_host.py" "$out/$cause" "$out/$cause.log" || failed=1
done
# removed KIND FUNCTION...: what leaving out the first cause gains, against what the report said.
removed() {
  local kind=$1
  shift
  timeout -k 10 150 "$launch" run --light --run-dir "$out/$kind" operators.engine_steps=false \
    profiling.collector.host=500 -- python3 "$here/host_removal.py" "$kind" >"$out/$kind.log" 2>&1
  echo "== $kind: status $?"
  python3 "$here/check_removal.py" "$out/$kind" "$@" || failed=1
}
if [ "${REMOVAL:-1}" != 0 ]; then
  removed hf SeenTokens
  if [ -n "${VLLM:-}" ]; then PYTHONPATH=$VLLM:${PYTHONPATH:-} removed vllm SortingScheduler priority; fi
fi
if [ "${ROUNDS:-10}" != 0 ]; then
  python3 "$here/host_cost.py" "${STAGE2_COLLECTOR:?libstage2.so}" "$(command -v "$launch")" "${ROUNDS:-10}" || failed=1
fi
exit $failed
