"""What check_removal.py accepts, and what it does not."""

from __future__ import annotations

import unittest
from typing import Any

from check_removal import checks

FRAME = {"function": "slow", "file": "x.py", "line": 3}


def report(step_ms: float, percent: float) -> dict[str, Any]:
    """Return a report whose decode is idle for half of its step, and of that so much in `slow`."""
    slow = {"frame": FRAME, "stack": ["main", "slow"], "percent": percent, "error_percent": 1.0}
    other = {
        "frame": {**FRAME, "function": "other"},
        "stack": ["main", "other"],
        "percent": 100 - percent,
        "error_percent": 1.0,
    }
    causes = sorted([slow, other], key=lambda cause: -cause["percent"])
    stage = {"stage": "decode", "causes": causes, "idle_ns": 500, "window_ns": 1000}
    step = {"mean_ns": step_ms * 1e6}
    return {"host": {"stages": [stage]}, "answer": {"stages": [{"stage": "decode", "step": step}]}}


def failed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return what failed."""
    return [what for holds, what in checks(before, after, ["slow"]) if not holds]


class CheckRemoval(unittest.TestCase):
    def test_a_step_gains_the_share_of_its_idle_time(self) -> None:
        # 10 ms, 5 of them idle, 80 % of these in `slow`: 4 ms.
        self.assertEqual(failed(report(10, 80), report(6, 5)), [])
        self.assertEqual(failed(report(10, 80), report(6.4, 5)), [])
        self.assertIn("2.500 ms less", failed(report(10, 80), report(7.5, 5))[0])
        self.assertIn("6.000 ms less", failed(report(10, 80), report(4, 5))[0])

    def test_the_function_must_be_the_first_cause(self) -> None:
        self.assertIn("other", failed(report(10, 40), report(8, 5))[0])


if __name__ == "__main__":
    unittest.main()
