"""Importing vLLM's scheduler records each request when it ends, and numbers the steps.

The record (`request_record`) has the times of the request, its tokens, and the steps that worked on
it. Between the prompt of a request and its last step, the
hook does nothing for it, so the cost of a step does not depend on the number of requests. The
scheduler may run in a separate process, so the number of a step goes to the workers with the
scheduler's output and is a field of their ranges (`STEP`).
"""

from __future__ import annotations

import contextlib
import functools
import secrets
import time
from types import ModuleType
from typing import Any, Callable, Iterable

from .notice import Notices
from .request_record import UNKNOWN, find_recorder, numbers, since
from .steps import first_of

SCHEDULER = "vllm.v1.core.sched.scheduler"

_VERIFIED = "make_spec_decoding_stats"
_VERIFIED_ARGUMENTS = ("request_id", "num_draft_tokens", "num_accepted_tokens")
_METHODS = ("add_request", "schedule", "update_from_output", "_free_request")
_GIVEN_UP = ("FINISHED_ABORTED", "FINISHED_ERROR", "FINISHED_IGNORED")
_ATTRIBUTE = "_stage2_requests"
_STEP_ATTRIBUTE = "stage2_step"
_LONGEST_WAIT_S = 86_400.0
_MOST_IN_FLIGHT = 64


def step_of(scheduled: Any) -> int:
    """Return the number of the step of this scheduler output; 0: it has none."""
    return int(getattr(scheduled, _STEP_ATTRIBUTE, 0))


class _Seen:
    """The state of a request that has not ended."""

    __slots__ = (
        "accepted",
        "arrived",
        "cached",
        "drafted",
        "first_step",
        "first_token",
        "number",
        "prompt_step",
        "prompt_steps",
        "request",
        "scheduled",
    )

    def __init__(self, request: Any, number: int, arrived: int) -> None:
        self.request, self.number, self.arrived = request, number, arrived
        self.cached = self.prompt_steps = self.drafted = self.accepted = 0
        self.scheduled = self.first_token = UNKNOWN
        self.first_step = self.prompt_step = UNKNOWN


