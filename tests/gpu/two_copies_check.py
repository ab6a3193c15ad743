"""A run with two copies of libcupti beside one with torch's alone -> PASS, FAIL and NOTE lines.

Usage: two_copies_check.py BUNDLE OUTPUT LIBCUPTI [ONE_BUNDLE ONE_OUTPUT]

BUNDLE and OUTPUT are of the run with LIBCUPTI in STAGE2_CUPTI; the others are of the same case
without it. A copy of its own must leave the collector and torch.profiler as much as they have
when they share one. Exit status: 0 when it does, 1 when it does not, 2 when a file cannot be read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verdicts
from verdicts import Line


def main() -> int:
    """Compare and print."""
    count = 5 if len(sys.argv) == 6 else 3
    return verdicts.compared(__doc__, count, lambda paths: lines(*map(read, paths)))


def read(path: Path) -> Any:
    """Read a bundle or a workload's line; of a library the path itself is wanted."""
    if path.is_dir():
        return verdicts.metrics_of(path)
    if path.name.startswith("libcupti"):
        return path.resolve()
    return verdicts.last_document(path.read_text(encoding="utf-8"))


def lines(
    metrics: dict[str, Any],
    workload: dict[str, Any],
    cupti: Path,
    one_metrics: dict[str, Any] | None = None,
    one_workload: dict[str, Any] | None = None,
) -> Iterator[Line]:
    """Check the copies in the process, then what both tools saw."""
    mapped = [Path(each).resolve() for each in workload["libcupti"]]
    yield cupti in mapped, f"in the process: {', '.join(map(str, mapped)) or 'no libcupti'}"
    if len(mapped) < 2:
        yield None, "torch brings no libcupti of its own: two copies were not tried"
    if one_metrics is None or one_workload is None:
        return
    kernels = workload["later"]
    if kernels:
        two, one = (kernels_of(each, "later") for each in (metrics, one_metrics))
        text = f"later: the collector has {two} of {kernels} kernels, with torch's copy {one}"
        yield two >= one, text
    if profiler := workload.get("profiler"):
        two, one = profiler["kernels"], one_workload["profiler"]["kernels"]
        text = f"torch.profiler saw {two} of {profiler['of']} kernels, with torch's copy {one}"
        yield two >= one, text + (f" ({profiler['error']})" if profiler["error"] else "")


def kernels_of(metrics: dict[str, Any], path: str) -> int:
    """Return the kernels of a range path; none where it is not there."""
    return sum(row["kernels_inclusive"] for row in metrics["paths"] if row["path"] == path)


if __name__ == "__main__":
    sys.exit(main())
