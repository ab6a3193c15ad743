"""One thread: prefill and decode ranges of an eager LLM, with the kernels each must hold."""

from __future__ import annotations

import argparse
import sys
import time

import torch

import common


def main() -> None:
    """Run the workload, or count its kernels per stage with torch.profiler."""
    parser = common.arguments(__doc__)
    common.model_arguments(parser)
    parser.add_argument("--steps", action="store_true", help="a range `step` per decode step")
    options = parser.parse_args()
    device = common.prepare(options)
    generator = common.warm_generator(options, device)
    if options.count_with == "torch":
        count(generator, options.new, device)
    else:
        measure(generator, options, device)


def count(generator: common.Generator, new: int, device: torch.device) -> None:
    """Report the kernels of one prefill and of a decode step."""
    prefill = common.count_kernels(lambda: generator.prefill(None))
    decode = common.count_kernels(lambda: generator.decode(new, None))
    if decode % new:
        sys.exit(f"{decode} kernels in {new} decode steps: the steps are not alike, use --new 1")
    step = decode // new
    common.report(
        "llm", device, [], counted_by="torch.profiler", prefill_kernels=prefill, step_kernels=step
    )


def measure(generator: common.Generator, options: argparse.Namespace, device: torch.device) -> None:
    """Run the repetitions under ranges and report what they hold."""
    host_ms = []
    for _ in range(options.reps):
        start = time.perf_counter_ns()
        generator.prefill("prefill")
        middle = time.perf_counter_ns()
        generator.decode(options.new, "decode", "step" if options.steps else None)
        end = time.perf_counter_ns()
        host_ms.append({"prefill": (middle - start) / 1e6, "decode": (end - middle) / 1e6})
    prefill, step = common.default_counts(options)
    expect = [
        common.expectation("prefill", options.reps, prefill),
        common.expectation("decode", options.reps, step and step * options.new),
    ]
    if options.steps:
        expect.append(common.expectation("decode/step", options.reps * options.new, step))
    common.report("llm", device, expect, new=options.new, host_ms=host_ms)


if __name__ == "__main__":
    main()
