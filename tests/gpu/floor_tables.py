"""The lines of raw.jsonl -> the tables of floor.sh, with how far other draws move each number."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from draws import Interval, interval, quotient
from floor_ways import AGAIN, FLOOR_V1, NEVER_ON, UNTRACED

Row = dict[str, Any]

MEASURES = {"eager": "eager launch, ns", "graph": "graph node, ns", "decode": "decode, ms"}
WAITED = {
    "waited": "node of a new graph, each replay waited for, ns",
    "kept": "the same of a graph made before, ns",
}
"""Measured only where records are switched in one process."""
PHASES = ("before", "on", "off")
MOST_NOTES = 30


class Times(NamedTuple):
    """What one process measured: the fastest batch or repetition, and the median of them."""

    least: float
    median: float


def page(mode: str, names: list[str], rows: list[Row]) -> str:
    """Return all tables of a mode, and what has to be known to read them."""
    make = {"cost": cost, "fields": fields, "off": off}[mode]
    return "\n".join([*make(names, rows), "", *notes(names, rows)]).strip()


def times(row: Row, phase: str = "all") -> dict[str, Times]:
    """Return what a process measured, by measure; nothing where it failed."""
    result = row["result"]
    if row["why"] or result is None:
        return {}
    if row["program"] == "decode":
        spans = [each["decode"] for each in result["host_ms"]]
        return {"decode": Times(min(spans), statistics.median(spans))}
    found = result.get(phase, {})
    return {
        name: Times(found[f"{name}_ns"]["min"], found[f"{name}_ns"]["median"])
        for name in ("eager", "graph", *WAITED)
        if f"{name}_ns" in found
    }


def by_way(rows: list[Row], measure: str) -> dict[str, list[Times]]:
    """Return the processes of each way that have a measure."""
    found: dict[str, list[Times]] = {}
    for row in rows:
        if measure in (measured := times(row)):
            found.setdefault(row["way"], []).append(measured[measure])
    return found


def least(processes: Iterable[Times]) -> float:
    """Return the fastest of all."""
    return min(each.least for each in processes)


def middle(processes: Iterable[Times]) -> float:
    """Return the median of the processes' medians."""
    return statistics.median(each.median for each in processes)


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *body]
    return [f"| {' | '.join(line)} |" for line in lines]


def present(rows: list[Row]) -> list[str]:
    """Return the measures that any process has."""
    found = {name for row in rows for name in times(row)}
    return [name for name in MEASURES if name in found]


def record_bytes(rows: list[Row], way: str) -> str:
    """Return how long a record is, or `-` where nothing was recorded."""
    sizes = {row["floor"]["record_bytes"] for row in rows if row["way"] == way and row["floor"]}
    return ", ".join(str(size) for size in sorted(sizes)) or "-"


def cell(found: Interval | None, form: str) -> str:
    """Put an interval into a cell."""
    return "-" if found is None else found.text(form)


def cost(names: list[str], rows: list[Row]) -> list[str]:
    """Return minima, medians, and what each way costs over what bare CUPTI does by `v1`."""
    shown = present(rows)
    of = {measure: by_way(rows, measure) for measure in shown}
    lines = ["Minimum of all processes; median of their medians (95 % of other draws of them).", ""]
    body = []
    for name in names:
        cells = [name, record_bytes(rows, name)]
        for measure in shown:
            processes = of[measure].get(name, [])
            middles = interval([processes], middle) if processes else None
            cells.append(f"{least(processes):.1f}; {cell(middles, '.1f')}" if processes else "-")
        body.append(cells)
    lines += table(["way", "bytes a record", *(MEASURES[measure] for measure in shown)], body)
    lines += ["", f"(way - {UNTRACED}) / ({FLOOR_V1} - {UNTRACED}): by minima; by medians."]
    lines += ["Both untraced ways are the base; `untraced again` tells the noise.", ""]
    body = []
    for name in names:
        if name in (UNTRACED, FLOOR_V1):
            continue
        cells = [name]
        for measure in shown:
            found = of[measure]
            base = found.get(UNTRACED, []) + ([] if name == AGAIN else found.get(AGAIN, []))
            groups = [base, found.get(FLOOR_V1, []), found.get(name, [])]
            cells.append("; ".join(cell(share(groups, pick), ".2f") for pick in (least, middle)))
        body.append(cells)
    return lines + table(["way", *(MEASURES[measure] for measure in shown)], body)


