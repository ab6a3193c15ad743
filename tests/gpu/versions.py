"""What versions.sh left in its folder becomes PASS, FAIL and NOTE lines, and a row for each CUPTI.

Usage: versions.py OUTDIR

A run passes where it ended with status 0 and holds exactly the kernels that the workload says it
launched, or where the collector said why GPU work is not recorded. Exit status: 0 when nothing
failed, 1 when something did.
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

CASES = ("eager", "threads", "crowd", "graph", "sample")

OFF = "stage2: GPU work is not recorded: "
"""How the collector's line begins that says why collection is off."""

LOSSES = (
    "unattributed",
    "dropped_by_cupti",
    "buffers_refused",
    "range_events_lost",
    "unreadable_records",
    "invalid_timestamps",
)


def main() -> int:
    """Print every line, then the table."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    out = Path(sys.argv[1])
    lines: list[Line] = []
    rows = []
    for folder in sorted((each for each in out.iterdir() if each.is_dir()), key=number):
        given = (folder / "given").read_text(encoding="utf-8").strip()
        if (missing := folder / "missing").exists():
            lines.append((False, missing.read_text(encoding="utf-8").strip()))
            continue
        answers = [(name, *check(folder, name)) for name in CASES]
        lines += [(passed, f"{given} {name}: {text}") for name, passed, text in answers]
        rows.append([given, version(folder), *(word(passed, text) for _, passed, text in answers)])
    if not rows:
        lines.append((False, "no run to look at"))
    status = verdicts.show(lines)
    print(f"\n| given | version, driver | {' | '.join(CASES)} |")
    print("|---" * (len(CASES) + 2) + "|")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    return status


def number(folder: Path) -> int:
    """Order folders as the CUPTIs were given."""
    return int(folder.name)


def word(passed: bool | None, text: str) -> str:
    """Put a result into a cell."""
    if passed is False:
        return f"FAIL: {text.split(';')[0]}"
    return "off" if text.startswith("off") else "exact"


def version(folder: Path) -> str:
    """Return what the collector says it found, which a refused CUPTI is not."""
    said = (folder / "eager.err").read_text(encoding="utf-8", errors="replace")
    found = re.search(r"CUPTI (\d+) at .*, CUDA driver (\d+), attribution by (\w+)", said)
    return ", ".join(found.groups()) if found else "-"


def check(folder: Path, name: str) -> tuple[bool, str]:
    """Compare one run with what it has to be."""
    status = (folder / f"{name}.status").read_text(encoding="utf-8").strip()
    said = (folder / f"{name}.err").read_text(encoding="utf-8", errors="replace")
    if status != "0":
        last = (said.strip().splitlines() or ["nothing was said"])[-1]
        return False, f"exit status {status}; {last}"
    reasons = [line.removeprefix(OFF) for line in said.splitlines() if line.startswith(OFF)]
    if reasons:
        # Only a CUPTI of CUDA 11 may be refused, beside a newer runtime: every other one works.
        expected = " of CUDA 11 " in reasons[0]
        return expected, f"off{', as it says' if expected else ''}: {reasons[0]}"
    try:
        workload = json.loads((folder / f"{name}.out").read_text(encoding="utf-8"))
        metrics_file = folder / f"{name}.bundle" / "metrics.json"
        metrics = json.loads(metrics_file.read_text(encoding="utf-8"))
        wrong = list(differences(metrics, workload, sampled=name == "sample"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        return False, f"{type(error).__name__}: {error}"
    kernels = metrics["coverage"]["total"]["kernels"]
    return not wrong, "; ".join(wrong) or f"exact, {kernels} kernels recorded"


def differences(metrics: dict[str, Any], workload: dict[str, Any], sampled: bool) -> Iterator[str]:
    """Name every count that is not the expected one."""
    rounds = workload["threads"] * workload["rounds"]
    expected = {"decode/step": rounds * workload["steps"] * workload["kernels_per_step"]}
    if not sampled:
        expected["prefill"] = rounds * workload["kernels_per_prefill"]
    paths = {path["path"]: path for path in metrics["paths"]}
    for path, kernels in expected.items():
        found = paths.get(path, {}).get("kernels_inclusive")
        if found != kernels:
            yield f"{path} has {found} kernels, expected {kernels}"
    if sampled:
        step = paths.get("decode/step", {})
        recorded, instances = step.get("recorded_instances"), step.get("instances")
        if not recorded or recorded >= instances:
            yield f"{recorded} of {instances} steps recorded, expected a part"
    total = metrics["coverage"]["total"]
    for loss in LOSSES:
        if total[loss] != 0:
            yield f"{loss} is {total[loss]}"


if __name__ == "__main__":
    sys.exit(main())
