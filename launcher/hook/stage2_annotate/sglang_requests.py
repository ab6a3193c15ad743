"""Numbers the steps of SGLang's scheduler, and records each request when it ends.

A step costs no loop over the requests that only decode. The state of a request lives in the times
that SGLang itself keeps for it, so it ends with the request, however that ends. Each rank of
tensor, context and pipeline parallelism has a scheduler that runs the same batches: all of them
number the steps alike, and the first one records the requests. A request that is aborted before its
first step has no record. Requests are accepted in another process, which sends times of each to the
scheduler: this module adds the time of arrival to them. Class and field names are those of SGLang
0.5.11, 0.5.17 and 0.5.23.
"""

from __future__ import annotations

import functools
import importlib
import os
import time
import zlib
from collections import deque
from types import ModuleType
from typing import Any, Callable
from weakref import ref

from .notice import Notices
from .request_record import UNKNOWN, find_recorder, numbers, since
from .steps import first_of

_QUEUE, _ENDED = "_add_request_to_queue", "set_completion_time"
_ATTRIBUTE = "_stage2_request"
_ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts")
_TIMES = "sglang.srt.observability.req_time_stats"
# Their objects are sent on towards the scheduler.
_SENT = ("APIServerReqTimeStats", "DPControllerReqTimeStats")
_CREATED = "created_time"
_LONGEST_WAIT_NS = 86_400_000_000_000
_ABORTED = "FINISH_ABORT"
# Schedulers that differ only in these ranks run the same batches.
_RANKS = ("attn_tp_rank", "attn_cp_rank", "pp_rank")
# The next batches are launched before the results of a batch are known.
_MOST_IN_FLIGHT = 8


class _Seen:
    """The state of a request that has not ended."""

    __slots__ = (
        "arrived",
        "first_step",
        "number",
        "of",
        "prompt_step",
        "prompt_steps",
        "request",
        "scheduled",
    )

    def __init__(self, of: Requests, request: Any, arrived: int) -> None:
        # The request owns this object.
        self.of, self.request, self.number = of, ref(request), next(numbers)
        self.arrived, self.scheduled = arrived, UNKNOWN
        self.first_step = self.prompt_step = UNKNOWN
        self.prompt_steps = 0


