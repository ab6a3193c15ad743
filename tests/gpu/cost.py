"""A program and ways to run it -> what each way costs at a launch and at the end of the process.

    cost.py LIBRARY PROGRAM [KERNELS [ROUNDS]]

Runs PROGRAM (cost.cu) untraced, untraced again, under the collector, and under the collector that
collects in one range only, in turn. Prints a table in Markdown: minima and medians over the rounds;
what the two untraced ways differ by is the noise.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple


class Run(NamedTuple):
    """What one process took."""

    in_ns: float
    """A launch in the range."""
    out_ns: float
    """A launch outside of it."""
    exit_ms: float
    """From the last kernel to the end of the process."""
    spool_bytes: int
    """Size of what the collector wrote."""


def run(program: Path, kernels: int, variables: dict[str, str]) -> Run:
    """Run the program once, with an empty folder as the place of the spool."""
    with tempfile.TemporaryDirectory() as folder:
        own = {name: value.replace("OUT", folder) for name, value in variables.items()}
        process = subprocess.Popen(
            [program, str(kernels)], env={**os.environ, **own}, stdout=subprocess.PIPE, text=True
        )
        status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        ended_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        said = process.communicate()[0]
        if status is None or process.returncode != 0:
            sys.exit(f"{program} ended with status {process.returncode}; its message stands above")
        size = sum(file.stat().st_size for file in Path(folder).glob("*.s2t"))
    values = dict(word.split("=") for word in said.split())
    exit_ms = (ended_ns - float(values["end"])) / 1e6
    return Run(float(values["in"]), float(values["out"]), exit_ms, size)


def main() -> None:
    """Run everything in turn and print the table."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    library, program = (Path(word).resolve() for word in sys.argv[1:3])
    kernels = int(sys.argv[3]) if len(sys.argv) > 3 else 1_000_000
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    collector = {"LD_PRELOAD": str(library), "STAGE2_OUT": "OUT", "STAGE2_SUMMARY": "off"}
    ways: dict[str, dict[str, str]] = {
        "untraced": {},
        "untraced again": {},
        "every kernel": collector,
        "range `collected` only": {**collector, "STAGE2_RANGES": "collected"},
        "no range matches": {**collector, "STAGE2_RANGES": "none-such"},
    }
    found: dict[str, list[Run]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, variables in ways.items():
            found[name].append(run(program, kernels, variables))
    print(f"{kernels} kernels a process, {rounds} rounds, minima (medians)\n")
    print("| way | ns a launch in the range | outside | ms from last kernel to end | spool MB |")
    print("|---|---|---|---|---|")
    for name, runs in found.items():
        cells = []
        for pick in (lambda r: r.in_ns, lambda r: r.out_ns, lambda r: r.exit_ms):
            values = sorted(map(pick, runs))
            cells.append(f"{values[0]:.1f} ({values[len(values) // 2]:.1f})")
        print(f"| {name} | {' | '.join(cells)} | {runs[0].spool_bytes / 1e6:.2f} |")


if __name__ == "__main__":
    main()
