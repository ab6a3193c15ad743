"""Wrong answers are called wrong."""

import unittest
from typing import Any

import score


def answer(tables: dict[str, list[dict[str, Any]]], *, unknown: bool = False) -> score.Answer:
    parsed = {
        "tables": [
            {
                "name": name,
                "columns": [{"name": column} for column in rows[0]],
                "rows": [list(row.values()) for row in rows],
            }
            for name, rows in tables.items()
        ],
        "unknown": [{"question": "x", "reason": "y"}] if unknown else [],
    }
    return score.Answer(parsed, 100)


class Mismatch(unittest.TestCase):
    def test_times_have_tolerances_in_percent(self):
        truth = {"decode": [5.0, 2]}
        self.assertIsNone(score.mismatch("time", truth, {"decode": 5.09}))
        self.assertIn("decode is 5.2", str(score.mismatch("time", truth, {"decode": 5.2})))
        self.assertIn("decode is None", str(score.mismatch("time", truth, {"prefill": 5.0})))

    def test_shares_have_tolerances_in_points(self):
        truth = {"stage": "decode", "where": "Server.update_cache", "percent": [72, 7]}
        where = "Server.update_cache (workload.py:76)"
        self.assertIsNone(score.mismatch("host", truth, {"where": where, "percent": 66}))
        self.assertIsNotNone(score.mismatch("host", truth, {"where": where, "percent": 64}))
        self.assertIsNotNone(score.mismatch("host", truth, {"where": "schedule", "percent": 72}))

    def test_a_line_is_that_of_the_workload(self):
        truth = {"line": "self.lock.acquire()"}
        self.assertIsNone(score.mismatch("host", truth, {"line": 76}))
        self.assertIsNotNone(score.mismatch("host", truth, {"line": 77}))

    def test_what_nobody_can_know_must_be_unknown(self):
        self.assertIsNone(score.mismatch("host", score.UNKNOWN, score.UNKNOWN))
        self.assertIn("nobody", str(score.mismatch("host", score.UNKNOWN, {"where": "f"})))
        self.assertEqual(score.mismatch("first", ["waiting"], score.UNKNOWN), score.UNKNOWN)

    def test_no_late_rank_is_an_answer(self):
        self.assertIsNone(score.mismatch("late", None, None))
        self.assertIn("instead of nothing", str(score.mismatch("late", None, {"rank": 1})))
        self.assertIsNotNone(score.mismatch("late", {"rank": 1}, None))


class Truth(unittest.TestCase):
    def test_no_truth_is_right_whatever_the_answer(self):
        for bundle, truths in score.TRUTH.items():
            if bundle == "about":
                continue
            self.assertEqual(truths.keys(), {"seed", *score.QUESTIONS}, bundle)
            for question in score.QUESTIONS:
                other = "?" if question == "first" else {"stage": "?"}
                wrong = score.mismatch(question, truths[question], other)
                self.assertIsNotNone(wrong, f"{bundle}, {question}")
            for field, value in truths["kernel"].items():
                self.assertTrue(value, f"{bundle}, kernel: {field}")


class Reading(unittest.TestCase):
    def test_noise_is_not_lateness(self):
        row = {"rank": "rank 0", "late_on": "noise"}
        self.assertIsNone(score.late_of(answer({"late_ranks": [row]}), None))
        self.assertEqual(score.late_of(answer({}, unknown=True), None), score.UNKNOWN)

    def test_the_share_of_lost_records_is_read(self):
        verdict = [{"status": "partial", "missing_percent": 12.5}]
        found = score.trust_of(answer({"verdict": verdict}), None)
        self.assertEqual(found, {"complete": False, "missing_percent": 12.5})

    def test_long_answers_are_complained_about(self):
        long = score.Score("item", "time", None, 8_001)
        self.assertEqual(len(list(score.complaints([long, long._replace(size=400)]))), 2)
        self.assertEqual(list(score.complaints([long._replace(size=2_000)])), [])


if __name__ == "__main__":
    unittest.main()
