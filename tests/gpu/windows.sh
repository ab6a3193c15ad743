#!/usr/bin/env bash
# Ten windows of a program that is dormant and whose threads launch all the time, with each of several
# CUPTIs: each window has to hold every thread, every step and every kernel, and leave nothing unattributed.
# Usage: windows.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR [LIBCUPTI]...
# Without a LIBCUPTI the collector finds one. A LIBCUPTI is a file, or a folder that holds one (that of a
# wheel nvidia-cuda-cupti-cu12 or nvidia-cuda-cupti). Environment: PYTHON (python3), THREADS (4), KERNELS
# (20, in a step), WINDOWS (10), WINDOW_S (0.3), STEP_TIMEOUT_S (120). Needs torch.
# Prints PASS, FAIL, NOTE and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing
# failed (also when all was skipped for lack of a GPU), 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 120 "$@"
shift 3
need torch
threads=${THREADS:-4} kernels=${KERNELS:-20} windows=${WINDOWS:-10} window_s=${WINDOW_S:-0.3}
export XDG_RUNTIME_DIR=$out/run
mkdir "$XDG_RUNTIME_DIR"

# windows_with NAME [LIBCUPTI]
windows_with() {
  local name=$1 folder=$out/$1 pid waited=0 number files=()
  mkdir -p "$folder"
  env LD_PRELOAD="$collector" STAGE2_SUMMARY=off STAGE2_OUT="$folder/traces" STAGE2_START=off \
    ${2:+STAGE2_CUPTI="$2"} timeout --kill-after=15 "$limit_s" "$python" "$here/windows.py" \
    "$folder/ready" "$folder/stop" "$threads" "$kernels" >"$folder/out" 2>"$folder/err" &
  until [ -s "$folder/ready" ]; do
    sleep 0.2
    waited=$((waited + 1))
    if [ "$waited" -gt $((limit_s * 5)) ] || ! kill -0 $! 2>/dev/null; then
      say "FAIL $name: the program does not begin: $(tail -1 "$folder/err")"
      return
    fi
  done
  pid=$(pgrep -P $! -f windows.py || true)
  for ((number = 1; number <= windows; number++)); do
    "$launch" ctl "${pid:-$!}" start --wait && sleep "$window_s" && "$launch" ctl "${pid:-$!}" stop --wait ||
      say "FAIL $name: window $number: $(tail -1 "$folder/ctl.err")"
  done >"$folder/ctl.out" 2>"$folder/ctl.err"
  : >"$folder/stop"
  wait $! || say "FAIL $name: the program ended with status $?: $(tail -1 "$folder/err")"
  for ((number = 1; number <= windows; number++)); do
    mkdir "$folder/w$number"
    cp "$folder"/traces/*-w"$number".s2t "$folder/w$number/" 2>/dev/null
    limited "$name/merge$number" "$launch" -q merge --spool "$folder/w$number" -o "$folder/bundle$number" &&
      limited "$name/export$number" "$launch" -q export "$folder/bundle$number" -f sqlite \
        -o "$folder/w$number.sqlite" &&
      files+=("$folder/w$number.sqlite" "$folder/bundle$number/metrics.json")
  done
  [ "${#files[@]}" -gt 0 ] &&
    checked "$name" windows_check.py "$threads" "$kernels" "${files[@]}"
  say "NOTE $name: CUPTI $("$python" -c 'import json, sys
processes = json.load(open(sys.argv[1]))["coverage"]["processes"]
print(processes[0]["meta"].get("cupti_version", "?"))' "$folder/bundle1/metrics.json" 2>/dev/null)"
}

[ $# -gt 0 ] || windows_with found
for given in "$@"; do
  library=$given
  [ -d "$given" ] && library=$(find "$given" -name 'libcupti.so.1*' | sort | tail -1)
  windows_with "$(basename "$given")" "$(realpath "$library")"
done
finish
