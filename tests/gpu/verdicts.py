"""What the checks share: reading a bundle and a workload's line; PASS, FAIL and NOTE lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Line = tuple[bool | None, str]
"""Passed (None: cannot be said), and what was checked."""


def show(lines: Iterable[Line]) -> int:
    """Print the lines; return 1 where one says FAIL."""
    failed = False
    for passed, text in lines:
        print({True: "PASS", False: "FAIL", None: "NOTE"}[passed], text)
        failed |= passed is False
    return int(failed)


def compared(usage: str | None, count: int, compare: Callable[[list[Path]], Iterator[Line]]) -> int:
    """Compare a bundle with what the command line names after it; return the exit status.

    0: everything is as expected; 1: something is not; 2: `count` arguments were not given, or a
    file cannot be read.
    """
    if len(sys.argv) != count + 1:
        print(usage, file=sys.stderr)
        return 2
    try:
        lines = list(compare([Path(argument) for argument in sys.argv[1:]]))
    except Exception as error:  # Files that are no bundle, or not of this version, raise anything.
        bundle, *rest = sys.argv[1:]
        against = f"ERROR metrics.json of {bundle} against {', '.join(rest)}"
        print(f"{against}: {type(error).__name__}: {error}")
        return 2
    return show(lines)


def check_bundle(
    usage: str | None, compare: Callable[[dict[str, Any], dict[str, Any]], Iterator[Line]]
) -> int:
    """Compare `metrics.json` of a bundle with the JSON line of a workload."""

    def read(paths: list[Path]) -> Iterator[Line]:
        return compare(metrics_of(paths[0]), last_document(paths[1].read_text(encoding="utf-8")))

    return compared(usage, 2, read)


def metrics_of(bundle: Path) -> dict[str, Any]:
    """Read the metrics of a run folder, or the file itself."""
    file = bundle / "metrics.json" if bundle.is_dir() else bundle
    return json.loads(file.read_text(encoding="utf-8"))


def last_document(text: str) -> dict[str, Any]:
    """Return the last line that is a JSON object with expectations."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            document = json.loads(line)
            if "expect" in document:
                return document
    raise ValueError("no JSON line with `expect`")
