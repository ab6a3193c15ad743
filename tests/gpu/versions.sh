#!/usr/bin/env bash
# Runs the demo workload, which loads the driver and no framework, under the collector with each of
# several CUPTIs: eager launches, threads, many threads, graphs, and a sample. Each run has to hold
# exactly the kernels that the workload launched, or say why GPU work is not recorded; none may crash.
# Usage: versions.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR PATH_TO_stage2-demo LIBCUPTI...
# A LIBCUPTI is a file, or a folder that holds one (that of a wheel nvidia-cuda-cupti-cu11, -cu12 or
# nvidia-cuda-cupti). Environment: PYTHON (python3), STEP_TIMEOUT_S (60), DEVICE (gpu; simulated tries
# the script out, with libstage2_sim.so as LIBCUPTI).
# Prints PASS, FAIL and NOTE lines and a row for each CUPTI, and keeps everything in OUTDIR. Exit
# status: 0 when nothing failed, also for lack of a GPU, 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
[ $# -ge 5 ] || usage
demo=$(realpath "$4")
begin 60 "$@"
shift 4
device=${DEVICE:-gpu}
unset STAGE2_RANGES STAGE2_SAMPLE

timeout "$limit_s" "$demo" --device "$device" --rounds 1 >"$out/alone.out" 2>"$out/alone.err"
case $? in
  0) ;;
  3) say "SKIP no GPU: $(tail -1 "$out/alone.err")"; exit 0 ;;
  *) say "FAIL the workload alone: $(tail -1 "$out/alone.err")"; exit 1 ;;
esac

# case_of NAME: the options of the workload, and the variables of the collector.
case_of() {
  case $1 in
    eager) options=(--rounds 3) variables=() ;;
    threads) options=(--rounds 3 --threads 4) variables=() ;;
    crowd) options=(--rounds 1 --steps 2 --threads 64) variables=() ;;
    graph) options=(--rounds 3 --graph) variables=() ;;
    sample) options=(--rounds 2 --steps 32) variables=(STAGE2_RANGES=step STAGE2_SAMPLE=1/4) ;;
  esac
}

count=0
for given in "$@"; do
  library=$given
  if [ -d "$given" ]; then
    library=$(find "$given" -name 'libcupti.so*' | sort | head -1)
  fi
  count=$((count + 1))
  folder=$out/cupti/$count
  mkdir -p "$folder"
  printf '%s\n' "$given" >"$folder/given"
  if [ ! -f "$library" ]; then
    echo "no libcupti in $given" >"$folder/missing"
    continue
  fi
  library=$(realpath -s "$library")
  for name in eager threads crowd graph sample; do
    case_of "$name"
    env LD_PRELOAD="$collector" STAGE2_CUPTI="$library" STAGE2_OUT="$folder/$name.spool" \
      STAGE2_SUMMARY=off STAGE2_LOG=info "${variables[@]}" \
      timeout --kill-after=15 "$limit_s" "$demo" --device "$device" "${options[@]}" \
      >"$folder/$name.out" 2>"$folder/$name.err"
    echo $? >"$folder/$name.status"
    timeout "$limit_s" "$launch" merge --spool "$folder/$name.spool" -o "$folder/$name.bundle" \
      >"$folder/$name.merge" 2>&1
  done
done

"$python" "$here/versions.py" "$out/cupti" | tee -a "$results"
finish
