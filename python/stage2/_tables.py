"""Turns the lists of a report into tables with one value per cell."""

from __future__ import annotations

import difflib
import functools
import json
import shutil
import textwrap
from html import escape
from pathlib import Path
from typing import (
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Sequence,
    SupportsIndex,
    Union,
    overload,
)

_SHOWN_ROWS = 20
_SHOWN_COLUMNS = 12
_SHOWN_TEXT = 60
_NAMED_COLUMNS = 3
_INT64_MAX = 2**63 - 1
_LEAST_WIDTH = 40
_NUMBERS = ("pid", "_id", "line", "_index", "rank")
"""The ends of the names of numbers that are not amounts."""
_MAX_LEVELS = 8
"""Levels of lists and objects in a row; reports have four. Polars takes minutes for hundreds."""

Type = Union[str, List[Any], Dict[str, Any]]
"""`int`, `float`, `str`, `bool`, `any`, `[inner]` or `{name: inner}`."""


class TableError(ValueError):
    """The part of a report that should be a table has an unexpected form."""


@functools.lru_cache(maxsize=None)
def _declared() -> dict[str, dict[str, list[Any]]]:
    """Return the columns of all tables: for each its type, and what it is."""
    path = Path(__file__).with_name("_columns.json")
    tables: dict[str, dict[str, list[Any]]] = json.loads(path.read_text(encoding="utf-8"))
    return tables


