"""What the engine asks of a model: a key/value cache with slots, prefill into one, decode of many.

Inside the engine's ranges `prefill` and `decode` a model opens `prepare` (inputs to the device),
`forward` (the network, up to the choice of the next token) and `sample` (tokens to the host, which
waits for the GPU).
"""

from __future__ import annotations

from typing import Protocol


class SlotModel(Protocol):
    """A model whose sequences join and leave the batch one by one."""

    backend: str
    """`numpy` or `torch`."""
    device: str
    """Where it runs, for instance `cuda:0`."""
    gpu: str
    """What the GPU calls itself; `off` without GPU work."""
    decode_mode: str
    """`graphs` or `eager`; `cpu` without GPU work."""
    parameters: int
    """Number of weights."""

    def warm_up(self) -> None:
        """Do once what the first steps would else be slow for, CUDA graphs among it."""

    def prefill(self, slot: int, prompt: tuple[int, ...]) -> int:
        """Start the slot anew with `prompt`; return the greedy next token."""

    def decode(self, slots: list[int], tokens: list[int]) -> list[int]:
        """Append a token to each of the slots; return the greedy next tokens."""
