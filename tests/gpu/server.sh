#!/usr/bin/env bash
# A server that is dormant, and recorded in windows while requests come in: the latency that clients see
# before a window, while it is switched on, in it, and after it; then 100 windows in a row; then the decode steps of the window
# beside those of a run that is recorded whole.
# Usage: server.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), SERVER (--model llama_1b; words for examples/server), RATE (10), SECONDS_PER_PHASE
# (15), SWITCH_S (10: so long CUPTI meets kernels for the first time), WARM_S (20, requests before the first phase), WINDOWS (100), STEP_TIMEOUT_S (180), START (words for
# `ctl start` of the first window, such as --sample 1/16), FLOOR and FLOOR_CUPTI
# (bin/floor.so of a run of floor.sh, and the libcupti that it loads: the same load under bare CUPTI, which no
# collector can undercut). With SERVER="--backend numpy --simulated-gpu LIBRARY", STAGE2_CUPTI and
# STAGE2_SIM_FAST=1 it runs without a GPU.
# Prints PASS, FAIL, NOTE and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing
# failed (also when all was skipped for lack of a GPU), 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 180 "$@"
server=${SERVER:---model llama_1b}
case $server in
  *--simulated-gpu*) ;;
  *) need torch ;;
esac
phase_s=${SECONDS_PER_PHASE:-15}
switch_s=${SWITCH_S:-10}
window_s=$((switch_s + phase_s))
windows=${WINDOWS:-100}
export XDG_RUNTIME_DIR=$out/run PYTHONPATH=$here/../../examples${PYTHONPATH:+:$PYTHONPATH}
mkdir "$XDG_RUNTIME_DIR"

# serve NAME VARIABLE=VALUE...: starts the server under the collector; sets server_pid, engine and url.
serve() {
  local name=$1 waited=0
  shift
  mkdir "$out/$name"
  # shellcheck disable=SC2086 # SERVER holds words.
  env LD_PRELOAD="$collector" STAGE2_SUMMARY=off STAGE2_OUT="$out/$name/traces" "$@" \
    "$python" -m server --port 0 --ready-file "$out/$name/ready" $server \
    >"$out/$name/server.out" 2>"$out/$name/server.err" &
  server_pid=$!
  until [ -s "$out/$name/ready" ]; do
    sleep 0.2
    waited=$((waited + 1))
    if [ "$waited" -gt $((limit_s * 5)) ] || ! kill -0 "$server_pid" 2>/dev/null; then
      say "FAIL $name: the server does not serve: $(tail -1 "$out/$name/server.err")"
      finish
      exit 1
    fi
  done
  engine=$("$python" -c 'import json,sys; print(json.load(open(sys.argv[1]))["engine_pid"])' "$out/$name/ready")
  url=$("$python" -c 'import json,sys; print(json.load(open(sys.argv[1]))["url"])' "$out/$name/ready")
}

# Ends the server, whose status has to be 0.
end_server() {
  kill -TERM "$server_pid"
  wait "$server_pid" || say "FAIL $1: the server ended with status $?: $(tail -1 "$out/$1/server.err")"
}

# load NAME WORD...: requests whose lines go into NAME.jsonl. The same seed: the same requests.
load() {
  local name=$1
  shift
  limited "$name" "$python" -m server.load --url "$url" --rate "${RATE:-10}" --seed 7 --out "$out/$name.jsonl" "$@"
}

ctl() { "$launch" ctl "$engine" "$@"; }

# 1. Before a window, while it is switched on, in it, while its last requests end, and after it.
# A server that just began is slow for its own reasons: each new batch and length costs a first choice of
# kernels.
serve dormant STAGE2_START=off
load warm --duration "${WARM_S:-20}"
start="'$launch' ctl $engine start --for ${window_s}s ${START:-} --wait"
(
  # What a person sees in the window.
  sleep $((phase_s + switch_s + phase_s / 2))
  "$launch" top --once "$engine" >"$out/top.txt" 2>"$out/top.err"
) &
watching=$!
load latency --duration $((2 * phase_s + window_s + 3)) --mark 0=never --mark "$phase_s=switching" \
  --mark "$((phase_s + switch_s))=on" --mark "$((phase_s + window_s))=ending" \
  --mark "$((phase_s + window_s + 3))=off" --at "$phase_s" "$start"
if wait "$watching" && grep -q "recording" "$out/top.txt"; then
  say "PASS top shows the window, see top.txt"
else
  say "FAIL top: $(tail -1 "$out/top.err")"
fi

# 2. Many windows under load.
load many --duration $((windows / 2 + 5)) &
loading=$!
for ((window = 0; window < windows; window++)); do
  ctl start --wait && sleep 0.1 && ctl stop --wait || say "FAIL window $window: see ctl.err"
done >"$out/ctl.out" 2>"$out/ctl.err"
wait "$loading" && say "PASS no request failed while $windows windows began and ended"
ctl status --json >"$out/status.json"
checked windows server_check.py windows "$out/status.json" $((windows + 1))
end_server dormant

# 3. The latencies beside those under bare CUPTI.
under_bare=()
if [ -n "${FLOOR:-}" ]; then
  serve bare LD_PRELOAD= CUDA_INJECTION64_PATH="$FLOOR"
  # The engine ends without what floor.so would say at its exit.
  grep -q "$(basename "$FLOOR")" "/proc/$engine/maps" || say "FAIL bare: the engine has not loaded $FLOOR"
  load bare_warm --duration "${WARM_S:-20}"
  load bare --duration "$((2 * phase_s))" && under_bare=("$out/bare.jsonl")
  end_server bare
fi
checked latency server_check.py latency "$out/latency.jsonl" ${under_bare[@]+"${under_bare[@]}"}

# 4. The window beside a whole run.
serve whole STAGE2_START=on
load whole --duration "$phase_s"
end_server whole
mkdir "$out/first"
cp "$out"/dormant/traces/*-w1.s2t "$out/first/"
limited first.merge "$launch" merge --spool "$out/first" -o "$out/window.bundle" &&
  limited whole.merge "$launch" merge --spool "$out/whole/traces" -o "$out/whole.bundle" &&
  checked steps server_check.py steps "$out/window.bundle" "$out/whole.bundle"

finish
