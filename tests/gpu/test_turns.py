"""turns.py and floor_turns.py with programs that do nothing; needs no GPU.

Run `python -m unittest` in this folder.
"""

import random
import sys
import tempfile
import time
import unittest
from pathlib import Path

import floor_turns
import turns
from floor_ways import AGAIN, FLOOR_V1, UNTRACED, Way

WORKER = """
import json, os, sys, time
print(json.dumps({"ready": True}), flush=True)
open(os.environ["OWN"], "w").write('{"record_bytes": 104}')
for line in sys.stdin:
    if line.strip() == os.environ.get("FAILS"):
        if "ADVICE" in os.environ:
            raise RuntimeError("out of memory\\nCompile with another option")
        sys.exit("it fails")
    answer = {"ms": float(os.environ["MS"]), "rss_kib": 1, "cpus": list(os.sched_getaffinity(0))}
    print(json.dumps(answer), flush=True)
print("stage2: said", file=sys.stderr)
"""


class Turns(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.worker = Path(folder.name) / "worker.py"
        self.worker.write_text(WORKER)
        self.words = [sys.executable, str(self.worker)]

    def started(self, ways, groups=2):
        processes: list[turns.Process] = []

        def close():
            for process in processes:
                process.close()

        self.addCleanup(close)
        for process in turns.started(ways, groups, self.words):
            processes.append(process)
        return processes

    def test_each_process_has_a_turn_of_each_part_in_each_round_and_its_own_folder(self):
        ways = {name: {"MS": ms, "OWN": "OUT/floor.json"} for name, ms in (("a", "1"), ("b", "2"))}
        processes = self.started(ways)
        rows = list(turns.turns(processes, ["x", "y"], 3, 60, random.Random(1)))
        self.assertEqual(len(rows), 2 * 2 * 2 * 3)
        self.assertEqual({row["ms"] for row in rows if row["way"] == "b"}, {2.0})
        for at in range(0, len(rows), 2):
            both = rows[at : at + 2]
            self.assertEqual(
                {row["way"] for row in both}, {"a", "b"}, "turns of a part are neighbours"
            )
            self.assertEqual(len({(row["round"], row["group"], row["part"]) for row in both}), 1)
        used = {(row["group"], *row["cpus"]) for row in rows}
        self.assertEqual(len(used), 2, "one processor for the main threads of a group")
        for process in processes:
            process.end()
            self.assertEqual((process.status(), process.said()), (0, ["stage2: said"]))
        self.assertEqual(
            {process.file("floor.json") for process in processes}, {'{"record_bytes": 104}'}
        )

    def test_a_group_has_processors_of_its_own(self):
        cpus = [0, 1, 2, 3, 8]
        groups = [turns.of_group(group, cpus) for group in range(4)]
        self.assertEqual(groups, [{0, 1}, {2, 3}, {8, 0}, {1, 2}])
        self.assertEqual(turns.of_group(3, [5]), {5})

    def test_no_round_begins_that_does_not_fit(self):
        processes = self.started({"a": {"MS": "1", "OWN": "OUT/x"}}, groups=1)
        rows = list(turns.turns(processes, ["x"], 9, 0, random.Random(1)))
        self.assertEqual([row["round"] for row in rows], [0], "the first one begins in any case")

    def test_a_process_that_fails_says_why(self):
        processes = self.started({"a": {"MS": "1", "OWN": "OUT/x", "FAILS": "y"}}, groups=1)
        processes[0].turn("x")
        with self.assertRaisesRegex(turns.FailedError, "a: it ended: it fails"):
            processes[0].turn("y")
        with self.assertRaisesRegex(turns.FailedError, "exit status 1: it fails"):
            processes[0].end()
        self.worker.write_text("print('hello')")
        with self.assertRaisesRegex(turns.FailedError, "a: hello"):
            self.started({"a": {}}, groups=1)

    def test_an_error_is_named_and_not_the_advice_that_follows_it(self):
        more = {"MS": "1", "OWN": "OUT/own", "FAILS": "x", "ADVICE": "1"}
        (process,) = self.started({"a": more}, groups=1)
        with self.assertRaisesRegex(turns.FailedError, "RuntimeError: out of memory"):
            process.turn("x")
        self.assertIn("Compile with", process.said()[-1])

    def test_decode_by_turns_has_a_row_for_each_process_and_a_table(self):
        costs = {UNTRACED: "10", AGAIN: "10", FLOOR_V1: "14", "collector": "13"}
        chosen = [Way(name, {"MS": ms, "OWN": "OUT/floor.json"}) for name, ms in costs.items()]
        variables = {"PER_WAY": "2", "TURNS": "3"}
        begun = time.monotonic()
        rows = floor_turns.decode(chosen, self.worker, 60, variables)
        self.assertLess(time.monotonic() - begun, 30)
        self.assertEqual(len(rows), 8)
        self.assertEqual({(row["why"], row["turns"], row["status"]) for row in rows}, {("", 3, 0)})
        self.assertEqual(rows[0]["floor"], {"record_bytes": 104})
        table = "\n".join(floor_turns.table(list(costs), rows))
        self.assertIn("2 groups of 3 rounds", table)
        self.assertIn("| collector | +3.00 (+3.00 to +3.00) | 0.75 (0.75 to 0.75) |", table)
        self.assertIn(f"| {AGAIN} | +0.00", table)
        failing = floor_turns.decode(
            [Way(UNTRACED, {"MS": "1", "OWN": "OUT/x", "FAILS": "decode"})],
            self.worker,
            60,
            variables,
        )
        self.assertTrue(all("it fails" in row["why"] for row in failing), failing)
        self.assertEqual(floor_turns.table([UNTRACED, FLOOR_V1], failing), [])


if __name__ == "__main__":
    unittest.main()
