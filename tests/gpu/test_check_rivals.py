"""What check_rivals.py lets pass."""

import unittest
from typing import Any

from check_rivals import compare

EXPECTED = {"sum": 1.0, "expect": [{"path": "during", "instances": 2, "kernels": 2}]}


def metrics(kernels: int, status: str) -> dict[str, Any]:
    return {
        "paths": [{"path": "during", "kernels_inclusive": kernels}],
        "coverage": {"verdict": {"status": status, "text": status}},
    }


def passed(found: dict[str, Any], traced: dict[str, Any] = EXPECTED) -> bool:
    return all(line for line, _ in compare(found, traced, EXPECTED))


class Rivals(unittest.TestCase):
    def test_exact_counts_pass(self) -> None:
        self.assertTrue(passed(metrics(2, "complete")))

    def test_missing_records_pass_only_where_that_is_said(self) -> None:
        self.assertFalse(passed(metrics(1, "complete")))
        self.assertTrue(passed(metrics(1, "partial")))

    def test_records_too_many_never_pass(self) -> None:
        self.assertFalse(passed(metrics(3, "partial")))

    def test_the_guest_computes_what_it_computes_alone(self) -> None:
        self.assertFalse(passed(metrics(2, "complete"), {**EXPECTED, "sum": 2.0}))


if __name__ == "__main__":
    unittest.main()
