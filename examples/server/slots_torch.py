"""The PyTorch model with slots: prefill kernel by kernel, a decode step as one CUDA graph.

There is one graph for each batch size that `batch.buckets` names. What a batch leaves free of its
graph's places computes in a slot of its own, which nobody reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from runner.model_numpy import Shape
from server.batch import bucket_of, buckets
from server.errors import ServerError
from server.llama_torch import Llama, Weights, draw
from server.options import Options
from server.ranges import Ranges


@dataclass(frozen=True)
class Step:
    """A captured decode step: fill the inputs, replay, read the tokens."""

    graph: torch.cuda.CUDAGraph
    inputs: torch.Tensor  # (3, bucket): token, position and slot of each place
    tokens: torch.Tensor  # (bucket,)


class TorchSlots:
    """A Llama with a sequence in each slot."""

    backend = "torch"

    def __init__(
        self,
        config: dict[str, Any],
        options: Options,
        ranges: Ranges,
        weights: Weights | None = None,
    ) -> None:
        """Build it with random weights, or with `weights` on the CPU."""
        place = find_device(options.device) if weights is None else torch.device("cpu")
        shape = Shape.read(config)
        is_gpu = place.type == "cuda"
        dtype = torch.bfloat16 if is_gpu else torch.float32
        self._spare = options.slots
        with _readable(options), torch.inference_mode():
            weights = weights or draw(shape, place, dtype, options.seed)
            self._model = Llama(shape, weights, options.slots + 1, options.capacity)
        self._place = place
        self._ranges = ranges
        self._lengths = [0] * options.slots
        self._sizes = buckets(options.slots)
        self._steps: dict[int, Step] = {}
        self.device = str(place)
        self.gpu = torch.cuda.get_device_name(place) if is_gpu else "off"
        self.decode_mode = ("graphs" if options.graphs else "eager") if is_gpu else "cpu"
        self.parameters = weights.count

    @torch.inference_mode()
    def warm_up(self) -> None:
        """Load kernels, and capture the graphs, largest first: the others fit into its memory."""
        self.prefill(0, (0, 0))
        self.decode([0], [0])
        if self.decode_mode != "graphs":
            return
        pool = None
        for size in reversed(self._sizes):
            with self._ranges.open("capture", size):
                self._steps[size] = step = self._capture(size, pool)
            pool = step.graph.pool()

    @torch.inference_mode()
    def prefill(self, slot: int, prompt: tuple[int, ...]) -> int:
        """Start the slot anew with `prompt`; return the greedy next token."""
        length = len(prompt)
        with self._ranges.open("prepare"):
            tokens = torch.tensor([prompt], device=self._place)
            positions = torch.arange(length, device=self._place)[None]
            slots = torch.tensor([slot], device=self._place)
        with self._ranges.open("forward"):
            chosen = self._model.next_tokens(tokens, positions, slots, end=length)
        self._lengths[slot] = length
        with self._ranges.open("sample"):
            return int(chosen.item())

    @torch.inference_mode()
    def decode(self, slots: list[int], tokens: list[int]) -> list[int]:
        """Append a token to each of the slots; return the greedy next tokens."""
        batch = len(slots)
        step = self._steps.get(bucket_of(batch, self._sizes))
        with self._ranges.open("prepare"):
            free = (step.inputs.shape[1] if step else batch) - batch
            rows = [
                [*tokens, *[0] * free],
                [*(self._lengths[slot] for slot in slots), *[0] * free],
                [*slots, *[self._spare] * free],
            ]
            inputs = torch.tensor(rows)
            if step:
                step.inputs.copy_(inputs)
        with self._ranges.open("forward"):
            if step:
                step.graph.replay()
                chosen = step.tokens
            else:
                end = max(rows[1]) + 1
                chosen = self._next(inputs.to(self._place), end)
        for slot in slots:
            self._lengths[slot] += 1
        with self._ranges.open("sample"):
            result: list[int] = chosen[:batch].tolist()
            return result

    def _next(self, inputs: torch.Tensor, end: int | None = None) -> torch.Tensor:
        token, position, slot = inputs.unbind()
        return self._model.next_tokens(token[:, None], position[:, None], slot, end)

    def _capture(self, size: int, pool: Any) -> Step:
        """Capture a step of `size` places, which all write into the spare slot now."""
        inputs = torch.zeros(3, size, dtype=torch.int64, device=self._place)
        inputs[2] = self._spare
        # Libraries allocate at their first call, which a capture does not allow.
        side = torch.cuda.Stream(self._place)
        side.wait_stream(torch.cuda.current_stream(self._place))
        with torch.cuda.stream(side):
            for _ in range(2):
                self._next(inputs)
        torch.cuda.current_stream(self._place).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            tokens = self._next(inputs)
        return Step(graph, inputs, tokens)


def find_device(name: str) -> torch.device:
    """Turn `--device` into a device that is there, or raise `ServerError`."""
    is_there = torch.cuda.is_available()
    try:
        device = torch.device(("cuda" if is_there else "cpu") if name == "auto" else name)
    except RuntimeError as error:
        raise ServerError(
            f"--device={name} is unknown to torch", "use auto, cpu, cuda or cuda:N"
        ) from error
    if device.type not in ("cpu", "cuda"):
        raise ServerError(f"--device={name} cannot serve", "use auto, cpu, cuda or cuda:N")
    if device.type == "cuda":
        count = torch.cuda.device_count() if is_there else 0
        if (device.index or 0) >= count:
            raise ServerError(
                f"--device={name}, but torch {torch.__version__} sees {count} GPU(s)",
                "use --device=cpu, or check the driver, CUDA_VISIBLE_DEVICES and the torch build",
            )
        device = torch.device("cuda", device.index or 0)
        torch.cuda.set_device(device)
    return device


@contextlib.contextmanager
def _readable(options: Options) -> Iterator[None]:
    """Turn running out of the GPU's memory into a `ServerError`."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise ServerError(
            f"{options.model} with {options.slots} slots of {options.capacity} positions does not "
            "fit into the GPU's memory",
            "choose a smaller --model, --slots or --capacity",
        ) from error
