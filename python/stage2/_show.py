"""How tables and lines are shown: as text that fits the terminal, and as HTML."""

from __future__ import annotations

import itertools
import re
import shutil
import textwrap
from html import escape
from typing import TYPE_CHECKING, Any, Collection, Iterable, Iterator, Mapping, Sequence

if TYPE_CHECKING:
    from ._tables import Table

_SHOWN_ROWS = 20
_SHOWN_COLUMNS = 12
_SHOWN_TEXT = 60
_NAMED_IN_HTML = 90
"""Characters of the line that names columns which are not shown."""
_SHOWN_SENTENCES = 90
_LEAST_TEXT = 12
"""A text that is cut to less than this cannot be recognised."""
_EASY_TEXT = 24
"""A text that is cut to this much leaves room for other columns."""
_EASY_NAME = 46
"""So long are most names of kernels, whose parts (tiles, layouts) tell them apart."""
_LEAST_WIDTH = 40
_PROSE_CHARS = 2000
"""No sentence of a report is as long, but a file may hold anything."""
_SPACE = "  "
_SHARE = "_percent"
_FACTORS = ("faster", "_factor", "_over_floor")
_POINTS = " points"
_CUT = "\N{HORIZONTAL ELLIPSIS}"
_NO_BREAK = "\N{NO-BREAK SPACE}"
_WORD_ENDS = re.compile(r"(?<=[_/.:=,-])(?=[^_/.:=,-])|(?<=[a-z0-9])(?=[A-Z])")
_NUMBERS = ("pid", "_id", "line", "_index", "rank")
"""The ends of the names of numbers that are not amounts."""
_PLACES = ("device", "path", "file")
"""Columns that are shown only if they distinguish rows, unless they come first."""
_PROSE = ("text", "why", "what", "remedy", "recommendation", "cause", "energy_absent")
"""Columns of sentences, which wrap."""
_BELOW = {
    "findings": ("what", ["why", "remedy"]),
    "takeaways": ("text", ["recommendation"]),
    "recommendations": ("text", ["why"]),
}
"""Columns of sentences that stand below those of another one, because each needs the width."""
_BRIEF = {"recommendations": 3}
"""Tables that omit these columns on a terminal if there are more rows: they fill the screen."""
_REPEATED = {
    "kernels": (["stage", "short"], ["launch.grid", "device"]),
    "collectives": (["stage", "operation"], ["communicator"]),
}
"""The last columns stand behind the first ones if they tell rows apart that those do not."""
LEVELS = {"late_ranks": "delays.", "coverage": "counts."}
"""The level that headings omit."""
_KEPT = ("before", "after", "before.ns", "after.ns", "change_percent", "word")
"""Columns of a comparison for which names make room; the last ones stay longest."""
_AMOUNTS = ("calls", "total_ns", "mean_ns")
"""Columns for which names of kernels make room."""
_UNCHANGED = ["none", "unknown"]
_HIDDEN: dict[str, tuple[str, str | list[str], str]] = {
    "stages": ("apart", "operator", "without operators that lie in no stage"),
    "metrics": ("verdict", _UNCHANGED, "that changed beyond noise"),
    "work": ("verdict", _UNCHANGED, "that changed beyond noise"),
}
"""Rows that would hide the others in a whole table: a column, its values, and what is left."""
_CHANGES = ("change", "interval")
_RUNS = ("before", "after", "before_runs", "after_runs")
_NOISE = ("noise.threshold", "noise.single")
"""Columns of metrics whose unit is in another column; changes and noise of a share are points."""
_NS = {"ns": 1.0, "ms": 1e6}
_SUFFIXES = {"percent": " %", "per_second": "/s", "joule": " J", "watt": " W", "mhz": " MHz"}
_FRACTIONS = re.compile(r"(^|[._])(mfu|mbu|tensor_active)(_|$)|_share$")
"""Shares of 1, which are shown in percent, as all shares."""
_EVEN_IF_UNKNOWN = ("energy_j", "mean_power_w")
"""Columns that are shown even if they are None in all rows, because they are what is looked for."""