class Requests:
    """Follows the requests of one scheduler."""

    def __init__(
        self,
        record: Callable[..., None] | None,
        engine: int,
        drafts: int = 0,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Store where records go.

        Arguments:
            record: Is called with the values of `FIELDS`; None: steps are only numbered.
            engine: A number of 30 bits that differs between engines, not between their ranks.
            drafts: The number of drafted tokens of a request that a step verifies.
            clock: Returns the time, ns.

        """
        self._record = record
        self._clock = clock
        self._drafts = drafts
        self._step = (engine + 1) << 32
        self._in_flight: deque[tuple[int, Any]] = deque(maxlen=_MOST_IN_FLIGHT)

    def arrive(self, request: Any) -> None:
        """Add a request that waits from now on, or waits again."""
        held = vars(request.time_stats)
        if self._record is not None and _ATTRIBUTE not in held:
            now = self._clock()
            # `time.perf_counter` is CLOCK_MONOTONIC too, perhaps of another host. 0: unknown.
            arrived = int(held.get(_CREATED, 0.0) * 1e9) or now
            if not 0 <= now - arrived <= _LONGEST_WAIT_NS:
                arrived = now
            held[_ATTRIBUTE] = _Seen(self, request, arrived)

    def begin(self, requests: Any, prompts: int) -> int:
        """Begin a step with these requests, and return its number.

        The first `prompts` of them have no output token yet, unless they were preempted.
        """
        self._step += 1
        self._in_flight.append((self._step, requests))
        if self._record is not None:
            for request in requests[:prompts]:
                seen = vars(request.time_stats).get(_ATTRIBUTE)
                if seen is not None and not request.output_ids:
                    self._read_prompt(seen)
        return self._step

    def _read_prompt(self, seen: _Seen) -> None:
        if seen.first_step == UNKNOWN:
            seen.first_step, seen.scheduled = self._step, self._clock()
        seen.prompt_step = self._step
        seen.prompt_steps += 1

    def finish(self, seen: _Seen, times: Any) -> None:
        """Record a request that ends now; `times` are those that SGLang keeps of it."""
        request = seen.request()
        if request is None or self._record is None:
            return
        now = self._clock()
        # 0: there was no token.
        first_token = int(times.prefill_finished_time * 1e9) or UNKNOWN
        prompt = len(request.origin_input_ids)
        accepted = next((getattr(request, name) for name in _ACCEPTED if hasattr(request, name)), 0)
        steps = (step for step, requests in reversed(self._in_flight) if request in requests)
        self._record(
            seen.number,
            seen.arrived,
            since(seen.arrived, seen.scheduled),
            since(seen.arrived, first_token),
            now - seen.arrived,
            prompt,
            min(request.cached_tokens, prompt),
            len(request.output_ids),
            seen.first_step,
            seen.prompt_step,
            next(steps, seen.prompt_step),
            seen.prompt_steps,
            request.retraction_count,
            int(type(request.finished_reason).__name__ == _ABORTED),
            request.spec_verify_ct * self._drafts,
            accepted,
        )


def rank_of(scheduler: Any, name: str) -> int:
    """Return a rank of this scheduler, such as `tp_rank`."""
    for holder in (scheduler, getattr(scheduler, "ps", None)):
        rank = getattr(holder, name, None)
        if rank is not None:
            return int(rank)
    # Version 0.5.23 keeps it in the context of the process, not in the scheduler.
    from sglang.srt.runtime_context import get_parallel

    return int(getattr(get_parallel(), name))


def drafts_of(scheduler: Any) -> int:
    """Return how many drafted tokens of a request a step verifies."""
    drafter = scheduler.draft_worker
    return 0 if drafter is None else int(getattr(drafter, "speculative_num_draft_tokens", 1)) - 1


def _of(scheduler: Any) -> Requests:
    """Return the `Requests` of this scheduler."""
    held = vars(scheduler)
    if _ATTRIBUTE not in held:
        # Ranks on several hosts have different parents, but one address.
        address = scheduler.server_args.dist_init_addr or (os.getppid(), scheduler.nccl_port)
        engine = zlib.crc32(repr((address, rank_of(scheduler, "attn_dp_rank"))).encode()) >> 2
        is_first = all(rank_of(scheduler, name) == 0 for name in _RANKS)
        record = find_recorder() if is_first else None
        held[_ATTRIBUTE] = Requests(record, engine, drafts_of(scheduler))
    requests: Requests = held[_ATTRIBUTE]
    return requests


def _send_arrival(cls: type[Any]) -> None:
    """Have the times of this class that go to another process include the time of arrival."""
    state_of = cls.__getstate__

    @functools.wraps(state_of)
    def with_arrival(self: Any) -> Any:
        state = state_of(self)
        if isinstance(state, dict):
            state.setdefault(_CREATED, vars(self).get(_CREATED, 0.0))
        return state

    cls.__getstate__ = with_arrival


def install(module: ModuleType, notices: Notices) -> Callable[[Any, Any, int], int]:
    """Record the requests of SGLang's scheduler.

    Returns a function that numbers the next step, from the scheduler, its requests, and how many of
    these, at the front, have no output token yet; 0: the step has no number.

    Raises:
        RuntimeError: The scheduler or its times of a request lack a method.

    """
    times = importlib.import_module(_TIMES)
    scheduler, kept = module.Scheduler, times.SchedulerReqTimeStats
    missing = [
        f"{cls.__name__}.{name}"
        for cls, name in ((scheduler, _QUEUE), (kept, _ENDED))
        if not hasattr(cls, name)
    ]
    if missing:
        raise RuntimeError(f"it has no {', '.join(missing)}")
    queue, ended, failed = getattr(scheduler, _QUEUE), getattr(kept, _ENDED), []

    def fail(error: Exception) -> None:
        failed.append(error)
        notices.warn(f"sglang-steps: requests are not recorded any more: {error!r}")

    @functools.wraps(queue)
    def arrive(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not failed:
            try:
                _of(self).arrive(first_of(args, kwargs))
            except Exception as error:
                fail(error)
        return queue(self, *args, **kwargs)

    @functools.wraps(ended)
    def finish(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = ended(self, *args, **kwargs)
        seen = vars(self).pop(_ATTRIBUTE, None)
        if seen is not None and not failed:
            try:
                seen.of.finish(seen, self)
            except Exception as error:
                fail(error)
        return result

    def begin(self: Any, requests: Any, prompts: int) -> int:
        if failed:
            return 0
        try:
            return _of(self).begin(requests, prompts)
        except Exception as error:
            fail(error)
            return 0

    setattr(scheduler, _QUEUE, arrive)
    setattr(kept, _ENDED, finish)
    for name in _SENT:
        if hasattr(times, name):
            _send_arrival(getattr(times, name))
    return begin
