"""Several threads at once, each with its own LLM, stream and ranges `tN.prefill`, `tN.decode`.

Launches of the threads interleave in one process, so a profiler that attributes by time or by
the order of launches alone puts kernels under the wrong thread's range.
"""

from __future__ import annotations

import argparse
import sys
import threading

import torch

import common
from count import count_kernels


def main() -> None:
    """Run the threads; with --count-with, compare the total with torch.profiler's count."""
    parser = common.arguments(__doc__)
    common.model_arguments(parser)
    parser.add_argument("--threads", type=common.positive, default=2)
    options = parser.parse_args()
    device = common.prepare(options)
    on_gpu = device.type == "cuda"
    generators = []
    for index in range(options.threads):
        model = common.build(options.layers, options.hidden, device, seed=index)
        stream = torch.cuda.Stream(device) if on_gpu else None
        generators.append(common.Generator(model, options.prompt, stream))
    if on_gpu:
        torch.cuda.synchronize(device)  # The weights were made on another stream.

    workers = Workers(generators, options)
    total = None
    if options.count_with == "torch":
        total = count_kernels(workers.measure)
    else:
        workers.measure()
    workers.finish()

    prefill, step = common.default_counts(options)
    decode = step and step * options.new
    expect = []
    for index in range(options.threads):
        expect.append(common.expectation(f"t{index}.prefill", options.reps, prefill))
        expect.append(common.expectation(f"t{index}.decode", options.reps, decode))
    more = {}
    if total is not None:
        known = prefill is not None and decode is not None
        expected = sum(each["kernels"] for each in expect) if known else None
        more = {"counted_by": "torch.profiler", "kernels": total, "expected_kernels": expected}
    common.report("threads_llm", device, expect, threads=options.threads, **more)
    if more and more["expected_kernels"] not in (None, total):
        sys.exit(f"torch.profiler counts {total} kernels, expected {more['expected_kernels']}")


class Workers:
    """Threads that have warmed up and wait; `measure` lets them run together once."""

    def __init__(self, generators: list[common.Generator], options: argparse.Namespace) -> None:
        """Start the threads and return when each has warmed up."""
        self._options = options
        self._errors: list[BaseException] = []
        self._barrier = threading.Barrier(len(generators) + 1)
        self._threads = [
            threading.Thread(
                target=self._run, args=(index, generator), name=f"llm-{index}", daemon=True
            )
            for index, generator in enumerate(generators)
        ]
        for thread in self._threads:
            thread.start()
        self._meet()

    def measure(self) -> None:
        """Let every thread do its repetitions, and wait for them."""
        self._meet()
        self._meet()

    def finish(self) -> None:
        """Join the threads; raise what one of them raised."""
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _run(self, index: int, generator: common.Generator) -> None:
        options = self._options
        try:
            generator.prefill(None)
            generator.decode(options.warmup_new, None)
            self._barrier.wait()  # Warmed up.
            self._barrier.wait()  # Measure.
            for _ in range(options.reps):
                generator.prefill(f"t{index}.prefill")
                generator.decode(options.new, f"t{index}.decode")
            self._barrier.wait()  # Done.
        except threading.BrokenBarrierError:
            return
        except BaseException as error:
            self._errors.append(error)
            self._barrier.abort()

    def _meet(self) -> None:
        try:
            self._barrier.wait()
        except threading.BrokenBarrierError:
            self.finish()
            raise


if __name__ == "__main__":
    main()
