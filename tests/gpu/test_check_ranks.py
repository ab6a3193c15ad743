"""check_ranks.py on made-up bundles; needs no GPU: `python -m unittest` in this folder."""

import unittest

import check_ranks


def noted(rank, sleeps=0):
    return {
        "rank": rank,
        "reps": 2,
        "kernels": {"prefill": 3, "decode": 5},
        "all_reduces": {"prefill": 2, "decode": 4},
        "bytes_per_call": {"prefill": 64, "decode": 8},
        "sleeps": sleeps,
        "sleep_ms_median": 4.0 if sleeps else None,
    }


def bundle():
    sizes = {"prefill": 64, "decode": 8}
    return {
        "stages": [{"stage": stage, "kind": "range"} for stage in ("warmup", "prefill", "decode")],
        "ranks": {
            "seen": 2,
            "expected": 2,
            "stages": [
                {"rank": rank, "stage": stage, "kernels": kernels}
                for rank in (0, 1)
                for stage, kernels in (("prefill", 6), ("decode", 10))
            ],
            "collectives": [
                {
                    "stage": stage,
                    "operation": "all_reduce",
                    "calls": calls,
                    "matched_calls": calls,
                    "bytes_min": sizes[stage],
                    "bytes_max": sizes[stage],
                    "waiting_ns": 3,
                    "transfer_ns": 4,
                    "time_ns": 7,
                    "unmatched": [],
                }
                for stage, calls in (("prefill", 4), ("decode", 8))
            ],
            "late": [
                {
                    "stage": "decode",
                    "rank": 1,
                    "late_typical_ns": 4_100_000,
                    "late_typical_collectives": 3,
                }
            ],
        },
    }


class CompareTest(unittest.TestCase):
    """What passes and what does not."""

    def failures(self, change=lambda ranks: None, metrics=None):
        """Return the failed lines after a change of the bundle."""
        metrics = metrics or bundle()
        change(metrics["ranks"])
        truth = {rank: noted(rank) for rank in (0, 1)}
        ran = {0: noted(0), 1: noted(1, sleeps=3)}
        lines = check_ranks.compare(metrics, truth, ran)
        return [text for passed, text in lines if not passed]

    def test_a_right_bundle_passes(self):
        self.assertEqual(self.failures(), [])

    def test_every_wrong_number_fails(self):
        def set_all(rows, key, value):
            return lambda ranks: [row.update({key: value}) for row in ranks[rows]]

        for change, part in (
            (lambda ranks: ranks.update(seen=1), "ranks seen: 1 of 2"),
            (set_all("stages", "kernels", 9), "rank 0, prefill: [9] kernels, expected [6]"),
            (set_all("collectives", "bytes_max", 9), "messages of [9, 64] bytes"),
            (set_all("collectives", "matched_calls", 1), "1 of 4 calls matched"),
            (set_all("collectives", "transfer_ns", 5), "are 7 ns"),
            (set_all("collectives", "calls", 1), "1 AllReduce calls, expected 4"),
            (set_all("late", "rank", 0), "rank 0, expected 1"),
            (set_all("late", "late_typical_ns", 3_500_000), "3.500 ms late"),
            (set_all("late", "late_typical_collectives", 9), "late 9 times, slept 3"),
            (lambda ranks: ranks.update(late=[]), "rank None, expected 1"),
        ):
            failures = self.failures(change)
            self.assertTrue(any(part in text for text in failures), (part, failures))

    def test_a_stage_of_nccl_fails(self):
        metrics = bundle()
        metrics["stages"].append({"stage": "ncclCommInitRankConfig@NCCL", "kind": "range"})
        self.assertIn("ncclCommInitRankConfig", self.failures(metrics=metrics)[0])


if __name__ == "__main__":
    unittest.main()
