"""Windows of ranks that began together -> whether each holds the same steps in every rank.

Usage: ranks_windows_check.py OUTDIR RANKS WINDOWS STEPS

OUTDIR/window.N holds a bundle of each rank's window N. Prints PASS, FAIL and NOTE lines; exit
status 0, 1 with a FAIL, 2 when a file cannot be read.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verdicts
from verdicts import Line

STEP = re.compile(r"step (\d+)")


def steps(metrics: dict[str, Any]) -> dict[int, int]:
    """Return the kernels of each step of a bundle."""
    found: dict[int, int] = {}
    for row in metrics["paths"]:
        name = row["path"].rsplit("/", 1)[-1]
        if step := STEP.fullmatch(name):
            found[int(step[1])] = row["kernels_inclusive"]
    return found


def window(number: int, of_ranks: list[dict[int, int]], ranks: int, count: int) -> Iterator[Line]:
    """Compare the steps of one window."""
    if len(of_ranks) != ranks:
        yield False, f"window {number}: {len(of_ranks)} ranks of {ranks}"
        return
    shown = ", ".join(f"{min(each, default=-1)} to {max(each, default=-1)}" for each in of_ranks)
    same = all(set(each) == set(of_ranks[0]) for each in of_ranks)
    yield same, f"window {number}: steps {shown}: the same ones in every rank"
    whole = all(len(each) == count for each in of_ranks)
    yield (
        whole,
        f"window {number}: {[len(each) for each in of_ranks]} steps, {count} were asked for",
    )
    kernels = {kernels for each in of_ranks for kernels in each.values()}
    yield len(kernels) == 1, f"window {number}: kernels of a step: {sorted(kernels)}"


def compare(out: Path, ranks: int, windows: int, count: int) -> Iterator[Line]:
    """Compare all windows, and show by how much they began apart."""
    for number in range(1, windows + 1):
        files = sorted((out / f"window.{number}").glob("*/metrics.json"))
        of_all = [steps(json.loads(file.read_text(encoding="utf-8"))) for file in files]
        # What starts the ranks has a window without steps.
        of_ranks = [each for each in of_all if each]
        yield from window(number, of_ranks, ranks, count)


def main() -> int:
    """Read the arguments and print the lines."""
    if len(sys.argv) != 5:
        print(__doc__, file=sys.stderr)
        return 2
    out, numbers = Path(sys.argv[1]), [int(word) for word in sys.argv[2:]]
    try:
        return verdicts.show(compare(out, *numbers))
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{out}: {error!r}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
