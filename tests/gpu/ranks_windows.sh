#!/usr/bin/env bash
# Windows of two dormant ranks: `ctl RUN start --steps N` begins them at one moment, and every window has to
# hold exactly N decode steps, the same ones in both ranks. Also what `top` shows of both.
# Usage: ranks_windows.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR [RANKS]
# Environment: PYTHON (python3), RANKS (2), WINDOWS (10), STEPS (20, of a window), SERVE_S (60), HIDDEN (8192) and
# LAYERS (16) of the model, STEP_TIMEOUT_S (180).
# Prints PASS, FAIL, NOTE and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing
# failed (also when all was skipped for lack of GPUs), 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 180 "$@"
ranks=${4:-${RANKS:-2}}
windows=${WINDOWS:-10}
steps=${STEPS:-20}
need torch "$ranks"
traces=$out/traces
mkdir "$traces" "$out/run"
export XDG_RUNTIME_DIR=$out/run NCCL_NVLS_ENABLE=0

ctl() { "$launch" ctl "$traces" "$@"; }

# phase_of_all PHASE: waits until all ranks are in it.
phase_of_all() {
  local until=$((SECONDS + 60))
  until [ "$(ctl status --json 2>/dev/null | grep -c "\"phase\": \"$1\"")" -ge "$ranks" ]; do
    if [ "$SECONDS" -ge "$until" ] || ! kill -0 "$serving" 2>/dev/null; then
      say "FAIL the ranks are not $1: $(tail -1 "$out/ranks.err")"
      return 1
    fi
    sleep 0.1
  done
}

limited ranks env LD_PRELOAD="$collector" STAGE2_START=off STAGE2_SUMMARY=off STAGE2_OUT="$traces" \
  "$python" -m torch.distributed.run --standalone --nproc-per-node "$ranks" "$here/ranks.py" \
  --out "$out" --seconds "${SERVE_S:-60}" --hidden "${HIDDEN:-8192}" --layers "${LAYERS:-16}" &
serving=$!
if phase_of_all dormant; then
  # The first step after the start of the ranks is slow; warmup is a range, too.
  sleep 5
  for window in $(seq "$windows"); do
    ctl start --ranges 'step*' --steps "$steps" --wait >"$out/start.$window" 2>&1 ||
      say "FAIL window $window does not begin: $(tail -1 "$out/start.$window")"
    phase_of_all dormant || break
    # An empty window, as the agent of torchrun has one, makes room once it is 2 s old.
    sleep 2
  done
  ctl start --for 5s --wait >"$out/start.top" 2>&1
  # The file has what happens a second later.
  sleep 3
  "$launch" top --once "$traces" >"$out/top.txt" 2>"$out/top.err" || say "FAIL top: $(tail -1 "$out/top.err")"
  phase_of_all dormant
  ctl status --json >"$out/status.json"
fi
wait "$serving"
for window in $(seq "$windows"); do
  mkdir -p "$out/window.$window"
  for file in "$traces"/*-w"$window".s2t; do
    limited "window.$window/$(basename "$file" .s2t)" "$launch" merge --allow-empty --spool "$file" \
      -o "$out/window.$window/$(basename "$file" .s2t)"
  done
done
spools=()
for file in "$traces"/*-w1.s2t; do spools+=(--spool "$file"); done
limited both "$launch" merge "${spools[@]}" -o "$out/both"
checked windows ranks_windows_check.py "$out" "$ranks" "$windows" "$steps"
finish
