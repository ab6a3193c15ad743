#!/usr/bin/env bash
# Tries what .ci/dist left, as a new user would, on the simulated GPU: the wheel in a fresh virtual
# environment, the tar file in a folder with another name, and, where asked for, the collector's tests
# with the library, and the wheel that pip builds from the sources.
#   packaging/try.sh DIST [--collector-tests]
set -euo pipefail
repository=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
. "$repository/.ci/versions"
dist=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
unset LD_PRELOAD STAGE2_COLLECTOR

echo "== the wheel"
python3 -m venv venv
venv/bin/pip install --quiet "$dist"/*.whl "pytest==$PYTEST"
venv/bin/pip check
mkdir empty
cd empty
../venv/bin/stage2-launch -q --run-dir ../run-script demo run.mode=light
../venv/bin/python -m stage2 -q --run-dir ../run-module demo run.mode=light
../venv/bin/stage2-launch -q export ../run-script -f parquet -o ../run.parquet
../venv/bin/python - ../run-script ../run-module <<'PYTHON'
import sys, stage2
run, other = map(stage2.load, sys.argv[1:])
print(run, sum(row["calls"] for row in run.kernels), "kernels")
assert not stage2.diff(run, other, fail_if="run.kernels>+0").failed
assert {"prefill", "decode"} <= {row["stage"] for row in run.stages}
PYTHON
cmp ../venv/share/stage2/SKILL.md <(../venv/bin/stage2-launch skill --print)
../venv/bin/stage2-launch mcp .. </dev/null
library=$(../venv/bin/python -c 'import stage2; print(stage2.library_path())')
simulator=$(dirname "$library")/libstage2_sim.so
# Grepped whole: `grep -q` would end the pipe while the program writes.
LD_PRELOAD=$library STAGE2_CUPTI=$simulator "$(dirname "$library")/stage2-demo" \
  --device simulated --sim "$simulator" 2>table.txt
grep decode table.txt >/dev/null || { cat table.txt; exit 1; }
STAGE2_COLLECTOR=$library ../venv/bin/python -m pytest -q --noconftest -p no:cacheprovider \
  "$repository/python/tests/test_ranges.py" "$repository/python/tests/test_profile.py"
cd ..

echo "== the wheel below pip install --target"
venv/bin/pip install --quiet --target "target folder" "$dist"/*.whl
"target folder/bin/stage2-launch" -q --run-dir run-target demo run.mode=light

echo "== the tar file"
mkdir unpacked
tar -xzf "$dist"/*.tar.gz -C unpacked --strip-components 1
unpacked/bin/stage2-launch -q --run-dir run-tar demo run.mode=light
unpacked/bin/stage2-launch mcp . </dev/null
test -s unpacked/share/stage2/llms.txt
bash -n unpacked/share/bash-completion/completions/stage2-launch
test -s unpacked/share/man/man1/stage2-launch.1
mv unpacked/lib/libstage2.so .
if unpacked/bin/stage2-launch -- true 2>missing.txt; then
  echo "a launcher without its library went on" >&2
  exit 1
fi
grep 'lib/libstage2.so$' missing.txt >/dev/null && grep 'pip install' missing.txt >/dev/null || { cat missing.txt; exit 1; }

[ "${2:-}" = --collector-tests ] || exit 0
echo "== the collector's tests with the library"
cd "$repository"
STAGE2_TEST_COLLECTOR=$dist/build/libstage2.so STAGE2_TEST_SIMULATOR=$dist/build/libstage2_sim.so \
  ${STAGE2_TRY_CARGO:-cargo} test --locked -p stage2 --no-fail-fast

echo "== the wheel that pip builds from the sources"
cd "$folder"
python3 -m venv venv-sources
CARGO_TARGET_DIR=$(cd "$repository" && realpath -m "${CARGO_TARGET_DIR:-target}") \
  venv-sources/bin/pip install --quiet "$repository"
cd empty
../venv-sources/bin/stage2-launch -q --run-dir ../run-sources demo run.mode=light
