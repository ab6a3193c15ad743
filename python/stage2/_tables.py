"""Turns the lists of a report into tables with one value per cell."""

from __future__ import annotations

import difflib
import functools
import itertools
import json
import re
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    AbstractSet,
    Any,
    Callable,
    Collection,
    Container,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NoReturn,
    Sequence,
    SupportsIndex,
    Union,
    overload,
)

from ._show import FIRST, LEVELS, html_of, order_of, row_html, row_text, sorted_as, text_of

if TYPE_CHECKING:
    import pandas
    import polars

_NAMED = 3
_LISTED = 6
_SURELY_SHOWN = 5
"""So many columns fit into every terminal."""
_LISTED_TEXT = 40
"""Longer names, such as those of kernels, are cut where names are listed."""
_OF_FRAMES = {
    "dtypes": "descriptions",
    "empty": "not table",
    "filter": "where",
    "get_column": "[...] with the name of a column",
    "height": "len(table)",
    "iat": "[0]",
    "iloc": "[:10]",
    "info": "descriptions",
    "is_empty": "not table",
    "iter_rows": "for row in table",
    "iterrows": "for row in table",
    "itertuples": "for row in table",
    "items": "columns",
    "keys": "columns",
    "limit": "head",
    "loc": "where",
    "nlargest": "sort_by",
    "nsmallest": "sort_by",
    "query": "where",
    "rows": "list(table)",
    "schema": "descriptions",
    "select": "[[...]] with names of columns",
    "slice": "[:10]",
    "sort_values": "sort_by",
    "tail": "[-5:]",
    "to_dict": "list(table)",
    "to_dicts": "list(table)",
    "top_k": "sort_by",
    "values": "list(table)",
    "width": "columns",
}
"""What tables have instead of what pandas and polars users look for."""
_CALLS = ("calls", "instances")
_TOTALS = ("total_ns", "host_total_ns", "gpu_inclusive_ns")
_MEANS = ("mean_ns", "host_mean_ns", "host_warm_mean_ns")
_DURATIONS = ("total_ns", "mean_ns", "length_ns", *_MEANS, *_TOTALS)
_MEDIANS = ("p50_ns", "host_warm_median_ns", "warm_median_ns")
_NAMES = ("short", "kernel", "metric", "stage", "op_name", "operation", "cause")
_SYNONYMS = {
    "average": _MEANS,
    "avg": _MEANS,
    "count": _CALLS,
    "dur": _DURATIONS,
    "duration": _DURATIONS,
    "gpu": ("device", "devices"),
    "itl": ("token_ns",),
    "median": _MEDIANS,
    "n": _CALLS,
    "name": _NAMES,
    "ncalls": _CALLS,
    "occurrences": _CALLS,
    "share": ("kernel_sum_percent", "stage_kernel_sum_percent", "percent"),
    "sum": _TOTALS,
    "throughput": ("tokens_per_s",),
    "time": _DURATIONS,
    "total": _TOTALS,
    "tpot": ("token_ns",),
    "tps": ("tokens_per_s",),
    "ttft": ("first_token_ns",),
}
"""What other tools and metrics call columns, without a unit, and what these are called here."""
_TIME_UNIT = re.compile(r"_(ns|us|ms|s)$")
_SHORT_WORD = 5
"""A word of up to this length is like many others."""
_AGGREGATES = ("max", "mean", "median", "min", "std", "sum")
_LIKE_ATTRIBUTES = 0.82
"""What is less like an attribute (`describe`, `sample`) is rather looked for in frames."""
_INTERVALS = ("interval", "interval_percent")
"""Columns of pairs, which are two columns in frames, so that they compare and sort."""
_INT64_MAX = 2**63 - 1
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


