"""Whether leaving out the first cause of a report gains what the report says.

    check_removal.py BUNDLE FUNCTION...

BUNDLE is of host_removal.py: its stage `kept` calls the functions, `removed` does not. The first
cause of the idle time of `kept` that has a stack must hold one of the functions. Its calls must
take longer than those of `removed` by what the report says: the functions' share of the idle time,
and their time beside GPU work where the host never waits for the GPU. The difference may be three
standard errors of the share and 3 % of a call. Prints what was found; status 1: it differs.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

ERRORS = 3.0
NOISE_PERCENT = 3.0
"""Share of the time of a call by which calls of one program differ."""
WAITS_PERCENT = 2.0
"""Below this share of time, percent, launching threads count as never waiting for the GPU."""


def holds(cause: dict[str, Any], functions: list[str]) -> bool:
    """Whether the line or the stack of a cause is in one of the functions."""
    frame = cause.get("frame") or {}
    names = [frame.get("function", ""), *cause.get("stack", [])]
    return any(function in name for function in functions for name in names)


def row_of(rows: list[dict[str, Any]], stage: str) -> dict[str, Any]:
    """Return the row of a stage."""
    return next(row for row in rows if row["stage"] == stage)


def checks(report: dict[str, Any], functions: list[str]) -> list[tuple[bool, str]]:
    """Return each check as whether it holds, and what was found."""
    host = row_of(report["host"]["stages"], "kept")
    rows = [cause for cause in host["causes"] if holds(cause, functions)]
    first = next((cause for cause in host["causes"] if cause.get("stack")), None)
    named = json.dumps(first and (first["frame"], round(first["percent"], 1)))
    found = [(first is not None and holds(first, functions), f"first cause: {named}")]
    percent = sum(row["percent"] for row in rows)
    error = math.sqrt(sum(row["error_percent"] ** 2 for row in rows))
    times = (row_of(report["stages"], of)["host_warm_mean_ns"] for of in ("kept", "removed"))
    before, after = times
    idle = before * host["idle_ns"] / host["window_ns"]
    beside = 0.0
    if host["waits_for_work_percent"] < WAITS_PERCENT:
        beside = before * sum(row["beside_work_percent"] for row in rows) / 100
    said, gained = min(idle * percent / 100 + beside, idle), before - after
    allowed = ERRORS * idle * error / 100 + before * NOISE_PERCENT / 100
    text = (
        f"a call takes {before / 1e6:.1f} ms, idle {idle / 1e6:.1f}, of it {percent:.1f} "
        f"+- {error:.1f} % in {', '.join(functions)}, and {beside / 1e6:.1f} ms beside GPU work: "
        f"{said / 1e6:.1f} ms; without it {after / 1e6:.1f} ms, {gained / 1e6:.1f} ms less "
        f"(may be off by {allowed / 1e6:.1f} ms)"
    )
    found.append((abs(gained - said) <= allowed, text))
    return found


def main() -> int:
    """Check the bundle that the command line names."""
    bundle, *functions = sys.argv[1:]
    found = checks(json.loads(Path(bundle, "metrics.json").read_text()), functions)
    for fits, what in found:
        print("ok  " if fits else "FAIL", what)
    return 0 if all(fits for fits, _ in found) else 1


if __name__ == "__main__":
    sys.exit(main())