FIRST: dict[str, str] = {
    "kernels": "stage short calls total_ns mean_ns class launch.grid launch.block p50_ns p99_ns "
    "min_ns max_ns kernel_sum_percent device path cold_calls counters.roofline.bound",
    "stage_kernels": "stage short calls total_ns mean_ns stage_kernel_sum_percent cold_calls "
    "cold_total_ns",
    "copies": "stage direction calls bytes total_ns mean_ns path device",
    "fills": "stage calls bytes total_ns mean_ns path device",
    "stages": "stage per p50_ns p99_ns max_ns mean_ns tokens_per_s tokens_counted steps floor_ns "
    "mean_over_floor idle_percent instances host_first_ns gpu_window_ns gpu_busy_ns gpu_idle_ns "
    "kernels kernel_sum_ns recorded_instances",
    "recommendations": "stage gain saves_ns per text why faster tokens_per_s_factor "
    "saves_error_ns window_mean_ns concerns_percent",
    "operators": "op_name calls nested_calls gpu_inclusive_ns gpu_exclusive_ns host_total_ns "
    "host_self_ns host_mean_ns kernels_inclusive",
    "ranks": "stage who warm_idle.ns warm_waiting_ns warm_transfer_ns host_warm_median_ns "
    "warm_idle.instances instances gpu_busy_ns gpu_idle_ns waiting_ns transfer_ns",
    "late_ranks": "stage who delays.steps.late delays.steps.of delays.steps.median_ns "
    "delays.collectives delays.steps.max_ns collectives late_collectives late_total_ns",
    "steps": "stage first steps min_ns mean_ns max_ns path file",
    "timelines": "stage kind name start_ns length_ns class depth lane step file",
    "collectives": "stage operation calls transfer_ns waiting_ns members time_ns bytes_max "
    "bytes_total bus_gb_per_s communicator",
    "host_causes": "stage percent error_percent cause kind samples launch_gaps_percent "
    "beside_work_percent",
    "energy": "stage energy_j mean_power_w energy_absent joules_per_token uncertainty_j "
    "clocks.sm_clock_mhz.mean clocks.temperature_max_c clocks.sm_clock_mhz.min clocks.reads",
    "utilisation": "stage role mfu_wall mfu_busy mbu_wall mbu_busy tokens_per_s gpu_us_per_token "
    "kernels_per_token basis",
    "requests": "number first_token_ns queue_ns token_ns gpu_ns prompt_tokens output_tokens "
    "cached_tokens preemptions file",
    "engine_steps": "stage steps timed_steps p50_ns p99_ns max_ns tokens_per_s "
    "decode_requests_mean decode_context_mean prefill_requests_mean prefill_tokens_mean timed_ns "
    "gpu_work_ns",
    "paths": "path instances host_total_ns host_warm_median_ns kernels_inclusive "
    "kernel_sum_inclusive_ns kernels_exclusive kernel_sum_exclusive_ns host_first_ns",
    "processes": "file pid rank host devices kernels",
    "devices": "device gpu_busy_percent gpu_busy_ns gpu_span_ns kernels multiprocessors "
    "memory_bytes compute_capability host",
    "graph_launches": "stage path calls total_ns mean_ns graph_id device",
    "takeaways": "stage severity text recommendation rule id",
    "coverage": "file pid ending counts.attributed counts.outside_ranges counts.unattributed "
    "counts.dropped_by_cupti counts.range_events_lost counts.kernels end_reason gpu_off",
    "findings": "severity what why remedy subject id",
    "metrics": "stage metric before after change_percent word change verdict unit interval_percent",
    "work": "stage name before.ns after.ns change_percent word change_ns per kind class verdict "
    "interval_percent",
}
"""The most important columns of a table, which come first and are shown."""


