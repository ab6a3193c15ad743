"""A bundle of a process that another tool shared -> whether what it lacks is told.

Usage: check_rivals.py RUN_DIR_OR_METRICS_JSON WORKLOAD_OUTPUT ALONE_OUTPUT

ALONE_OUTPUT is what the workload printed without the collector. Either every range has exactly its
kernels, or the coverage is not called complete. Exit status: 0, 1 where records are missing and
nothing says so or the output differs, 2 when a file cannot be read.
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

    def read(paths: list[Path]) -> Iterator[Line]:
        bundle, traced, alone = paths
        documents = [
            verdicts.last_document(path.read_text(encoding="utf-8")) for path in (traced, alone)
        ]
        return compare(verdicts.metrics_of(bundle), *documents)

    return verdicts.compared(__doc__, 3, read)


def compare(
    metrics: dict[str, Any], traced: dict[str, Any], alone: dict[str, Any]
) -> Iterator[Line]:
    """Check the output of the workload, then each range or the word on what is missing."""
    yield traced["sum"] == alone["sum"], f"the GPU computed {traced['sum']}, alone {alone['sum']}"
    kernels = {row["path"]: row["kernels_inclusive"] for row in metrics["paths"]}
    missing = {
        each["path"]: each["kernels"] - kernels.get(each["path"], 0)
        for each in traced["expect"]
        if kernels.get(each["path"], 0) != each["kernels"]
    }
    verdict = metrics["coverage"]["verdict"]
    if not missing:
        yield True, "every range has exactly its kernels"
        return
    lacks = ", ".join(f"{path} lacks {count}" for path, count in missing.items())
    yield verdict["status"] != "complete", f"{lacks}; coverage: {verdict['text']}"
    if any(count < 0 for count in missing.values()):
        yield False, "no range has kernels that were not launched in it"


if __name__ == "__main__":
    sys.exit(main())
