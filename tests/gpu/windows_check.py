"""Windows of a program whose threads launch all the time -> whether each window holds all of it.

Usage: windows_check.py THREADS KERNELS WINDOW.sqlite METRICS.json [WINDOW.sqlite METRICS.json]...

Each pair is one window of windows.py: `stage2-launch export -f sqlite`, and the bundle's metrics.
Every thread must be there, its steps must follow one another without a gap, every whole step must
hold all its kernels, and nothing may be unattributed. Prints PASS and FAIL lines; exit status 0, 1
with a FAIL, 2 when a file cannot be read.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import verdicts
from verdicts import Line
from windows import STEPS

STEP = re.compile(r"t(\d+)/step\.(\d+)")
LOSSES = re.compile(r"unattributed|dropped|lost|unreadable|missing|without_record|invalid|refused")
"""Counts of the coverage that have to be zero."""


def steps_of(file: Path) -> tuple[dict[int, list[int]], Counter[tuple[int, int]]]:
    """Return the steps that each thread opened, in order, and the kernels of each of them."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        ranges = connection.execute(
            "SELECT globalTid, start,"
            " COALESCE(text, (SELECT value FROM StringIds WHERE id = textId))"
            " FROM NVTX_EVENTS WHERE eventType = 59 ORDER BY start"
        )
        steps: dict[int, list[int]] = defaultdict(list)
        threads: dict[int, int] = {}
        for task, _, text in ranges:
            kind, number = ("t", text[1:]) if text.startswith("t") else text.split(".")
            if kind == "t":
                threads[task] = int(number)
            elif task in threads:
                steps[threads[task]].append(int(number))
        kernels: Counter[tuple[int, int]] = Counter()
        for path, count in connection.execute(
            "SELECT rangePath, COUNT(*) FROM STAGE2_WORK_RANGES WHERE kind = 'kernel'"
            " GROUP BY rangePath"
        ):
            if names := STEP.fullmatch(path):
                kernels[int(names[1]), int(names[2])] += count
    return steps, kernels


def window(number: int, file: Path, metrics: Path, threads: int, kernels: int) -> Iterator[Line]:
    """Compare one window with what was launched."""
    steps, found = steps_of(file)
    coverage = json.loads(metrics.read_text(encoding="utf-8"))["coverage"]
    name = f"window {number}"
    yield sorted(steps) == list(range(threads)), f"{name}: threads {sorted(steps)} of {threads}"
    for thread, opened in sorted(steps.items()):
        gaps = sum((b - a) % STEPS != 1 for a, b in pairwise(opened))
        # The last step may be cut off by the end of the window.
        whole = Counter(opened[:-1])
        short = [step for step, times in whole.items() if found[thread, step] < times * kernels]
        yield (
            not gaps and not short and len(opened) > 1,
            f"{name}: thread {thread}: {len(opened)} steps, {gaps} missing between them,"
            f" {len(short)} names with less than {kernels} kernels a step",
        )
    lost = {key: count for key, count in coverage["total"].items() if count and LOSSES.search(key)}
    yield (
        not lost,
        f"{name}: {sum(found.values())} kernels in steps; lost or unattributed: {lost or 0}",
    )


def main() -> int:
    """Read the arguments and print the lines."""
    if len(sys.argv) < 5 or len(sys.argv) % 2 == 0:
        print(__doc__, file=sys.stderr)
        return 2
    threads, kernels = int(sys.argv[1]), int(sys.argv[2])
    files = [Path(word) for word in sys.argv[3:]]
    try:
        lines = [
            line
            for number, (file, metrics) in enumerate(zip(files[::2], files[1::2], strict=True), 1)
            for line in window(number, file, metrics, threads, kernels)
        ]
    except (OSError, ValueError, KeyError, sqlite3.Error) as error:
        print(f"{files}: {error!r}", file=sys.stderr)
        return 2
    return verdicts.show(lines)


if __name__ == "__main__":
    sys.exit(main())