def text_of(table: Table) -> str:
    """Return the first rows, and the most important columns that fit into the terminal."""
    complete, (table, what, hidden) = table, _without_hidden(table)
    rows = table[:_SHOWN_ROWS]
    if not rows:
        return _filled(_size(complete, table, [], what))
    lead, below = _below(rows)
    most_rows = _BRIEF.get(rows.name, len(rows))
    brief = below if len(rows) > most_rows else []
    below = [name for name in below if name not in brief]
    if brief:
        hidden = f"{rows.name}[:{most_rows}] also shows {' and '.join(brief)}"
    hidden = complete._note or hidden
    widths: dict[str, int] = {}
    wanted: dict[str, int] = {}
    room = _terminal_width()
    kept = _room_kept(rows)
    asked = _asked(rows)
    for name in _with_names_first(rows, room):
        if name in (*below, *brief):
            continue
        kept.pop(name, None)
        head, texts = len(_heading(rows, name)), _texts(rows, name)
        most = _SHOWN_TEXT
        if name == lead:
            texts += [text for other in below for text in _texts(rows, other)]
            most = _SHOWN_SENTENCES
        whole = wide = max(head, min(max(map(len, texts)), most))
        least = whole
        # Half an interval would be another one.
        if _is_text(rows, name) and not name.startswith("interval"):
            least = min(whole, max(head, _LEAST_TEXT))
            if name not in _PROSE:
                easy = _EASY_NAME if name in ("short", "name") and kept else _EASY_TEXT
                wide = max(head, min(whole, max(easy, _distinct(texts, whole))))
            elif widths:
                least = max(head, min(whole, _EASY_TEXT if lead in widths else least))
        left = room - sum(kept.values())
        if wide > left:
            if kept and not _is_text(rows, name) and name not in asked:
                # Both sides, or none.
                kept.pop(name.replace("before", "after"), None)
                brief = [*brief, name.replace("before", "after")]
                continue
            if widths and left < least and not kept:
                break
            wide = max(left, least)
        widths[name], wanted[name] = wide, whole
        room -= wide + len(_SPACE)
    # What is left shows more of the texts that are cut, without the space behind the last column.
    room += len(_SPACE)
    for name, wide in widths.items():
        more = min(wanted[name] - wide, room) if name not in _PROSE else 0
        widths[name] += max(more, 0)
        room -= max(more, 0)
    columns: list[list[list[str]]] = []
    for name, wide in widths.items():
        is_text = _is_text(rows, name)
        cells = _in_cells(rows, name, wide, below if name == lead else [])
        columns.append([[_aligned(line, wide, is_text) for line in cell] for cell in cells])
        columns[-1].insert(0, [_aligned(_heading(rows, name)[:wide], wide, is_text)])
    names = [*widths, *(below if lead in widths else [])]
    lines = [line for cells in zip(*columns) for line in _side_by_side(cells)]
    notes = [_filled(note) for note in (_size(complete, table, names, what), hidden) if note]
    return "\n".join([*lines, *notes, *_left_out(rows, names, _terminal_width())])


def _room_kept(rows: Table) -> dict[str, int]:
    """Return the room that the columns which say what changed need, in the order of the table."""
    names: Sequence[str] = (*_asked(rows), *_KEPT) if rows.name in ("metrics", "work") else ()
    if "short" in rows.columns and not rows._is_chosen:
        # As many of them as leave enough of a name.
        left = _terminal_width() - _EASY_TEXT - _width(rows, rows.columns[0])
        order = _with_names_first(rows, 0)
        after = order[order.index("short") + 1 :] if {"short", *_AMOUNTS} <= set(order) else []
        wanted = list(itertools.takewhile(lambda name: name != _AMOUNTS[-1], after))
        # The mean follows from the others, so it gives way to what tells rows apart.
        wanted += _AMOUNTS[-1:] if wanted[-1:] == [_AMOUNTS[-2]] else []
        ends = itertools.accumulate(_width(rows, name) for name in wanted)
        names = wanted[: sum(end <= left for end in ends)]
    return {name: _width(rows, name) for name in _chosen(rows) if name in names}


def _asked(rows: Table) -> list[str]:
    """Return the numbers of a comparison by which someone sorts or filters: they come first."""
    if rows.name not in ("metrics", "work") or rows._is_chosen:
        return []
    first = itertools.takewhile(lambda name: name not in _KEPT, _chosen(rows))
    return [name for name in first if any(_is_number(row[name]) for row in rows)]


def _width(rows: Table, name: str) -> int:
    return max(len(_heading(rows, name)), *map(len, _texts(rows, name))) + len(_SPACE)


