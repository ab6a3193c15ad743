"""The table `stages`: the times, windows and floors of the report, one row for each stage."""

from __future__ import annotations

import math
from typing import Any, List, Mapping

from ._absent import absence_of

Rows = List[Mapping[str, Any]]

_NOUNS = {
    "instance": "call",
    "range_within": "step",
    "inferred": "inferred step",
    "of_engine": "step",
}
_OVERLAPPING = 1.2
"""From this many calls at a time, on average, they overlap."""
_TAIL_STEPS = 100
"""Of fewer steps, the 99th percentile is the longest."""
_OF_RECORDED = ("gpu_window_ns", "gpu_busy_ns", "gpu_busy_uncertain_ns", "gpu_idle_ns")
_SHOWN_AS_RECORDED = ("gpu_window_ns", "gpu_busy_ns", "gpu_idle_ns")


def stages(rows: Rows, metrics: Mapping[str, Any]) -> Rows:
    """Return the rows with the times of their steps, and with all sums over all instances."""
    answer = metrics.get("answer")
    known = answer.get("stages") if isinstance(answer, dict) else None
    listed = known if isinstance(known, list) else []
    answers = [row for row in listed if isinstance(row, dict)]
    by_stage = {str(row.get("stage")): row for row in reversed(answers)}
    numbers = metrics.get("stage_numbers")
    listed = numbers if isinstance(numbers, list) else []
    idle = {str(row.get("stage")): row.get("idle_percent") for row in listed if _object(row)}
    return [
        {
            "stage": row.get("stage"),
            **_times(row, by_stage.get(str(row.get("stage")), {})),
            "idle_percent": idle.get(str(row.get("stage"))),
            **_over_all(row),
        }
        for row in rows
    ]


def _times(row: Mapping[str, Any], answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the tables of stages in the report have, per token, step or call."""
    step = answer.get("step")
    times = _of_step(step, answer) if isinstance(step, dict) else _of_calls(row)
    tokens = times["tokens_per_step"] or 1
    floor = _object(answer.get("floor"))
    of_floor = {
        name: _divided(_known(floor.get(key)), tokens)
        for name, key in (
            ("floor_ns", "floor_ns"),
            ("floor_memory_ns", "memory_ns"),
            ("floor_compute_ns", "compute_ns"),
        )
    }
    parts = _object(answer.get("window")).get("parts")
    shares: dict[str, Any] = {}
    for part in parts if isinstance(parts, list) else []:
        if isinstance(part, dict) and isinstance(part.get("percent"), (int, float)):
            name = f"window.{part.get('kind')}_percent"
            shares[name] = shares.get(name, 0.0) + part["percent"]
    return {
        **times,
        "tokens_per_s": _known(answer.get("tokens_per_s")),
        "tokens_counted": answer.get("tokens_counted"),
        **of_floor,
        "mean_over_floor": _known(floor.get("distance")),
        "floor_absent": absence_of(floor.get("floor_ns")),
        **shares,
    }


def _of_step(step: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    tokens = step.get("tokens_per_step")
    tokens = tokens if isinstance(tokens, int) and tokens > 0 else None
    unit = "token" if tokens else _NOUNS.get(str(step.get("unit")), "step")
    names = ("p50_ns", "p99_ns", "max_ns", "mean_ns", "std_ns")
    times = {name: _divided(step.get(name), tokens or 1) for name in names}
    if not (isinstance(step.get("steps"), int) and step["steps"] >= _TAIL_STEPS):
        # It is the longest one, and called so.
        times["max_ns"] = times["max_ns"] if times["max_ns"] is not None else times["p99_ns"]
        times["p99_ns"] = None
    mean = _object(answer.get("bottleneck"))
    is_of_ranges = step.get("unit") in ("instance", "range_within") and mean.get("of") == unit
    ns = mean.get("ns") if is_of_ranges else None
    if isinstance(ns, (int, float)) and ns > 0 and (times["mean_ns"] or 0) >= _OVERLAPPING * ns:
        unit += " of a stream"
    return {
        "per": unit,
        **times,
        "steps": step.get("steps"),
        "tokens_per_step": tokens,
        "step_path": step.get("path"),
        "is_cold": bool(step.get("cold")),
    }


def _of_calls(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the times of the warm calls, of which alone the report has no percentile."""
    is_known = row.get("host_warm_median_ns") is not None
    return {
        "per": "call" if row.get("kind") == "range" else None,
        "p50_ns": row.get("host_warm_median_ns"),
        "p99_ns": None,
        "max_ns": None,
        "mean_ns": row.get("host_warm_mean_ns"),
        "std_ns": row.get("host_warm_std_ns"),
        "steps": row.get("host_warm_instances") if is_known else None,
        "tokens_per_step": None,
        "step_path": None,
        "is_cold": False if is_known else None,
    }


def ranks(rows: Rows, metrics: Mapping[str, Any]) -> Rows:
    """Return the rows by stage and rank, with all sums over all instances, as those of stages."""
    order = list(dict.fromkeys(str(row.get("stage")) for row in rows))

    def place(row: Mapping[str, Any]) -> tuple[int, float]:
        rank = row.get("rank")
        number = rank if isinstance(rank, int) else math.inf
        return order.index(str(row.get("stage"))), number

    rows = sorted(rows, key=place)
    listed = metrics.get("stages")
    stages = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    sampled = {str(row.get("stage")): row for row in stages if _is_sampled(row)}

    def of(row: Mapping[str, Any]) -> Mapping[str, Any]:
        stage = sampled.get(str(row.get("stage")))
        if stage is None:
            return row
        times = {name: _scaled(row.get(name), stage) for name in ("gpu_busy_ns", "gpu_idle_ns")}
        return {**row, **times}

    return [of(row) for row in rows]


def _is_sampled(row: Mapping[str, Any]) -> bool:
    names = ("instances", "recorded_instances")
    return all(isinstance(row.get(name), int) for name in names)


def _scaled(value: Any, stage: Mapping[str, Any]) -> int | None:
    """Return a sum over the recorded instances as one over all instances of the stage."""
    recorded = stage["recorded_instances"]
    is_known = isinstance(value, (int, float)) and recorded > 0
    return round(value * stage["instances"] / recorded) if is_known else None


def _over_all(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Scale the GPU times of a sample to all instances, as the report has done with the kernels."""
    if not _is_sampled(row):
        return row

    def scaled(value: Any) -> int | None:
        return _scaled(value, row)

    found = {**row, **{f"recorded_{name}": row.get(name) for name in _SHOWN_AS_RECORDED}}
    found.update((name, scaled(row.get(name))) for name in (*_OF_RECORDED, "gpu_short_gaps_ns"))
    parts = row.get("gpu_busy_parts")
    if isinstance(parts, dict):
        found["gpu_busy_parts"] = {name: scaled(value) for name, value in parts.items()}
    devices = row.get("devices")
    if isinstance(devices, list):
        found["devices"] = [
            {**device, "gpu_busy_ns": scaled(device.get("gpu_busy_ns"))}
            for device in devices
            if isinstance(device, dict)
        ]
    return found


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _known(figure: Any) -> Any:
    return _object(figure).get("known")


def _divided(value: Any, by: int) -> Any:
    return round(value / by) if isinstance(value, (int, float)) else None
