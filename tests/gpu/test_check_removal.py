"""What check_removal.py accepts, and what it does not."""

from __future__ import annotations

import unittest
from typing import Any

from check_removal import checks


def cause(function: str, percent: float, beside: float) -> dict[str, Any]:
    """Return a cause of idle time."""
    return {
        "frame": {"function": function, "file": "x.py", "line": 3},
        "stack": ["main", function],
        "percent": percent,
        "error_percent": 1.0,
        "beside_work_percent": beside,
    }


def failed(percent: float, after_ms: float, beside: float = 0, waits: float = 0) -> list[str]:
    """Return what fails of calls of 10 ms, half of it idle, and of that so much in `slow`."""
    causes = [cause("slow", percent, beside), cause("other", 100 - percent, 0)]
    causes.sort(key=lambda row: -row["percent"])
    host = {"stage": "kept", "causes": causes, "idle_ns": 500, "window_ns": 1000}
    times = {"kept": 10e6, "removed": after_ms * 1e6}
    report = {
        "host": {"stages": [{**host, "waits_for_work_percent": waits}]},
        "stages": [{"stage": name, "host_warm_mean_ns": ns} for name, ns in times.items()],
    }
    return [what for holds, what in checks(report, ["slow"]) if not holds]


class CheckRemoval(unittest.TestCase):
    def test_a_call_gains_the_share_of_its_idle_time(self) -> None:
        # 5 ms are idle, 80 % of these in `slow`: 4 ms.
        self.assertEqual(failed(80, after_ms=6), [])
        self.assertEqual(failed(80, after_ms=6.4), [])
        self.assertIn("2.5 ms less", failed(80, after_ms=7.5)[0])
        self.assertIn("6.0 ms less", failed(80, after_ms=4)[0])

    def test_time_beside_gpu_work_counts_where_the_host_never_waits(self) -> None:
        self.assertEqual(failed(60, after_ms=5.5, beside=15), [])
        self.assertIn("4.5 ms less", failed(60, after_ms=5.5, beside=15, waits=9)[0])

    def test_the_function_must_be_the_first_cause(self) -> None:
        self.assertIn("other", failed(40, after_ms=8)[0])


if __name__ == "__main__":
    unittest.main()
