"""ranks_windows_check.py on made-up bundles; needs no GPU: `python -m unittest` in this folder."""

import json
import tempfile
import unittest
from pathlib import Path

import ranks_windows_check


class Windows(unittest.TestCase):
    def said(self, *ranks, count=2):
        """Lines of one window: each rank has (number of a step, its kernels)."""
        with tempfile.TemporaryDirectory() as folder:
            for number, steps in enumerate(ranks):
                bundle = Path(folder) / "window.1" / f"rank{number}"
                bundle.mkdir(parents=True)
                rows = [{"path": f"serve/step {at}", "kernels_inclusive": n} for at, n in steps]
                rows.append({"path": "serve/step 7/layer", "kernels_inclusive": 1})
                (bundle / "metrics.json").write_text(json.dumps({"paths": rows}))
            lines = ranks_windows_check.compare(Path(folder), 2, 1, count)
            return [passed for passed, _ in lines]

    def test_the_same_steps_in_every_rank_pass(self):
        self.assertEqual(self.said([(4, 9), (5, 9)], [(4, 9), (5, 9)]), [True, True, True])

    def test_each_promise_can_fail(self):
        self.assertEqual(self.said([(4, 9), (5, 9)], [(5, 9), (6, 9)]), [False, True, True])
        self.assertEqual(self.said([(4, 9)], [(4, 9)]), [True, False, True])
        self.assertEqual(self.said([(4, 9), (5, 8)], [(4, 9), (5, 9)]), [True, True, False])
        self.assertEqual(self.said([(4, 9)]), [False], "a rank is missing")
        self.assertEqual(self.said([(4, 9)], []), [False], "a rank has no step")


if __name__ == "__main__":
    unittest.main()
