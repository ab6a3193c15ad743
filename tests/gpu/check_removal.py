"""Whether leaving out the first cause of a report gained what the report said.

    check_removal.py WITH WITHOUT FUNCTION...

WITH and WITHOUT are bundles of the same workload, with the functions and without them. The first
cause of decode's idle time that has a stack must hold one of the functions; a step must get shorter
by that share of its idle time, within three standard errors of the share and the difference of two
steps that the runs themselves show. Prints what was found; status 1: it differs.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

ERRORS = 3.0
NOISE_PERCENT = 3.0
"""By how much two runs of one program differ."""


def step_ns(report: dict[str, Any]) -> float:
    """Return the mean time of a step of decode, from begin to begin."""
    stages = report["answer"]["stages"]
    return float(next(row["step"]["mean_ns"] for row in stages if row["stage"] == "decode"))


def host_of(report: dict[str, Any]) -> dict[str, Any]:
    """Return the host's part of decode."""
    return next(stage for stage in report["host"]["stages"] if stage["stage"] == "decode")


def holds(cause: dict[str, Any], functions: list[str]) -> bool:
    """Whether the line or the stack of a cause is in one of the functions."""
    frame = cause.get("frame") or {}
    names = [frame.get("function", ""), *cause.get("stack", [])]
    return any(function in name for function in functions for name in names)


def checks(
    kept: dict[str, Any], removed: dict[str, Any], functions: list[str]
) -> list[tuple[bool, str]]:
    """Return each check as whether it holds, and what was found."""
    host = host_of(kept)
    rows = [cause for cause in host["causes"] if holds(cause, functions)]
    first = next((cause for cause in host["causes"] if cause.get("stack")), None)
    named = json.dumps(first and (first["frame"], round(first["percent"], 1)))
    found = [(first is not None and holds(first, functions), f"first cause: {named}")]
    percent = sum(row["percent"] for row in rows)
    error = math.sqrt(sum(row["error_percent"] ** 2 for row in rows))
    before, after = step_ns(kept), step_ns(removed)
    idle = before * host["idle_ns"] / host["window_ns"]
    said, gained = idle * percent / 100, before - after
    allowed = ERRORS * idle * error / 100 + before * NOISE_PERCENT / 100
    text = (
        f"step {before / 1e6:.3f} ms, idle {idle / 1e6:.3f} ms, of it {percent:.1f} +- {error:.1f} % "
        f"in {', '.join(functions)} = {said / 1e6:.3f} ms; without it {after / 1e6:.3f} ms: "
        f"{gained / 1e6:.3f} ms less (may be off by {allowed / 1e6:.3f} ms)"
    )
    found.append((abs(gained - said) <= allowed, text))
    return found


def main() -> int:
    """Check the bundles that the command line names."""
    with_it, without_it, *functions = sys.argv[1:]
    reports = [json.loads(Path(path, "metrics.json").read_text()) for path in (with_it, without_it)]
    found = checks(reports[0], reports[1], functions)
    for fits, what in found:
        print("ok  " if fits else "FAIL", what)
    return 0 if all(fits for fits, _ in found) else 1


if __name__ == "__main__":
    sys.exit(main())
