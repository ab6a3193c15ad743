#!/usr/bin/env bash
# Nested NVTX ranges with known work under range replay of ncu: each region has its FLOPs to 1 %.
# Needs a GPU, ncu with the right to read counters, and PyTorch. Usage: regions.sh STAGE2_LAUNCH [OUT]
set -euo pipefail
launch=$(realpath "$1")
out=${2:-$(mktemp -d)}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
"$launch" --run-dir "$out/run" pipeline.nsys.enable=false pipeline.ncu.ncu_cli.replay_mode=range \
  'pipeline.ncu.regions.include=[*]' -- python3 "$here/regions.py"
sed -n '/^## Regions under ncu/,/^## /p' "$out/run/report.md"
python3 "$here/regions.py" --check "$out/run"