def _with_names_first(rows: Table, room: int) -> list[str]:
    """Return the columns to show. Those that tell rows apart come later where names need room."""
    names = _chosen(rows)
    apart = [name for name in _REPEATED.get(rows.name, ([], []))[1] if name in names]
    if rows._is_chosen or not {"short", *_AMOUNTS} <= set(names):
        return names
    first = names[: names.index(_AMOUNTS[-1]) + 1]
    if sum(min(_width(rows, name), _EASY_NAME + len(_SPACE)) for name in first) <= room:
        return names
    first = [name for name in first if name not in apart]
    keys = [(row["stage"], row["short"]) for row in rows]
    if len(set(keys)) < len(keys):
        # Without what tells them apart, these rows look the same.
        first.remove(_AMOUNTS[-1])
    return [*first, *apart, *(name for name in names if name not in (*first, *apart))]


def _below(rows: Table) -> tuple[str, list[str]]:
    """Return the column of sentences below whose cells others stand, and these."""
    lead, below = _BELOW.get(rows.name, ("", [])) if not rows._is_chosen else ("", [])
    return lead, [name for name in below if any(row[name] is not None for row in rows)]


def _without_hidden(table: Table) -> tuple[Table, str, str]:
    """Return a whole table without rows that would hide the others, what is left, and a note."""
    if not table._is_whole or table.name not in _HIDDEN:
        return table, "", ""
    column, values, what = _HIDDEN[table.name]
    where = f"where({column}={values!r})".replace("'", '"')
    others = [row for row in table if row[column] is None or row[column] not in values]
    if not others and "metric" in table.columns:
        others = [row for row in table if (row["before"], row["after"]) != (0, 0)]
        what, where = "that are not 0 on both sides", "where(before=0, after=0)"
    if len(others) in (0, len(table)):
        return table, "", ""
    return table._of(others), what, f"others: {table.name}.{where}"


def _texts(rows: Table, name: str) -> list[str]:
    """Return a column as text, of which only what no cell could show is cut."""
    values = [row[name] for row in rows]
    floats = [value for value in values if isinstance(value, float)]
    if _unit_of(rows.name, rows.columns, name):
        return [_in_unit(rows.name, row, name) for row in rows]
    if all(map(float.is_integer, floats)) and not _is_share(name) and not _is_factor(name):
        values = [int(value) if isinstance(value, float) else value for value in values]
    texts = [_cut(_text(name, value), _PROSE_CHARS) for value in values]
    return ["-" if _misleads(name, row) else text for text, row in zip(texts, rows)]


def sorted_as(table: str, name: str, row: Mapping[str, Any]) -> Any:
    """Return the value of a column by which a row is sorted: what its cell shows, if it is one."""
    if table in ("metrics", "work") and _misleads(name, row):
        return None
    in_points = table == "metrics" and name == "change_percent" and row.get("unit") == "percent"
    return row.get("change") if in_points else row[name]


def _misleads(name: str, row: Mapping[str, Any]) -> bool:
    """Tell whether this is a change of what does not compare, or -100 % of what is gone."""
    word = row.get("word")
    is_unlike = word == "not comparable"
    is_change = name.startswith(("change", "interval"))
    return (is_unlike and is_change) or (word == "gone" and name == "change_percent")


def _unit_of(table: str, columns: Collection[str], name: str) -> str:
    """Return the column with the unit of this one, or the unit; empty: the name has it."""
    if table == "metrics" and "unit" in columns:
        of_percent = [f"{change}{_SHARE}" for change in _CHANGES if change in columns]
        return "unit" if name in (*_RUNS, *_CHANGES, *_NOISE, *of_percent) else ""
    return "ns" if table == "work" and name in ("interval", *_NOISE) else ""


