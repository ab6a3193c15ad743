"""The decode of floor.sh -> what each way adds to it, by processes that work in turn.

The host sets the pace of an eager decode, and a shared host is slow for seconds to minutes. So all
processes are there at once, and each round has a turn of every one of them (turns.py).
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import turns
from draws import Interval, interval, quotient
from floor_ways import FLOOR_V1, UNTRACED, Way

Row = dict[str, Any]
Group = dict[str, list[float]]
"""By way, the ms of its turns in the order of the rounds."""

END_S = 20.0
"""Kept for the ends of the processes."""


def decode(
    chosen: Sequence[Way], llm: Path, budget_s: float, variables: Mapping[str, str]
) -> list[Row]:
    """Start a process of each way in each group, give them turns, and return a row of each."""
    begun = time.monotonic()
    words = [sys.executable, str(llm), "--turns", "--new", variables.get("STEPS", "8")]
    ways = {way.name: way.variables for way in chosen}
    processes: list[turns.Process] = []
    found: dict[tuple[int, str], list[float]] = {}
    why = ""
    try:
        for process in turns.started(ways, int(variables.get("PER_WAY", "5")), words):
            processes.append(process)
        rounds = int(variables.get("TURNS", "60"))
        left_s = budget_s - (time.monotonic() - begun) - END_S
        for row in turns.turns(processes, ["decode"], rounds, left_s, random.Random(1)):
            found.setdefault((row["group"], row["way"]), []).append(row["ms"])
        turns.end_all(processes)
    except turns.FailedError as error:
        why = str(error)
    finally:
        for process in processes:
            process.kill()
    rows = [
        row_of(process, found.get((process.group, process.way), []), why) for process in processes
    ]
    for process in processes:
        process.close()
    return rows


def row_of(process: turns.Process, spans: list[float], why: str) -> Row:
    """Return what a process measured, in the form of those of launches."""
    return {
        "round": process.group,
        "way": process.way,
        "program": "decode",
        "status": process.status(),
        "why": why,
        "turns": len(spans),
        "result": {"host_ms": [{"decode": ms} for ms in spans]} if spans else None,
        "floor": turns.last_json(process.file("floor.json")),
        "said": [line for line in process.said() if line.startswith("stage2:")],
    }


def table(names: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Return what each way adds in the same rounds, and its share of what the floor adds."""
    groups = whole_groups(names, rows)
    if not groups or FLOOR_V1 not in names:
        return []
    least = min(len(spans) for group in groups for spans in group.values())
    lines = [
        f"Decode by turns, {len(groups)} groups of {least} rounds: the median of what a way takes",
        f"longer than `{UNTRACED}` in the same round of its group (95 % of other draws of groups).",
        "",
        f"| way | adds, ms | (way - {UNTRACED}) / ({FLOOR_V1} - {UNTRACED}) |",
        "| --- | --- | --- |",
    ]
    for name in names:
        if name == UNTRACED:
            continue
        added = over(groups, lambda drawn, name=name: middle(drawn, name))
        share = over(
            groups,
            lambda drawn, name=name: quotient(0, middle(drawn, FLOOR_V1), middle(drawn, name)),
        )
        shown = "1" if name == FLOOR_V1 else "-" if share is None else share.text(".2f")
        lines.append(f"| {name} | {'-' if added is None else added.text('+.2f')} | {shown} |")
    return lines


def whole_groups(names: Sequence[str], rows: Sequence[Row]) -> list[Group]:
    """Return the groups in which every way was measured."""
    groups: dict[int, Group] = {}
    for row in rows:
        if row["program"] == "decode" and not row["why"] and row["result"]:
            spans = [each["decode"] for each in row["result"]["host_ms"]]
            groups.setdefault(row["round"], {})[row["way"]] = spans
    return [group for group in groups.values() if all(name in group for name in names)]


def middle(groups: Sequence[Group], way: str) -> float:
    """Return the median over groups and rounds of what a way takes longer."""
    base = UNTRACED
    return statistics.median(
        with_it - without
        for group in groups
        for with_it, without in zip(group[way], group[base], strict=False)
    )


def over(groups: Sequence[Group], statistic: Any) -> Interval | None:
    """Return a number of all groups, and where that of other draws of the groups lies."""
    return interval([groups], statistic)
