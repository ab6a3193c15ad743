"""two_copies_check.py on made-up runs; needs no GPU: `python -m unittest` in this folder."""

import unittest
from pathlib import Path

import two_copies_check

NEW = Path("/new/libcupti.so.13")


def metrics(later):
    found = {"work": 200, "later": later}
    return {"paths": [{"path": path, "kernels_inclusive": n} for path, n in found.items()]}


def workload(profiler, copies=("/new/libcupti.so.13", "/torch/libcupti.so.13"), error=None):
    seen = {"kernels": profiler, "of": 200, "error": error}
    return {"libcupti": list(copies), "later": 200, "profiler": seen}


class Compared(unittest.TestCase):
    def verdicts(self, *runs):
        return [passed for passed, _ in two_copies_check.lines(*runs)]

    def test_as_much_as_with_one_copy_is_enough(self):
        runs = (metrics(200), workload(200), NEW, metrics(200), workload(200))
        self.assertEqual(self.verdicts(*runs), [True, True, True])
        # Where torch.profiler takes the records with one copy, it may with two.
        runs = (metrics(0), workload(200), NEW, metrics(0), workload(200))
        self.assertEqual(self.verdicts(*runs), [True, True, True])

    def test_less_than_with_one_copy_is_a_failure(self):
        runs = (metrics(199), workload(200), NEW, metrics(200), workload(200))
        self.assertEqual(self.verdicts(*runs), [True, False, True])
        runs = (metrics(200), workload(0, error="CUPTI_ERROR"), NEW, metrics(0), workload(200))
        found = list(two_copies_check.lines(*runs))
        self.assertEqual([passed for passed, _ in found], [True, True, False])
        self.assertIn("saw 0 of 200 kernels, with torch's copy 200 (CUPTI_ERROR)", found[-1][1])

    def test_a_run_without_the_asked_copy_is_a_failure(self):
        alone = workload(200, copies=["/torch/libcupti.so.13"])
        found = list(two_copies_check.lines(metrics(200), alone, NEW))
        self.assertEqual([passed for passed, _ in found], [False, None])
        self.assertIn("not tried", found[1][1])

    def test_without_the_other_run_only_the_copies_are_looked_at(self):
        self.assertEqual(self.verdicts(metrics(0), workload(0), NEW), [True])


if __name__ == "__main__":
    unittest.main()
