"""What check_host.py accepts, and what it does not."""

from __future__ import annotations

import json
import unittest
from typing import Any

from check_host import checks


def report() -> dict[str, Any]:
    """Return a report whose decode waits for two lines."""
    frame = {"function": "spin", "file": "x.py", "line": 3}
    rows = [
        {"kind": "user_code", "frame": frame, "percent": 60.0, "error_percent": 1.0, "stack": []},
        {"kind": "user_code", "frame": frame, "percent": 30.0, "error_percent": 1.0, "stack": []},
        {"kind": "gil", "percent": 6.0, "error_percent": 0.5},
        {"kind": "unknown", "percent": 4.0, "error_percent": 0.1},
    ]
    return {
        "host": {"stages": [{"stage": "decode", "causes": rows, "idle_ns": 10_000_000_000}]},
        "stages": [{"stage": "decode", "gpu_busy_parts": {"copies_ns": 500_000_000}}],
        "answer": {"lines": [{"label": "host", "text": "decode waits"}]},
    }


def failed(*expected: tuple[str, str, float], changed: dict[str, Any] | None = None) -> list[str]:
    """Return what failed."""
    names = ("kind", "function", "seconds")
    truth = {"causes": [dict(zip(names, cause, strict=True)) for cause in expected]}
    found = checks(changed or report(), f"x\ntruth {json.dumps(truth)}\n", 5.0)
    return [what for holds, what in found if not holds]


class CheckHost(unittest.TestCase):
    def test_shares_are_those_of_the_program(self) -> None:
        self.assertEqual(failed(("user_code", "spin", 9.3), ("gil", "*", 0.6)), [])
        self.assertIn("user_code spin: 90.0", failed(("user_code", "spin", 8.0))[0])
        self.assertIn("sleep *: 0.0", failed(("sleep", "*", 8.0))[0])
        self.assertEqual(failed(("", "spin", 9.5)), [])

    def test_causes_add_up_and_the_first_screen_has_them(self) -> None:
        changed = report()
        changed["host"]["stages"][0]["causes"].pop()
        changed["answer"]["lines"] = []
        self.assertEqual(len(failed(changed=changed)), 2)
        self.assertEqual(len(failed(changed={"answer": {"lines": []}})), 1)
        self.assertEqual(len(checks(report(), "no line", 5.0)), 1)


if __name__ == "__main__":
    unittest.main()
