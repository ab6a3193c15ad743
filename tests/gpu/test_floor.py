"""floor.py and its modules on made-up processes; needs no GPU: `python -m unittest` here."""

import tempfile
import unittest
from pathlib import Path
from typing import Any

import draws
import floor
import floor_tables
import floor_ways
from floor_ways import AGAIN, FLOOR_V1, UNTRACED, Way

PLACE = floor_ways.Place(
    Path("/f/floor.so"), Path("/f/OUT/libstage2.so"), Path("/f/libcupti.so.13")
)


def row(way, eager, graph=None, *, floor=None, why="", said=(), round_=0, kernels=100):
    def phase(ns):
        return {"min": ns, "median": ns + 10, "batches": 3}

    found = {"eager_ns": phase(eager)} | ({"graph_ns": phase(graph)} if graph else {})
    return {
        "round": round_,
        "way": way,
        "program": "launches",
        "status": 0,
        "why": why,
        "result": {"kernels": kernels, "all": found},
        "floor": floor,
        "said": list(said),
    }


def told(records=100, bytes_=28, by_layout=28):
    return {"records": records, "record_bytes": bytes_, "record_bytes_by_layout": by_layout}


class Draws(unittest.TestCase):
    def test_a_single_process_leaves_no_doubt(self):
        self.assertEqual(draws.interval([[5.0]], sum), draws.Interval(5.0, 5.0, 5.0))

    def test_processes_that_differ_show_it(self):
        found = draws.interval([[1.0, 3.0]], lambda group: sum(group) / len(group))
        self.assertEqual(found, draws.Interval(2.0, 1.0, 3.0))
        assert found is not None
        self.assertEqual(found.text(".1f"), "2.0 (1.0 to 3.0)")

    def test_what_has_no_value_in_a_draw_is_infinite_and_never_left_out(self):
        found = draws.interval(
            [[1.0, 2.0]], lambda group: None if group == [2.0, 2.0] else min(group)
        )
        self.assertEqual(found, draws.Interval(1.0, 1.0, float("inf")))
        self.assertIsNone(draws.interval([[1.0]], lambda group: None))


class Ways(unittest.TestCase):
    def test_every_field_is_measured_alone_and_all_names_are_known(self):
        names = floor_ways.field_names()
        self.assertEqual(len(names), len(set(names)))
        self.assertGreaterEqual(len(names), 47)
        ways = {way.name: way.variables for way in floor_ways.ways("fields", PLACE)}
        for name in names[1:]:
            self.assertEqual(ways[name]["FLOOR_FIELDS"], f"kind,{name}")
        asked = {f for each in ways.values() for f in each.get("FLOOR_FIELDS", "").split(",")}
        self.assertEqual(asked - set(names) - {"", "all", "default"}, set())
        self.assertEqual(ways["default without name"]["FLOOR_FIELDS"].count(","), 17)

    def test_each_api_is_measured_bare_and_under_the_collector(self):
        ways = {way.name: way.variables for way in floor_ways.ways("cost", PLACE)}
        self.assertEqual(ways[UNTRACED], {})
        self.assertEqual(ways[FLOOR_V1]["FLOOR_API"], "v1")
        self.assertEqual(ways["floor v2, min fields"]["FLOOR_FIELDS"], "min")
        self.assertEqual(ways["collector v2"]["STAGE2_CUPTI_API"], "v2")
        self.assertEqual(ways["collector v2"]["STAGE2_CUPTI"], "/f/libcupti.so.13")
        old = floor_ways.ways("cost", with_old())
        self.assertEqual(old[-2].variables["FLOOR_CUPTI"], "/old")
        self.assertNotIn("STAGE2_CUPTI_API", old[-1].variables)

    def test_stopping_is_asked_of_one_process(self):
        ways = floor_ways.ways("off", PLACE)
        self.assertTrue(all(way.switch and way.switch[0] == "/f/floor.so" for way in ways))
        self.assertTrue(all("CUDA_INJECTION64_PATH" not in way.variables for way in ways))


