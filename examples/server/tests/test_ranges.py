"""Which package opens the ranges, and what it is given."""

import sys
import types
import unittest
from unittest import mock

from server import ranges


class Calls:
    """A module that notes the calls of some functions."""

    def __init__(self, *names):
        """Have these functions."""
        self.seen = []
        self.module = types.ModuleType("stub")
        for name in names:
            setattr(self.module, name, self.noting(name))

    def noting(self, name):
        def call(*words, **named):
            self.seen.append((name, *words, *named.items()))
            return f"handle of {words}"

        return call


def with_modules(nvtx, torch):
    """Make the two packages be these modules; None is one that is not installed."""
    return mock.patch.dict(sys.modules, {"nvtx": nvtx, "torch.cuda.nvtx": torch, "torch": torch})


OF_NVTX = ("push_range", "pop_range", "start_range", "end_range")
OF_TORCH = ("range_push", "range_pop", "range_start", "range_end")


def use(found):
    with found.open("decode", 7):
        found.end(found.start("request", 3))


class Providers(unittest.TestCase):
    def test_the_package_nvtx_comes_first_and_gets_payloads(self):
        nvtx, torch = Calls(*OF_NVTX), Calls(*OF_TORCH)
        with with_modules(nvtx.module, torch.module):
            found = ranges.choose("all")
        use(found)
        self.assertEqual(found.provider, "nvtx")
        self.assertEqual(
            nvtx.seen,
            [
                ("push_range", "decode", ("payload", 7)),
                ("start_range", "request", ("payload", 3)),
                ("end_range", "handle of ('request',)"),
                ("pop_range",),
            ],
        )
        self.assertEqual(torch.seen, [])

    def test_torch_stands_in_with_names_alone(self):
        torch = Calls(*OF_TORCH)
        with with_modules(None, torch.module):
            found = ranges.choose("all")
        torch.seen.clear()
        use(found)
        self.assertEqual(found.provider, "torch.cuda.nvtx")
        self.assertEqual([call[:2] for call in torch.seen][:2],
                         [("range_push", "decode"), ("range_start", "request")])  # fmt: skip
        self.assertEqual(len(torch.seen), 4)

    def test_a_torch_without_cuda_is_not_taken(self):
        torch = Calls("range_pop")

        def range_push(_name):
            raise RuntimeError("NVTX functions not installed")

        torch.module.__dict__["range_push"] = range_push
        with with_modules(None, torch.module), self.assertLogs("server", "WARNING") as logs:
            self.assertEqual(ranges.choose("all").provider, "off")
        self.assertIn("NVTX functions not installed", logs.output[0])
        self.assertIn("pip install nvtx", logs.output[0])

    def test_steps_leave_requests_out(self):
        nvtx = Calls(*OF_NVTX)
        with with_modules(nvtx.module, None):
            use(ranges.choose("steps"))
        self.assertEqual([call[0] for call in nvtx.seen], ["push_range", "pop_range"])

    def test_off_asks_no_package(self):
        with with_modules(None, None):
            found = ranges.choose("off")
        use(found)
        self.assertEqual(found.provider, "off")

    def test_a_range_closes_when_its_body_raises(self):
        nvtx = Calls(*OF_NVTX)
        with with_modules(nvtx.module, None):
            found = ranges.choose("all")
        with self.assertRaises(ValueError), found.open("prefill"):
            raise ValueError
        self.assertEqual([call[0] for call in nvtx.seen], ["push_range", "pop_range"])


if __name__ == "__main__":
    unittest.main()
