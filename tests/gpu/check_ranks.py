"""A bundle's `metrics.json` and what ranks.py noted become PASS and FAIL lines.

Usage: check_ranks.py RUN_DIR COUNTED_DIR RAN_DIR

COUNTED_DIR holds rank.R.json of a run that counted kernels with torch.profiler, RAN_DIR those of
the run in RUN_DIR. Exit status: 0 when everything is as expected, 1 when something is not, 2 when a
file cannot be read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verdicts
from verdicts import Line

TOLERANCE = 0.1
"""How far the lateness that was found may be from the sleep."""

STAGES = ("prefill", "decode")


def main() -> int:
    """Compare and print."""

    def read(paths: list[Path]) -> Iterator[Line]:
        bundle, counted, ran = paths
        return compare(verdicts.metrics_of(bundle), ranks_in(counted), ranks_in(ran))

    return verdicts.compared(__doc__, 3, read)


def ranks_in(folder: Path) -> dict[int, dict[str, Any]]:
    """Return what each rank noted."""
    noted = [json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("rank.*.json")]
    if not noted:
        raise ValueError(f"no rank.R.json in {folder}")
    return {each["rank"]: each for each in noted}


def compare(
    metrics: dict[str, Any], counted: dict[int, dict[str, Any]], ran: dict[int, dict[str, Any]]
) -> Iterator[Line]:
    """Check ranks, kernels, bytes and who was late."""
    found, world = metrics["ranks"], len(ran)
    seen = (found["seen"], found["expected"])
    yield seen == (world, world), f"ranks seen: {seen[0]} of {seen[1]}, expected {world} of {world}"
    stages = sorted(row["stage"] for row in metrics["stages"] if row["kind"] == "range")
    expected = sorted(("warmup", *STAGES))
    yield stages == expected, f"stages {stages}, expected {expected}"
    for rank, truth in sorted(ran.items()):
        for stage in STAGES:
            yield kernels_of(found, rank, stage, truth["reps"] * counted[rank]["kernels"][stage])
    for stage in STAGES:
        yield from collectives_of(found, stage, ran)
    yield from lateness(found, ran)


def kernels_of(found: dict[str, Any], rank: int, stage: str, expected: int) -> Line:
    """Check the kernels of a rank in a stage."""
    rows = [row for row in found["stages"] if row["rank"] == rank and row["stage"] == stage]
    kernels = [row["kernels"] for row in rows]
    text = f"rank {rank}, {stage}: {kernels} kernels, expected [{expected}]"
    return kernels == [expected], text


def collectives_of(
    found: dict[str, Any], stage: str, ran: dict[int, dict[str, Any]]
) -> Iterator[Line]:
    """Check that every all_reduce of a stage was found with its bytes, and matched."""
    of_stage = [
        row
        for row in found["collectives"]
        if row["stage"] == stage and row["operation"] == "all_reduce"
    ]
    calls = sum(row["calls"] for row in of_stage)
    expected = sum(truth["all_reduces"][stage] for truth in ran.values())
    yield calls == expected, f"{stage}: {calls} AllReduce calls, expected {expected}"
    sizes = sorted({row[key] or 0 for row in of_stage for key in ("bytes_min", "bytes_max")})
    size = sorted({truth["bytes_per_call"][stage] for truth in ran.values()})
    yield sizes == size, f"{stage}: messages of {sizes} bytes, expected {size}"
    matched = sum(row["matched_calls"] for row in of_stage)
    whys = sorted({each["why"] for row in of_stage for each in row["unmatched"]})
    text = f"{stage}: {matched} of {expected} calls matched {whys or ''}"
    yield matched == expected, text.strip()
    for row in of_stage:
        waiting, transfer = row["waiting_ns"] or 0, row["transfer_ns"] or 0
        whole = waiting + transfer == row["time_ns"]
        yield (
            whole,
            f"{stage}: waiting {waiting} ns and transfer {transfer} ns are {row['time_ns']} ns",
        )


def lateness(found: dict[str, Any], ran: dict[int, dict[str, Any]]) -> Iterator[Line]:
    """Check that the rank that slept is named first, with how long and how often."""
    late = [row for row in found["late"] if row["stage"] == "decode"]
    for rank, truth in sorted(ran.items()):
        if not truth["sleeps"]:
            continue
        named: dict[str, Any] = late[0] if late else {"rank": None, "late_typical_ns": 0}
        yield named["rank"] == rank, f"late in decode: rank {named['rank']}, expected {rank}"
        ms, slept = named["late_typical_ns"] / 1e6, truth["sleep_ms_median"]
        near = abs(ms - slept) <= TOLERANCE * slept
        yield near, f"rank {rank} is typically {ms:.3f} ms late, expected {slept:.3f} to 10 %"
        # Once in a while a busy host is as late as a sleep.
        times, least = named.get("late_typical_collectives", 0), truth["sleeps"]
        often = least <= times <= least * (1 + TOLERANCE) + 1
        yield often, f"rank {rank} late {times} times, slept {least}"


if __name__ == "__main__":
    sys.exit(main())
