"""What PyTorch marks of itself."""

from __future__ import annotations

import unittest

from .support import needs, run_with_nvtx

BEGIN = """
import threading, torch
x = torch.ones(2, 2)
def add(name):
    torch.cuda.nvtx.range_push(name)
    x + x
    torch.cuda.nvtx.range_pop()
"""


def names(paths: list[str]) -> list[str]:
    """Strip what PyTorch appends to the names of operators."""
    return ["/".join(part.split(", ")[0] for part in path.split("/")) for path in paths]


@needs("torch")
class TorchOps(unittest.TestCase):
    def marked(self, code: str, *flags: str) -> list[str]:
        ran = run_with_nvtx(BEGIN + code, "torch-ops", *flags)
        self.assertEqual(ran.status, 0, ran.err)
        # Of us, and of PyTorch about callbacks that were left on; it also complains of no GPU.
        self.assertNotRegex(ran.err, "stage2:|Leaked")
        return names(ran.ranges)

    def test_operators_nest(self):
        with_bias = self.marked("torch.nn.functional.linear(x, x, x[0])")
        self.assertEqual(
            with_bias[:3], ["aten::ones", "aten::ones/aten::empty", "aten::ones/aten::fill_"]
        )
        self.assertIn("aten::linear/aten::addmm", with_bias)
        self.assertNotIn("(still open)", with_bias)

    def test_inference_mode_and_backward(self):
        code = "with torch.inference_mode(): add('a')\n(x.requires_grad_() * x).sum().backward()"
        marked = self.marked(code)
        self.assertIn("a/aten::add", marked)
        self.assertTrue(any(path.startswith("autograd::engine") for path in marked), marked)

    def test_every_way_to_start_a_thread(self):
        code = """
class Own(threading.Thread):
    def run(self): add("own")
from concurrent.futures import ThreadPoolExecutor
threads = [threading.Thread(target=add, args=["target"]), Own(), threading.Timer(0, add, ["timer"])]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert all("run" not in vars(thread) for thread in threads)
with ThreadPoolExecutor(1) as pool: pool.submit(add, "pool").result()
"""
        marked = self.marked(code)
        for name in ("target", "own", "timer", "pool"):
            self.assertIn(f"{name}/aten::add", marked)

    def test_errors_of_threads_are_theirs(self):
        code = """
seen = []
threading.excepthook = lambda args: seen.append(args.exc_type)
def fail(): raise KeyError
thread = threading.Thread(target=fail); thread.start(); thread.join()
try: thread.start()
except RuntimeError as error: seen.append(type(error))
assert seen == [KeyError, RuntimeError], seen
"""
        self.marked(code)

    def test_the_workloads_own_profiler_works_and_the_ranges_come_back(self):
        code = """
import contextlib, io, os
from torch.autograd.profiler import profile
for _ in range(2):
    with profile(use_kineto=True) as seen: x * x
    assert any(event.name == "aten::mul" for event in seen.function_events)
add("after")
for nested in (True, False):
    try:
        with profile():
            if nested:
                with profile(): pass
    except RuntimeError: pass
    add("again")
"""
        marked = self.marked(code)
        self.assertIn("after/aten::add", marked)
        self.assertNotIn("aten::mul", marked)
        self.assertEqual(marked.count("again/aten::add"), 2)

    def test_children_of_a_fork_end_in_order(self):
        code = """
import os, sys
if os.fork() == 0:
    add("child")
    sys.exit(0)
assert os.wait()[1] == 0
"""
        self.assertIn("child/aten::add", self.marked(code))

    def test_cuda_is_not_initialised(self):
        self.marked("assert not torch.cuda.is_initialized()")
