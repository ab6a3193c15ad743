"""`metrics.json` and `timelines.json` -> the report, with an object for each kernel."""

from __future__ import annotations

from typing import Any, Mapping

TIMELINES_SCHEMA = "stage2.timelines"
TIMELINES_VERSION = 1

_INDEXES = {"name": "names", "range": "ranges", "device": "devices"}
"""Columns of a kernel that lead to an object with several values of the row, and the list of it."""
_VALUES = {"launch": "launches", "sources": "sources"}
"""Columns that lead to the value itself."""
_TIMES = {"first_start_ns": "first_start_gpu_ns", "last_end_ns": "last_end_gpu_ns"}
"""Times since `begin_gpu_ns`, and what they are called as times of the GPU's clock."""
_ZERO = ("graph_calls", "sources", "invalid_timestamp_calls")
"""Columns that are 0 where a row ends before them; the others are None."""


class LayoutError(ValueError):
    """A part of the report has an unexpected form."""


def with_kernel_rows(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return the report with an object for each kernel, as version 1 had them.

    Raises:
        LayoutError: The table of kernels has an unexpected form.

    """
    table = metrics.get("kernels")
    if not isinstance(table, dict):
        return metrics
    try:
        return {**metrics, "kernels": _rows(table)}
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise LayoutError(f"`kernels` is not a table of kernels: {error!r}") from error


def _rows(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    columns = table["columns"]
    given = [dict(zip(columns, row)) for row in table["rows"]]
    total_ns = sum(row["total_ns"] or 0 for row in given)
    return [_row(row, columns, table, total_ns) for row in given]


def _row(
    given: dict[str, Any], columns: list[str], table: Mapping[str, Any], total_ns: int
) -> dict[str, Any]:
    """Return a row with the values that its indexes refer to."""
    cells = {name: given.get(name, 0 if name in _ZERO else None) for name in columns}
    row: dict[str, Any] = {}
    for column, list_name in _INDEXES.items():
        row.update(table[list_name][_index(cells.pop(column))])
    for column, list_name in _VALUES.items():
        row[column] = table[list_name][_index(cells.pop(column))]
    for column, name in _TIMES.items():
        since_ns = cells.pop(column)
        row[name] = None if since_ns is None else table["begin_gpu_ns"] + since_ns
    row.update(cells)
    share = None if row["total_ns"] is None or not total_ns else row["total_ns"] * 100.0 / total_ns
    row["kernel_sum_percent"] = share
    return row


def _index(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise IndexError(f"{value!r} is not an index")
    return value


def with_timelines(metrics: dict[str, Any], timelines: Any) -> dict[str, Any]:
    """Return the report with the content of its `timelines.json`, where version 1 had it.

    Raises:
        LayoutError: The file belongs to another report, or to none.

    """
    if not isinstance(timelines, dict) or timelines.get("schema") != TIMELINES_SCHEMA:
        raise LayoutError(f"its `schema` is not {TIMELINES_SCHEMA!r}")
    if timelines.get("schema_version") != TIMELINES_VERSION:
        raise LayoutError(
            f"its version is not {TIMELINES_VERSION}, the one that this package reads"
        )
    kernels = metrics.get("kernels")
    if not isinstance(kernels, list) or timelines.get("kernel_rows") != len(kernels):
        raise LayoutError("it belongs to another metrics.json")
    try:
        sampled = metrics.get("sampled") and {
            **metrics["sampled"],
            "stages": _with_steps(metrics["sampled"]["stages"], timelines),
        }
        whole = {**metrics, "kernels": _with_samples(kernels, timelines)}
        whole["step_timelines"] = timelines.get("step_timelines")
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise LayoutError(f"it cannot be understood: {error!r}") from error
    return {**whole, "sampled": sampled} if sampled else whole


def _with_steps(stages: list[dict[str, Any]], timelines: Mapping[str, Any]) -> list[dict[str, Any]]:
    stages = list(stages)
    for samples in timelines.get("sampled_steps") or []:
        at = _index(samples["sampled_stage"])
        steps = {**stages[at]["steps"], "median": samples["median"], "each": samples["each"]}
        stages[at] = {**stages[at], "steps": steps}
    return stages


def _with_samples(
    kernels: list[dict[str, Any]], timelines: Mapping[str, Any]
) -> list[dict[str, Any]]:
    kernels = list(kernels)
    for samples in timelines.get("sampled_kernels") or []:
        sampled = {name: value for name, value in samples.items() if name != "kernel_rows"}
        for at in samples["kernel_rows"]:
            kernels[_index(at)] = {**kernels[at], "sampled": sampled}
    return kernels
