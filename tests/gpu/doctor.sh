#!/usr/bin/env bash
# Runs stage2-launch doctor on a machine with a GPU and holds its lines against what nvidia-smi and
# torch say: driver, devices, the libcupti in use, NVTX of each binding, permission for counters, time.
# Usage: doctor.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), STEP_TIMEOUT_S (60).
# Prints PASS, FAIL and SKIP lines, and keeps everything in OUTDIR. Exit status: 0 when nothing failed,
# 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 60 "$@"
command -v nvidia-smi >/dev/null || { say "SKIP no GPU: nvidia-smi is not on PATH"; exit 0; }

# Each first use of files and of the driver is slow: the second call is timed.
"$launch" doctor -- "$python" x.py >"$out/first.txt" 2>&1
started=$(date +%s%N)
"$launch" doctor --json -- "$python" x.py >"$out/doctor.json" 2>"$out/doctor.err"
status=$?
took_ms=$((($(date +%s%N) - started) / 1000000))
"$launch" doctor -v -- "$python" x.py >"$out/doctor.txt" 2>&1
if [ "$took_ms" -le 5000 ]; then say "PASS doctor took $took_ms ms"; else say "FAIL doctor took $took_ms ms"; fi

# expect ID STATUS PART: the check came out so, with PART in its text.
expect() {
  local line
  line=$("$python" -c 'import json, sys
checks = {c["id"]: c for c in json.load(open(sys.argv[1]))["checks"]}
check = checks.get(sys.argv[2], {})
print(check.get("status"), "|", check.get("what"))' "$out/doctor.json" "$1" 2>&1 | tail -1)
  case $line in
    "$2 | "*"$3"*) say "PASS $1: $line" ;;
    *) say "FAIL $1: wanted $2 with '$3': $line" ;;
  esac
}

expect driver ok "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1 | cut -d. -f1,2)"
expect devices ok "$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)"
expect collector ok "version"
expect program ok "can load the collector"
expect nvtx ok "NVTX itself"
expect libcupti ok "libcupti"
expect injection ok ""
if "$python" -c 'import torch' 2>/dev/null; then
  expect cuda-runtime ok "$("$python" -c 'import torch; print(torch.version.cuda)')"
else
  say "SKIP torch is not installed"
fi
case $(sed -n 's/^RmProfilingAdminOnly: //p' /proc/driver/nvidia/params 2>/dev/null) in
  0) expect counters ok "every user" ;;
  1) expect counters "$([ "$(id -u)" = 0 ] && echo ok || echo warning)" "administrators" ;;
  *) say "SKIP /proc/driver/nvidia/params does not tell" ;;
esac
for tool in nsys ncu; do
  if ! command -v "$tool" >/dev/null; then expect "$tool" warning "not on PATH"; fi
done

CUDA_VISIBLE_DEVICES='' "$launch" doctor >"$out/hidden.txt" 2>&1
hidden=$?
if [ "$hidden" -eq 1 ] && grep -q 'problem.*\(driver\|devices\)' "$out/hidden.txt"; then
  say "PASS hidden GPUs are a problem, exit status 1"
else
  say "FAIL hidden GPUs: exit status $hidden, see hidden.txt"
fi
if grep -q '"status": "problem"' "$out/doctor.json"; then wanted=1; else wanted=0; fi
if [ "$status" -eq "$wanted" ]; then say "PASS exit status $status"; else say "FAIL exit status $status, wanted $wanted"; fi
finish
