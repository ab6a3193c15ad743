#!/usr/bin/env bash
# vLLM under stage2-launch, without a word of configuration: what its reports have to say, against what
# vLLM itself and the load generator measured.
#   bash tests/gpu/engines.sh VLLM OUT     (two GPUs; VLLM: a folder with gen.py and client.py of the dummy
#                                          model, whose packages are on PYTHONPATH)
# Needs stage2-launch and libstage2.so of one build (STAGE2_LAUNCH, or on PATH). CASES=graphs,stream runs only these cases.
set -u
vllm=${1:?a folder with gen.py and client.py} out=${2:?a folder for the bundles}
here=$(cd "$(dirname "$0")" && pwd)
launch=${STAGE2_LAUNCH:-stage2-launch}
cases=${CASES:-graphs,eager,drafts,profiler,dormant,serve,stream,ranks}
failed=0
mkdir -p "$out"

. "$here/engine_cases.sh"

# The command names the engine: engine_offline.py imports it.
export PYTHONPATH=$vllm:${PYTHONPATH:-}
offline=(-- python3 "$here/engine_offline.py")
case_of graphs requests=16 calls=3 modules -- "${offline[@]}"
case_of eager requests=16 calls=3 -- "${offline[@]}" --eager
case_of drafts drafts -- "${offline[@]}" --drafts 3
case_of ranks requests=16 calls=3 ranks=2 modules -- "${offline[@]}" --tp 2

python3 "$vllm/gen.py" --make-model-only "$out/dummy-llama" >/dev/null
# served FILE LOAD: a script that starts a server, runs the load without the profiler, and ends the server.
served() {
  cat >"$1" <<S
python3 -m vllm.entrypoints.cli.main serve "$out/dummy-llama" --served-model-name dummy \
  --load-format dummy --skip-tokenizer-init --dtype bfloat16 --max-model-len 2048 --max-num-seqs 32 \
  --gpu-memory-utilization 0.5 --no-enable-prefix-caching --host 127.0.0.1 --port 8000 &
server=\$!
(unset LD_PRELOAD CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH; $2)
kill -INT \$server
wait \$server
S
}
served "$out/serve.sh" "for n in 1 2 4 8 16 32; do python3 '$vllm/client.py' --n \$n --calls 2 --new 64; done"
served "$out/stream.sh" "python3 '$here/engine_client.py' --requests 16 --calls 4"
# The command shows no engine here.
case_of serve batches=1,2,4,8,16,32 -- --annotate vllm-steps -- bash "$out/serve.sh"
case_of stream streamed=64 -- --annotate vllm-steps -- bash "$out/stream.sh"

# Kernels of the third call: torch.profiler in one process, the collector in another.
case ",$cases," in *,profiler,*)
  truth=$(timeout -k 10 200 python3 "$vllm/vwrap.py" count 2>"$out/truth.log" | sed -n 's/^TRUTH kernels=\([0-9]*\) .*/\1/p')
  case_of profiler "kernels=${truth:-0}" -- operators.engine_steps=false -- python3 "$vllm/vwrap.py" range
  ;;
esac

# A window of 14 calls of a process that was dormant before.
case ",$cases," in *,dormant,*)
  timeout -k 10 200 "$launch" run --dormant --run-dir "$out/dormant" --annotate vllm-steps -- \
    python3 "$vllm/vdorm.py" "$launch" window off,on,end >"$out/dormant.log" 2>&1
  echo "== dormant: status $?"
  python3 "$here/check_engines.py" "$out/dormant/windows/w1" /dev/null window=14 || failed=1
  ;;
esac
exit $failed
