"""Whether the causes of idle time in a report are those that host_causes.py measured.

    check_host.py BUNDLE LOG [POINTS]

Each share may be off by POINTS percentage points (5) and two of its standard errors. A cause of any
kind includes the copies of the stage, which are no idle time. Prints a line for each check; status
1: one failed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def checks(report: dict[str, Any], log: str, points: float) -> list[tuple[bool, str]]:
    """Return each check as whether it holds, and what was found."""
    lines = [line for line in log.splitlines() if line.startswith("truth ")]
    stages = (report.get("host") or {}).get("stages", [])
    decode = next((stage for stage in stages if stage["stage"] == "decode"), None)
    if not lines or decode is None:
        return [(False, f"{len(lines)} lines of truth, stages {[s['stage'] for s in stages]}")]
    truth = json.loads(lines[-1].removeprefix("truth "))
    causes = decode["causes"]
    total = sum(cause["percent"] for cause in causes)
    found = [(abs(total - 100) < 0.5, f"causes add up to {total:.1f} %")]
    row = next(row for row in report["stages"] if row["stage"] == "decode")
    for expected in truth["causes"]:
        rows = [cause for cause in causes if matches(cause, expected)]
        percent = sum(row["percent"] for row in rows)
        error = sum(row["error_percent"] ** 2 for row in rows) ** 0.5
        what = f"{expected['kind']} {expected['function']}"
        copies = 0 if expected["kind"] else row["gpu_busy_parts"]["copies_ns"]
        measured = (expected["seconds"] * 1e9 - copies) / max(decode["idle_ns"], 1) * 100
        text = f"{what}: {percent:.1f} +- {error:.1f} %, measured {measured:.1f} %"
        found.append((abs(percent - measured) <= points + 2 * error, text))
    first = [line["text"] for line in report["answer"]["lines"] if line["label"] == "host"]
    found.append((bool(first), f"first screen: {first}"))
    return found


def matches(cause: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Whether a row of the report is of the expected cause."""
    if expected["kind"] not in ("", cause["kind"]):
        return False
    frame = cause.get("frame")
    function = expected["function"]
    names = [frame["function"]] if frame else []
    names += cause.get("stack", [])
    return function == "*" or any(function in name for name in names)


def main() -> int:
    """Check the bundle that the command line names."""
    bundle, log, *rest = sys.argv[1:]
    report = json.loads(Path(bundle, "metrics.json").read_text())
    points = float(rest[0]) if rest else 5.0
    found = checks(report, Path(log).read_text(errors="replace"), points)
    for holds, what in found:
        print("ok  " if holds else "FAIL", what)
    return 0 if all(holds for holds, _ in found) else 1


if __name__ == "__main__":
    sys.exit(main())
