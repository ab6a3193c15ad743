"""Which requests are prefilled next, which are decoded together, and who has which cache slot.

This is continuous batching: between two decode steps new requests are prefilled and join the
batch, and those that are done leave it. The order is that of arrival. Nothing here knows a model.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass
class Sequence:
    """One request on its way through the engine."""

    number: int
    prompt: tuple[int, ...]
    max_tokens: int
    tokens: list[int] = field(default_factory=list)
    """What was generated so far."""
    slot: int | None = None
    """Its place in the key/value cache, from its prefill to its end."""

    @property
    def is_done(self) -> bool:
        """Say whether all tokens are there."""
        return len(self.tokens) >= self.max_tokens


class Batch:
    """The waiting requests, and those that have a slot."""

    def __init__(self, slots: int, prefill_tokens: int) -> None:
        """Share `slots` cache slots.

        Between two decode steps, prompts of `prefill_tokens` tokens are prefilled, and a longer
        one alone: so decode steps of the running requests are not kept waiting for long.
        """
        self._free = deque(range(slots))
        self._prefill_tokens = prefill_tokens
        self._waiting: deque[Sequence] = deque()
        self._running: dict[int, Sequence] = {}

    @property
    def is_idle(self) -> bool:
        """Say whether there is nothing to do."""
        return not self._waiting and not self._running

    @property
    def waiting(self) -> int:
        """Number of requests that have no slot."""
        return len(self._waiting)

    def submit(self, sequence: Sequence) -> None:
        """Let a request wait for its prefill."""
        self._waiting.append(sequence)

    def admit(self) -> list[Sequence]:
        """Give slots to the requests to prefill now; they run until `accept` or `remove`."""
        admitted: list[Sequence] = []
        tokens = 0
        while self._waiting and self._free:
            tokens += len(self._waiting[0].prompt)
            if admitted and tokens > self._prefill_tokens:
                break
            sequence = self._waiting.popleft()
            sequence.slot = self._free.popleft()
            self._running[sequence.number] = sequence
            admitted.append(sequence)
        return admitted

    def running(self) -> list[Sequence]:
        """Return the requests to decode together, in order of arrival."""
        return list(self._running.values())

    def accept(self, sequence: Sequence, token: int) -> bool:
        """Append a token; return whether it was the last one, after which the slot is free."""
        sequence.tokens.append(token)
        if sequence.is_done:
            self.remove(sequence.number)
        return sequence.is_done

    def remove(self, number: int) -> bool:
        """Forget a request, waiting or running; return whether there was such a one."""
        sequence = self._running.pop(number, None)
        if sequence is not None:
            if sequence.slot is not None:
                self._free.append(sequence.slot)
                sequence.slot = None
            return True
        for waiting in self._waiting:
            if waiting.number == number:
                self._waiting.remove(waiting)
                return True
        return False

    def clear(self) -> list[int]:
        """Forget all requests, and return their numbers."""
        numbers = [*self._running, *(sequence.number for sequence in self._waiting)]
        for number in numbers:
            self.remove(number)
        return numbers


def buckets(slots: int) -> list[int]:
    """Return the batch sizes that have a CUDA graph each: powers of two, then all slots."""
    sizes = [1 << exponent for exponent in range(slots.bit_length()) if 1 << exponent < slots]
    return [*sizes, slots]


def bucket_of(batch: int, sizes: list[int]) -> int:
    """Return the smallest size that holds `batch` sequences."""
    return next(size for size in sizes if size >= batch)
