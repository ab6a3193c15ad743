"""sampling.py on made-up folders; needs no GPU: `python -m unittest` in this folder."""

import json
import tempfile
import unittest
from pathlib import Path

import sampling


def metrics(calls, recorded, total_ns, instances=64, recorded_instances=None):
    return {
        "paths": [
            {
                "path": "decode/step",
                "instances": instances,
                "recorded_instances": recorded_instances,
            }
        ],
        "kernel_names": [{"mangled": "k"}],
        "kernels": [
            {
                "path": "decode/step/layer",
                "name_index": 0,
                "calls": calls,
                "recorded_calls": recorded,
                "invalid_timestamp_calls": 0,
                "total_ns": total_ns,
            }
        ],
        "coverage": {
            "verdict": {"text": "complete"},
            "total": {"unattributed": 0, "dropped_by_cupti": 0, "kernels": calls},
        },
    }


class Sampling(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)

    def records(self, **bundles):
        for name, document in bundles.items():
            folder = self.out / "merge" / name.replace("_", "-")
            folder.mkdir(parents=True)
            (folder / "metrics.json").write_text(json.dumps(document))
        return list(sampling.records(self.out / "merge"))

    def test_a_good_sample_passes(self):
        lines = self.records(
            full_1=metrics(6400, None, 640_000),
            sampled_1=metrics(6400, 400, 650_000, recorded_instances=4),
        )
        self.assertFalse([text for passed, text in lines if passed is False])
        self.assertIn("off by at most 1.56%", lines[-1][1])

    def test_means_and_calls_that_are_off_fail(self):
        for calls, total_ns in ((6400, 670_000), (6300, 630_000)):
            with self.subTest(calls=calls):
                self.setUp()
                lines = self.records(
                    full_1=metrics(6400, None, 640_000),
                    sampled_1=metrics(calls, 400, total_ns, recorded_instances=4),
                )
                self.assertTrue([text for passed, text in lines if passed is False])

    def test_nothing_recorded_fails(self):
        lines = self.records(
            full_1=metrics(6400, None, 640_000),
            sampled_1=metrics(0, None, 0, recorded_instances=0),
        )
        self.assertEqual(lines[-1][0], False)

    def test_replays_without_times_and_a_wrong_number_of_them_fail(self):
        def whole(untimed, launches):
            document = metrics(0, None, 0)
            document["coverage"]["total"] |= {
                "invalid_timestamps": untimed,
                "graph_launches": launches,
            }
            return document

        lines = self.records(
            full_1=metrics(6400, None, 640_000),
            whole_full=whole(0, 65),
            whole__no_wait_sampled=whole(1, 4),
            whole_ranges=whole(0, 63),
        )
        failed = [text for passed, text in lines if passed is False]
        self.assertEqual(
            failed,
            [
                "whole--no-wait-sampled: 1 records without times",
                "whole-ranges: 63 replays recorded, expected 64",
            ],
        )

    def times(self, **decode_ms):
        run = self.out / "run"
        run.mkdir()
        for name, decode in decode_ms.items():
            host_ms = [{"decode": 900}, {"decode": decode}, {"decode": decode + 1}]
            file = run / f"{name.replace('_', '-')}.out"
            file.write_text("noise\n" + json.dumps({"host_ms": host_ms}) + "\n")
        return list(sampling.times(run))

    def test_times_are_compared_without_the_cold_repetition(self):
        lines = self.times(none_1_a=100, sampled_1=104, full_1=120, none_1_b=101)
        self.assertEqual(lines[-2], (False, "sampled decode 1.040x of untraced, at most 1.03x"))
        self.assertIn("A/A noise of untraced: minimum 1.0%", lines[-3][1])

    def test_a_sample_is_held_against_a_full_record(self):
        for sampled, good in ((108, True), (117, False)):
            with self.subTest(sampled=sampled):
                self.setUp()
                lines = self.times(none_1_a=100, sampled_1=sampled, full_1=120, none_1_b=101)
                self.assertEqual(lines[-1][0], good)
                share = (sampled - 100) / 20
                self.assertIn(f"a sample costs {share:.2f} of what a full", lines[-1][1])

    def test_a_cost_within_the_noise_has_no_share(self):
        lines = self.times(none_1_a=100, sampled_1=101, full_1=102, none_1_b=103)
        self.assertIsNone(lines[-1][0])
        self.assertIn("less than the noise", lines[-1][1])

    def test_no_full_record_fails(self):
        lines = self.times(none_1_a=100, sampled_1=101, none_1_b=103)
        self.assertIs(lines[-1][0], False)


if __name__ == "__main__":
    unittest.main()
