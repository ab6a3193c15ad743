"""cost.py on made-up times; needs no GPU: `python -m unittest` in this folder."""

import statistics
import unittest

import cost
import draws


class Quotient(unittest.TestCase):
    def test_it_is_the_share_of_what_the_floor_adds(self):
        self.assertEqual(draws.quotient(100, 150, 155), 1.1)
        self.assertEqual(draws.quotient(100, 150, 90), -0.2)
        # Nothing can be said of a floor below the program itself.
        self.assertIsNone(draws.quotient(100, 100, 155))

    def test_times_that_do_not_vary_leave_no_doubt(self):
        said = cost.described([100, 100], [150, 150], [155, 155], statistics.median)
        self.assertTrue(said.startswith("1.10 (95 % of"), said)
        self.assertTrue(said.endswith(": 1.10 to 1.10)"), said)

    def test_times_that_vary_show_it(self):
        said = cost.described([100, 104], [150, 158], [155, 150], min)
        # Of 100, 150 and 150; those of 104, 158, 150 and of 104, 150, 155 are not rare.
        self.assertTrue(said.startswith("1.00 "), said)
        self.assertTrue(said.endswith(": 0.85 to 1.11)"), said)

    def test_a_floor_that_costs_nothing_is_told(self):
        self.assertIn("none", cost.described([100], [100], [101], min))
        said = cost.described([100, 149], [120, 110], [155, 150], min)
        self.assertTrue(said.startswith("5.00 ") and said.endswith("to inf)"), said)

    def test_a_collector_that_costs_nothing_has_the_quotient_nought(self):
        said = cost.described([100], [150], [100], min)
        self.assertEqual(said[:5] + said[-13:], "0.00 0.00 to 0.00)")


if __name__ == "__main__":
    unittest.main()
