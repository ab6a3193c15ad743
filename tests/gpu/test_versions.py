"""versions.py on made-up folders; needs no GPU: `python -m unittest` in this folder."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import versions

WORKLOAD = {
    "threads": 2,
    "rounds": 3,
    "steps": 8,
    "kernels_per_prefill": 10,
    "kernels_per_step": 5,
}


def metrics(step=240, prefill=60, recorded=12, **losses):
    return {
        "paths": [
            {"path": "prefill", "kernels_inclusive": prefill},
            {
                "path": "decode/step",
                "kernels_inclusive": step,
                "instances": 48,
                "recorded_instances": recorded,
            },
        ],
        "coverage": {"total": {"kernels": 300, **dict.fromkeys(versions.LOSSES, 0), **losses}},
    }


class Versions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)

    def cupti(self, number="1"):
        folder = self.out / number
        folder.mkdir()
        (folder / "given").write_text(f"cupti-{number}\n")
        for name in versions.CASES:
            self.run_of(folder, name, metrics())
        return folder

    def run_of(self, folder, name, document, status="0", said=""):
        (folder / f"{name}.status").write_text(f"{status}\n")
        (folder / f"{name}.err").write_text(said)
        (folder / f"{name}.out").write_text(json.dumps(WORKLOAD))
        bundle = folder / f"{name}.bundle"
        bundle.mkdir(exist_ok=True)
        (bundle / "metrics.json").write_text(json.dumps(document))

    def main(self):
        printed = io.StringIO()
        with (
            mock.patch.object(sys, "argv", ["versions.py", str(self.out)]),
            contextlib.redirect_stdout(printed),
        ):
            return versions.main(), printed.getvalue()

    def test_exact_counts_pass_and_have_a_row(self):
        folder = self.cupti()
        said = "stage2: CUPTI 28 at /x/libcupti.so.12, CUDA driver 13000, attribution by fence\n"
        self.run_of(folder, "eager", metrics(), said=said)
        status, text = self.main()
        self.assertEqual(status, 0, text)
        self.assertIn("| cupti-1 | 28, 13000, fence |" + " exact |" * 5, text)

    def test_collection_that_is_off_for_a_reason_passes(self):
        folder = self.cupti()
        said = versions.OFF + "CUPTI 18 of CUDA 11 does not work\n"
        self.run_of(folder, "graph", {}, said=said)
        status, text = self.main()
        self.assertEqual(status, 0, text)
        self.assertIn("PASS cupti-1 graph: off, as it says: CUPTI 18 of CUDA 11", text)

    def test_collection_that_is_off_for_another_reason_fails(self):
        self.run_of(self.cupti(), "graph", {}, said=versions.OFF + "no CUPTI was found\n")
        status, text = self.main()
        self.assertEqual(status, 1, text)
        self.assertIn("FAIL cupti-1 graph: off: no CUPTI was found", text)

    def test_what_is_wrong_is_named(self):
        for document, part in (
            (metrics(step=239), "decode/step has 239 kernels, expected 240"),
            (metrics(prefill=None), "prefill has None kernels, expected 60"),
            (metrics(dropped_by_cupti=1), "dropped_by_cupti is 1"),
            ({}, "KeyError"),
        ):
            with self.subTest(part), tempfile.TemporaryDirectory() as folder:
                self.out = Path(folder)
                self.run_of(self.cupti(), "eager", document)
                status, text = self.main()
                self.assertEqual(status, 1)
                self.assertIn(f"FAIL cupti-1 eager: {part}", text)

    def test_a_crash_fails_whatever_was_recorded(self):
        self.run_of(self.cupti(), "crowd", metrics(), status="139", said="Segmentation fault\n")
        status, text = self.main()
        self.assertEqual(status, 1)
        self.assertIn("FAIL cupti-1 crowd: exit status 139; Segmentation fault", text)

    def test_a_sample_of_everything_is_none(self):
        self.run_of(self.cupti(), "sample", metrics(recorded=48))
        self.assertIn("48 of 48 steps recorded", self.main()[1])

    def test_nothing_to_look_at_fails(self):
        self.assertEqual(self.main()[0], 1)
        folder = self.out / "1"
        folder.mkdir()
        (folder / "given").write_text("x\n")
        (folder / "missing").write_text("no libcupti in x\n")
        self.assertIn("FAIL no libcupti in x", self.main()[1])


if __name__ == "__main__":
    unittest.main()
