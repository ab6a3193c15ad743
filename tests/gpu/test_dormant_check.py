"""dormant_check.py on made-up lines; needs no GPU: `python -m unittest` in this folder."""

import json
import unittest

import dormant_check


def lines(pairs, eager=1.0, graph=1.0, kib=0):
    """Made-up lines: the dormant ones by so much slower and larger."""
    found = []
    for pair in range(pairs):
        base = {"pair": pair, "eager_ms": 10 + pair % 3, "graph_ms": 1.5, "rss_kib": 1000}
        found.append({**base, "way": "untraced"})
        found.append(
            {
                **base,
                "way": "dormant",
                "eager_ms": base["eager_ms"] * eager,
                "graph_ms": base["graph_ms"] * graph,
                "rss_kib": base["rss_kib"] + kib,
            }
        )
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

    def test_half_pairs_do_not_count_and_too_few_are_no_result(self):
        text = lines(5)
        self.assertEqual(len(dormant_check.read(text)), 5)
        self.assertEqual(len(dormant_check.read(text, text)), 10, "of two runs")
        with self.assertRaisesRegex(dormant_check.UnusableError, "4 whole pairs"):
            dormant_check.read(text[: text.rindex("\n")])
        with self.assertRaisesRegex(dormant_check.UnusableError, "line 2"):
            dormant_check.read(text.splitlines()[0] + "\n{}")


if __name__ == "__main__":
    unittest.main()
