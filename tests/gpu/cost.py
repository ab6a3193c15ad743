"""A program and ways to run it -> what each way costs at a launch and at the end of the process.

    cost.py LIBRARY FLOOR PROGRAM [KERNELS [ROUNDS]]

Runs PROGRAM (cost.cu) untraced, untraced again, under bare CUPTI (FLOOR, floor.cpp), under the
collector, and under the collector that collects in one range only or in none, in turn; every other
round the other way round. Prints a table in Markdown: minima and medians over the rounds; what the
two untraced ways differ by is the noise. Below it stands what the collector adds to a launch in the
range over what bare CUPTI adds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from draws import DRAWS, interval, quotient

UNTRACED, FLOOR, EVERY = "untraced", "bare CUPTI", "every kernel"


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
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    library, floor, program = (Path(word).resolve() for word in sys.argv[1:4])
    kernels = int(sys.argv[4]) if len(sys.argv) > 4 else 1_000_000
    rounds = int(sys.argv[5]) if len(sys.argv) > 5 else 5
    collector = {"LD_PRELOAD": str(library), "STAGE2_OUT": "OUT", "STAGE2_SUMMARY": "off"}
    ways: dict[str, dict[str, str]] = {
        UNTRACED: {},
        "untraced again": {},
        FLOOR: {"CUDA_INJECTION64_PATH": str(floor)},
        EVERY: collector,
        "range `collected` only": {**collector, "STAGE2_RANGES": "collected"},
        "no range matches": {**collector, "STAGE2_RANGES": "none-such"},
    }
    found: dict[str, list[Run]] = {name: [] for name in ways}
    for round_ in range(rounds):
        for name in list(ways)[:: -1 if round_ % 2 else 1]:
            found[name].append(run(program, kernels, ways[name]))
    print(f"{kernels} kernels a process, {rounds} rounds, minima (medians)\n")
    print("| way | ns a launch in the range | outside | ms from last kernel to end | spool MB |")
    print("|---|---|---|---|---|")
    for name, runs in found.items():
        cells = []
        for pick in (lambda r: r.in_ns, lambda r: r.out_ns, lambda r: r.exit_ms):
            values = list(map(pick, runs))
            cells.append(f"{min(values):.1f} ({statistics.median(values):.1f})")
        print(f"| {name} | {' | '.join(cells)} | {runs[0].spool_bytes / 1e6:.2f} |")
    launches = {name: [each.in_ns for each in runs] for name, runs in found.items()}
    launches[UNTRACED] += launches.pop("untraced again")
    for label, pick in (("minima", min), ("medians", statistics.median)):
        print(f"\n({EVERY} - {UNTRACED}) / ({FLOOR} - {UNTRACED}), by {label}:", end=" ")
        print(described(launches[UNTRACED], launches[FLOOR], launches[EVERY], pick))


def described(
    untraced: list[float],
    floor: list[float],
    collector: list[float],
    pick: Callable[[list[float]], float],
) -> str:
    """Tell the quotient of two costs, and where 95 % of those of other draws of processes lie."""

    def cost(*times: list[float]) -> float | None:
        base, least, asked = map(pick, times)
        return quotient(base, least, asked)

    found = interval([untraced, floor, collector], cost)
    if found is None:
        return "none, for under bare CUPTI it is no slower"
    asked, low, high = found
    return f"{asked:.2f} (95 % of {DRAWS} draws of the processes: {low:.2f} to {high:.2f})"


if __name__ == "__main__":
    main()
