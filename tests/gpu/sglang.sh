#!/usr/bin/env bash
# SGLang under stage2-launch, without a word of configuration: what its reports have to say, against what
# SGLang itself and the load generator measured.
#   bash tests/gpu/sglang.sh SGLANG OUT     (SGLANG: a folder with sgen.py of the dummy model, whose packages
#                                            are on PYTHONPATH; the case `ranks` needs two GPUs)
# Needs stage2-launch and libstage2.so of one build (STAGE2_LAUNCH, or on PATH). CASES=graphs,stream runs only
# these cases, and LIMIT is the most that each may take, s.
set -u
sglang=${1:?a folder with sgen.py} out=${2:?a folder for the bundles}
here=$(cd "$(dirname "$0")" && pwd)
launch=${STAGE2_LAUNCH:-stage2-launch}
cases=${CASES:-graphs,eager,stream,mixed,ranks}
failed=0
mkdir -p "$out"
. "$here/engine_cases.sh"

# The command names the engine: sgen.py imports it.
offline=(-- python3 "$sglang/sgen.py")
calls=(engine=sglang requests=16 calls=3)
case_of graphs "${calls[@]}" -- "${offline[@]}"
case_of eager "${calls[@]}" -- "${offline[@]}" --eager --no-overlap
case_of ranks "${calls[@]}" ranks=2 -- "${offline[@]}" --tp 2
case_of mixed engine=sglang -- "${offline[@]}" --chunk 1280 --mixed

python3 "$sglang/sgen.py" --make-model-only "$out/dummy-llama" >/dev/null
# The script does not name the engine, so the option does. The load runs without the profiler.
cat >"$out/stream.sh" <<S
python3 -m sglang.launch_server --model-path "$out/dummy-llama" --load-format dummy --skip-tokenizer-init \
  --dtype bfloat16 --context-length 2048 --max-running-requests 32 --cuda-graph-max-bs-decode 32 \
  --attention-backend triton --sampling-backend pytorch --mem-fraction-static 0.5 --disable-radix-cache \
  --disable-prefill-cuda-graph --disable-flashinfer-autotune --skip-server-warmup --enable-metrics \
  --host 127.0.0.1 --port 8000 &
server=\$!
(unset LD_PRELOAD CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH
 python3 '$here/engine_client.py' --engine sglang --requests 16 --calls 4)
kill -INT \$server
wait \$server
S
case_of stream engine=sglang streamed=64 -- --annotate sglang-steps -- bash "$out/stream.sh"
exit $failed
