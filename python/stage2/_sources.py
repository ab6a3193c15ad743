"""The parts of a report that are tables: where their rows are, and why one has none."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, Mapping, NamedTuple, Sequence

from ._absent import absence_of
from ._causes import host_causes
from ._recommendations import recommendations
from ._stages import ranks, stages
from ._tables import Table, TableError

Metrics = Mapping[str, Any]
Rows = List[Mapping[str, Any]]

_HOST_SAMPLES_LEAST = 30
"""Fewer samples of the idle time of a stage show no causes."""
_HARDLY_IDLE_PERCENT = 10.0
_OFTEN_HZ = 999.0
"""A host that was sampled as often as this is not to be sampled more often."""


class _Source(NamedTuple):
    """The place of a table's rows in the report."""

    path: Sequence[str]
    """Keys from the outside in."""
    inner: str | None = None
    """The list in each of them that holds the rows, if these are not the rows themselves."""
    keep: Sequence[str] = ()
    """Keys of the outer row that each inner one gets."""


SOURCES: dict[str, _Source] = {
    "stages": _Source(["stages"]),
    "recommendations": _Source(["takeaways"]),
    "kernels": _Source(["kernels"]),
    "stage_kernels": _Source(["stage_kernels"]),
    "operators": _Source(["operators", "rows"]),
    "stage_operators": _Source(["operators", "stages"]),
    "ranks": _Source(["ranks", "stages"]),
    "late_ranks": _Source(["ranks", "late"]),
    "collectives": _Source(["ranks", "collectives"]),
    "steps": _Source(["step_series"], "buckets", ["stage", "path", "file"]),
    "timelines": _Source(["step_timelines"]),
    "host_causes": _Source(["host", "stages"], "causes", ["stage", "idle_ns"]),
    "engine_steps": _Source(["engine", "kinds"]),
    "engine_batches": _Source(["engine", "kinds"], "rows", ["stage"]),
    "requests": _Source(["engine", "requests", "slowest"]),
    "paths": _Source(["paths"]),
    "layers": _Source(["layers"]),
    "copies": _Source(["copies"]),
    "fills": _Source(["fills"]),
    "graph_launches": _Source(["graph_launches"]),
    "energy": _Source(["energy"]),
    "utilisation": _Source(["utilisation", "stages"]),
    "devices": _Source(["devices"]),
    "processes": _Source(["processes"]),
    "coverage": _Source(["coverage", "processes"]),
    "takeaways": _Source(["takeaways"]),
    "findings": _Source(["findings"]),
}


def table_of(metrics: Metrics, name: str) -> Table:
    """Return a table of a report.

    Raises:
        KeyError: There is no table of this name.
        TableError: Its part of the report has an unexpected form.

    """
    source = SOURCES[name]
    rows = _rows(_at_path(metrics, source.path), ".".join(source.path))
    if source.inner is not None:
        rows = [
            {**{key: row.get(key) for key in source.keep}, **inner}
            for row in rows
            for inner in _rows(row.get(source.inner), source.inner)
        ]
    change = _CHANGES.get(name)
    if change is not None:
        rows = change(rows, metrics)
    return Table(name, rows, None if rows else _ABSENT[name](metrics))


def _at_path(metrics: Metrics, path: Sequence[str]) -> Any:
    value: Any = metrics
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _rows(value: Any, where: str) -> Rows:
    if value is None:
        return []
    if isinstance(value, list) and all(isinstance(row, dict) for row in value):
        return value
    raise TableError(f"`{where}` is not a list of objects")


def _with_names(rows: Rows, metrics: Metrics) -> Rows:
    """Add the short name of each kernel and its symbol."""
    names = _rows(metrics.get("kernel_names"), "kernel_names")

    def of(row: Mapping[str, Any]) -> Mapping[str, Any]:
        name = _at(names, row.get("name_index")) or {}
        return {"short": name.get("short"), "mangled": name.get("mangled"), **row}

    return [of(row) for row in rows]


def _timelines(rows: Rows, _metrics: Metrics) -> Rows:
    """Make one row for each range, piece of GPU work and gap of the median steps."""
    return [
        {
            "stage": timeline.get("stage"),
            "file": timeline.get("file"),
            "step": _number(timeline.get("step")),
            **event,
        }
        for timeline in rows
        for event in _events(timeline)
    ]


