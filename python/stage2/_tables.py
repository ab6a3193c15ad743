"""Turns the lists of a report into tables with one value per cell."""

from __future__ import annotations

import shutil
import textwrap
from html import escape
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Sequence

_SHOWN_ROWS = 20
_SHOWN_COLUMNS = 12
_SHOWN_TEXT = 60
_INT64_MAX = 2**63 - 1
_LEAST_WIDTH = 40
_MAX_LEVELS = 8
"""Levels of lists and objects in a row; reports have four. Polars takes minutes for hundreds."""

Metrics = Mapping[str, Any]


class TableError(ValueError):
    """The part of a report that should be a table has an unexpected form."""


class Table(List[Dict[str, Any]]):
    """Rows of a report, as a list of dictionaries that all have the same keys.

    Units end the names of the columns: `_ns` (integer nanoseconds), `_percent`, `_bytes`, `_j`,
    `_w`, `_mhz`, `_per_s`. None means "not known", never 0. A dot separates the levels of the
    report: `launch.grid`. Lists are tuples: a grid is `(132, 1, 1)`. The most important columns
    come first. The source of every table is `metrics.json` of the run, with its `timelines.json`.
    """

    def __init__(
        self, name: str, rows: Sequence[Mapping[str, Any]] = (), absent: str | None = None
    ) -> None:
        """Take rows in the form of the report."""
        flat = [dict(_cells(row, "")) for row in rows]
        names = dict.fromkeys(name for row in flat for name in row)
        # Where some rows have an object and others null, the object's own columns say it all.
        objects = {name[:end] for name in names for end in _dots(name)}
        known = [
            name
            for name in names
            if name not in objects or any(row.get(name) is not None for row in flat)
        ]
        first = [column for column in _FIRST.get(name, "").split() if column in known]
        columns = [*first, *(column for column in known if column not in first)]
        super().__init__({name: row.get(name) for name in columns} for row in flat)
        self.name = name
        """Its name in `Run.table`."""
        self.columns = columns if flat else _FIRST.get(name, "").split()
        """The names of the columns. Without rows, only the most important ones."""
        self.absent = absent
        """Why there are no rows, and what to do to get some; None where there are rows."""

    def __repr__(self) -> str:
        """Show the first rows and the most important columns as text."""
        if not self or not self._shown():
            return self._size()
        columns = [[_heading(name), *self._texts(name)] for name in self._shown()]
        lines = zip(*([text.ljust(max(map(len, column))) for text in column] for column in columns))
        return "\n".join([*("  ".join(line).rstrip() for line in lines), self._size()])

    def _repr_html_(self) -> str:
        """Show the first rows and the most important columns in a notebook."""
        if not self or not self._shown():
            return f"<p>{escape(self._size())}</p>"
        columns = []
        for name in self._shown():
            is_text = any(isinstance(row[name], str) for row in self[:_SHOWN_ROWS])
            style = " style='text-align:left'" if is_text else ""
            cells = [f"<td{style}>{escape(text)}</td>" for text in self._texts(name)]
            columns.append([f"<th{style}>{escape(_heading(name))}</th>", *cells])
        head, *body = (f"<tr>{''.join(line)}</tr>" for line in zip(*columns))
        return (
            f"<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>"
            f"<p>{escape(self._size())}</p>"
        )

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` of shape (rows, columns), with the columns of `columns`.

        Columns with missing integers have the type `Int64`, so times stay exact. A tuple is one
        object in a cell.

        Raises:
            ImportError: pandas is not installed.

        """
        try:
            import pandas
        except ImportError as error:
            raise _not_installed("pandas") from error
        return pandas.DataFrame(
            {
                name: pandas.Series(values, dtype=_pandas_type(values))
                for name, values in self._by_column()
            }
        )

    def to_polars(self) -> Any:
        """Return a `polars.DataFrame` of shape (rows, columns), with the columns of `columns`.

        A tuple of numbers or strings is a polars list.

        Raises:
            ImportError: polars is not installed.

        """
        try:
            import polars
        except ImportError as error:
            raise _not_installed("polars") from error
        return polars.DataFrame(
            {
                name: polars.Series(name, [_as_list(value) for value in values], strict=False)
                for name, values in self._by_column()
            }
        )

    def _by_column(self) -> Iterator[tuple[str, list[Any]]]:
        for name in self.columns:
            yield name, [row[name] for row in self]

    def _size(self) -> str:
        """Return the number of rows and columns, or the reason why there are none."""
        if not self:
            return f"{self.name}: no rows" + (f": {self.absent}" if self.absent else "")
        shown = min(len(self), _SHOWN_ROWS)
        of_rows = f"{shown} of {len(self)} rows" if shown < len(self) else f"{len(self)} rows"
        cut = any(name.endswith("_ns") for name in self._shown())
        note = "; the headings leave out `_ns`" if cut else ""
        return f"{self.name}: {of_rows}, {len(self.columns)} columns{note}"

    def _shown(self) -> list[str]:
        """Return the names of the columns to show."""
        first = [name for name in _FIRST.get(self.name, "").split() if name in self.columns]
        rows = self[:_SHOWN_ROWS]
        others = (name for name in self.columns if any(_is_plain(row[name]) for row in rows))
        return (first or list(others))[:_SHOWN_COLUMNS]

    def _texts(self, name: str) -> list[str]:
        """Return the texts to show for a column."""
        return [_text(name, row[name]) for row in self[:_SHOWN_ROWS]]


_FIRST: dict[str, str] = {
    "kernels": "stage class calls total_ns mean_ns short path device launch.grid launch.block "
    "p99_ns kernel_sum_percent counters.roofline.bound",
    "stage_kernels": "stage calls total_ns mean_ns cold_calls cold_total_ns "
    "stage_kernel_sum_percent short",
    "copies": "stage direction calls bytes total_ns mean_ns path device",
    "fills": "stage calls bytes total_ns mean_ns path device",
    "stages": "stage instances gpu_window_ns gpu_busy_ns kernels warm.instances host_warm_mean_ns "
    "warm.gpu_window_ns warm.gpu_busy_ns",
    "operators": "op_name calls nested_calls gpu_inclusive_ns gpu_exclusive_ns host_total_ns "
    "host_self_ns host_mean_ns kernels_inclusive",
    "ranks": "stage who warm_idle.instances warm_idle.ns warm_waiting_ns warm_transfer_ns "
    "host_warm_median_ns instances gpu_busy_ns gpu_idle_ns waiting_ns transfer_ns",
    "late_ranks": "stage who delays.steps.late delays.steps.of delays.steps.median_ns "
    "delays.steps.max_ns collectives late_collectives late_total_ns",
    "steps": "stage path file first steps min_ns mean_ns max_ns",
    "timelines": "stage file step kind lane name class depth start_ns length_ns",
    "collectives": "stage operation members calls time_ns transfer_ns waiting_ns bytes_total "
    "bus_gb_per_s",
    "host_causes": "stage kind frame.function frame.file frame.line called percent error_percent "
    "samples",
    "metrics": "stage metric unit before after change change_percent word",
    "work": "stage per kind class before.name before.ns after.name after.ns change_ns verdict",
}
"""The columns that are shown of a table with many; `columns` names all."""


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
    "takeaways": _Source(["takeaways"]),
    "findings": _Source(["findings"]),
}

_ABSENT = {
    "host": "the host was not sampled; run with profiling.collector.host=on",
    "engine": "no engine marked its steps in this run",
    "operators": "no ranges of operators were recorded; run with --annotate torch-ops",
    "ranks": "fewer than two ranks were recorded",
    "energy": "the run has no readings of NVML",
    "layers": "the run has no parts of the model",
    "step_timelines": "timelines.json, which holds them, is not next to metrics.json, or has none",
}


def table_of(metrics: Metrics, name: str) -> Table:
    """Return a table of a report.

    Raises:
        KeyError: There is no table of this name.
        TableError: Its part of the report has an unexpected form.

    """
    source = SOURCES[name]
    value: Any = metrics
    for key in source.path:
        value = value.get(key) if isinstance(value, dict) else None
    rows = _rows(value, ".".join(source.path))
    if source.inner is not None:
        rows = [
            {**{key: row.get(key) for key in source.keep}, **inner}
            for row in rows
            for inner in _rows(row.get(source.inner), source.inner)
        ]
    change = _CHANGES.get(name)
    if change is not None:
        rows = change(rows, metrics)
    return Table(name, rows, None if rows else _absent(metrics, source.path[0]))


def _absent(metrics: Metrics, key: str) -> str | None:
    """Return why a part of the report is empty, in the words of the report if it has any."""
    part = metrics.get(key)
    said = part.get("absent") if isinstance(part, dict) else None
    if isinstance(said, dict):
        texts = [said.get("reason"), said.get("remedy")]
        return "; ".join(text for text in texts if isinstance(text, str) and text) or None
    return _ABSENT.get(key)


def _rows(value: Any, where: str) -> list[dict[str, Any]]:
    if value is None:
        return []
    if isinstance(value, list) and all(isinstance(row, dict) for row in value):
        return value
    raise TableError(f"`{where}` is not a list of objects")


def _with_names(rows: list[dict[str, Any]], metrics: Metrics) -> list[dict[str, Any]]:
    """Add the short name of each kernel and its symbol."""
    names = _rows(metrics.get("kernel_names"), "kernel_names")

    def of(row: dict[str, Any]) -> dict[str, Any]:
        name = _at(names, row.get("name_index")) or {}
        return {"short": name.get("short"), "mangled": name.get("mangled"), **row}

    return [of(row) for row in rows]


def _timelines(rows: list[dict[str, Any]], _metrics: Metrics) -> list[dict[str, Any]]:
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


def _events(timeline: dict[str, Any]) -> Iterator[dict[str, Any]]:
    names = timeline.get("names") or []

    def event(kind: str, lane: Any, row: dict[str, Any]) -> dict[str, Any]:
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


_CHANGES: dict[str, Callable[[list[dict[str, Any]], Metrics], list[dict[str, Any]]]] = {
    "kernels": _with_names,
    "stage_kernels": _with_names,
    "timelines": _timelines,
}


def _at(values: Any, index: Any) -> Any:
    """Return the value at an index from the report; None if the index is out of range."""
    is_index = isinstance(index, int) and isinstance(values, list)
    return values[index] if is_index and 0 <= index < len(values) else None


def _cells(row: Mapping[str, Any], prefix: str, levels: int = 1) -> Iterator[tuple[str, Any]]:
    if levels > _MAX_LEVELS:
        raise TableError(f"a row has more than {_MAX_LEVELS} levels")
    for name, value in row.items():
        if isinstance(value, dict) and value.keys() in ({"known"}, {"absent"}):
            yield prefix + name, _as_tuple(value.get("known"), levels)
        elif isinstance(value, dict) and value:
            yield from _cells(value, f"{prefix}{name}.", levels + 1)
        else:
            yield prefix + name, _as_tuple(value, levels)


def _dots(name: str) -> Iterator[int]:
    return (index for index, character in enumerate(name) if character == ".")


def _as_tuple(value: Any, levels: int) -> Any:
    if not isinstance(value, (list, dict)):
        return value
    if levels > _MAX_LEVELS:
        raise TableError(f"a row has more than {_MAX_LEVELS} levels")
    if isinstance(value, dict):
        return {name: _as_tuple(inner, levels + 1) for name, inner in value.items()}
    return tuple(_as_tuple(inner, levels + 1) for inner in value)


def _as_list(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_list(inner) for name, inner in value.items()}
    return list(map(_as_list, value)) if isinstance(value, tuple) else value


def _pandas_type(values: list[Any]) -> str | None:
    """Return a nullable type, because pandas would convert integers with gaps to floats."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {bool}:
        return "boolean" if None in values else None
    fits = kinds == {int} and all(abs(value) <= _INT64_MAX for value in values if value is not None)
    return "Int64" if fits and None in values else None


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_plain(value: Any) -> bool:
    return value is not None and not (
        isinstance(value, tuple) and value and isinstance(value[0], (dict, tuple))
    )


def _is_time(column: str) -> bool:
    return column.endswith(("_ns", ".ns"))


def _heading(column: str) -> str:
    text = visible(column)
    return text[:-3] if _is_time(text) else text


def _text(column: str, value: Any) -> str:
    if value is None:
        return "-"
    if _is_time(column) and isinstance(value, (int, float)):
        return _time(value)
    if isinstance(value, float):
        return f"{value:,.2f}" if value == 0 or 1 <= abs(value) < 1e6 else f"{value:.3g}"
    if _is_int(value):
        return f"{value:,}"
    text = visible(value)
    return text if len(text) <= _SHOWN_TEXT else text[: _SHOWN_TEXT - 3] + "..."


def wrapped(lines: Iterable[tuple[str, str]]) -> str:
    """Return labelled texts, wrapped at the width of the terminal, or at 80 where it is unknown."""
    lines = list(lines)
    width = max(shutil.get_terminal_size().columns, _LEAST_WIDTH)
    column = max((len(label) for label, _ in lines), default=0) + 2
    return "\n".join(
        textwrap.fill(
            text,
            width,
            initial_indent=f"{label}:".ljust(column),
            subsequent_indent=" " * column,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for label, text in lines
    )


def lines_html(lines: Iterable[tuple[str, str]]) -> str:
    """Return labelled texts as a table for a notebook."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(label)}</th>"
        f"<td style='text-align:left'>{escape(text)}</td></tr>"
        for label, text in lines
    )
    return f"<table>{rows}</table>"


def visible(value: object) -> str:
    """Return a text in one line, without characters that could control a terminal."""
    words = " ".join(str(value).split())
    return "".join(char if char.isprintable() else "\ufffd" for char in words)


def _time(ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(ns) >= size:
            return f"{ns / size:,.2f} {unit}"
    return f"{ns:,.0f} ns"


def _not_installed(library: str) -> ImportError:
    return ImportError(
        f"to_{library} needs {library}, which cannot be imported: pip install {library}"
    )