def with_old():
    return floor_ways.Place(PLACE.floor, PLACE.collector, PLACE.cupti, Path("/old"))


class Rounds(unittest.TestCase):
    def setUp(self):
        self.now = 0.0
        self.kept = []

    def run_rounds(self, seconds, budget_s, most=20):
        def once(round_, way, left_s):
            self.now += min(seconds, left_s)
            return [{"round": round_, "way": way.name}]

        ways = [Way("a"), Way("b")]
        rows, whole = floor.rounds(ways, once, self.kept.extend, budget_s, most, lambda: self.now)
        self.assertEqual(self.kept, rows)
        return "".join(each["way"] for each in rows), whole

    def test_a_round_begins_only_where_it_fits(self):
        self.assertEqual(self.run_rounds(10, 65), ("abbaab", 3))

    def test_there_are_at_most_so_many(self):
        self.assertEqual(self.run_rounds(1, 1000, 2), ("abba", 2))

    def test_the_first_round_ends_with_the_time(self):
        self.assertEqual(self.run_rounds(10, 7), ("a", 0))


class Run(unittest.TestCase):
    def run_script(self, script, variables=None, limit_s=20.0):
        return floor.run(["/bin/sh", "-c", script], Way("w", variables or {}), limit_s)

    def test_what_a_process_says_is_kept(self):
        script = (
            'echo noise; echo "{\\"a\\": 1}"; echo "{\\"records\\": 2}" > "$FLOOR_OUT"; '
            "echo stage2: x >&2"
        )
        found = self.run_script(script, {"FLOOR_OUT": "OUT/floor.json", "KEPT": "/OUT/x"})
        self.assertEqual((found["result"], found["floor"]), ({"a": 1}, {"records": 2}))
        self.assertEqual((found["why"], found["said"]), ("", ["stage2: x"]))

    def test_a_path_with_out_in_it_stays(self):
        found = self.run_script('echo "{\\"a\\": \\"$KEPT\\"}"', {"KEPT": "/OUT/x"})
        self.assertEqual(found["result"], {"a": "/OUT/x"})

    def test_what_fails_says_why(self):
        found = self.run_script("echo first >&2; echo last >&2; exit 3")
        self.assertEqual(found["why"], "exit status 3: last")
        self.assertEqual(self.run_script("echo 7")["why"], "it printed no line of JSON")
        found = self.run_script("echo {}; sleep 60", limit_s=0.3)
        self.assertIn("ended after the limit", found["why"])

    def test_a_switch_comes_last(self):
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "words"
            script.write_text('#!/bin/sh\necho "{\\"words\\": \\"$*\\"}"\n')
            script.chmod(0o755)
            found = floor.run([str(script), "one"], Way("w", {}, ("/f.so", "disable")), 20)
        self.assertEqual(found["result"], {"words": "one --switch /f.so disable"})


