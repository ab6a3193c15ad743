"""Eager decode, CUDA graph replays and GEMMs in ranges, for what sampling counters costs and shows.

Reports the bytes that one decode step must read (weights and KV cache), the operands of each
projection, and how long each repetition took on the host.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch

import common

GEMM = 8192


def main() -> None:
    """Run the repetitions and report what they took and must have read."""
    parser = common.arguments(__doc__)
    common.model_arguments(parser)
    parser.add_argument("--batch", type=common.positive, default=1)
    parser.add_argument("--replays", type=common.positive, default=100, help="per repetition")
    parser.add_argument("--gemms", type=common.positive, default=40, help="per repetition")
    parser.add_argument("--experts", type=int, default=0, help="a mixture of so many experts")
    options = parser.parse_args()
    device = common.prepare(options)
    if device.type != "cuda":
        sys.exit("counters.py needs a GPU")
    work = Work(options, device)
    for _ in range(2):
        work.decode(8)
        work.replay(8)
        work.gemm(4)
    times: dict[str, list[float]] = {"decode": [], "graph": [], "gemm": []}
    for _ in range(options.reps):
        times["decode"].append(work.decode(options.new) / options.new)
        times["graph"].append(work.replay(options.replays) / options.replays)
        times["gemm"].append(work.gemm(options.gemms) / options.gemms)
    common.report(
        "counters",
        device,
        [],
        batch=options.batch,
        step_ms=times,
        weight_bytes=work.weight_bytes,
        embedding_bytes=work.embedding_bytes,
        unused_expert_bytes=work.unused_expert_bytes,
        kv_bytes_per_token=work.kv_bytes_per_token,
        prompt=options.prompt,
        new=options.new,
    )


class Work:
    """A model, a CUDA graph of one of its steps, and matrices."""

    def __init__(self, options: argparse.Namespace, device: torch.device) -> None:
        """Make all of it on the device."""
        self.options = options
        self.model = model(options).to(device, torch.bfloat16).eval()
        self.prompt = torch.randint(
            0, common.VOCABULARY, (options.batch, options.prompt), device=device
        )
        self.matrix = torch.randn(GEMM, GEMM, device=device, dtype=torch.bfloat16)
        self.weight_bytes = sum(p.numel() * p.element_size() for p in self.model.parameters())
        embedding = self.model.get_input_embeddings().weight
        self.embedding_bytes = embedding.numel() * embedding.element_size()
        # Two experts of each layer work on a token, of three square matrices each.
        unused = options.layers * max(0, options.experts - 2)
        self.unused_expert_bytes = unused * 3 * options.hidden * options.hidden * 2
        config = self.model.config
        heads = config.num_key_value_heads
        head = config.hidden_size // config.num_attention_heads
        self.kv_bytes_per_token = 2 * 2 * config.num_hidden_layers * heads * head * options.batch
        # The graph reads it at each replay.
        self.token = torch.randint(0, common.VOCABULARY, (options.batch, 1), device=device)
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        self.graph = None
        if options.experts:
            return  # Its routing reads results back, which no graph can hold.
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(3):
                self.model(self.token, use_cache=False)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.model(self.token, use_cache=False)

    @torch.no_grad()
    def decode(self, steps: int) -> float:
        """Prefill, then so many steps; returns the time of the steps, ms."""
        with common.open_range("prefill"):
            out = self.model(self.prompt, use_cache=True)
            torch.cuda.synchronize()
        start = time.perf_counter()
        with common.open_range("decode"):
            for _ in range(steps):
                with common.open_range("step"):
                    token = out.logits[:, -1:].argmax(-1)
                    out = self.model(token, past_key_values=out.past_key_values, use_cache=True)
            torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e3

    def replay(self, count: int) -> float:
        """Replay the graph so often; returns the time, ms."""
        if self.graph is None:
            return 0.0
        start = time.perf_counter()
        with common.open_range("graph"):
            for _ in range(count):
                self.graph.replay()
            torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e3

    def gemm(self, count: int) -> float:
        """Multiply so often; returns the time, ms."""
        start = time.perf_counter()
        with common.open_range("gemm"):
            for _ in range(count):
                self.matrix @ self.matrix
            torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e3


def model(options: argparse.Namespace) -> torch.nn.Module:
    """Return a model with random weights: dense, or a mixture of experts."""
    from transformers import (
        LlamaConfig,
        LlamaForCausalLM,
        MixtralConfig,
        MixtralForCausalLM,
    )

    torch.manual_seed(0)
    sizes = {
        "vocab_size": common.VOCABULARY,
        "hidden_size": options.hidden,
        "num_hidden_layers": options.layers,
        "num_attention_heads": options.hidden // 128,
        "num_key_value_heads": max(1, options.hidden // 256),
    }
    if options.experts:
        return MixtralForCausalLM(
            MixtralConfig(
                **sizes, intermediate_size=options.hidden, num_local_experts=options.experts
            )
        )
    return LlamaForCausalLM(LlamaConfig(**sizes, intermediate_size=options.hidden * 11 // 4))


if __name__ == "__main__":
    main()
