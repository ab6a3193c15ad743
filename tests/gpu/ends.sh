#!/usr/bin/env bash
# Programs that end in the ordinary ways right after GPU work: each must end as it does alone, and every
# kernel that it launched must be in its trace files.
# Usage: ends.sh PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR
# Environment: PYTHON (python3), STEP_TIMEOUT_S (120), PORT (18765, for uvicorn). Needs torch; `uvicorn` is
# skipped where Python cannot import it.
# Prints PASS, FAIL, NOTE and SKIP lines and keeps everything in OUTDIR. Exit status: 0 when nothing
# failed (also when all was skipped for lack of a GPU), 1 when something failed, 2 for bad usage.
set -uo pipefail
. "$(dirname "$0")/head.sh"
begin 120 "$@"
need torch
port=${PORT:-18765}

# run NAME VARIABLE=VALUE... -- WAY: its status in `status`, what it printed in NAME.out.
run() {
  local name=$1 variables=()
  shift
  while [ "$1" != -- ]; do variables+=("$1") && shift; done
  shift
  (exec env ${variables[@]+"${variables[@]}"} timeout --kill-after=15 "$limit_s" \
    "$python" "$here/ends.py" "$@") >"$out/$name.out" 2>"$out/$name.err"
  status=$?
}

# serve NAME VARIABLE=VALUE...: 40 requests within the last second, then SIGTERM.
serve() {
  local name=$1 pid asked=0 number
  shift
  env "$@" "$python" "$here/ends.py" uvicorn "$port" >"$out/$name.out" 2>"$out/$name.err" &
  pid=$!
  for ((number = 0; number < limit_s * 5; number++)); do
    [ "$(request)" = ok ] && asked=1 && break
    sleep 0.2
  done
  for ((number = 0; number < 40; number++)); do
    [ "$(request)" = ok ] && asked=$((asked + 1))
  done
  kill -TERM "$pid"
  wait "$pid"
  status=$?
  echo "ranges $asked" >>"$out/$name.out"
}

request() {
  "$python" - "$port" 2>/dev/null <<'PYTHON'
import sys, urllib.request
print(urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/", timeout=60).read().decode())
PYTHON
}

# compare WAY ALONE: what the program under the collector printed and recorded, beside what it does alone.
compare() {
  local way=$1 alone=$2
  if [ "$status" != "$alone" ] || ! diff "$out/$way.alone.out" "$out/$way.out" >"$out/$way.diff"; then
    say "FAIL $way: status $status, alone $alone; see $way.diff"
    return
  fi
  limited "$way.merge" "$launch" -q merge --spool "$out/$way.traces" -o "$out/$way.bundle" || return
  "$python" - "$way" "$out/$way.out" "$out/$way.bundle/metrics.json" <<'PYTHON' | tee -a "$results"
import json, re, sys
way, said, metrics = sys.argv[1:]
ranges = sum(int(number) for number in re.findall(r"ranges (\d+)", open(said).read()))
rows = json.load(open(metrics))["paths"]
found = sum(row["kernels_inclusive"] for row in rows if row["path"] == "work")
word = "PASS" if found == 10 * ranges and ranges else "FAIL"
print(f"{word} {way}: {found} kernels of {10 * ranges} in {ranges} ranges")
PYTHON
}

under=(LD_PRELOAD="$collector" STAGE2_SUMMARY=off)
for way in return exit-at-once raise kill abort exec pool; do
  run "$way.alone" -- "$way"
  alone=$status
  run "$way" "${under[@]}" STAGE2_OUT="$out/$way.traces" -- "$way"
  compare "$way" "$alone"
done
if "$python" -c 'import uvicorn' 2>/dev/null; then
  serve uvicorn.alone
  alone=$status
  serve uvicorn "${under[@]}" STAGE2_OUT="$out/uvicorn.traces"
  compare uvicorn "$alone"
else
  say "SKIP uvicorn: $python cannot import it"
fi
finish