class Tables(unittest.TestCase):
    def test_the_quotient_is_over_the_first_api(self):
        rows = [row(UNTRACED, 100, 10), row(AGAIN, 100, 10), row(FLOOR_V1, 200, 20, floor=told())]
        rows += [row("floor v2, min fields", 173, 19, floor=told())]
        names = [UNTRACED, AGAIN, FLOOR_V1, "floor v2, min fields"]
        page = floor_tables.page("cost", names, rows)
        self.assertIn(
            "| floor v2, min fields | 0.73 (0.73 to 0.73); 0.73 (0.73 to 0.73) "
            "| 0.90 (0.90 to 0.90); 0.90 (0.90 to 0.90) |",
            page,
        )
        self.assertIn("| floor v2, min fields | 28 | 173.0; 183.0 (183.0 to 183.0) |", page)
        self.assertNotIn("FAIL", page)

    def test_a_way_without_a_result_is_told(self):
        rows = [row(UNTRACED, 100), row(FLOOR_V1, 200, why="exit status 3: no record")]
        page = floor_tables.page("cost", [UNTRACED, FLOOR_V1, "collector v2"], rows)
        self.assertIn(f"- FAIL {FLOOR_V1}, launches: exit status 3: no record", page)
        self.assertIn("- FAIL collector v2: no process of it ran", page)
        self.assertIn(f"| {FLOOR_V1} | - | - |", page)

    def test_a_floor_that_counts_otherwise_is_of_no_use(self):
        rows = [row(FLOOR_V1, 200, floor=told(records=99)), row("v2", 200, floor=told(100, 28, 32))]
        page = floor_tables.page("cost", [FLOOR_V1, "v2"], rows)
        self.assertIn(f"- NOTE {FLOOR_V1}: 99 records of 100 kernels", page)
        self.assertIn("- NOTE v2: the layout tells 32 bytes a record, CUPTI's walk finds 28", page)

    def test_what_the_collector_used_is_told_once(self):
        said = ["stage2: CUPTI 130500 at /x", "stage2: written"]
        rows = [row("collector v2", 200, said=said, round_=n) for n in range(3)]
        page = floor_tables.page("cost", ["collector v2"], rows)
        self.assertEqual(page.count("CUPTI 130500 at /x"), 1)
        self.assertNotIn("written", page)

    def test_a_field_adds_to_both_untraced_ways(self):
        rows = [row(UNTRACED, 100), row(AGAIN, 110), row("kind", 130, floor=told(bytes_=4))]
        page = floor_tables.page("fields", [UNTRACED, AGAIN, "kind"], rows)
        # Medians of processes: 115 of both untraced ways, 140.
        self.assertIn("| kind | 4 | +30.0; +25.0 (+20.0 to +30.0) |", page)
        self.assertIn(f"| {AGAIN} | - | +10.0; +10.0 (+10.0 to +10.0) |", page)

    def test_what_is_left_is_of_one_process(self):
        def switched(before, on, off):
            result: dict[str, Any] = {"kernels": 100}
            for phase, ns in zip(("before", "on", "off"), (before, on, off), strict=True):
                of_replay = {"min": 2 * ns, "median": 2 * ns, "batches": 1}
                result[phase] = {"eager_ns": {"min": ns, "median": ns, "batches": 1}}
                result[phase]["kept_ns"] = of_replay
            return {**row("v1, disable", 1), "result": result}

        rows = [switched(100, 200, 155), switched(1100, 1200, 1155)]
        never = {**switched(100, 101, 105), "way": floor_ways.NEVER_ON}
        page = floor_tables.page("off", [floor_ways.NEVER_ON, "v1, disable"], [never, *rows])
        # The processes are far apart; in each of them 55 % stays.
        self.assertIn(
            "| v1, disable | 600.0 | 700.0 | 655.0 | +55.0 (+55.0 to +55.0) | 0.55 ", page
        )
        self.assertIn("| never on | 100.0 | 101.0 | 105.0 | +5.0 (+5.0 to +5.0) | - |", page)
        kept = page.split("The same of a graph made before, ns:")[1]
        self.assertIn("| 1200.0 | 1400.0 | 1310.0 | +110.0 (+110.0 to +110.0) | 0.55 ", kept)
        self.assertNotIn("Graph node", page, "nobody measured it")

    def test_the_decode_is_that_of_the_repetitions(self):
        decode = row(UNTRACED, 1) | {"program": "decode"}
        decode["result"] = {"host_ms": [{"decode": 7.0}, {"decode": 5.0}, {"decode": 6.0}]}
        page = floor_tables.page("cost", [UNTRACED], [decode])
        self.assertIn("| untraced | - | 5.0; 6.0 (6.0 to 6.0) |", page)


if __name__ == "__main__":
    unittest.main()
