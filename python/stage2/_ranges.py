"""Ranges that the user marks: `stage2.annotate(name, **fields)`."""

from __future__ import annotations

import functools
import inspect
from types import TracebackType
from typing import Any, Callable, TypeVar, Union

from ._backend import Backend, find_backend
from ._nvtx import MAX_FIELDS

Field = Union[bool, int, float, str]

_F = TypeVar("_F", bound=Callable[..., Any])

_backend: Backend | None = None
_is_decided = False


def _decide() -> Backend | None:
    """Choose the backend once, at the first range: tools are injected before that or never."""
    global _backend, _is_decided
    if not _is_decided:
        _backend = find_backend()
        _is_decided = True
    return _backend


class annotate:
    """A host range, as a context manager or a decorator.

    GPU work launched inside belongs to the range; the outermost range is a stage of the report.
    The trace file keeps `fields` with each instance: at most 16 numbers, booleans and strings. It
    keeps the first 64 bytes of a string, any other value as `str(value)`, and the fields that fit
    in 280 bytes. Only the stage2 collector keeps them; other tools get the name. Without a tool, a
    range has no effect, and takes about 0.6 us, or 1 us with a field.

    A range must end in the thread that opened it: do not `await` or `yield` inside.
    """

    __slots__ = ("_fields", "_name")

    def __init__(self, name: str, **fields: object) -> None:
        """Create a range with the name that all instances share, and fields that tell them apart.

        Raises:
            TypeError: The name is not a string.
            ValueError: There are more than 16 fields.

        """
        if not isinstance(name, str):
            raise TypeError(f"the name of a range must be a string, not {name!r}")
        if len(fields) > MAX_FIELDS:
            raise ValueError(f"a range has at most {MAX_FIELDS} fields, not {len(fields)}")
        self._name = name
        self._fields = fields

    def __repr__(self) -> str:
        """Return the call that makes it."""
        words = [repr(self._name), *(f"{name}={value!r}" for name, value in self._fields.items())]
        return f"stage2.annotate({', '.join(words)})"

    def __enter__(self) -> annotate:
        """Open the range in this thread."""
        backend = _backend if _is_decided else _decide()
        if backend is not None:
            backend.push(self._name, self._fields)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it. Exceptions propagate."""
        if _backend is not None:
            _backend.pop()

    def __call__(self, function: _F) -> _F:
        """Return the function, with this range around each of its calls.

        Raises:
            TypeError: The calls do not end in the thread and in the order in which they begin.
        """
        if (
            inspect.iscoroutinefunction(function)
            or inspect.isgeneratorfunction(function)
            or inspect.isasyncgenfunction(function)
        ):
            raise TypeError(
                f"{function.__qualname__} is a coroutine or a generator, so other code can run in "
                "its thread before its range ends: put `with stage2.annotate(...)` around parts "
                "without `await` and `yield`"
            )

        @functools.wraps(function)
        def with_range(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return with_range  # type: ignore[return-value]