class Requests:
    """Follows the requests of one scheduler."""

    def __init__(
        self, record: Callable[..., None], clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """Store the function that records a request; it is called with the values of FIELDS."""
        self._record = record
        self._clock = clock
        # The steps of different engines of a run need different numbers.
        self._step = (secrets.randbits(30) + 1) << 32
        self._known: dict[str, _Seen] = {}
        self._prompts: dict[str, _Seen] = {}
        self._tokenless: dict[str, _Seen] = {}
        self._in_flight: dict[int, dict[str, int]] = {}

    def arrive(self, request: Any) -> None:
        """Add a request that waits from now on, or more input of a known request."""
        name: str = request.request_id
        if name in self._known:
            return
        # The time of arrival is from the wall clock of another process, and that may be adjusted.
        waited = time.time() - request.arrival_time
        waited = waited if 0.0 <= waited <= _LONGEST_WAIT_S else 0.0
        arrived = self._clock() - int(waited * 1e9)
        self._known[name] = _Seen(request, next(numbers), arrived)

    def schedule(self, output: Any) -> None:
        """Assign a number to the next step, and note the requests that it starts."""
        if output.total_num_scheduled_tokens == 0:
            return
        self._step += 1
        step = self._step
        tokens: dict[str, int] = output.num_scheduled_tokens
        setattr(output, _STEP_ATTRIBUTE, step)
        self._in_flight[step] = tokens
        if len(self._in_flight) > _MOST_IN_FLIGHT:
            del self._in_flight[next(iter(self._in_flight))]
        for new in output.scheduled_new_reqs:
            seen = self._known.get(new.req_id)
            # A preempted request may come back as a new one.
            if seen is not None and seen.first_step == UNKNOWN:
                seen.scheduled, seen.first_step = self._clock(), step
                seen.cached = new.num_computed_tokens
                self._prompts[new.req_id] = self._tokenless[new.req_id] = seen
        if self._prompts:
            self._read_prompts(tokens, step)

    def _read_prompts(self, tokens: dict[str, int], step: int) -> None:
        for name, seen in list(self._prompts.items()):
            if name in tokens:
                seen.prompt_steps += 1
                if not seen.request.is_prefill_chunk:
                    seen.prompt_step = step
                    del self._prompts[name]

    def update(self, output: Any) -> None:
        """Note the first tokens of a step whose output is known."""
        self._in_flight.pop(step_of(output), None)
        if self._tokenless:
            now = self._clock()
            for name, seen in list(self._tokenless.items()):
                if seen.request.num_output_tokens > 0:
                    seen.first_token = now
                    del self._tokenless[name]

    def verify(self, name: str, drafted: int, accepted: int) -> None:
        """Add the drafted tokens of a request that a step verified."""
        seen = self._known.get(name)
        if seen is not None:
            seen.drafted += drafted
            seen.accepted += accepted

    def finish(self, request: Any) -> None:
        """Record a request that ends now."""
        name: str = request.request_id
        seen = self._known.pop(name, None)
        if seen is None:
            return
        self._prompts.pop(name, None)
        now = self._clock()
        outputs: int = request.num_output_tokens
        if self._tokenless.pop(name, None) is not None and outputs > 0:
            seen.first_token = now
        # The last step may have been scheduled before the end of the request was known.
        last = max(self._steps_with(name), default=self._step)
        self._record(
            seen.number,
            seen.arrived,
            since(seen.arrived, seen.scheduled),
            since(seen.arrived, seen.first_token),
            now - seen.arrived,
            request.num_prompt_tokens,
            min(seen.cached, request.num_prompt_tokens),
            outputs,
            seen.first_step,
            seen.prompt_step,
            last if seen.first_step != UNKNOWN else UNKNOWN,
            seen.prompt_steps,
            request.num_preemptions,
            int(request.status.name in _GIVEN_UP),
            seen.drafted,
            seen.accepted,
        )

    def _steps_with(self, name: str) -> Iterable[int]:
        return (step for step, tokens in self._in_flight.items() if name in tokens)


def _of(scheduler: Any) -> Requests | None:
    """Return the `Requests` of this scheduler; None if no tool records fields."""
    held = vars(scheduler)
    if _ATTRIBUTE not in held:
        # Not at import: the importing process may fork the process that runs the scheduler.
        record = find_recorder()
        held[_ATTRIBUTE] = None if record is None else Requests(record)
    requests: Requests | None = held[_ATTRIBUTE]
    return requests


def install(module: ModuleType, notices: Notices) -> None:
    """Record the requests of vLLM's scheduler."""
    scheduler = module.Scheduler
    missing = [name for name in _METHODS if not hasattr(scheduler, name)]
    if missing:
        raise RuntimeError(
            f"its scheduler has no {', '.join(missing)}; steps are marked, but not requests"
        )

    def follow(method: str, take: Callable[..., None]) -> None:
        original = getattr(scheduler, method)

        @functools.wraps(original)
        def followed(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            try:
                requests = _of(self)
                if requests is not None:
                    take(requests, first_of(args, kwargs), result, kwargs)
            except Exception as error:
                with contextlib.suppress(TypeError):
                    vars(self)[_ATTRIBUTE] = None
                notices.warn(f"vllm-steps: requests are not recorded any more: {error!r}")
            return result

        setattr(scheduler, method, followed)

    def verified(requests: Requests, _first: Any, _result: Any, named: dict[str, Any]) -> None:
        if all(name in named for name in _VERIFIED_ARGUMENTS):
            requests.verify(*(named[name] for name in _VERIFIED_ARGUMENTS))

    follow("add_request", lambda requests, request, *_: requests.arrive(request))
    follow("schedule", lambda requests, _, output, __: requests.schedule(output))
    follow("update_from_output", lambda requests, output, *_: requests.update(output))
    follow("_free_request", lambda requests, request, *_: requests.finish(request))
    if hasattr(scheduler, _VERIFIED):
        follow(_VERIFIED, verified)