def _in_unit(table: str, row: Mapping[str, Any], name: str) -> str:
    """Return a cell of a comparison with its unit: shares change by points."""
    unit = _unit_of(table, row, name)
    unit = row.get(unit) or unit
    value = row[name]
    if _is_share(name):
        # In the table it is relative to the share, which nobody expects of percent.
        unit, value = ("percent", row[name[: -len(_SHARE)]]) if unit == "percent" else ("", value)
    ends = value if isinstance(value, tuple) else (value,)
    if _misleads(name, row) or not all(_is_number(end) for end in ends):
        return "-" if _misleads(name, row) else _text(name, value)
    if _is_share(name):
        suffix = _POINTS if unit else " %"
        shown = ", ".join(map(_signed, ends))
        return f"({shown}){suffix}" if len(ends) > 1 else shown + suffix.ljust(len(_POINTS))
    is_signed = name in _CHANGES
    texts = [_amount(end, unit, is_signed) for end in ends]
    suffix = _SUFFIXES.get(unit, "")
    suffix = _POINTS if unit == "percent" and name not in _RUNS else suffix
    return (f"({', '.join(texts)})" if isinstance(value, tuple) else texts[0]) + suffix


def _amount(value: float, unit: str, is_signed: bool) -> str:
    """Return a value of a metric; only that of a time has its unit, which depends on its size."""
    sign = "-" if value < 0 else "+" if is_signed and value > 0 else ""
    if unit in _NS:
        return sign + _time(abs(value) * _NS[unit])
    is_whole = unit == "count" and float(value).is_integer()
    size = int(abs(value)) if is_whole else abs(value)
    return sign + _number(_SHARE if unit == "percent" else "", size)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _signed(change: float) -> str:
    digits = "1g" if 0 < abs(change) < 0.005 else "2f"
    return f"{change:{'+' if change else ''},.{digits}}"


def _in_cells(rows: Table, name: str, wide: int, below: list[str]) -> list[list[str]]:
    """Return the lines of each cell: several only of whole sentences."""
    texts = _texts(rows, name)
    if name not in _PROSE:
        return [[text] for text in _shortened(texts, wide)]
    cells = [_lines(text, wide) for text in texts]
    for other in below:
        for cell, row, text in zip(cells, rows, _texts(rows, other)):
            if row[other]:
                cell += _lines(f"{other}: {text}", wide, _SPACE)
    return cells


def _lines(text: str, wide: int, others: str = "") -> list[str]:
    """Wrap a sentence. A name that is too long for a line breaks where one of its words ends."""
    words = [part for word in text.split() for part in _parts(word, wide - len(others))]
    return _wrap(" ".join(words), wide, "", others, break_long_words=True) or [""]


def _parts(word: str, wide: int) -> Iterator[str]:
    """Give the parts of a word that fit a line, no two of which fit it together."""
    part = ""
    for piece in _WORD_ENDS.split(word) if len(word) > wide else [word]:
        if part and len(part) + len(piece) > wide:
            yield part
            part = ""
        part += piece
    yield part


