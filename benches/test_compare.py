"""Tables of divan are read, and rounds compared."""

import unittest

from compare import shown, table, times

DIVAN = """
Timer precision: 17 ns
nvtx                           fastest       │ slowest       │ median        │ mean          │ samples │ iters
╰─ pairs                                     │               │               │               │         │
   ├─ push_and_pop             1.473 ms      │ 7.027 ms      │ 1.702 ms      │ 1.852 ms      │ 200     │ 200
   │                           6.784 Mitem/s │ 1.423 Mitem/s │ 5.875 Mitem/s │ 5.397 Mitem/s │         │
   ╰─ push_registered_and_pop  1.38 ms       │ 8.124 ms      │ 1595 µs       │ 1.907 ms      │ 200     │ 200
                               7.245 Mitem/s │ 1.23 Mitem/s  │ 6.267 Mitem/s │ 5.243 Mitem/s │         │
"""  # noqa: E501


class Compare(unittest.TestCase):
    def test_medians_are_read_with_their_units_and_paths(self) -> None:
        expected = {"pairs/push_and_pop": 1.702e6, "pairs/push_registered_and_pop": 1.595e6}
        self.assertEqual(times(DIVAN), expected)

    def test_output_that_is_no_table_has_no_times(self) -> None:
        self.assertEqual(times("error: no bench\n│ ─ ├─"), {})

    def test_rounds_are_compared_by_medians_with_their_spread(self) -> None:
        before = [{"a": 100.0}, {"a": 110.0}, {"a": 90.0}]
        now = [{"a": 50.0}, {"a": 50.0}, {"a": 51.0, "b": 1.0}]
        rows = table(before, now).splitlines()[2:]
        self.assertEqual(rows[0], "| a | 100 ns | 50 ns | 0.50 | 20% |")
        self.assertEqual(rows[1], "| b | not there |  | | |")

    def test_times_have_a_unit_that_fits(self) -> None:
        self.assertEqual(
            [shown(t) for t in (1.5, 2.5e3, 3e6, 4e9)], ["1.5 ns", "2.5 us", "3 ms", "4 s"]
        )


if __name__ == "__main__":
    unittest.main()
