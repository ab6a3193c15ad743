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

OPERATIONS = {"tensor": ("all_reduce",), "expert": ("all_to_all", "send_recv", "send", "recv")}
"""Collectives of each way to be parallel. Older NCCL makes an exchange of sends and receives."""

CAUSES = {"sleep": "host", "work": "gpu"}
"""Why a rank is late, by what it was made to do."""

SHARE = 0.75
"""The share of a delay that a cause has to explain."""


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
    yield from bandwidth(found)


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
    parallel = next(iter(ran.values()))["parallel"]
    of_stage = [
        row
        for row in found["collectives"]
        if row["stage"] == stage and row["operation"] in OPERATIONS[parallel]
    ]
    calls = sum(row["calls"] for row in of_stage)
    expected = sum(truth["collectives"][stage] for truth in ran.values())
    yield calls == expected, f"{stage}: {calls} collectives ({parallel}), expected {expected}"
    if parallel != "tensor":
        # What a message of an exchange is differs between versions of NCCL.
        return
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
    """Check that each rank that was made late is named, with how long, how often and why."""
    rows = {row["rank"]: row for row in found["late"] if row["stage"] == "decode"}
    culprits = {
        rank: (kind, late) for rank, truth in ran.items() for kind, late in truth["late"].items()
    }
    named = [row["rank"] for row in found["late"] if row["stage"] == "decode"][: len(culprits)]
    yield (
        sorted(named) == sorted(culprits),
        f"latest in decode: ranks {sorted(named)}, expected {sorted(culprits)}",
    )
    for rank, (kind, late) in sorted(culprits.items()):
        nobody = {"mean_ns": 0, "collectives": 0, "total_ns": 1}
        row: dict[str, Any] = rows.get(rank, {}).get("delays") or nobody
        ms, made = row["mean_ns"] / 1e6, late["ms_median"]
        near = abs(ms - made) <= TOLERANCE * made
        yield (
            near,
            f"rank {rank} ({kind}) is {ms:.3f} ms late, expected {made:.3f} to 10 %",
        )
        # Once in a while a busy host is as late as a sleep.
        times, least = row["collectives"], late["times"]
        often = least <= times <= least * (1 + TOLERANCE) + 1
        yield often, f"rank {rank} late {times} times, made late {least}"
        work = (row.get("work_ns") or 0) / row["total_ns"]
        cause = "gpu" if work >= SHARE else "host" if work <= 1 - SHARE else "both"
        expected = CAUSES[kind]
        yield cause == expected, f"rank {rank} is late because of its {cause}, expected {expected}"


def bandwidth(found: dict[str, Any]) -> Iterator[Line]:
    """Show the bus bandwidth of each collective, by the formula of nccl-tests."""
    for row in found["collectives"]:
        if row["bus_gb_per_s"] is not None:
            place = f"{row['stage']}: {row['operation']} of {row['members']} ranks"
            yield None, f"{place}, {row['bytes_max']} bytes: {row['bus_gb_per_s']:.1f} GB/s"


if __name__ == "__main__":
    sys.exit(main())