def _number(step: Any) -> Any:
    return step.get("number") if isinstance(step, dict) else None


def _events(timeline: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    names = timeline.get("names") or []

    def event(kind: str, lane: Any, row: Mapping[str, Any]) -> Mapping[str, Any]:
        columns = ("class", "depth", "start_ns", "length_ns", "launch")
        kept = {key: row.get(key) for key in columns}
        return {"kind": kind, "lane": lane, "name": _at(names, row.get("name")), **kept}

    for row in _rows(timeline.get("ranges"), "step_timelines.ranges"):
        yield event("range", "host", row)
    for lane in _rows(timeline.get("lanes"), "step_timelines.lanes"):
        for row in _rows(lane.get("work"), "step_timelines.lanes.work"):
            yield event("work", lane.get("label"), row)
    for row in _rows(timeline.get("gaps"), "step_timelines.gaps"):
        yield event("gap", None, row)


def _without_meta(rows: Rows, _metrics: Metrics) -> Rows:
    """Leave out the facts of a process that have other names in each run."""
    return [{key: value for key, value in row.items() if key != "meta"} for row in rows]


def _with_absence(rows: Rows, _metrics: Metrics) -> Rows:
    """Add why the energy of a stage is not known."""
    return [{**row, "energy_absent": absence_of(row.get("energy_j"))} for row in rows]


def _late(rows: Rows, _metrics: Metrics) -> Rows:
    """Leave out the ranks that are last at collectives by no more than noise."""
    return [row for row in rows if row.get("delays")]


_CHANGES: dict[str, Callable[[Rows, Metrics], Rows]] = {
    "stages": stages,
    "recommendations": recommendations,
    "ranks": ranks,
    "kernels": _with_names,
    "stage_kernels": _with_names,
    "timelines": _timelines,
    "host_causes": host_causes,
    "energy": _with_absence,
    "late_ranks": _late,
    "coverage": _without_meta,
}


def _at(values: Any, index: Any) -> Any:
    """Return the value at an index from the report; None if the index is out of range."""
    is_index = isinstance(index, int) and isinstance(values, list)
    return values[index] if is_index and 0 <= index < len(values) else None


def _told(*path: str) -> Callable[[Metrics], str | None]:
    """Return a function that gives the reason and the remedy that the report has at a place."""

    def of(metrics: Metrics) -> str | None:
        said = _at_path(metrics, path)
        texts = [said.get("reason"), said.get("remedy")] if isinstance(said, dict) else [said]
        return "; ".join(text for text in texts if isinstance(text, str) and text) or None

    return of


def _operators(metrics: Metrics) -> str:
    told = _told("operators", "absent")(metrics)
    return told or "the report has no operators; run with --annotate torch-ops"


def _stage_operators(metrics: Metrics) -> str:
    if _at_path(metrics, ["operators", "rows"]):
        return "no operator ran in a stage; the table `operators` has those of the run"
    return _operators(metrics)


def _ranks(metrics: Metrics) -> str:
    number = len(_rows(metrics.get("processes"), "processes"))
    processes = f"{number} process{'' if number == 1 else 'es'}"
    return f"the run has {processes}, and a comparison of ranks needs at least two"


def _collectives(metrics: Metrics) -> str:
    if not _at_path(metrics, ["ranks", "stages"]):
        return _ranks(metrics)
    left_out = _at_path(metrics, ["ranks", "kernels_left_out"])
    if left_out:
        return f"the times of all {left_out} communication kernels are unknown"
    return "the ranks ran no communication kernels"


def _late_ranks(metrics: Metrics) -> str:
    if not _at_path(metrics, ["ranks", "collectives"]):
        return _collectives(metrics)
    if _at_path(metrics, ["ranks", "clock_error_ns"]) is None:
        return "no calls of collectives could be matched; the table `collectives` has the reasons"
    if _at_path(metrics, ["ranks", "late"]):
        return "no rank was late by more than noise; the table `ranks` has the waiting of each"
    return "no rank was late by more than the error of the clocks"


def _host_causes(metrics: Metrics) -> str:
    """Return why no stage has causes, by the rules of the report."""
    host = metrics.get("host")
    if not isinstance(host, dict):
        return "the host was not sampled; run with profiling.collector.host=on"
    processes = _rows(host.get("processes"), "host.processes")
    off = next((row["off"] for row in processes if isinstance(row.get("off"), str)), None)
    stages = _rows(host.get("stages"), "host.stages")
    if not stages:
        return off or (
            "no sample lies in a stage with GPU work; a sample counts if its thread opened the "
            "range of the stage, or if it launches GPU work in a process without ranges"
        )
    idle = [row for row in stages if not _is_hardly_idle(row)]
    if not idle:
        return "the GPU is hardly idle in any stage"
    samples = ", ".join(f"{row.get('stage')} {row.get('samples')}" for row in idle)
    hz = [row["asked_hz"] for row in processes if isinstance(row.get("asked_hz"), (int, float))]
    more = "" if hz and min(hz) >= _OFTEN_HZ else ", or with profiling.collector.host=1000"
    return (
        f"too few samples of the idle time ({samples}), {_HOST_SAMPLES_LEAST} are needed in a "
        f"stage; record for longer{more}" + (f"; {off}" if off else "")
    )


def _is_hardly_idle(row: Mapping[str, Any]) -> bool:
    idle, window = row.get("idle_ns"), row.get("window_ns")
    if not (isinstance(idle, (int, float)) and isinstance(window, (int, float))):
        return False
    return idle * 100 <= _HARDLY_IDLE_PERCENT * window


def _engine(metrics: Metrics) -> str:
    if isinstance(metrics.get("engine"), dict):
        return "the engine ran no steps"
    return "no range states the requests or tokens that it works on, as those of an engine do"


def _requests(metrics: Metrics) -> str:
    engine = metrics.get("engine")
    if not isinstance(engine, dict):
        return _engine(metrics)
    if not isinstance(engine.get("requests"), dict):
        return "the engine does not record its requests"
    return "no request began and ended during the recording"


def _energy(metrics: Metrics) -> str:
    for row in _rows(_at_path(metrics, ["coverage", "processes"]), "coverage.processes"):
        off = _at_path(row, ["meta", "nvml.off"])
        if isinstance(off, str):
            return off
    return "no trace file has readings of the GPU's energy and clocks"


def _timelines_absent(metrics: Metrics) -> str:
    if "step_timelines" not in metrics:
        return (
            "timelines.json, which holds them, is not next to metrics.json: copy it from the run, "
            "or write it again with `stage2-launch report RUN_DIR`"
        )
    return "no stage has a warm step with recorded GPU work"


def _utilisation(metrics: Metrics) -> str:
    told = _told("utilisation", "absent")(metrics)
    return told or (
        "no stage is prefill or decode; mark them with NVTX ranges of these names"
        if isinstance(metrics.get("utilisation"), dict)
        else "nothing was computed for it"
    )


def _always(text: str) -> Callable[[Metrics], str]:
    return lambda _metrics: text


_NO_KERNEL = _always("no kernel was recorded")

_ABSENT: dict[str, Callable[[Metrics], str | None]] = {
    "stages": _always("no range was opened, and no GPU work was recorded"),
    "recommendations": _always("no takeaway calls for one"),
    "kernels": _NO_KERNEL,
    "stage_kernels": _NO_KERNEL,
    "operators": _operators,
    "stage_operators": _stage_operators,
    "ranks": _ranks,
    "late_ranks": _late_ranks,
    "collectives": _collectives,
    "steps": _always("no stage has steps whose times are known"),
    "timelines": _timelines_absent,
    "host_causes": _host_causes,
    "engine_steps": _engine,
    "engine_batches": _engine,
    "requests": _requests,
    "paths": _always("no range was opened"),
    "layers": _always("no modules of the model were captured"),
    "copies": _always("no copy was recorded"),
    "fills": _always("no fill was recorded"),
    "graph_launches": _always("no CUDA graph was recorded as a whole"),
    "energy": _energy,
    "utilisation": _utilisation,
    "devices": _always("no GPU was recorded"),
    "processes": _always("no process was traced"),
    "coverage": _always("no trace file was read"),
    "takeaways": _always("nothing was computed from the numbers"),
    "findings": _always("nothing is known to be missing or uncertain"),
}
"""Why each table is empty, if it is: the reason in the report, or the meaning of its empty part."""
