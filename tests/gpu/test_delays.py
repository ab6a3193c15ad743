"""Tests of delays.py that need neither GPU nor torch."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from typing import Any

import delays


def job(
    rank: int, late_us: float, cause: str = "gpu_work", error_us: float = 1.0
) -> dict[str, Any]:
    """Return what `job` says of one late rank."""
    row = {"rank": rank, "late_ns": late_us * 1e3, "error_ns": error_us * 1e3, "cause": cause}
    return {"late": [row], "collectives": {"samples": 24}}


class Delays(unittest.TestCase):
    """What is a pass, and what is not."""

    def passes(self, found: dict[str, Any], asked_us: int, truth_us: float) -> bool:
        """Return the verdict without its lines."""
        with contextlib.redirect_stdout(io.StringIO()):
            return delays.lateness(found, asked_us, truth_us)

    def test_lateness_is_compared_with_the_truth(self) -> None:
        """Ten percent, or the stated error; the rank and the cause."""
        self.assertTrue(self.passes(job(1, 54.0), 50, 50.0))
        self.assertTrue(self.passes(job(1, 60.0, error_us=12.0), 50, 50.0))
        self.assertFalse(self.passes(job(1, 56.0), 50, 50.0))
        self.assertFalse(self.passes(job(0, 50.0), 50, 50.0))
        self.assertFalse(self.passes(job(1, 50.0, cause="host"), 50, 50.0))
        none: dict[str, Any] = {"late": [], "collectives": {"samples": 24}}
        self.assertFalse(self.passes(none, 50, 50.0))
        self.assertTrue(self.passes(none, 0, 0.0))
        self.assertFalse(self.passes(job(1, 60.0), 0, 0.0))

    def test_dull_pieces_have_to_be_gone(self) -> None:
        """The first one stays, and not all."""
        with tempfile.TemporaryDirectory() as folder:
            traces = Path(folder)
            for name in ("a-1.s2s", "a-1-p000001.s2t", "a-1-p000002.s2t"):
                (traces / name).touch()
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertFalse(delays.pieces(traces))
                (traces / "a-1-p000005.s2t").touch()
                self.assertTrue(delays.pieces(traces))


if __name__ == "__main__":
    unittest.main()
