"""dormant_check.py on made-up turns; needs no GPU: `python -m unittest` in this folder."""

import json
import unittest

import dormant_check


def lines(groups, eager=1.0, graph=1.0, kib=0, rounds=4, watched=None):
    """Made-up turns: the dormant ones by so much slower and larger. Rounds differ in speed.

    `watched`: each group has such a process as well, slower by that.
    """
    ways = (*dormant_check.WAYS, *(["watched"] if watched else []))
    found = []
    for group in range(groups):
        for number in range(rounds):
            slow = 1 + number
            for way in ways:
                is_dormant = way == "dormant"
                kib_now = 1000 + (kib if is_dormant else 0)
                for part, more in (("eager", eager), ("graph", graph)):
                    ms = slow * (10 + group % 3) * (more if is_dormant else 1.0)
                    ms *= watched if way == "watched" else 1.0
                    line = {"round": number, "group": group, "way": way, "part": part}
                    found.append({**line, "ms": ms, "rss_kib": kib_now})
    return "\n".join(map(json.dumps, found))


class Dormant(unittest.TestCase):
    def said(self, text):
        return "\n".join(dormant_check.verdicts(dormant_check.read(text)))

    def test_what_costs_nothing_passes(self):
        said = self.said(lines(6))
        self.assertEqual(said.count("PASS"), 3, said)
        self.assertIn("1.0000 (1.0000 to 1.0000)", said)

    def test_each_promise_can_fail(self):
        for broken, name in (
            ({"eager": 1.02}, "FAIL eager decode"),
            ({"graph": 1.02}, "FAIL graph replay"),
            ({"kib": 5000}, "FAIL memory"),
        ):
            said = self.said(lines(6, **broken))
            self.assertIn(name, said)
            self.assertEqual(said.count("FAIL"), 1, said)

    def test_a_watch_has_a_bound_of_its_own(self):
        said = self.said(lines(6, watched=1.0))
        self.assertEqual((said.count("PASS"), said.count("FAIL")), (5, 0), said)
        said = self.said(lines(6, watched=1.02))
        self.assertEqual((said.count("PASS"), said.count("FAIL")), (3, 2), said)
        self.assertIn("FAIL eager decode, watched", said)
        self.assertIn("| eager decode | 1.0200 (1.0200 to 1.0200) | 1.0200", said)

    def test_turns_that_are_delayed_at_times_favour_nobody(self):
        """One turn of each round takes twice as long, of each way as often."""
        turns = [json.loads(line) for line in lines(6, rounds=3).splitlines()]
        for turn in turns:
            if dormant_check.WAYS[turn["round"]] == turn["way"]:
                turn["ms"] *= 2
        said = self.said("\n".join(map(json.dumps, turns)))
        for name in ("eager decode", "graph replay"):
            (row,) = (line for line in said.splitlines() if line.startswith(f"| {name}"))
            self.assertIn("| 1.0000 (1.0000 to 1.0000) | 1.0000 (1.0000 to 1.0000) |", row)

    def test_a_round_that_was_cut_short_does_not_count_and_too_few_groups_are_no_result(self):
        text = lines(5)
        self.assertEqual(len(dormant_check.read(text)), 5)
        self.assertEqual(len(dormant_check.read(text, text)), 10, "of two runs")
        cut = dormant_check.read(text[: text.rindex("\n")])
        self.assertEqual(len(cut[4].rounds("graph")), 3)
        with self.assertRaisesRegex(dormant_check.UnusableError, "4 whole groups"):
            dormant_check.read(lines(4))
        with self.assertRaisesRegex(dormant_check.UnusableError, "line 2"):
            dormant_check.read(text.splitlines()[0] + "\n{}")


if __name__ == "__main__":
    unittest.main()