def share(groups: list[list[Times]], pick: Any) -> Interval | None:
    """Return the quotient of two costs: of the third group and of the second, over the first."""
    if not all(groups):
        return None
    return interval(groups, lambda *drawn: quotient(*(pick(group) for group in drawn)))


def fields(names: list[str], rows: list[Row]) -> list[str]:
    """Return what each choice of fields adds to a launch and to a node."""
    shown = present(rows)
    lines = [
        f"What each way adds to `{UNTRACED}` (both of them): by minima; by medians (95 % of other"
    ]
    lines += ["draws of the processes). `kind again` beside `kind` tells the noise.", ""]
    of = {measure: by_way(rows, measure) for measure in shown}
    body = []
    for name in names:
        cells = [name, record_bytes(rows, name)]
        for measure in shown:
            found = of[measure]
            base = found.get(UNTRACED, []) + ([] if name == AGAIN else found.get(AGAIN, []))
            if name == UNTRACED and base:
                cells.append(f"{least(base):.1f}; {middle(base):.1f} in all")
                continue
            cells.append(added(base, found.get(name, [])))
        body.append(cells)
    return lines + table(
        ["fields", "bytes a record", *(MEASURES[measure] for measure in shown)], body
    )


def added(base: list[Times], processes: list[Times]) -> str:
    """Return what the processes take longer than the base."""
    if not base or not processes:
        return "-"
    by_medians = interval([base, processes], lambda low, high: middle(high) - middle(low))
    return f"{least(processes) - least(base):+.1f}; {cell(by_medians, '+.1f')}"


def off(names: list[str], rows: list[Row]) -> list[str]:
    """Return what stays of the cost once records are off, a table for each measure."""
    lines = [
        "Medians of the processes' medians. Stays: off - before, in one process. Left: the share",
        "of the cost that stays, (off - before) / (on - before). With 95 % of other draws of the",
        "processes.",
    ]
    units = {"eager": MEASURES["eager"], "graph": MEASURES["graph"]} | WAITED
    for measure, unit in units.items():
        body = []
        for name in names:
            triples = [
                [times(row, phase)[measure].median for phase in PHASES]
                for row in rows
                if row["way"] == name and all(measure in times(row, phase) for phase in PHASES)
            ]
            body.append([name, *phases(triples, was_on=name != NEVER_ON)])
        if any(cells[1] != "-" for cells in body):
            head = ["way", *PHASES, "stays", "left"]
            lines += ["", f"{unit[0].upper()}{unit[1:]}:", "", *table(head, body)]
    return lines


def phases(triples: list[list[float]], was_on: bool) -> list[str]:
    """Return the cells of one way: each phase, and what stays of the cost."""
    if not triples:
        return ["-"] * 5

    def stays(drawn: Sequence[list[float]]) -> float:
        return statistics.median(triple[2] - triple[0] for triple in drawn)

    def left(drawn: Sequence[list[float]]) -> float | None:
        return quotient(*(statistics.median(column) for column in zip(*drawn, strict=True)))

    share = interval([triples], left) if was_on else None
    return [
        *(f"{statistics.median(column):.1f}" for column in zip(*triples, strict=True)),
        cell(interval([triples], stays), "+.1f"),
        cell(share, ".2f"),
    ]


def notes(names: list[str], rows: list[Row]) -> list[str]:
    """Return what failed, what was not exact, and which CUPTI the collector says it used."""
    found: dict[str, None] = {}
    for row in rows:
        if row["why"]:
            found[f"FAIL {row['way']}, {row['program']}: {row['why']}"] = None
            continue
        floor, result = row["floor"], row["result"]
        if floor and row["program"] == "launches" and floor["records"] != result.get("kernels"):
            text = f"{floor['records']} records of {result.get('kernels')} kernels"
            found[f"NOTE {row['way']}: {text}: its time is of no use"] = None
        if floor and floor["record_bytes_by_layout"] not in (0, floor["record_bytes"]):
            told = floor["record_bytes_by_layout"]
            found[
                f"NOTE {row['way']}: the layout tells {told} bytes a record, CUPTI's walk finds "
                f"{floor['record_bytes']}"
            ] = None
        for line in row["said"]:
            if "CUPTI" in line or "not recorded" in line:
                found[f"NOTE {row['way']}: {line}"] = None
    for name in names:
        if not any(row["way"] == name for row in rows):
            found[f"FAIL {name}: no process of it ran before the time was up"] = None
    lines = list(found)
    if len(lines) > MOST_NOTES:
        lines[MOST_NOTES:] = [f"NOTE {len(lines) - MOST_NOTES} more in raw.jsonl"]
    return [f"- {line}" for line in lines]
