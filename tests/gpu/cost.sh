#!/usr/bin/env bash
# What a launch and the end of a process cost, untraced, under bare CUPTI and under the collector, in turn.
# Needs a GPU, nvcc with CUPTI beside it, and Python. Usage: cost.sh LIBSTAGE2 [KERNELS [ROUNDS]]
set -euo pipefail
library=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cuda=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
cupti=$cuda/extras/CUPTI
nvcc -O2 -arch=native "$here/cost.cu" -o "$work/cost"
nvcc -O2 -std=c++17 -shared -Xcompiler -fPIC "$here/floor.cpp" -o "$work/floor.so" -I"$cupti/include" -ldl
export FLOOR_CUPTI=$cupti/lib64/libcupti.so FLOOR_OUT=$work/floor.jsonl
python3 "$here/cost.py" "$library" "$work/floor.so" "$work/cost" "${@:2}"
