"""windows_check.py on made-up windows; needs no GPU: `python -m unittest` in this folder."""

import json
import sqlite3
import tempfile
import unittest
from contextlib import closing
from pathlib import Path

import windows_check

KERNELS = 2


class Windows(unittest.TestCase):
    def said(self, threads, *, launched=None, total=None):
        """Lines of a window: the steps of each thread; `launched` replaces kernels of a step."""
        with tempfile.TemporaryDirectory() as folder:
            file, metrics = Path(folder) / "w.sqlite", Path(folder) / "metrics.json"
            with closing(sqlite3.connect(file)) as connection:
                connection.executescript(
                    "CREATE TABLE NVTX_EVENTS (start, globalTid, eventType, text, textId);"
                    "CREATE TABLE StringIds (id, value);"
                    "CREATE TABLE STAGE2_WORK_RANGES (kind, rangePath);"
                )
                for thread, steps in threads.items():
                    for at, step in enumerate(steps):
                        for place, text in enumerate((f"t{thread}", f"step.{step}")):
                            row = (10 * at + place, 100 + thread, 59, text)
                            connection.execute(
                                "INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, NULL)", row
                            )
                        path = f"t{thread}/step.{step}"
                        count = (launched or {}).get((thread, at), KERNELS)
                        rows = [("kernel", path)] * count
                        connection.executemany("INSERT INTO STAGE2_WORK_RANGES VALUES (?, ?)", rows)
                connection.commit()
            metrics.write_text(json.dumps({"coverage": {"total": {"kernels": 9, **(total or {})}}}))
            return [passed for passed, _ in windows_check.window(1, file, metrics, 2, KERNELS)]

    def test_a_window_that_holds_everything_passes(self):
        whole = {0: [98, 99, 0, 1], 1: [5, 6, 7]}
        self.assertEqual(self.said(whole), [True] * 4)
        self.assertEqual(self.said(whole, launched={(0, 3): 1}), [True] * 4, "cut off by the end")

    def test_each_promise_can_fail(self):
        self.assertEqual(self.said({0: [1, 2]}), [False, True, True], "a thread is missing")
        self.assertEqual(self.said({0: [1, 3], 1: [1, 2]}), [True, False, True, True], "a step")
        fewer = self.said({0: [1, 2], 1: [1, 2]}, launched={(1, 0): 1})
        self.assertEqual(fewer, [True, True, False, True], "a kernel")
        lost = self.said({0: [1, 2], 1: [1, 2]}, total={"unattributed_kernels": 1})
        self.assertEqual(lost, [True, True, True, False])


if __name__ == "__main__":
    unittest.main()
