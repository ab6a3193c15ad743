"""check_ranks.py on made-up bundles; needs no GPU: `python -m unittest` in this folder."""

import unittest

import check_ranks


def noted(rank, late=None, parallel="tensor"):
    return {
        "rank": rank,
        "reps": 2,
        "kernels": {"prefill": 3, "decode": 5},
        "parallel": parallel,
        "collectives": {"prefill": 2, "decode": 4},
        "bytes_per_call": {"prefill": 64, "decode": 8},
        "late": {late: {"times": 3, "ms_median": 4.0}} if late else {},
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
                    "members": 2,
                    "bus_gb_per_s": 12.5,
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
                    "delays": {
                        "mean_ns": 4_100_000,
                        "collectives": 3,
                        "total_ns": 12_300_000,
                        "work_ns": 100_000,
                    },
                }
            ],
        },
    }


class CompareTest(unittest.TestCase):
    """What passes and what does not."""

    def failures(self, change=lambda ranks: None, metrics=None, ran=None):
        """Return the failed lines after a change of the bundle."""
        metrics = metrics or bundle()
        change(metrics["ranks"])
        truth = {rank: noted(rank) for rank in (0, 1)}
        ran = ran or {0: noted(0), 1: noted(1, late="sleep")}
        lines = check_ranks.compare(metrics, truth, ran)
        return [text for passed, text in lines if passed is False]

    def test_a_right_bundle_passes(self):
        self.assertEqual(self.failures(), [])

    def test_every_wrong_number_fails(self):
        def set_all(rows, key, value):
            return lambda ranks: [row.update({key: value}) for row in ranks[rows]]

        def set_delays(key, value):
            return lambda ranks: [row["delays"].update({key: value}) for row in ranks["late"]]

        for change, part in (
            (lambda ranks: ranks.update(seen=1), "ranks seen: 1 of 2"),
            (set_all("stages", "kernels", 9), "rank 0, prefill: [9] kernels, expected [6]"),
            (set_all("collectives", "bytes_max", 9), "messages of [9, 64] bytes"),
            (set_all("collectives", "matched_calls", 1), "1 of 4 calls matched"),
            (set_all("collectives", "transfer_ns", 5), "are 7 ns"),
            (set_all("collectives", "calls", 1), "1 collectives (tensor), expected 4"),
            (set_all("late", "rank", 0), "ranks [0], expected [1]"),
            (set_delays("mean_ns", 3_500_000), "3.500 ms late"),
            (set_delays("collectives", 9), "late 9 times, made late 3"),
            (set_delays("work_ns", 12_000_000), "because of its gpu, expected host"),
            (set_delays("work_ns", 6_000_000), "because of its both, expected host"),
            (lambda ranks: ranks.update(late=[]), "ranks [], expected [1]"),
        ):
            failures = self.failures(change)
            self.assertTrue(any(part in text for text in failures), (part, failures))

    def test_two_culprits_each_have_their_cause(self):
        metrics = bundle()
        late = metrics["ranks"]["late"]
        delays = late[0]["delays"]
        late.append({**late[0], "rank": 0, "delays": {**delays, "work_ns": delays["total_ns"]}})
        ran = {0: noted(0, late="work"), 1: noted(1, late="sleep")}
        self.assertEqual(self.failures(metrics=metrics, ran=ran), [])
        late.pop()
        said = self.failures(metrics=metrics, ran=ran)
        self.assertIn("ranks [1], expected [0, 1]", said[0])

    def test_exchanges_of_experts_are_counted(self):
        ran = {rank: noted(rank, parallel="expert") for rank in (0, 1)}
        ran[1]["late"] = noted(1, late="sleep")["late"]
        self.assertIn("0 collectives (expert)", self.failures(ran=ran)[0])
        metrics = bundle()
        for row in metrics["ranks"]["collectives"]:
            row["operation"] = "all_to_all"
        self.assertEqual(self.failures(metrics=metrics, ran=ran), [])

    def test_a_stage_of_nccl_fails(self):
        metrics = bundle()
        metrics["stages"].append({"stage": "ncclCommInitRankConfig@NCCL", "kind": "range"})
        self.assertIn("ncclCommInitRankConfig", self.failures(metrics=metrics)[0])


if __name__ == "__main__":
    unittest.main()
