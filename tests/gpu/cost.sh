#!/usr/bin/env bash
# What a launch and the end of a process cost, untraced and under the collector, in turn.
# Needs a GPU, nvcc and Python. Usage: cost.sh LIBSTAGE2 [KERNELS [ROUNDS]]
set -euo pipefail
library=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nvcc -O2 -arch=native "$here/cost.cu" -o "$work/cost"
python3 "$here/cost.py" "$library" "$work/cost" "${@:2}"
