"""What the GPU workloads share: a random-weight LLM, the JSON line, and an independent count.

Every workload prints one JSON line. Its list `expect` says what a profiler must find:
`path` (range names joined by `/`), `instances` (times opened), `kernels` (launched in it and in
ranges within it, all instances together) and, where each instance holds the same work,
`kernels_per_instance`. Unknown counts are null.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

try:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
except ImportError as error:
    sys.exit(f"{error}; run: python -m pip install torch transformers")

SKIPPED = 77
"""Exit status of a workload that found no GPU."""

VOCABULARY = 32000
"""Token ids are below this."""

PREFILL_KERNELS = 662
"""Kernels of one prefill of the default model: torch 2.11, transformers 5.17, H200."""

STEP_KERNELS = 694
"""Kernels of one decode step of the same."""


def arguments(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options of every workload."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--device", default="cuda", help="cpu tries the script out: no kernels")
    parser.add_argument(
        "--count-with",
        choices=["torch"],
        help="count kernels with torch.profiler, which must then be the only profiler",
    )
    return parser


def model_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that size the model and the work on it."""
    parser.add_argument("--layers", type=positive, default=16)
    parser.add_argument("--hidden", type=positive, default=2048, help="a multiple of 64")
    parser.add_argument("--prompt", type=positive, default=512, help="tokens of the prompt")
    parser.add_argument("--new", type=positive, default=64, help="decode steps per repetition")
    parser.add_argument("--reps", type=positive, default=3, help="measured repetitions")
    parser.add_argument("--warmup-new", type=positive, default=8, help="decode steps of warm-up")
    parser.add_argument("--prefill-kernels", type=positive, help="expected kernels of one prefill")
    parser.add_argument("--step-kernels", type=positive, help="expected kernels of one decode step")


def positive(text: str) -> int:
    """Read an integer above zero."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def prepare(options: argparse.Namespace) -> torch.device:
    """Check the device and that counting is alone; leave with a line that says why not."""
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("SKIP no GPU: torch.cuda.is_available() is false", file=sys.stderr)
        sys.exit(SKIPPED)
    if options.count_with is not None:
        if device.type != "cuda":
            sys.exit("--count-with counts GPU kernels; use --device cuda")
        injected = [
            name
            for name in ("CUDA_INJECTION64_PATH", "LD_PRELOAD")
            if "stage2" in os.environ.get(name, "")
        ]
        if injected:
            sys.exit(f"--count-with needs CUPTI for itself; unset {' and '.join(injected)}")
    return device


def build(layers: int, hidden: int, device: torch.device, seed: int = 0) -> LlamaForCausalLM:
    """Build a Llama in bfloat16 with random weights; heads have 64 features, 4 share a key."""
    if hidden % 64:
        sys.exit(f"--hidden {hidden} is no multiple of 64")
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=max(1, hidden // 256),
    )
    torch.manual_seed(seed)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            return LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(before)


@contextmanager
def open_range(name: str | None) -> Iterator[None]:
    """Keep the NVTX push/pop range `name` open on this thread; None opens none."""
    if name is None:
        yield
        return
    torch.cuda.nvtx.range_push(name)
    try:
        yield
    finally:
        torch.cuda.nvtx.range_pop()


class Generator:
    """Prefill and greedy decode of one prompt on one stream."""

    def __init__(
        self, model: LlamaForCausalLM, prompt_tokens: int, stream: torch.cuda.Stream | None
    ) -> None:
        """Make a random prompt; `stream` None is the current stream, or the CPU."""
        self._model = model
        self._stream = stream
        self._device = model.device
        shape = (1, prompt_tokens)
        self._prompt = torch.randint(0, VOCABULARY, shape, device=self._device)
        self._token: torch.Tensor | None = None
        self._cache: Any = None

    @torch.inference_mode()
    def prefill(self, name: str | None) -> None:
        """Run the prompt in the range `name`, which closes when the GPU has finished."""
        with self._on_stream(), open_range(name):
            self._token, self._cache = self._forward(self._prompt, None)
            self.synchronize()

    @torch.inference_mode()
    def decode(self, new: int, name: str | None, step: str | None = None) -> None:
        """Run `new` decode steps in the range `name`, each in a range `step` if one is given."""
        with self._on_stream(), open_range(name):
            for _ in range(new):
                with open_range(step):
                    self.step()
            self.synchronize()

    def step(self) -> None:
        """Launch one decode step, and wait for nothing."""
        self._token, self._cache = self._forward(self._token, self._cache)

    def synchronize(self) -> None:
        """Wait for the GPU work of this stream."""
        if self._stream is not None:
            self._stream.synchronize()
        elif self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()

    def _on_stream(self) -> Any:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    def _forward(self, tokens: torch.Tensor | None, cache: Any) -> tuple[torch.Tensor, Any]:
        assert tokens is not None, "prefill comes first"
        out = self._model(input_ids=tokens, past_key_values=cache, use_cache=True)
        return out.logits[:, -1:].argmax(-1), out.past_key_values


def warm_generator(options: argparse.Namespace, device: torch.device) -> Generator:
    """Return a generator on the current stream, after its warm-up outside of all ranges."""
    generator = Generator(
        build(options.layers, options.hidden, device), options.prompt, stream=None
    )
    generator.prefill(None)
    generator.decode(options.warmup_new, None)
    return generator


def take_turns(parts: Mapping[str, Callable[[], float]]) -> None:
    """Work when told to, as `turns.py` tells: a line of stdin names a part, the answer has its ms.

    Each answer also has the memory of this process that no other one shares, KiB.
    """
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        ms = parts[line.strip()]()
        print(json.dumps({"ms": ms, "rss_kib": own_rss_kib()}), flush=True)


def own_rss_kib() -> int:
    """Return the memory of this process that no other one shares and that is resident, KiB."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    private = [line.split() for line in lines if line.startswith("Private_")]
    return sum(int(words[1]) for words in private)


def default_counts(options: argparse.Namespace) -> tuple[int | None, int | None]:
    """Return the expected kernels of a prefill and of a decode step; None where unknown.

    Without options they are known for the default model and prompt only.
    """
    known = (options.layers, options.hidden, options.prompt) == (16, 2048, 512)
    prefill = options.prefill_kernels or (PREFILL_KERNELS if known else None)
    step = options.step_kernels or (STEP_KERNELS if known else None)
    return prefill, step


def expectation(path: str, instances: int, kernels_per_instance: int | None) -> dict[str, Any]:
    """Say that each of the `instances` of `path` holds so many kernels."""
    total = None if kernels_per_instance is None else instances * kernels_per_instance
    return {
        "path": path,
        "instances": instances,
        "kernels": total,
        "kernels_per_instance": kernels_per_instance,
    }


def report(workload: str, device: torch.device, expect: list[dict[str, Any]], **more: Any) -> None:
    """Print the workload's JSON line; on the CPU no kernels are expected."""
    import transformers

    if device.type != "cuda":
        expect = [
            {key: None if key.startswith("kernels") else value for key, value in each.items()}
            for each in expect
        ]
    document = {
        "workload": workload,
        "device": str(device),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "expect": expect,
        **more,
    }
    print(json.dumps(document), flush=True)
