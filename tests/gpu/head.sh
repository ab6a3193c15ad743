# What the scripts of this folder share: their arguments, their folder, steps with a time limit, and
# the closing count. To be sourced: `. "$(dirname "$0")/head.sh"`, then `begin LIMIT_S "$@"`.

# usage: the comment at the head of the calling script, and exit status 2.
usage() {
  awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0" >&2
  exit 2
}

say() { echo "$*" | tee -a "$results"; }

# begin LIMIT_S PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR: sets here, out, results, python,
# limit_s, collector and launch. OUTDIR must be new or empty. The launcher looks for the collector
# beside itself, so both are copied into OUTDIR/bin.
begin() {
  local file
  limit_s=${STEP_TIMEOUT_S:-$1}
  shift
  [ $# -ge 3 ] || usage
  for file in "$1" "$2"; do
    [ -f "$file" ] || { echo "$0: no file $file; build it with cargo build --release" >&2; exit 2; }
  done
  here=$(cd "$(dirname "$0")" && pwd) || exit 2
  mkdir -p "$3" || exit 2
  out=$(cd "$3" && pwd)
  if [ -n "$(ls -A "$out")" ]; then
    echo "$0: $out is not empty; give a new folder" >&2
    exit 2
  fi
  python=${PYTHON:-python3}
  case $python in # Some steps change the folder; a link into a virtual environment must stay one.
    */*) python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python") ;;
  esac
  results=$out/results.txt
  : >"$results"
  mkdir "$out/bin"
  cp "$1" "$out/bin/libstage2.so" || exit 2
  cp "$2" "$out/bin/stage2-launch" || exit 2
  collector=$out/bin/libstage2.so
  launch=$out/bin/stage2-launch
  unset LD_PRELOAD CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH
}

# need MODULES [GPUS]: a SKIP line and the end of the script, with exit status 0, where Python cannot
# import the modules (`torch, transformers`) or torch finds fewer GPUs (1).
need() {
  local gpus
  if ! "$python" -c "import $1" 2>"$out/import.log"; then
    say "SKIP $python cannot import $1: $(tail -1 "$out/import.log")"
    exit 0
  fi
  gpus=$("$python" -c 'import torch; print(torch.cuda.device_count())')
  if [ "$gpus" -lt "${2:-1}" ]; then
    say "SKIP GPUs: $gpus of ${2:-1}"
    exit 0
  fi
}

# limited NAME COMMAND...: runs it with the time limit, keeps NAME.out and NAME.err with the command
# line, and returns its exit status. A FAIL line says why it failed; 77 (no GPU) is no failure.
limited() {
  local name=$1 status why
  shift
  mkdir -p "$(dirname "$out/$name")"
  (
    set -x
    exec timeout --kill-after=15 "$limit_s" "$@"
  ) >"$out/$name.out" 2>"$out/$name.err"
  status=$?
  case $status in
    0 | 77) return "$status" ;;
    124 | 137) why="ended after the limit of $limit_s s" ;;
    *) why="exit status $status" ;;
  esac
  say "FAIL $name: $why: $(tail -1 "$out/$name.err")"
  return "$status"
}

# number KEY FILE: the value of an integer in a workload's JSON line.
number() {
  "$python" -c 'import json, sys
print(int(json.loads(open(sys.argv[2]).read().splitlines()[-1])[sys.argv[1]]))' "$1" "$2"
}

# checked NAME SCRIPT ARGUMENT...: the lines of a script that compares (check_counts.py, ...), each
# with NAME in it.
checked() {
  local name=$1 script=$2 status
  shift 2
  mkdir -p "$(dirname "$out/$name")"
  "$python" "$here/$script" "$@" >"$out/$name.check" 2>&1
  status=$?
  sed "s|^\([A-Z]*\) |\1 $name: |" "$out/$name.check" | tee -a "$results"
  case $status in
    0) ;;
    1) # Also Python's own, after an exception: then no line says what failed.
      grep -q '^FAIL ' "$out/$name.check" ||
        say "FAIL $name: $script crashed: $(tail -1 "$out/$name.check")" ;;
    *) say "FAIL $name: $script could not compare: $(tail -1 "$out/$name.check")" ;;
  esac
}

# finish: the closing count. The exit status is 1 when anything failed, or nothing passed.
finish() {
  local passed failed
  passed=$(grep -c '^PASS' "$results")
  failed=$(grep -c '^FAIL' "$results")
  say "DONE $passed passed, $failed failed; everything is in $out"
  [ "$failed" -eq 0 ] && { [ "$passed" -gt 0 ] || grep -q '^SKIP' "$results"; }
}