class Table(List[Dict[str, Any]]):
    """Rows of a report, as a list of dictionaries that all have the same keys.

    `table[0]` is a row, `table[:3]` a table, and `table["stage"]` the list of a column's values.
    A table has the same columns, with the same types, in every run.

    Units end the names of the columns: `_ns` (integer nanoseconds), `_percent`, `_bytes`, `_j`,
    `_w`, `_mhz`, `_per_s`. None means "not known", never 0. A dot separates the levels of the
    report: `launch.grid`. Lists are tuples: a grid is `(132, 1, 1)`. The most important columns
    come first. The source of every table is `metrics.json` of the run, with its `timelines.json`.
    """

    def __init__(
        self, name: str, rows: Sequence[Mapping[str, Any]] = (), absent: str | None = None
    ) -> None:
        """Take rows in the form of the report."""
        declared = _declared().get(name, {})
        flat = [dict(_cells(row, "", declared)) for row in rows]
        names = dict.fromkeys([*declared, *(name for row in flat for name in row)])
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
        self.columns = columns
        """The names of the columns, the most important first."""
        self.absent = absent
        """Why there are no rows, and what to do to get some; None where there are rows."""

    @property
    def descriptions(self) -> dict[str, str]:
        """What each column is, by its name."""
        declared = _declared().get(self.name, {})
        return {name: declared[name][1] if name in declared else "" for name in self.columns}

    def head(self, n: int = 5) -> Table:
        """Return the first `n` rows as a table."""
        return self[: max(n, 0)]

    @overload
    def __getitem__(self, key: SupportsIndex) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, key: slice) -> Table: ...

    @overload
    def __getitem__(self, key: str) -> list[Any]: ...

    def __getitem__(self, key: SupportsIndex | slice | str) -> Any:
        """Return a row by its number, a table of some rows by a slice, or a column by its name.

        Raises:
            KeyError: There is no such column.
            IndexError: There is no such row.

        """
        if isinstance(key, str):
            if key not in self.columns:
                raise KeyError(self._no_column(key))
            return [row[key] for row in self]
        if not isinstance(key, slice):
            return super().__getitem__(key)
        part = Table(self.name, (), self.absent)
        part.extend(super().__getitem__(key))
        part.columns = self.columns
        return part

    def _no_column(self, name: str) -> str:
        # Most often, the level or the unit is missing.
        holds = [column for column in self.columns if name in column]
        like = [*holds, *difflib.get_close_matches(name, self.columns)][:_NAMED_COLUMNS]
        which = f"; did you mean {' or '.join(like)}?" if like else "; `columns` names all"
        return f"the table {self.name!r} has no column {name!r}{which}"

    def __repr__(self) -> str:
        """Show the first rows and the most important columns as text."""
        if not self or not self._shown():
            return self._size()
        columns = []
        for name in self._shown():
            texts = [_heading(name), *self._texts(name)]
            width = max(map(len, texts))
            is_text = self._is_text(name)
            columns.append([text.ljust(width) if is_text else text.rjust(width) for text in texts])
        lines = ("  ".join(line).rstrip() for line in zip(*columns))
        return "\n".join([*lines, self._size()])

    def _repr_html_(self) -> str:
        """Show the first rows and the most important columns in a notebook."""
        if not self or not self._shown():
            return f"<p>{escape(self._size())}</p>"
        columns = []
        for name in self._shown():
            side = "left" if self._is_text(name) else "right"
            style = f" style='text-align:{side};padding:2px 8px'"
            cells = [f"<td{style}>{escape(text)}</td>" for text in self._texts(name)]
            columns.append([f"<th{style}>{escape(_heading(name))}</th>", *cells])
        head, *body = (f"<tr>{''.join(line)}</tr>" for line in zip(*columns))
        return (
            f"<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>"
            f"<p>{escape(self._size())}</p>"
        )

    def _is_text(self, name: str) -> bool:
        return any(isinstance(row[name], (str, tuple)) for row in self[:_SHOWN_ROWS])

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` of shape (rows, columns), with the columns of `columns`.

        The types are `Int64`, `float64`, `boolean` and that of text, whatever the table holds, so
        times stay exact and frames of several runs can be concatenated. A tuple is one object in a
        cell.

        Raises:
            ImportError: pandas is not installed.

        """
        try:
            import pandas
        except ImportError as error:
            raise _not_installed("pandas") from error
        types = {"int": "Int64", "float": "float64", "bool": "boolean"}
        text = pandas.Series([""]).dtype

        def dtype(name: str, values: list[Any]) -> Any:
            kind = self._type(name, values)
            if kind is None:
                return _pandas_type(values)
            return text if kind == "str" else types.get(kind if isinstance(kind, str) else "")

        return pandas.DataFrame(
            {
                name: pandas.Series(values, dtype=dtype(name, values) or "object")
                for name, values in self._by_column()
            }
        )

    def to_polars(self) -> Any:
        """Return a `polars.DataFrame` of shape (rows, columns), with the columns of `columns`.

        The types are the same whatever the table holds, so `polars.concat` takes frames of several
        runs. A tuple is a polars list, and an object in it a struct. A value that may have several
        types is JSON text.

        Raises:
            ImportError: polars is not installed.

        """
        try:
            import polars
        except ImportError as error:
            raise _not_installed("polars") from error

        def dtype(kind: Type) -> Any:
            if isinstance(kind, list):
                return polars.List(dtype(kind[0]))
            if isinstance(kind, dict):
                return polars.Struct({name: dtype(inner) for name, inner in kind.items()})
            types = {"int": polars.Int64, "float": polars.Float64, "bool": polars.Boolean}
            return types.get(kind, polars.String)

        def series(name: str, values: list[Any]) -> Any:
            kind = self._type(name, values)
            if kind is None:
                values = [_as_list(value) for value in values]
                return polars.Series(name, values, strict=False)
            values = [_of_type(value, kind) for value in values]
            return polars.Series(name, values, dtype=dtype(kind), strict=False)

        return polars.DataFrame({name: series(name, values) for name, values in self._by_column()})

    def _type(self, name: str, values: list[Any]) -> Type | None:
        """Return the type of a column; None if it is not declared, or a value has another one."""
        declared = _declared().get(self.name, {}).get(name)
        if declared is None or not all(_fits(value, declared[0]) for value in values):
            return None
        kind: Type = declared[0]
        return kind

    def _by_column(self) -> Iterator[tuple[str, list[Any]]]:
        for name in self.columns:
            yield name, [row[name] for row in self]

    def _size(self) -> str:
        """Return the number of rows and columns, or the reason why there are none."""
        if not self:
            return f"{self.name}: no rows" + (f": {self.absent}" if self.absent else "")
        shown = min(len(self), _SHOWN_ROWS)
        rows = f"{len(self)} row{'' if len(self) == 1 else 's'}"
        of_rows = f"{shown} of {rows}" if shown < len(self) else rows
        cut = any(name.endswith("_ns") for name in self._shown())
        note = "; the headings leave out `_ns`" if cut else ""
        return f"{self.name}: {of_rows}, {len(self.columns)} columns{note}"

    def _shown(self) -> list[str]:
        """Return the names of the columns to show."""
        rows = self[:_SHOWN_ROWS]
        first = [name for name in _FIRST.get(self.name, "").split() if name in self.columns]
        known = [name for name in first if any(row[name] is not None for row in rows)]
        others = (name for name in self.columns if any(_is_plain(row[name]) for row in rows))
        return (known or list(others))[:_SHOWN_COLUMNS]

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
    "stages": "stage per p50_ns p99_ns max_ns mean_ns tokens_per_s steps floor_ns mean_over_floor "
    "idle_percent instances host_first_ns gpu_window_ns gpu_busy_ns gpu_idle_ns kernels "
    "kernel_sum_ns recorded_instances",
    "recommendations": "text stage faster saves_ns saves_error_ns mean_ns per tokens_per_s_factor "
    "concerns_percent why",
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
    "coverage": "file pid ending counts.kernels counts.attributed counts.outside_ranges "
    "counts.unattributed counts.dropped_by_cupti counts.range_events_lost end_reason gpu_off",
    "findings": "severity what why remedy subject id",
    "metrics": "stage metric unit before after change change_percent word",
    "work": "stage per kind class before.name before.ns after.name after.ns change_ns verdict",
}
"""The columns that are shown of a table with many; `columns` names all."""


def _cells(
    row: Mapping[str, Any], prefix: str, whole: Mapping[str, Any], levels: int = 1
) -> Iterator[tuple[str, Any]]:
    """Give the columns of a row. Objects become columns, but those of a name in `whole`."""
    if levels > _MAX_LEVELS:
        raise TableError(f"a row has more than {_MAX_LEVELS} levels")
    for name, value in row.items():
        column = prefix + name
        if isinstance(value, dict) and value.keys() in ({"known"}, {"absent"}):
            value = value.get("known")
        if isinstance(value, dict) and value and column not in whole:
            yield from _cells(value, f"{column}.", whole, levels + 1)
        else:
            yield column, _as_tuple(value, levels)


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


def _fits(value: Any, kind: Type) -> bool:
    """Tell whether a value is None or of a declared type."""
    if value is None or kind == "any":
        return True
    if isinstance(kind, list):
        return isinstance(value, tuple) and all(_fits(inner, kind[0]) for inner in value)
    if isinstance(kind, dict):
        return isinstance(value, dict) and all(
            _fits(value.get(name), inner) for name, inner in kind.items()
        )
    if kind == "int":
        return _is_int(value) and abs(value) <= _INT64_MAX
    if kind == "float":
        return isinstance(value, float) or (_is_int(value) and abs(value) <= _INT64_MAX)
    return isinstance(value, bool if kind == "bool" else str)


def _of_type(value: Any, kind: Type) -> Any:
    """Return a value that fits in the form that polars takes."""
    if value is None:
        return None
    if isinstance(kind, list):
        return [_of_type(inner, kind[0]) for inner in value]
    if isinstance(kind, dict):
        return {name: _of_type(value.get(name), inner) for name, inner in kind.items()}
    if kind == "any":
        return value if isinstance(value, str) else json.dumps(value)
    return float(value) if kind == "float" else value


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
        return str(value) if column.endswith(_NUMBERS) else f"{value:,}"
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
