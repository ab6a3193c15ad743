"""Records a request of an engine when it ends, as an empty range with fields."""

from __future__ import annotations

import itertools
from typing import Callable

from ._backend import find_backend
from ._nvtx import NvtxClient

RANGE = "stage2.request"
STEP = "step"

FIELDS = (
    "request",
    "arrived_ns",
    "queue_ns",
    "first_token_ns",
    "total_ns",
    "prompt_tokens",
    "cached_tokens",
    "output_tokens",
    "first_step",
    "prompt_step",
    "last_step",
    "prompt_steps",
    "preemptions",
    "aborted",
    "draft_tokens",
    "accepted_tokens",
)
"""The number of the request in this process; its time of arrival (CLOCK_MONOTONIC, ns); the times
from there to its first step, to its first token and to its end, ns; the numbers of prompt tokens,
of cached prompt tokens and of output tokens; the numbers of its first step, of the step that read
the end of its prompt and of its last step; the number of steps that read its prompt; the number of
preemptions; 1 if the request was aborted, else 0; the numbers of drafted tokens that were verified
and of those that were accepted. UNKNOWN: the event never happened."""

UNKNOWN = -1

numbers = itertools.count(1)
"""Numbers of requests in the whole process: a program may create several engines."""


def since(arrived: int, moment: int) -> int:
    """Return the time from the arrival of a request to an event; UNKNOWN if it never happened."""
    return UNKNOWN if moment == UNKNOWN else moment - arrived


def find_recorder() -> Callable[..., None] | None:
    """Return a function that records the values of FIELDS; None if no tool records fields."""
    backend = find_backend()
    if not isinstance(backend, NvtxClient):
        return None
    begin, end = backend.prepare(RANGE, FIELDS), backend.pop

    def record(*values: int) -> None:
        begin(*values)
        end()

    return record
