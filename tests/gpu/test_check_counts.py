"""check_counts.py on made-up bundles; needs no GPU: `python -m unittest` in this folder."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import check_counts

WORKLOAD = {
    "workload": "llm",
    "expect": [{"path": "decode", "instances": 2, "kernels": 10, "kernels_per_instance": 5}],
    "captures": [{"replay_path": "decode", "capture_prefix": "capture", "layers": 2}],
}


def bundle():
    return {
        "paths": [{"path": "decode", "instances": 2, "kernels_inclusive": 10}],
        "stages": [
            {"stage": "decode", "kernels_per_instance_min": 5, "kernels_per_instance_max": 5}
        ],
        "graph_captures": [
            {"replay_path": "decode", "capture_path": f"capture/layer.{i}", "kernels": 4}
            for i in range(2)
        ],
        "coverage": {
            "total": {
                "unattributed": 0,
                "dropped_by_cupti": 0,
                "range_events_lost": 0,
                "unreadable_records": 0,
            }
        },
    }


class CheckCounts(unittest.TestCase):
    def check(self, metrics, workload=WORKLOAD):
        text = metrics if isinstance(metrics, str) else json.dumps(metrics)
        output = f"a line of the program\n{json.dumps(workload)}\n"
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "metrics.json").write_text(text)
            Path(folder, "out").write_text(output)
            arguments = ["check_counts.py", folder, f"{folder}/out"]
            printed = io.StringIO()
            with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(printed):
                return check_counts.main(), printed.getvalue()

    def test_exact_counts_pass(self):
        status, text = self.check(bundle())
        self.assertEqual(status, 0, text)
        self.assertNotIn("FAIL", text)
        self.assertIn("PASS decode: 10 kernels", text)

    def test_each_wrong_number_fails(self):
        def path(b):
            b["paths"][0]["kernels_inclusive"] = 9

        def absent(b):
            b["paths"][0]["kernels_inclusive"] = None

        def instances(b):
            b["paths"][0]["instances"] = 3

        def uneven(b):
            b["stages"][0]["kernels_per_instance_min"] = 4

        def layer(b):
            b["graph_captures"][1]["kernels"] = 5

        def lost(b):
            b["coverage"]["total"]["dropped_by_cupti"] = 1

        def missing(b):
            b["paths"].clear()

        def doubled(b):
            b["paths"] *= 2

        for spoil in (path, absent, instances, uneven, layer, lost, missing, doubled):
            with self.subTest(spoil.__name__):
                metrics = bundle()
                spoil(metrics)
                status, text = self.check(metrics)
                self.assertEqual(status, 1, text)
                self.assertEqual(text.count("FAIL"), 1, text)

    def test_unknown_counts_and_captures_are_notes(self):
        metrics = bundle() | {"graph_captures": []}
        unknown = {"path": "decode", "kernels": None, "kernels_per_instance": None}
        status, text = self.check(metrics, WORKLOAD | {"expect": [unknown]})
        self.assertEqual(status, 0, text)
        self.assertEqual(text.count("NOTE"), 2, text)

    def test_unreadable_bundles_are_errors(self):
        for metrics in ("{", "[]", "{}", '{"paths": 3}', "[" * 100_000):
            with self.subTest(metrics):
                status, text = self.check(metrics)
                self.assertEqual(status, 2, text)
                self.assertIn("metrics.json", text)


if __name__ == "__main__":
    unittest.main()
