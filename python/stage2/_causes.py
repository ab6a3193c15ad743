"""The table `host_causes`: the causes of idle time, named as in the report."""

from __future__ import annotations

from typing import Any, List, Mapping

Rows = List[Mapping[str, Any]]

_WITHOUT_FRAME = {
    "not_scheduled": "runnable, waiting for a processor",
    "other_work": "work of another stage ran on the GPU",
    "small": "smaller causes, each within its sampling error",
    "unknown": "unknown",
}
_IN_FRAME = {
    "requests": "waiting for requests in",
    "other_rank": "waiting for another rank in",
    "sleep": "sleeping in",
    "system": "blocked in a system call from",
}


def host_causes(rows: Rows, _metrics: Mapping[str, Any]) -> Rows:
    """Return the rows with what the report calls each cause."""
    return [
        {"stage": row.get("stage"), "cause": _named(row), **row, "error_percent": _error(row)}
        for row in rows
    ]


def _error(row: Mapping[str, Any]) -> Any:
    """Return the error of a share, which is not known of what is not known."""
    return None if row.get("kind") == "unknown" else row.get("error_percent")


def _named(row: Mapping[str, Any]) -> str:
    kind = str(row.get("kind"))
    if kind in _WITHOUT_FRAME:
        return _WITHOUT_FRAME[kind]
    thread = row.get("thread")
    if kind == "native_code":
        return "native code" + (f" of the thread '{thread}'" if thread else "")
    what = _IN_FRAME.get(kind, "")
    if kind == "gil":
        what = f"waiting for the GIL{f' held by {thread!r}' if thread else ''} in"
    elif kind == "lock":
        what = f"waiting for a lock {f'held by {thread!r}' if thread else 'or a thread'} in"
    elif kind == "cuda_call":
        called = row.get("called")
        what = f"blocked in {called} from" if called else "in a CUDA call from"
    frame = _function(row)
    if frame is None:
        return what.rpartition(" ")[0] or "code"
    return f"{what} {frame}".strip()


def _function(row: Mapping[str, Any]) -> str | None:
    """Return the function with its line of the most time, and the number of its other lines."""
    frame = row.get("frame")
    if not isinstance(frame, dict):
        return None
    function = str(frame.get("function")).replace(".<locals>", "")
    file = str(frame.get("file")).rpartition("/")[2]
    line = frame.get("line")
    place = f"{file}:{line}" if line else file
    lines = row.get("lines")
    more = len(lines) - 1 if isinstance(lines, list) else 0
    if more > 0:
        place += f" and {more} more line{'' if more == 1 else 's'}"
    return f"{function} ({place})"
