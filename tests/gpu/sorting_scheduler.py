"""A scheduler for vLLM that sorts its requests by a key in Python in every step.

vllm serve MODEL --scheduler-cls sorting_scheduler.SortingScheduler
"""

from __future__ import annotations

from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler

KEYS = 400
"""Numbers that go into the key of a request."""


def priority(request: Any) -> float:
    """Return a key of a request that takes a while to compute."""
    return sum(float(len(request.request_id) * number % 7) for number in range(KEYS))


class SortingScheduler(AsyncScheduler):  # type: ignore[misc]
    """Let the requests with the largest key wait."""

    active = True
    """Whether it sorts."""

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Sort the running requests before each step."""
        if self.active:
            self.running.sort(key=priority)
        return super().schedule(*args, **kwargs)
