"""check_steps.py on made-up bundles; needs no GPU: `python -m unittest` in this folder."""

import contextlib
import copy
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import check_steps

EXPECTED = {
    "expect": [],
    "infer": {"prefill_kernels": 662, "step_kernels": 694, "decodes": [4, 64, 64, 64]},
}
BUNDLE: dict[str, Any] = {
    "stages": [
        {"stage": "start-up (inferred)", "kernels": 4_000},
        {"stage": "prefill (inferred)", "kernels": 2_000},
        {"stage": "decode (inferred)", "kernels": 134_000},
    ],
    "inferred_steps": {
        "rows": [
            {
                "kernels_per_step": 694,
                "phases": 3,
                "steps": 192,
                "resembles": "decode_like",
                "step_p50_ns": 10,
                "step_p99_ns": 11,
                "before": {"kernels_median": 662, "prefill_like": True},
            }
        ]
    },
}


class CheckSteps(unittest.TestCase):
    def check(self, metrics):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "metrics.json").write_text(json.dumps(metrics))
            Path(folder, "out").write_text(f"a line of the program\n{json.dumps(EXPECTED)}\n")
            arguments = ["check_steps.py", folder, f"{folder}/out"]
            printed = io.StringIO()
            with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(printed):
                return check_steps.main(), printed.getvalue()

    def test_what_the_workload_did_passes(self):
        status, text = self.check(BUNDLE)
        self.assertEqual(status, 0, text)
        self.assertNotIn("FAIL", text)

    def test_each_wrong_number_fails(self):
        for key, value in (
            ("kernels_per_step", 347),
            ("phases", 1),
            ("steps", 60),
            ("resembles", "repeating"),
            ("before", None),
            ("step_p50_ns", None),
        ):
            metrics = copy.deepcopy(BUNDLE)
            metrics["inferred_steps"]["rows"][0][key] = value
            status, text = self.check(metrics)
            self.assertEqual(status, 1, f"{key}: {text}")
            self.assertIn("FAIL", text)

    def test_no_steps_and_other_stages_fail(self):
        for metrics in (
            {**BUNDLE, "inferred_steps": None},
            {**BUNDLE, "stages": [{"stage": "decode", "kernels": 1}]},
        ):
            self.assertEqual(self.check(metrics)[0], 1)

    def test_what_is_no_bundle_is_named(self):
        status, text = self.check([])
        self.assertEqual(status, 2)
        self.assertIn("metrics.json", text)


if __name__ == "__main__":
    unittest.main()
