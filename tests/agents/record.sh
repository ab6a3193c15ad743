#!/usr/bin/env bash
# Records again the bundles of `traces` that come from a real program on the simulated GPU, and prints what the
# program measured itself: truth.json takes its times from there. Where it may, the program runs with a priority above
# all others, so that a busy machine does not change what is recorded.
#   tests/agents/record.sh TARGET [CAUSE]...   TARGET: the folder with libstage2.so and libstage2_sim.so
set -euo pipefail
target=$(realpath "${1:?the folder with libstage2.so}")
shift
cd "$(dirname "${BASH_SOURCE[0]}")"
first=
! chrt -f 50 true 2>/dev/null || first="chrt -f 50"
causes=${*:-host_lock gil_hog item outlier incomplete}
# The same paths on every machine: they are in the files.
place=/tmp/srv
rm -rf "$place"
mkdir -p "$place/app"
cp "$target/libstage2.so" "$target/libstage2_sim.so" "$place"
cp -r ../../python/stage2 "$place/app/stage2"
cp workload.py "$place/app/workload.py"
for cause in $causes; do
  fault=
  [ "$cause" != incomplete ] || fault=drop=8
  rm -rf "$place/out"
  (cd "$place/app" && env -i PATH=/usr/bin:/bin SIMULATOR="$place/libstage2_sim.so" LD_PRELOAD="$place/libstage2.so" \
    NVTX_INJECTION64_PATH="$place/libstage2.so" STAGE2_CUPTI="$place/libstage2_sim.so" STAGE2_HOST=1000 STAGE2_SUMMARY=off \
    STAGE2_OUT="$place/out" STAGE2_SIM_FAULT="$fault" STAGE2_CONTROL=off $first python3 workload.py "$cause")
  mv "$place"/out/*.s2t "traces/$cause.s2t"
done
rm -rf "$place"
ls -l traces
