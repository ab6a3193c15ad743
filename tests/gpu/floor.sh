#!/usr/bin/env bash
# What kernel records cost by either activity API of CUPTI, with all fields and with chosen ones, as bare
# CUPTI and under the collector: processes of each kind in turn, as many rounds as fit into BUDGET_S.
# Usage: floor.sh MODE PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR PATH_TO_LIBCUPTI
#   cost     untraced, both APIs bare, the collector with both: eager launches, nodes of a graph, and the
#            decode of an eager LLM where PYTHON has torch and transformers
#   fields   each field of a kernel record alone, and groups of them: eager launches and nodes of a graph
#   off      what stays of the cost once records are off: disabled, unsubscribed, CUPTI finalized
# LIBCUPTI is a libcupti of 13.3 or later, as the wheel nvidia-cuda-cupti has it: the headers lie beside it.
# Environment: PYTHON (python3), CXX (g++), CUPTI_INCLUDE (the headers, where they lie elsewhere), BUDGET_S
# (500), ROUNDS (at most 20), STEP_TIMEOUT_S (60), LAUNCHES (100000), REPLAYS (1000), PER_WAY (5: processes of each
# way that decode in turn, each with 1.5 GB of memory and 2.5 GB of the GPU's), TURNS (at most 60 of each), STEPS (8
# of a turn), PROGRAM (only launches, or only decode), WAYS (only ways
# whose name begins so; words with `;` between), OLD_CUPTI (cost: another libcupti to compare with, such as
# torch's own), DEVICE (gpu; simulated tries the script out, with libstage2_sim.so as LIBCUPTI).
# Prints tables in Markdown, and keeps them, outputs and a line of JSON for each process (raw.jsonl) in OUTDIR.
# Exit status: 0 when every way was measured (also for lack of a GPU), 1 when one was not, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
mode=${1:-}
case $mode in
  cost | fields | off) ;;
  *) usage ;;
esac
[ $# -eq 5 ] || usage
begin 60 "${@:2}"
cupti=$(realpath -s "$5")
[ -f "$cupti" ] || { echo "$0: no file $cupti; give a libcupti.so" >&2; exit 2; }

include=${CUPTI_INCLUDE:-$(dirname "$(dirname "$cupti")")/include}
if [ ! -f "$include/cupti_activity.h" ]; then
  echo "$0: no cupti_activity.h in $include; set CUPTI_INCLUDE to the folder of CUPTI's headers" >&2
  exit 2
fi
build() {
  "${CXX:-g++}" -std=c++17 -O2 "$@" -isystem "$include" -isystem "$here/cuda_types" -ldl || {
    echo "$0: the compiler failed; set CXX to a C++17 compiler" >&2
    exit 2
  }
}
build -shared -fPIC "$here/floor.cpp" -o "$out/bin/floor.so"
build "$here/launches.cpp" -o "$out/bin/launches"

words=(--mode "$mode" --out "$out" --collector "$collector" --cupti "$cupti" --limit-s "$limit_s")
if [ "${DEVICE:-gpu}" = simulated ]; then
  # The simulated CUPTI is its own driver.
  export STAGE2_SIM_CUPTI_VERSION=${STAGE2_SIM_CUPTI_VERSION:-13.5}
  words+=(--driver "$cupti")
elif [ "$mode" = cost ] && "$python" -c "import torch, transformers" 2>"$out/import.log"; then
  words+=(--llm "$here/llm.py")
elif [ "$mode" = cost ]; then
  say "NOTE no decode: $python cannot import torch and transformers"
fi
"$python" "$here/floor.py" "${words[@]}" | tee -a "$results"
exit "${PIPESTATUS[0]}"
