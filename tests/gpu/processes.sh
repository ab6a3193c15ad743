#!/usr/bin/env bash
# Runs every case of processes.py under stage2-launch and under LD_PRELOAD alone, and checks that each
# process is recorded exactly, however it was made and however it ends.
# Usage: processes.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), STEP_TIMEOUT_S (90), CASES (all).
# Prints PASS, FAIL and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing failed,
# 1 when something failed, 2 for bad usage.
set -uo pipefail

if [ $# -ne 3 ]; then
  sed -n '2,7s/^# //p' "$0" >&2
  exit 2
fi
for file in "$1" "$2"; do
  [ -f "$file" ] || { echo "$0: no file $file; build it with cargo build --release" >&2; exit 2; }
done
here=$(cd "$(dirname "$0")" && pwd) || exit 2
mkdir -p "$3/bin" || exit 2
out=$(cd "$3" && pwd)
python=${PYTHON:-python3}
limit_s=${STEP_TIMEOUT_S:-90}
cases=${CASES:-fork-untouched fork-with-ranges fork-then-parent forkserver spawn prefork os-exit main-leaves threads}
results=$out/results.txt
: >"$results"
cp "$1" "$out/bin/libstage2.so" || exit 2
cp "$2" "$out/bin/stage2-launch" || exit 2
launch=$out/bin/stage2-launch

say() { echo "$*" | tee -a "$results"; }

# checked NAME BUNDLE OUTPUT: compares a bundle with what the workload said.
checked() {
  "$python" "$here/check_counts.py" "$2" "$3" >"$out/$1.check" 2>&1
  local status=$?
  sed "s|^\([A-Z]*\) |\1 $1: |" "$out/$1.check" | tee -a "$results"
  [ "$status" -le 1 ] || say "FAIL $1: the counts could not be compared"
}

for case in $cases; do
  timeout --kill-after=5 "$limit_s" "$launch" --run-dir "$out/launch-$case" run.mode=light -- \
    "$python" "$here/processes.py" "$case" >"$out/launch-$case.out" 2>"$out/launch-$case.err"
  status=$?
  if [ "$status" -eq 77 ]; then
    say "SKIP $case: no GPU"
    continue
  fi
  if [ "$status" -ne 0 ]; then
    say "FAIL launch-$case: exit status $status: $(tail -1 "$out/launch-$case.err")"
  fi
  checked "launch-$case" "$out/launch-$case" "$out/launch-$case.out"

  mkdir -p "$out/preload-$case"
  LD_PRELOAD=$out/bin/libstage2.so STAGE2_OUT=$out/preload-$case \
    timeout --kill-after=5 "$limit_s" "$python" "$here/processes.py" "$case" \
    >"$out/preload-$case.out" 2>"$out/preload-$case.err"
  status=$?
  [ "$status" -eq 0 ] ||
    say "FAIL preload-$case: exit status $status: $(tail -1 "$out/preload-$case.err")"
  "$launch" merge --spool "$out/preload-$case" -o "$out/merge-$case" >"$out/merge-$case.log" 2>&1
  checked "merge-$case" "$out/merge-$case" "$out/preload-$case.out"
done

passed=$(grep -c '^PASS' "$results")
failed=$(grep -c '^FAIL' "$results")
say "DONE $passed passed, $failed failed; everything is in $out"
[ "$failed" -eq 0 ]
