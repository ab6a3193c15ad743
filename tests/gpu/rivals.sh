#!/usr/bin/env bash
# Runs the collector beside other tools that want CUPTI, the counters or NVML: nobody crashes, the
# program computes what it computes alone, and records that went elsewhere are told.
# Usage: rivals.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), STEP_TIMEOUT_S (60), CASES (all), FLOOR (a library made of floor.cpp).
# Prints PASS, FAIL, NOTE and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing
# failed, 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 60 "$@"
need torch
cases=${CASES:-nobody torch-profiler torch-profiler-first proton nvml library second-copy nsys ncu compute-sanitizer}

# told NAME: what the collector wrote to stderr, at most five lines.
told() {
  local lines
  lines=$(grep -c '^stage2:' "$out/$1.err")
  if [ "$lines" -le 5 ]; then
    say "PASS $1: $lines lines of ours: $(grep -m 1 '^stage2:' "$out/$1.err" | cut -c 1-200)"
  else
    say "FAIL $1: $lines lines of ours"
  fi
}

# beside NAME RIVAL [WORD...]: the workload alone, then under the launcher.
beside() {
  local name=$1 rival=$2
  shift 2
  limited "alone/$name" "$python" "$here/rivals.py" "$rival" "$@"
  if [ $? -eq 77 ]; then
    say "SKIP $name: $(tail -1 "$out/alone/$name.err")"
    return
  fi
  limited "launch/$name" "$launch" --run-dir "$out/launch/$name" run.mode=light -- \
    "$python" "$here/rivals.py" "$rival" "$@"
  checked "launch/$name" check_rivals.py "$out/launch/$name" "$out/launch/$name.out" "$out/alone/$name.out"
  told "launch/$name"
}

# around NAME WORD...: a tool that starts the program, with the collector preloaded in it.
around() {
  local name=$1 trace=$out/trace/$1
  shift
  if ! command -v "$1" >/dev/null; then
    say "SKIP $name: $1 is not on PATH"
    return
  fi
  limited "alone/$name" "$python" "$here/rivals.py" nobody --ranges 200 || return
  limited "around/$name" env LD_PRELOAD="$collector" STAGE2_OUT="$trace" "$@" \
    "$python" "$here/rivals.py" nobody --ranges 200 || return
  if [ "$(grep -o '"sum": [0-9.]*' "$out/around/$name.out")" = "$(grep -o '"sum": [0-9.]*' "$out/alone/$name.out")" ]; then
    say "PASS around/$name: the program computes what it computes alone"
  else
    say "FAIL around/$name: its output differs"
  fi
  told "around/$name"
}

for case in $cases; do
  case $case in
    library)
      if [ -n "${FLOOR:-}" ]; then
        beside library library --library "$FLOOR"
      else
        say "SKIP library: FLOOR names no library made of floor.cpp"
      fi
      ;;
    second-copy)
      cp "$collector" "$out/bin/libother.so"
      LD_PRELOAD="$out/bin/libother.so" beside second-copy nobody
      ;;
    nsys) around nsys nsys profile --trace=cuda,nvtx --sample=none --cpuctxsw=none -o "$out/nsys" ;;
    ncu) around ncu ncu --launch-count 3 -o "$out/ncu" ;;
    compute-sanitizer) around compute-sanitizer compute-sanitizer --tool memcheck ;;
    *) beside "$case" "$case" ;;
  esac
done
finish
