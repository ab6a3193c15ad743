"""Ranges around the steps of an engine: a kind, and fields with what the step works on."""

from __future__ import annotations

import threading
from typing import Any, Callable, Optional, Tuple

from . import engine_file
from ._backend import find_backend
from .notice import Notices

PREFILL, DECODE, MIXED, VERIFY = "prefill", "decode", "mixed", "verify"

FIELDS = (
    "prefill_requests",
    "prefill_tokens",
    "prefill_context_tokens",
    "decode_requests",
    "decode_tokens",
    "decode_context_tokens",
    "draft_tokens",
)
"""The fields of a step: the number of requests without an output token, their new tokens, and all
their tokens after the step; these three numbers for the requests with an output token; the drafted
tokens that the step verifies. A number of tokens is 0 if it is not known."""

Work = Optional[Tuple[str, Tuple[int, ...]]]
"""The kind of a step and the values of its fields; None if the step has no work."""


def kind_of(prefilling: int, decoding: int, drafted: int) -> str:
    """Return the kind of a step from its numbers of requests and drafted tokens."""
    if prefilling:
        return MIXED if decoding else PREFILL
    return VERIFY if drafted else DECODE


class _Thread(threading.local):
    is_open = False


class Steps:
    """Opens a range when a step begins, and closes it when the step ends. No method raises."""

    def __init__(
        self,
        annotation: str,
        notices: Notices,
        work_of: Callable[..., Work],
        describe: Callable[[Any], dict[str, Any]],
        open_kinds: dict[str, Callable[..., None]],
        pop: Callable[[], None],
    ) -> None:
        """Store the functions that read a step and that open and close a range.

        Arguments:
            annotation: The name of the annotation in notices.
            notices: Prints the notices.
            work_of: Returns the work of a step, from the arguments of `begin`.
            describe: Returns the configuration of the owner of the steps.
            open_kinds: For each kind, opens a range with the values that `work_of` returns.
            pop: Closes a range.

        """
        self._annotation = annotation
        self._notices = notices
        self._work_of = work_of
        self._describe: Callable[[Any], dict[str, Any]] | None = describe
        self._open_kinds = open_kinds
        self._pop = pop
        self._thread = _Thread()

    def begin(self, owner: Any, *scheduled: Any) -> None:
        """Begin a step, and end the open step of this thread if there is one."""
        thread = self._thread
        if thread.is_open:
            thread.is_open = False
            self._pop()
        try:
            work = self._work_of(owner, *scheduled)
            if work is None:
                return
            if self._describe is not None:
                self._keep(owner)
            kind, values = work
            self._open_kinds[kind](*values)
            thread.is_open = True
        except Exception as error:
            self._notices.warn(f"{self._annotation}: steps are not marked: {error!r}")

    def end(self) -> None:
        """End the open step of this thread, if there is one."""
        thread = self._thread
        if thread.is_open:
            thread.is_open = False
            self._pop()

    def _keep(self, owner: Any) -> None:
        """Write the engine's configuration to a file. It is complete at the first step."""
        describe, self._describe = self._describe, None
        try:
            if describe is not None:
                engine_file.write(describe(owner))
        except Exception as error:
            self._notices.warn(
                f"{self._annotation}: the configuration of the engine is not saved: {error!r}"
            )


def of_engine(
    annotation: str,
    notices: Notices,
    work_of: Callable[..., Work],
    describe: Callable[[Any], dict[str, Any]],
    fields: tuple[str, ...] = FIELDS,
) -> Steps | None:
    """Return the steps of an engine in this process; None if no tool records ranges.

    `work_of` returns a value for each of `fields`.
    """
    backend = find_backend()
    if backend is None:
        return None
    kinds = {kind: backend.prepare(kind, fields) for kind in (PREFILL, DECODE, MIXED, VERIFY)}
    return Steps(annotation, notices, work_of, describe, kinds, backend.pop)


def first_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the first argument of a call, positional or by name; None if there is none."""
    return args[0] if args else next(iter(kwargs.values()), None)


def require(lacks: list[str], else_do: str) -> None:
    """Raise an error if an engine lacks attributes that the hook reads.

    Raises:
        RuntimeError: `lacks` is not empty; `else_do` names an alternative.

    """
    if lacks:
        raise RuntimeError(f"it has no {', '.join(lacks)}; {else_do}")


def lacking(cls: type[Any], fields: tuple[str, ...]) -> list[str]:
    """Return the names of the fields that a data class lacks."""
    known = getattr(cls, "__dataclass_fields__", {})
    return [f"{cls.__name__}.{field}" for field in fields if field not in known]
