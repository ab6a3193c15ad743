"""One thread: prefill and decode ranges of an eager LLM, with the kernels each must hold.

With --no-ranges it opens none, and says what must be inferred from the sequence of its kernels.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch

import common
from count import count_kernels


def main() -> None:
    """Run the workload, or count its kernels per stage with torch.profiler."""
    parser = common.arguments(__doc__)
    common.model_arguments(parser)
    parser.add_argument("--steps", action="store_true", help="a range `step` per decode step")
    parser.add_argument("--no-ranges", action="store_true", help="open no range at all")
    parser.add_argument("--turns", action="store_true", help="decode when told to: turns.py")
    options = parser.parse_args()
    device = common.prepare(options)
    generator = common.warm_generator(options, device)
    if options.turns:
        common.take_turns({"decode": lambda: turn(generator, options.new)})
    elif options.count_with == "torch":
        count(generator, options.new, device)
    else:
        measure(generator, options, device)


def count(generator: common.Generator, new: int, device: torch.device) -> None:
    """Report the kernels of one prefill and of a decode step."""
    prefill = count_kernels(lambda: generator.prefill(None))
    decode = count_kernels(lambda: generator.decode(new, None))
    if decode % new:
        sys.exit(f"{decode} kernels in {new} decode steps: the steps are not alike, use --new 1")
    step = decode // new
    common.report(
        "llm", device, [], counted_by="torch.profiler", prefill_kernels=prefill, step_kernels=step
    )


def turn(generator: common.Generator, new: int) -> float:
    """Return how long the decode of a prompt takes, ms."""
    generator.prefill("prefill")
    start = time.perf_counter_ns()
    generator.decode(new, "decode")
    return (time.perf_counter_ns() - start) / 1e6


def measure(generator: common.Generator, options: argparse.Namespace, device: torch.device) -> None:
    """Run the repetitions under ranges and report what they hold."""
    host_ms = []
    for _ in range(options.reps):
        start = time.perf_counter_ns()
        generator.prefill(None if options.no_ranges else "prefill")
        middle = time.perf_counter_ns()
        step_range = "step" if options.steps and not options.no_ranges else None
        generator.decode(options.new, None if options.no_ranges else "decode", step_range)
        end = time.perf_counter_ns()
        host_ms.append({"prefill": (middle - start) / 1e6, "decode": (end - middle) / 1e6})
    prefill, step = common.default_counts(options)
    if options.no_ranges:
        infer = {
            "prefill_kernels": prefill,
            "step_kernels": step,
            "decodes": [options.warmup_new] + options.reps * [options.new],
        }
        common.report("llm", device, [], new=options.new, host_ms=host_ms, infer=infer)
        return
    expect = [
        common.expectation("prefill", options.reps, prefill),
        common.expectation("decode", options.reps, step and step * options.new),
    ]
    if options.steps:
        expect.append(common.expectation("decode/step", options.reps * options.new, step))
    common.report("llm", device, expect, new=options.new, host_ms=host_ms)


if __name__ == "__main__":
    main()