class _Row(Dict[str, Any]):
    """A row, or an object in one: read-only, because all parts of a table share it."""

    _table = ""
    """The name of the table; empty: it is an object in a row."""

    if not TYPE_CHECKING:

        def _refuse(self, *_values: Any, **_options: Any) -> NoReturn:
            """Raise a TypeError: a row is read-only."""
            raise TypeError(
                "the rows of a table are read-only: `dict(row)` is a copy that you can change"
            )

        clear = pop = popitem = setdefault = update = _refuse
        __delitem__ = __ior__ = __setitem__ = _refuse

        def __getattr__(self, name: str) -> NoReturn:
            """Raise an error that explains how to get a value."""
            column = _column_of(name, self)
            hint = f"; use `row[{column!r}]`" if column else ""
            if column is None and self:
                hint = f"; its values have the names of columns: `row[{next(iter(self))!r}]`, ..."
            error = AttributeError(f"a row has no attribute {name!r}{hint}")
            # Otherwise, tracebacks of Python 3.10 and later add their own suggestion.
            error.obj = self
            raise error

    def __missing__(self, name: object) -> NoReturn:
        """Raise an error that suggests similar names."""
        if not isinstance(name, str):
            raise KeyError(f"the row has no {name!r}: it takes the name of a column")
        column = _column_of(name, self)
        hint = f"; did you mean {column!r}?" if column else _like(name, self)
        raise KeyError(f"the row has no {name!r}{hint}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the row without methods that change it."""
        return _row_of, (self._table, dict(self))

    def __repr__(self) -> str:
        """Show the most important values that are known, one per line."""
        return row_text(self._table, self) if self._table else super().__repr__()

    def _repr_html_(self) -> str | None:
        """Show the same in a notebook."""
        return row_html(self._table, self) if self._table else None


def _row_of(table: str, values: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> _Row:
    """Return a row of the table with this name."""
    row = _Row(values)
    row._table = table
    return row


class _Column(List[Any]):
    """The values of a column: a list that explains what only the columns of frames have."""

    def __init__(self, name: str, values: Iterable[Any]) -> None:
        """Create the column from the values of all rows."""
        super().__init__(values)
        self._name = name

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Raise an error that leads to a frame."""
            error = AttributeError(f"a list has no attribute {name!r}; {self._instead()}")
            # Otherwise, tracebacks of Python 3.10 and later add their own suggestion.
            error.obj = self
            raise error

        def _of_each(self, other: Any) -> Any:
            """Raise a TypeError: a list does not compare or calculate value by value."""
            if isinstance(other, (int, float, str, _Column)):
                raise TypeError(f"a list does not calculate value by value; {self._instead()}")
            return NotImplemented

        __lt__ = __le__ = __gt__ = __ge__ = __sub__ = __rsub__ = _of_each
        __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = __pow__ = __and__ = __or__ = _of_each
        # Those of lists would repeat the whole column.
        __mul__ = __rmul__ = __imul__ = _of_each

        def __add__(self, other: Any) -> Any:
            return super().__add__(other) if isinstance(other, list) else self._of_each(other)

        __radd__ = _of_each

        def __neg__(self) -> NoReturn:
            return self._of_each(0)

        def _instead(self) -> str:
            name = self.__dict__.get("_name")
            return (
                f"`where(lambda row: row[{name!r}] > ...)` selects rows, and "
                f"`to_pandas()[{name!r}]` is a column to calculate with"
            )


class Table(List[Mapping[str, Any]]):
    """Rows of a report, as a list of dictionaries that all have the same keys.

    `table[0]` is a row, `table[:3]` a table, `table["stage"]` the list of a column's values, and
    `table[["stage", "p50_ns"]]` a table of these columns, in this order.
    `table.row(stage="decode")` is the row with that value, and `table.where(stage="decode")` the
    table of all such rows. `table.sort_by("total_ns", descending=True)` is a sorted table. A table
    has the same columns, with the same types, in every run. It is read-only, as its rows are:
    `list(table)` and `dict(row)` can be changed.

    Units end the names of the columns: `_ns` (integer nanoseconds), `_percent`, `_bytes`, `_j`,
    `_w`, `_mhz`, `_per_s`. None means "unknown"; it never stands for 0. A dot separates the levels
    of the report: `launch.grid`. Lists are tuples: a grid is `(132, 1, 1)`. The most important
    columns come first. The source of every table is `metrics.json` of the run, with its
    `timelines.json`.
    """

    def __init__(
        self, name: str, rows: Sequence[Mapping[str, Any]] = (), absent: str | None = None
    ) -> None:
        """Create a table from rows in the form that the report has."""
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
        first = [column for column in FIRST.get(name, "").split() if column in known]
        columns = [*first, *(column for column in known if column not in first)]
        super().__init__(
            _row_of(name, ((column, row.get(column)) for column in columns)) for row in flat
        )
        self.name = name
        """The name of the table, as `Run.table` takes it."""
        self.columns = columns
        """The names of the columns, the most important first."""
        self.absent = absent
        """Why there are no rows, and what to do to get some; None where there are rows."""
        self._is_chosen = False
        """Whether someone chose the columns: then all are shown, in their order."""
        self._is_whole = True
        """Whether nobody chose rows: then those that matter are shown."""
        self._note = ""
        """A remark on the rows that were chosen, which is printed below them."""
        self._shown: list[str] = []
        """The order in which columns are shown, which parts of a table share; empty: not asked."""

    @property
    def descriptions(self) -> dict[str, str]:
        """What each column is, by its name."""
        declared = _declared().get(self.name, {})
        return {name: declared[name][1] if name in declared else "" for name in self.columns}

    @property
    def groups(self) -> dict[str, list[str]]:
        """The names of the columns by their first level: `launch` has `launch.grid`.

        Those without a level are in the group "".
        """
        groups: dict[str, list[str]] = {}
        for name in self.columns:
            groups.setdefault(name.split(".")[0] if "." in name else "", []).append(name)
        return groups

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows, and of columns."""
        return len(self), len(self.columns)

    def head(self, n: int = 5) -> Table:
        """Return the first `n` rows as a table; if `n` is negative, all but the last `-n`.

        Raises:
            TypeError: `n` is not an integer.

        """
        if not isinstance(n, int):
            raise TypeError(f"n must be an integer, not {n!r}")
        return self[:n]

    def where(self, *conditions: Callable[[Mapping[str, Any]], Any], **values: Any) -> Table:
        """Return the rows that have all these values, as a table; if there are none, say why.

        A list, a set or a range is any of its values: `stages.where(stage=["decode", "mixed"])`.
        For a column with a dot in its name: `kernels.where(**{"launch.grid": (132, 1, 1)})`. A
        condition is a function of a row: `kernels.where(lambda row: row["calls"] > 100)`.

        Raises:
            KeyError: There is no such column.
            TypeError: A condition is not a function, or does not expect None, or a value is one.

        """
        for condition in conditions:
            if not callable(condition):
                raise TypeError(
                    f"where takes values of columns ({self.columns[0]}=...) and functions of a "
                    f"row, not {condition!r}"
                )
        for name in values:
            if name not in self.columns:
                raise KeyError(self._no_column(name))
            if callable(values[name]):
                raise TypeError(
                    f"{name} takes a value or a list of values; a function gets the whole row: "
                    f"`where(lambda row: row[{name!r}] ...)`"
                )
        asked = {name: _any_of(value) for name, value in values.items()}
        found = self._of(row for row in self if all(row[name] in asked[name] for name in asked))
        found._show_early(name for name in values if len({str(row[name]) for row in found}) > 1)
        for condition in conditions:
            try:
                found = found._of(list(filter(condition, found)))
            except TypeError as error:
                if "NoneType" not in str(error):
                    raise
                raise TypeError(
                    f"{error}: a value is None (not known) in some row; write "
                    "`where(lambda row: row[...] is not None and row[...] > ...)`"
                ) from error
        if self and not found:
            wanted = [f"has {self._wanted(values)}"] if values else []
            wanted = ["meets the condition", *wanted] if conditions else wanted
            found.absent = f"no row {' and '.join(wanted)}"
        elif found:
            found._note = self._without(values)
        return found

    def _without(self, asked: Mapping[str, Any]) -> str:
        """Return which of several values no row has, for instance because it is misspelled."""
        for name, value in asked.items():
            several = value if isinstance(value, (list, tuple, AbstractSet)) else ()
            for one in several:
                if isinstance(one, str) and all(row[name] != one for row in self):
                    return f"no row has {self._wanted({name: one})}"
        return ""

    def _wanted(self, asked: Mapping[str, Any]) -> str:
        """Return the values that were asked for, and those of a column that lacks one."""
        said = ", ".join(f"{name}={value!r}" for name, value in asked.items())
        for name, value in asked.items():
            # By their texts, because not every value can be hashed.
            known = list({str(row[name]): row[name] for row in self}.values())
            known = [other for other in known if other is not None]
            wanted = _any_of(value)
            if not known and None not in wanted:
                return f"{said}; {name!r} is None in all rows"
            if None in wanted or any(one in wanted for one in known):
                continue
            if len(known) > _LISTED and all(isinstance(other, (int, float)) for other in known):
                kind = "numbers, " if isinstance(value, str) else ""
                return f"{said}; the values of {name!r} are {kind}{min(known)} to {max(known)}"
            texts = [other for other in known if isinstance(other, str)]
            close = close_to(value, texts) if isinstance(value, str) else ""
            return said + (close or f"; the values of {name!r} are {_listed(known)}")
        return said

    def row(self, *others: NoReturn, **values: Any) -> Mapping[str, Any]:
        """Return the only row that has all these values: `stages.row(stage="decode")`.

        Raises:
            KeyError: There is no such column.
            TypeError: No value is given.
            ValueError: No row has these values, or several have them.

        """
        if others or not values:
            raise TypeError(
                f"row needs the value of a column: {self.columns[0]}=...; `table[0]` is a row by "
                "its number"
            )
        found = self.where(**values)
        if len(found) == 1:
            return found[0]
        said = ", ".join(f"{name}={value!r}" for name, value in values.items())
        if found:
            raise ValueError(
                f"{len(found)} rows of {self.name!r} have {said}; `where` returns them as a table"
            )
        more = f"{said}: {self.absent}" if self.absent else self._wanted(values)
        raise ValueError(f"no row of {self.name!r} has {more}")

    def sort_by(
        self, *columns: str | Iterable[str], descending: bool = False, **others: NoReturn
    ) -> Table:
        """Return a table with the rows in the order of these columns, the first one before others.

        The names can also be in a list. Rows without a value (None) come last, and so do changes of
        rows that are not comparable. Rows with the same values keep their order. Changes of shares
        count in points, as they are shown.

        Raises:
            KeyError: There is no such column.
            TypeError: No column is named, the values of one cannot be compared, or an argument has
                the wrong type or name.

        """
        first = [column for column in columns if isinstance(column, str)]
        call = f"sort_by({(first or self.columns or ['COLUMN'])[0]!r}, descending=True)"
        if others:
            raise TypeError(f"sort_by takes no {next(iter(others))}=: use `{call}`")
        if isinstance(descending, (list, tuple)):
            raise TypeError(
                "descending is one value for all columns; for others, sort several times, by the "
                "first column last"
            )
        # numpy has its own type.
        if type(descending).__name__ not in ("bool", "bool_"):
            raise TypeError(f"descending must be True or False, not {descending!r}")
        names: list[Any] = []
        for column in columns:
            several = isinstance(column, Iterable) and not isinstance(column, str)
            names += column if several else [column]
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"sort_by takes names of columns, not {name!r}: use `{call}`")
        if not names:
            raise TypeError(f"sort_by needs the name of a column: {self.columns[0]!r}, ...")
        rows = list(self)
        # From the last column to the first, because each sort keeps the order of equal rows.
        for name in reversed(names):
            if name[:1] == "-" and name[1:] in self.columns:
                call = f"sort_by({name[1:]!r}, descending=True)"
                raise KeyError(f"a column is sorted from the largest value on by `{call}`")
            if name not in self.columns:
                raise KeyError(self._no_column(name))
            values = [(sorted_as(self.name, name, row), row) for row in rows]
            known = [pair for pair in values if pair[0] is not None]
            try:
                known.sort(key=lambda pair: pair[0], reverse=bool(descending))
            except TypeError as error:
                raise TypeError(f"the values of {name!r} cannot be compared: {error}") from error
            unknown = [row for value, row in values if value is None]
            rows = [*(row for _, row in known), *unknown]
        found = self._of(rows)
        found._show_early(names)
        return found

    def _show_early(self, asked: Iterable[str]) -> None:
        """Show these columns behind the names of the rows: someone sorts by them, or filters."""
        order = self._shown
        late = [name for name in dict.fromkeys(asked) if name not in order[:_SURELY_SHOWN]]
        if not order or not late:
            return
        others = [name for name in order if name not in late]
        numbers = (at for at, name in enumerate(others) if any(map(_is_number, self[name])))
        names = next(numbers, len(others))
        self._shown = [*others[:names], *late, *others[names:]]

    def _ipython_key_completions_(self) -> list[str]:
        """Complete names of columns at a prompt: `table["<Tab>`."""
        return self.columns

    def __dir__(self) -> list[str]:
        """Name the attributes, without the methods of lists that a table refuses."""
        refused = {name for name, method in vars(Table).items() if method is Table._refuse}
        return [name for name in super().__dir__() if name not in refused]

    def copy(self) -> Table:
        """Return a table of the same rows."""
        same = self[:]
        same._is_whole = self._is_whole
        return same

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the table without methods that change it."""
        state = (self._is_chosen, self._is_whole, self._shown)
        return _restored, (self.name, list(self), self.columns, self.absent, *state)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Raise an error that explains how to get a column, or suggests similar attributes."""
            known = [other for other in dir(self) if not other.startswith("_")]
            said = f"the table {self.__dict__.get('name')!r} has no attribute {name!r}"
            columns = self.__dict__.get("columns", ())
            column = _column_of(name, columns, LEVELS.get(self.__dict__.get("name"), ""))
            if column is not None:
                hint = f": `[{column!r}]` gives the list of the column's values"
                if name in _AGGREGATES:
                    hint += f", and frames calculate: `to_pandas()[...].{name}()`"
            elif name in _OF_FRAMES:
                hint = f": use `{_OF_FRAMES[name]}`, or a frame (`to_pandas()`, `to_polars()`)"
            elif _meant(name, columns) and name not in _AGGREGATES:
                hint = _like(name, columns).replace("mean '", "mean the column '")
            else:
                like = close_to(name, known, cutoff=_LIKE_ATTRIBUTES)
                hint = like or f"; if frames have it, use `to_pandas().{name}` (or `to_polars()`)"
            error = AttributeError(said + hint)
            # Otherwise, tracebacks of Python 3.10 and later add their own suggestion.
            error.obj = self
            raise error

    def _refuse(self, *values: Any, **_options: Any) -> NoReturn:
        """Raise a TypeError: a table is read-only."""
        named = [name for name in values if isinstance(name, str) and name in self.columns]
        column = [*named, *self.columns, "COLUMN"][0]
        raise TypeError(
            f"the table {self.name!r} is read-only: `sort_by({column!r})` returns a sorted table, "
            "`where` and slices one of some rows, and `list(table)` a list that you can change"
        )

    if not TYPE_CHECKING:
        append = clear = extend = insert = pop = remove = reverse = sort = _refuse
        __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse
        # Those of lists would give lists, which print all rows in full.
        __mul__ = __rmul__ = _refuse

        def __radd__(self, other: Any) -> NoReturn:
            self.__add__(other)

    def __add__(self, other: Any) -> Table:  # type: ignore[override]
        """Return a table with the rows of both, for instance of two runs.

        Raises:
            TypeError: The other one is not a table with the same name.

        """
        if not isinstance(other, Table) or other.name != self.name:
            what = f"the table {other.name!r}" if isinstance(other, Table) else _listed([other])
            raise TypeError(
                f"only another table {self.name!r} can be added to the table {self.name!r}, not "
                f"{what}"
            )
        columns = list(dict.fromkeys([*self.columns, *other.columns]))
        rows = ({name: row.get(name) for name in columns} for row in [*self, *other])
        whole = self._of(rows)
        whole.columns, whole._is_chosen = columns, self._is_chosen and other._is_chosen
        whole._is_whole = self._is_whole and other._is_whole
        whole.absent = self.absent if not whole else None
        return whole

    @overload
    def __getitem__(self, key: SupportsIndex) -> Mapping[str, Any]: ...

    @overload
    def __getitem__(self, key: slice | list[str]) -> Table: ...

    @overload
    def __getitem__(self, key: str) -> list[Any]: ...

    def __getitem__(self, key: SupportsIndex | slice | str | list[str]) -> Any:
        """Return a row by its number, a table of some rows by a slice, or a column by its name.

        A list of names gives a table of these columns, in this order.

        Raises:
            KeyError: There is no such column.
            IndexError: There is no such row.

        """
        if isinstance(key, slice):
            return self._of(super().__getitem__(key))
        names: Any = [key] if isinstance(key, str) else key
        if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
            for name in names:
                if name not in self.columns:
                    raise KeyError(self._no_column(name))
            if isinstance(key, str):
                return _Column(key, (row[key] for row in self))
            part = self._of({name: row[name] for name in names} for row in self)
            part.columns, part._is_chosen = list(dict.fromkeys(names)), True
            return part
        if isinstance(key, (bool, list, str)) or not hasattr(key, "__index__"):
            raise TypeError(
                "a table takes the number of a row, a slice, the name of a column or a list of "
                f"names, not {key!r}; `where` selects rows"
            )
        try:
            return super().__getitem__(key)
        except IndexError:
            rows = f"{len(self)} row{'' if len(self) == 1 else 's'}"
            raise IndexError(f"the table {self.name!r} has {rows}, and no row {key}") from None

    def __contains__(self, key: object) -> bool:
        """Tell whether there is a column of this name, or this row."""
        return key in self.columns if isinstance(key, str) else super().__contains__(key)

    def _of(self, rows: Iterable[Mapping[str, Any]]) -> Table:
        """Return a table of the same name and columns with these rows."""
        order = [] if self._is_chosen else self._order()
        return _restored(
            self.name, rows, self.columns, self.absent, self._is_chosen, is_whole=False, shown=order
        )

    def _order(self) -> list[str]:
        """Return the order in which columns are shown, which does not depend on the rows chosen."""
        self._shown = self._shown or order_of(self)
        return self._shown

    def _no_column(self, name: str) -> str:
        said = f"the table {self.name!r} has no column {name!r}"
        column = _column_of(name, self.columns, LEVELS.get(self.name, ""))
        if column is not None:
            return f"{said}; did you mean {column!r}?"
        for column in self.columns:
            if any(row[column] == name for row in self):
                if column.isidentifier():
                    which = f"row({column}={name!r})` or `where({column}={name!r})"
                else:
                    which = f"where(**{{{column!r}: {name!r}}})"
                return f"{said}: it is a value of {column!r}; select rows with `{which}`"
        all_names = f"; `columns` has all names: {_listed(self.columns)}"
        return said + (_like(name, self.columns) or all_names)

    def __repr__(self) -> str:
        """Show the first rows, and the most important columns that fit into the terminal."""
        return text_of(self)

    def _repr_html_(self) -> str:
        """Show the first rows and the most important columns in a notebook."""
        return html_of(self)

    def to_pandas(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """Return a `pandas.DataFrame` of shape (rows, columns), with all or with these columns.

        The types are `Int64`, `float64`, `boolean` and the type that pandas gives text, whatever
        the table holds, so times stay exact and frames of several runs can be concatenated. A tuple
        is one object in a cell, but an interval is two columns: `interval.low`, `interval.high`.

        Raises:
            ImportError: pandas is not installed.
            KeyError: There is no such column.

        """
        try:
            import pandas
        except ImportError as error:
            raise _not_installed("pandas") from error
        if columns is not None:
            return self._only(columns).to_pandas()
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

    def to_polars(self, columns: Sequence[str] | None = None) -> polars.DataFrame:
        """Return a `polars.DataFrame` of shape (rows, columns), with all or with these columns.

        The types are the same whatever the table holds, so `polars.concat` takes frames of several
        runs. A tuple is a polars list, and an object in it a struct, but an interval is two
        columns: `interval.low`, `interval.high`. A value that may have several types is JSON text.

        Raises:
            ImportError: polars is not installed.
            KeyError: There is no such column.

        """
        try:
            import polars
        except ImportError as error:
            raise _not_installed("polars") from error
        if columns is not None:
            return self._only(columns).to_polars()

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

    def _only(self, columns: Any) -> Table:
        """Return a table of these columns, whose names may be in any kind of list."""
        names = [columns] if isinstance(columns, str) else columns
        if not isinstance(names, Iterable):
            raise TypeError(f"columns must be a list of names of columns, not {columns!r}")
        return self[list(names)]

    def _type(self, name: str, values: list[Any]) -> Type | None:
        """Return the type of a column; None if it is not declared, or a value has another one."""
        interval = name.rpartition(".")[0] in _INTERVALS
        declared = ["float"] if interval else _declared().get(self.name, {}).get(name)
        if declared is None or not all(_fits(value, declared[0]) for value in values):
            return None
        kind: Type = declared[0]
        return kind

    def _by_column(self) -> Iterator[tuple[str, list[Any]]]:
        for name in self.columns:
            values = [row[name] for row in self]
            if name not in _INTERVALS:
                yield name, values
                continue
            for at, end in enumerate(("low", "high")):
                yield f"{name}.{end}", [pair and pair[at] for pair in values]


def _restored(
    name: str,
    rows: Iterable[Mapping[str, Any]],
    columns: list[str],
    absent: str | None,
    is_chosen: bool = False,
    is_whole: bool = True,
    shown: Sequence[str] = (),
) -> Table:
    """Return a table of rows that were in one."""
    part = Table(name, (), absent)
    list.extend(part, (row if isinstance(row, _Row) else _row_of(name, row) for row in rows))
    part.columns, part._is_chosen = columns, is_chosen
    part._is_whole, part._shown = is_whole, list(shown)
    return part


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
        return _Row((name, _as_tuple(inner, levels + 1)) for name, inner in value.items())
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


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or _is_int(value)


def close_to(
    name: object, known: Iterable[str], first: Iterable[str] = (), cutoff: float | None = None
) -> str:
    """Return `; did you mean ...?` of a name that is not known, or nothing."""
    if cutoff is None:
        cutoff = 0.6 if len(str(name)) > _SHORT_WORD else 0.75
    close = difflib.get_close_matches(str(name), list(known), cutoff=cutoff)
    like = list(dict.fromkeys([*first, *close]))[:_NAMED]
    return f"; did you mean {' or '.join(map(repr, like))}?" if like else ""


def _meant(name: str, columns: Collection[str]) -> list[str]:
    """Return the columns that another word for them means."""
    synonyms = _SYNONYMS.get(_TIME_UNIT.sub("", name.lower()), ())
    return [column for column in dict.fromkeys(synonyms) if column in columns][:2]


def _like(name: str, columns: Collection[str]) -> str:
    """Return `; did you mean ...?`. Most often, the level or the unit is missing."""
    meant = _meant(name, columns)
    if meant:
        return close_to("", (), meant)
    # From the beginning of a word on: `x` is no `max_ns`.
    within = re.compile(rf"(^|[._]){re.escape(name)}") if len(name) > 1 else None
    holds = [column for column in columns if within and within.search(column)]
    return close_to(name, columns, holds)


def _column_of(name: str, columns: Collection[str], level: str = "") -> str | None:
    """Return the column that is called so, or has this heading: without a unit or a level."""
    percent = f" {name}".replace(" %", "_percent").lstrip(" _")
    units = (name, f"{name}_ns", f"{name}.ns", percent)
    wholes = (*units, f"{level}{name}", f"{level}{name}_ns", percent.replace("idle_", "", 1))
    return next((whole for whole in wholes if whole in columns), None)


def _any_of(value: Any) -> Container[Any]:
    """Return the values that one in `where` stands for. A list or a tuple may also be a shape."""
    if isinstance(value, range):
        return value
    # A column of a frame, or an array.
    to_list = getattr(value, "tolist", None) or getattr(value, "to_list", None)
    value = to_list() if to_list else value
    several = list(value) if isinstance(value, (list, tuple, AbstractSet)) else []
    return [_as_tuple(one, 1) for one in [value, *several]]


def _listed(names: Iterable[object]) -> str:
    """Return as many names as fit a line or two, and how many others there are."""
    texts = [repr(name) for name in names]
    texts = [
        text if len(text) <= _LISTED_TEXT else f"{text[:38]}\u2026{text[-1]}" for text in texts
    ]
    ends = itertools.accumulate(len(text) + len(", ") for text in texts)
    fit = sum(end <= _LISTED * _LISTED_TEXT // 2 for end in list(ends)[:_LISTED])
    more = len(texts) - fit
    return ", ".join(texts[:fit]) + (f" and {more} more" if more > 0 else "")


def _not_installed(library: str) -> ImportError:
    return ImportError(
        f"to_{library} needs {library}, which cannot be imported: pip install {library}"
    )