def _shortened(texts: list[str], limit: int) -> list[str]:
    """Cut the middle of long texts, at the place that leaves the most of them different."""
    if max(map(len, texts), default=0) <= limit:
        return texts
    # Without its beginning, a name is hard to recognise and to search for.
    heads = sorted(range(limit // 4, limit), key=lambda head: abs(head - limit // 2))
    cut = [[_cut(text, limit, head) for text in texts] for head in heads]
    return max(cut, key=lambda shown: len(set(shown)))


def _distinct(texts: list[str], whole: int) -> int:
    """Return the least width in which different texts are different, up to `whole`."""
    number = len(set(_shortened(texts, whole)))
    widths = range(_EASY_TEXT, whole)
    return next((wide for wide in widths if len(set(_shortened(texts, wide))) == number), whole)


def _aligned(text: str, wide: int, is_text: bool) -> str:
    return text.ljust(wide) if is_text else text.rjust(wide)


def _side_by_side(cells: Iterable[list[str]]) -> Iterator[str]:
    """Give the lines of a row whose cells may have several."""
    cells = list(cells)
    for at in range(max(map(len, cells))):
        texts = [cell[at] if at < len(cell) else " " * len(cell[0]) for cell in cells]
        yield _SPACE.join(texts).rstrip()


def html_of(table: Table) -> str:
    """Return the first rows and the most important columns as HTML."""
    complete, (table, what, hidden) = table, _without_hidden(table)
    rows = table[:_SHOWN_ROWS]
    names = _chosen(rows)[:_SHOWN_COLUMNS]
    if not rows or not names:
        return f"<p>{_html(_size(complete, table, names, what))}</p>"
    hidden = complete._note or hidden
    lead, below = _below(rows)
    columns = []
    for name in names:
        if name in below:
            continue
        side = "left" if _is_text(rows, name) else "right"
        wraps = "min-width:24em;white-space:normal" if name in _PROSE else "white-space:nowrap"
        style = f" style='text-align:{side};vertical-align:top;padding:2px 8px;{wraps}'"
        texts = _texts(rows, name)
        shorter = texts if name in _PROSE else _shortened(texts, _SHOWN_TEXT)
        titles = [
            f" title='{escape(text)}'" if cut != text else "" for cut, text in zip(shorter, texts)
        ]
        cells = [_html(text) if name in _PROSE else escape(text) for text in shorter]
        for other in below if name == lead else []:
            shown = zip(cells, rows, _texts(rows, other))
            cells = [
                f"{cell}<br><i>{escape(other)}:</i> {_html(text)}" if row[other] else cell
                for cell, row, text in shown
            ]
        cells = [f"<td{style}{title}>{cell}</td>" for cell, title in zip(cells, titles)]
        head = escape(_heading(rows, name))
        if head != escape(visible(name)):
            head = f"<abbr title='{escape(visible(name))}'>{head}</abbr>"
        columns.append([f"<th{style}>{head}</th>", *cells])
    others = _left_out(rows, names, _NAMED_IN_HTML)
    heads, *body = (f"<tr>{''.join(line)}</tr>" for line in zip(*columns))
    return (
        f"<table><thead>{heads}</thead><tbody>{''.join(body)}</tbody></table>"
        f"<p>{_html(_rows(complete, table, names, what))}</p>"
        + "".join(f"<p>{_html(line)}</p>" for line in [hidden, *others] if line)
    )


def row_text(table: str, row: Mapping[str, Any]) -> str:
    """Return the most important known values of a row, one per line."""
    cells, note = _values(table, row)
    wide = max((len(name) for name in cells), default=0)
    indent = " " * (wide + len(_SPACE))
    room = max(_terminal_width() - len(indent), _LEAST_TEXT)
    lines = []
    for name, text in cells.items():
        parts = _lines(text, room) if name in _PROSE else [_cut(text, room, room // 2)]
        lines.append(name.ljust(wide) + _SPACE + f"\n{indent}".join(parts))
    return "\n".join([*lines, _filled(note)])


def row_html(table: str, row: Mapping[str, Any]) -> str:
    """Return the same as HTML."""
    cells, note = _values(table, row)
    return lines_html(cells.items()) + f"<p>{_html(note)}</p>"


def _values(table: str, row: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    """Return the known values of a row as texts, the most important first, and what is left."""
    first = [name for name in FIRST.get(table, "").split() if name in row]
    known = [name for name in dict.fromkeys([*first, *row]) if row[name] is not None]
    cells = {}
    for name in known[: max(_SHOWN_ROWS, sum(name in known for name in first))]:
        value, is_share = row[name], _is_share(f"_{name}")
        is_whole = isinstance(value, float) and value.is_integer()
        text = _text(name, int(value) if is_whole and not _is_factor(name) else value)
        text = f"{text} %" if is_share and not isinstance(value, tuple) else text
        if table in ("metrics", "work") and _misleads(name, row):
            text = "-"
        elif _unit_of(table, row, name):
            text = _in_unit(table, row, name).strip()
        cells[_row_name(table, row, name)] = text
    unknown = len(row) - len(known)
    note = f"row of {table}: {len(cells)} of {len(row)} values"
    note += f", {unknown} None" if unknown else ""
    omitted = " and ".join(_notes(known[: len(cells)]))
    note += f"; names {omitted}" if omitted else ""
    return cells, note + ("; `dict(row)` has all" if len(cells) < len(row) else "")


def _row_name(table: str, row: Mapping[str, Any], name: str) -> str:
    """Return the name of a value, without the unit of a time, which the value has."""
    if table == "metrics" and _is_share(name) and _unit_of(table, row, name):
        # As in the table, because the value may be in points.
        return f"{name[: -len(_SHARE)]} %"
    return visible(name[:-3] if _is_time(name) and name[:-3] not in row else name)


def _chosen(rows: Table) -> list[str]:
    """Return the names of the columns to show, the most important first, as in the whole table."""
    return rows.columns if rows._is_chosen else rows._order()


def order_of(rows: Table) -> list[str]:
    """Return the order of the columns to show of a whole table."""
    first = [name for name in FIRST.get(rows.name, "").split() if name in rows.columns]
    known = [
        name
        for name in first
        if name in _EVEN_IF_UNKNOWN or any(row[name] is not None for row in rows)
    ]
    if not known:
        return [name for name in rows.columns if any(_is_plain(row[name]) for row in rows)]
    others = {name for name in _PLACES if name in known[1:]}
    same = {name for name in others if all(row[name] == rows[0][name] for row in rows)}
    shown = [name for name in known if name not in same]
    named, others_apart = _REPEATED.get(rows.name, ([], []))
    for apart in others_apart:
        if apart not in shown or not set(named) <= set(shown):
            continue
        keys = [tuple(row[name] for name in named) for row in rows]
        if len(set(keys)) < len({(*key, row[apart]) for key, row in zip(keys, rows)}):
            shown.remove(apart)
            shown.insert(shown.index(named[-1]) + 1, apart)
            named = [*named, apart]
    return shown


def _rows(whole: Table, table: Table, names: list[str], what: str) -> str:
    """Return the number of rows and columns, or the reason why there are none."""
    number, shown = len(whole), min(len(table), _SHOWN_ROWS)
    if not number:
        return f"{whole.name}: no rows" + (f": {whole.absent}" if whole.absent else "")
    most = len(table)
    of = f"{shown} of {'the ' * bool(what)}" if shown < most else ""
    rows = f"{of}{most:,} row{'' if most == 1 else 's'}"
    if what:
        rows += f" {what} ({number:,} in all)"
    return f"{whole.name}: {rows}, {len(names)} of {len(whole.columns)} columns"


def _size(whole: Table, table: Table, names: list[str], what: str) -> str:
    """Return this with what the headings omit of the names of their columns."""
    heads = {_heading(table, name) for name in names}
    notes = _notes(names, LEVELS.get(table.name, ""))
    notes += ["write `_percent` as %"] if any(head.endswith("%") for head in heads) else []
    headings = f"; headings {' and '.join(notes)}" if notes else ""
    return _rows(whole, table, names, what) + headings


def _notes(names: list[str], level: str = "") -> list[str]:
    """Return what is omitted of these names."""
    omitted = ["`_ns`"] if any(map(_is_time, names)) else []
    omitted += [f"`{level}`"] if level and any(name.startswith(level) for name in names) else []
    return [f"omit {' and '.join(omitted)}"] if omitted else []


def _left_out(rows: Table, names: list[str], wide: int) -> list[str]:
    """Name the columns that are not shown, as many as fit into a line."""
    known = dict.fromkeys([*_chosen(rows), *rows.columns])
    others = [visible(name) for name in known if name not in names]
    line, end = "", ""
    for at, name in enumerate(others):
        longer = f"{line}, {name}" if line else f"not shown: {name}"
        left = len(others) - at - 1
        more = f" and {left} more" if left else ""
        if len(longer) + len(f" and {len(others)} more") > wide:
            break
        line, end = longer, more
    return [line + end] if line else []


def _is_text(rows: Table, name: str) -> bool:
    return any(isinstance(row[name], (str, tuple)) for row in rows)


def _is_plain(value: Any) -> bool:
    return value is not None and not (
        isinstance(value, tuple) and value and isinstance(value[0], (dict, tuple))
    )


def _is_time(column: str) -> bool:
    return column.endswith(("_ns", ".ns"))


def _is_share(column: str) -> bool:
    return column.endswith(_SHARE)


def _is_factor(column: str) -> bool:
    return column.endswith(_FACTORS)


def _level(table: Table, column: str) -> str:
    """Return the level that the heading of a column omits."""
    level = LEVELS.get(table.name, "")
    is_other = column[len(level) :] in table.columns
    return level if column.startswith(level) and not is_other else ""


def _heading(table: Table, column: str) -> str:
    text = visible(column[len(_level(table, column)) :])
    if table.name == "host_causes" and column == "percent":
        return "idle %"
    if _is_share(f"_{text}"):
        return f"{text[: -len(_SHARE)]} %".lstrip()
    return text[:-3] if _is_time(text) else text


def _text(column: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, tuple) and value and all(isinstance(inner, str) for inner in value):
        return visible(", ".join(filter(None, value)))
    if isinstance(value, tuple) and value and all(isinstance(inner, float) for inner in value):
        return f"({', '.join(_number(column, inner) for inner in value)})"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return visible(value)
    text = _number(column, value)
    return f"+{text}" if column.startswith("change") and value > 0 else text


def _number(column: str, value: float) -> str:
    if _is_time(column):
        return _time(value)
    if isinstance(value, int):
        return str(value) if column.endswith(_NUMBERS) else f"{value:,}"
    if _is_share(column) or column == "percent":
        return "<0.01" if 0 < value < 0.005 else f"{value:,.2f}"
    if _FRACTIONS.search(column):
        return f"{_number(_SHARE, 100.0 * value)} %"
    if _is_factor(column):
        return f"{value:,.2f}x"
    if 1e3 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:,.2f}" if value == 0 or 1 <= abs(value) < 1e3 else f"{value:#.3g}"


def _cut(text: str, limit: int, head: int | None = None) -> str:
    """Return at most `limit` characters: the first ones, or `head` of them and the last ones."""
    if len(text) <= limit:
        return text
    head = limit - 1 if head is None else head
    tail = text[len(text) - (limit - 1 - head) :]
    # A name may have been cut before, next to this place.
    return f"{text[:head].rstrip(_CUT)}{_CUT}{tail.lstrip(_CUT)}"


def _time(ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(ns) >= size:
            return f"{ns / size:,.2f} {unit}"
    return "<1 ns" if 0 < ns < 0.5 else f"{ns:,.0f} ns"


def _terminal_width() -> int:
    """Return the width of the terminal (COLUMNS), or 80 where it is unknown."""
    return max(shutil.get_terminal_size().columns, _LEAST_WIDTH)


def wrapped(lines: Iterable[tuple[str, str]]) -> str:
    """Return labelled texts, wrapped at the width of the terminal."""
    lines = list(lines)
    column = max((len(label) for label, _ in lines), default=0) + 2
    return "\n".join(
        _filled(text, f"{label}:".ljust(column), " " * column) for label, text in lines
    )


def _filled(text: str, first: str = "", others: str = "  ") -> str:
    return "\n".join(_wrap(text, _terminal_width(), first, others, break_long_words=False))


def _wrap(text: str, wide: int, first: str, others: str, *, break_long_words: bool) -> list[str]:
    lines = textwrap.wrap(
        # A number stays on the line of its unit.
        re.sub(r"(?<=\d) (?=%|[mun]?s\b)", _NO_BREAK, text),
        wide,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=break_long_words,
        break_on_hyphens=False,
    )
    return [line.replace(_NO_BREAK, " ") for line in lines]


def lines_html(lines: Iterable[tuple[str, str]], bad: Collection[str] = ()) -> str:
    """Return labelled texts as a table for a notebook; those with a label in `bad` stand out."""
    style = "text-align:left;vertical-align:top;padding:2px 8px"
    rows = []
    for label, text in lines:
        of_row = f"{style};color:#d33;font-weight:bold" if label in bad else style
        cells = f"<th style='{of_row}'>{escape(label)}</th><td style='{of_row}'>{_html(text)}</td>"
        rows.append(f"<tr>{cells}</tr>")
    return f"<table>{''.join(rows)}</table>"


def _html(text: str) -> str:
    """Return a text as HTML, with code in backticks as such."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def visible(value: object) -> str:
    """Return a text in one line, without characters that could control a terminal."""
    words = " ".join(str(value).split())
    return "".join(char if char.isprintable() else "\ufffd" for char in words)
