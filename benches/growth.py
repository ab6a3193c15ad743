"""Measure how the time and the memory of `merge` and of `diff` grow, and print a table.

    python3 benches/growth.py [ROW ...] [--launcher PATH] [--rounds N]

Rows are `ranks`, `kernels`, `kernel-names`, `range-names`, or one of their sizes, as `ranks=100`.
Trace files come from the examples `grow` and `generate` of crates/contract, built for release, and
are removed again. Time is the wall clock's, CPU time that of user and system, memory the
process's peak; the least of the rounds and the largest are given. The exit status is 1 where a
command fails.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIZES = {
    "ranks": [1, 10, 100, 1_000],
    "kernels": [1_000_000, 10_000_000, 100_000_000],
    "kernel-names": [1_000, 10_000, 100_000],
    "range-names": [1_000, 10_000, 100_000],
}


def generate(row: str, size: int, folder: Path) -> None:
    """Write the trace files of one size."""
    example = ROOT / "target" / "release" / "examples"
    command: list[str | Path] = [example / "grow", folder, row, str(size)]
    if row == "kernels":
        command = [example / "generate", folder, f"kernels={size}"]
    elif row == "range-names":  # Two processes share them.
        command = [example / "grow", folder, row, str(size // 2)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def measured(command: list[str | Path]) -> tuple[float, float, float]:
    """Run a command and give its wall time (s), its CPU time (s) and its peak memory (MB)."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - began
        if process.returncode != 0:
            said.seek(0)
            text = said.read().decode(errors="replace")
            sys.exit(f"growth: {command}: exit status {process.returncode}:\n{text}")
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def spread(values: list[float]) -> str:
    """Give the least and the largest with two digits that count."""
    least, most = (f"{v:.0f}" if v >= 100 else f"{v:.2g}" for v in (min(values), max(values)))
    return least if least == most else f"{least} to {most}"


def line(row: str, size: int, what: str, runs: list[tuple[float, float, float]]) -> None:
    """Print one line of the table."""
    columns = [spread([run[at] for run in runs]) for at in range(3)]
    print(f"| {size:,} {row} | {what} | {' | '.join(columns)} |", flush=True)


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("rows", nargs="*", default=list(SIZES))
    parser.add_argument("--launcher", default=ROOT / "target" / "release" / "stage2-launch")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    build = ["cargo", "build", "--release", "--locked", "-p", "stage2-contract", "--examples"]
    subprocess.run(build, cwd=ROOT, check=True)
    # A core dump of a crash would fill the disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print("| size | command | wall s | CPU s | peak MB |\n|---|---|---|---|---|")
    for word in given.rows:
        row, _, one = word.partition("=")
        for size in [int(one)] if one else SIZES[row]:
            folder = Path(tempfile.mkdtemp(prefix="growth-"))
            try:
                generate(row, size, folder / "trace")
                merges, diffs = [], []
                for of in range(given.rounds):
                    merge = [given.launcher, "merge", "--spool", folder / "trace", "-o"]
                    merges.append(measured([*merge, folder / f"run-{of}"]))
                line(row, size, "merge", merges)
                if given.rounds > 1:
                    runs = [folder / "run-0", folder / "run-1"]
                    diff = [given.launcher, "diff", *runs, "--output", folder / "diff.md"]
                    diffs = [measured(diff) for _ in range(given.rounds)]
                    line(row, size, "diff", diffs)
            finally:
                shutil.rmtree(folder)


if __name__ == "__main__":
    main()
