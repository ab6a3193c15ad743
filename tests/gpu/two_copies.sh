#!/usr/bin/env bash
# Runs workloads under the collector with a libcupti of its own, beside the copy that torch brings: counts in
# launches, graphs and two contexts; children by fork and spawn; `_exit`; torch.profiler before and afterwards,
# with either copy loaded first. What torch.profiler and the collector see is held against runs in which
# they share torch's copy. Until all of it passes, the copy that is in the process stays the default.
# Usage: two_copies.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR PATH_TO_LIBCUPTI
# Environment: PYTHON (python3), STEP_TIMEOUT_S (60), APIS (v1 v2: values of STAGE2_CUPTI_API), CASES (all).
# Prints PASS, FAIL, NOTE and SKIP lines and keeps everything in OUTDIR. Takes 4 to 6 minutes. Exit status: 0
# when nothing failed (also when all was skipped for lack of a GPU), 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
[ $# -eq 4 ] || usage
cupti=$4
[ -f "$cupti" ] || { echo "$0: no file $cupti; give a libcupti.so" >&2; exit 2; }
cupti=$(realpath -s "$cupti")
case $(basename "$cupti") in
  libcupti*) ;;
  *) echo "$0: $cupti is not named libcupti*" >&2; exit 2 ;;
esac
begin 60 "${@:1:3}"
need torch
unset STAGE2_RANGES STAGE2_SAMPLE STAGE2_CUPTI STAGE2_CUPTI_API

# recorded NAME [VARIABLE=VALUE]... -- COMMAND...: NAME.out and merge/NAME. A run that crashes is a FAIL line.
recorded() {
  local name=$1 settings=()
  shift
  while [ "$1" != -- ]; do
    settings+=("$1")
    shift
  done
  shift
  mkdir -p "$out/spool/$name" "$(dirname "$out/bundle/$name")"
  limited "$name" env LD_PRELOAD="$collector" STAGE2_OUT="$out/spool/$name" STAGE2_SUMMARY=off \
    STAGE2_LOG=info ${settings[@]+"${settings[@]}"} "$@" || return
  limited "merge/$name" "$launch" merge --spool "$out/spool/$name" -o "$out/bundle/$name"
}

# chosen NAME: whether a case is to run.
chosen() {
  [[ " ${CASES:-$1} " == *" $1 "* ]]
}

for order in torch-first cuda-first; do
  for case in profiler-before profiler-after; do
    chosen "$case" || continue
    recorded "one/$case-$order" -- "$python" "$here/two_copies.py" "$case" --order "$order"
    [ $? -eq 77 ] && { say "SKIP no GPU"; exit 0; }
  done
done

for api in ${APIS:-v1 v2}; do
  own=(STAGE2_CUPTI="$cupti" STAGE2_CUPTI_API="$api")
  for order in torch-first cuda-first; do
    for case in work contexts profiler-before profiler-after; do
      chosen "$case" || continue
      name=$api/$case-$order
      recorded "$name" "${own[@]}" -- "$python" "$here/two_copies.py" "$case" --order "$order" || continue
      checked "counts/$name" check_counts.py "$out/bundle/$name" "$out/$name.out"
      words=("$out/bundle/$name" "$out/$name.out" "$cupti")
      if [ -f "$out/one/$case-$order.out" ]; then
        words+=("$out/bundle/one/$case-$order" "$out/one/$case-$order.out")
      fi
      checked "copies/$name" two_copies_check.py "${words[@]}"
    done
  done
  for case in fork-untouched fork-with-ranges fork-then-parent forkserver spawn prefork os-exit main-leaves threads; do
    chosen "$case" || continue
    recorded "$api/$case" "${own[@]}" -- "$python" "$here/processes.py" "$case" &&
      checked "counts/$api/$case" check_counts.py "$out/bundle/$api/$case" "$out/$api/$case.out"
  done
done
finish
