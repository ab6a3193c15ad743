"""What an engine's step works on becomes a range around it, with a kind and fields."""

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
"""What is kept of a step: requests that have no token yet, their new tokens, and all that they have
after the step; the same three of the requests that have one; drafted tokens that it checks. A
number of tokens is 0 where it is not known."""

Work = Optional[Tuple[str, Tuple[int, ...]]]
"""The kind of a step and the values of its fields; None where it does nothing."""


def kind_of(prefilling: int, decoding: int, drafted: int) -> str:
    """Return the kind of a step by its requests and its drafted tokens."""
    if prefilling:
        return MIXED if decoding else PREFILL
    return VERIFY if drafted else DECODE


class _Thread(threading.local):
    is_open = False


class Steps:
    """Opens a range when a step begins, and closes it when the step ends. Nothing raises."""

    def __init__(
        self,
        annotation: str,
        notices: Notices,
        work_of: Callable[..., Work],
        describe: Callable[[Any], dict[str, Any]],
        open_kinds: dict[str, Callable[..., None]],
        pop: Callable[[], None],
    ) -> None:
        """Take how to tell what a step works on, and what opens and closes a range.

        Arguments:
            annotation: The word for it in what is told.
            notices: Whom to tell.
            work_of: Returns the work of a step, from the arguments of `begin`.
            describe: Returns what the owner of the steps was configured with.
            open_kinds: What opens a range of each kind with the values that `work_of` returns.
            pop: What closes a range.

        """
        self._annotation = annotation
        self._notices = notices
        self._work_of = work_of
        self._describe: Callable[[Any], dict[str, Any]] | None = describe
        self._open_kinds = open_kinds
        self._pop = pop
        self._thread = _Thread()

    def begin(self, owner: Any, *scheduled: Any) -> None:
        """Begin a step; one that this thread has not ended is over."""
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
        """End this thread's step, if it is in one."""
        thread = self._thread
        if thread.is_open:
            thread.is_open = False
            self._pop()

    def _keep(self, owner: Any) -> None:
        """Write down what the engine was configured with. At its first step all of it is known."""
        describe, self._describe = self._describe, None
        try:
            if describe is not None:
                engine_file.write(describe(owner))
        except Exception as error:
            self._notices.warn(
                f"{self._annotation}: what the engine was configured with is not kept: {error!r}"
            )


def of_engine(
    annotation: str,
    notices: Notices,
    work_of: Callable[..., Work],
    describe: Callable[[Any], dict[str, Any]],
    fields: tuple[str, ...] = FIELDS,
) -> Steps | None:
    """Return the steps of an engine in this process; None where no tool takes ranges.

    `work_of` returns a value for each of `fields`.
    """
    backend = find_backend()
    if backend is None:
        return None
    kinds = {kind: backend.prepare(kind, fields) for kind in (PREFILL, DECODE, MIXED, VERIFY)}
    return Steps(annotation, notices, work_of, describe, kinds, backend.pop)


def require(lacks: list[str], else_do: str) -> None:
    """Refuse an engine that lacks what is read.

    Raises:
        RuntimeError: It lacks something; `else_do` says what can be done instead.

    """
    if lacks:
        raise RuntimeError(f"it has no {', '.join(lacks)}; {else_do}")


def lacking(cls: type[Any], fields: tuple[str, ...]) -> list[str]:
    """Name the fields that a data class lacks."""
    known = getattr(cls, "__dataclass_fields__", {})
    return [f"{cls.__name__}.{field}" for field in fields if field not in known]
