"""The NumPy model of the runner with a cache of slots, beside work for a simulated GPU.

NumPy computes the tokens. If there is a simulated GPU, every step also launches recorded kernels
there: they take the time of a real network's, and a profiler sees them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from runner.model_numpy import Array, Cache, NumpyModel
from server.ranges import Ranges


class GpuWork(Protocol):
    """Work for a GPU, without results."""

    name: str
    decode_mode: str

    def warm_up(self) -> None:
        """Do what precedes the first step."""

    def prefill(self) -> None:
        """Launch the kernels of a prefill."""

    def decode(self, batch: int) -> None:
        """Launch those of a decode step of `batch` sequences."""

    def synchronize(self) -> None:
        """Wait for them."""


class NoGpuWork:
    """No work at all."""

    name = "off"
    decode_mode = "cpu"

    def warm_up(self) -> None:
        """Do nothing."""

    def prefill(self) -> None:
        """Launch nothing."""

    def decode(self, batch: int) -> None:
        """Launch nothing."""

    def synchronize(self) -> None:
        """Return at once."""


@dataclass
class SlotView:
    """Some slots of the cache, in a batch, each as long as its sequence."""

    cache: Cache
    slots: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    """Of every slot of the cache, not only of these."""

    def positions(self, count: int) -> npt.NDArray[np.integer[Any]]:
        """Return the next `count` positions of each sequence: (B, count)."""
        return self.lengths[self.slots, None] + np.arange(count)

    def extend(self, layer: int, keys: Array, values: Array) -> tuple[Array, Array]:
        """Append to each slot; return the slots as far as the longest one.

        What stands behind the end of a shorter one is later than its positions, so that attention
        does not look there.
        """
        rows, columns = self.slots[:, None], self.positions(keys.shape[2])
        end = int(columns.max()) + 1
        for held, new in ((self.cache.keys[layer], keys), (self.cache.values[layer], values)):
            held[rows, :, columns] = new.transpose(0, 2, 1, 3)  # (B, T, K, D)
        return (
            self.cache.keys[layer, :, :, :end][self.slots],
            self.cache.values[layer, :, :, :end][self.slots],
        )

    def advance(self, count: int) -> None:
        """Lengthen the sequences."""
        self.lengths[self.slots] += count


class NumpySlots:
    """`NumpyModel` with a sequence in each slot."""

    backend = "numpy"
    device = "cpu"

    def __init__(
        self, model: NumpyModel, slots: int, capacity: int, gpu: GpuWork, ranges: Ranges
    ) -> None:
        """Make the cache: `slots` sequences of up to `capacity` positions."""
        self._model = model
        self._cache = model.new_cache(slots, capacity)
        self._lengths = np.zeros(slots, np.int64)
        self._gpu = gpu
        self._ranges = ranges
        self.gpu = gpu.name
        self.decode_mode = gpu.decode_mode
        self.parameters = model.parameters

    def warm_up(self) -> None:
        """Capture the simulated GPU's graphs."""
        self._gpu.warm_up()

    def prefill(self, slot: int, prompt: tuple[int, ...]) -> int:
        """Start the slot anew with `prompt`; return the greedy next token."""
        with self._ranges.open("prepare"):
            self._lengths[slot] = 0
            tokens = np.array([prompt], np.int64)
        with self._ranges.open("forward"):
            self._gpu.prefill()
            logits = self._model.logits(tokens, self._view([slot]))
        return self._sample(logits)[0]

    def decode(self, slots: list[int], tokens: list[int]) -> list[int]:
        """Append a token to each of the slots; return the greedy next tokens."""
        with self._ranges.open("prepare"):
            batch = np.array(tokens, np.int64)[:, None]
        with self._ranges.open("forward"):
            self._gpu.decode(len(slots))
            logits = self._model.logits(batch, self._view(slots))
        return self._sample(logits)

    def _sample(self, logits: Array) -> list[int]:
        with self._ranges.open("sample"):
            self._gpu.synchronize()
            chosen: list[int] = logits[:, -1].argmax(axis=-1).tolist()
            return chosen

    def _view(self, slots: list[int]) -> SlotView:
        return SlotView(self._cache, np.array(slots, np.int64), self._lengths)
