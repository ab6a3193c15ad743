"""The load generator: what it plans, what it measures, and what it says of failures."""

import asyncio
import contextlib
import io
import itertools
import json
import statistics
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any

from server import load, load_report
from server.load_client import Outcome, read_url
from server.load_plan import (
    Lengths,
    Mark,
    PlanError,
    Planned,
    phase_at,
    plan,
    read_command,
    read_mark,
)
from server.tests.support import ServerProcess

FIXED = Lengths.read("8")


class Plans(unittest.TestCase):
    def test_the_same_seed_gives_the_same_requests(self):
        both = [plan(50, 10, FIXED, Lengths.read("uniform:1:99"), [], 3) for _ in range(2)]
        self.assertEqual(*both)
        self.assertNotEqual(both[0], plan(50, 10, FIXED, Lengths.read("uniform:1:99"), [], 4))

    def test_other_lengths_leave_the_times(self):
        one = plan(50, 10, FIXED, FIXED, [], 3)
        two = plan(50, 10, Lengths.read("lognormal:50:1"), FIXED, [], 3)
        self.assertEqual([each.at_s for each in one], [each.at_s for each in two])
        self.assertNotEqual(one, two)

    def test_arrivals_are_a_poisson_process(self):
        times = [each.at_s for each in plan(100, 200, FIXED, FIXED, [], 1)]
        gaps = [b - a for a, b in itertools.pairwise(times)]
        # 20,000 are expected, with a standard deviation of 141.
        self.assertAlmostEqual(len(times), 20_000, delta=600)
        # Of an exponential distribution mean and deviation are equal; 63.2 % are below the mean.
        self.assertAlmostEqual(statistics.stdev(gaps) / statistics.mean(gaps), 1, delta=0.03)
        below = sum(gap < 0.01 for gap in gaps) / len(gaps)
        self.assertAlmostEqual(below, 0.632, delta=0.015)

    def test_a_number_of_requests_bounds_the_plan(self):
        planned = plan(10, float("inf"), FIXED, FIXED, [], 1, 50)
        self.assertEqual([each.number for each in planned], list(range(1, 51)))

    def test_lengths_follow_their_distribution(self):
        def drawn(text):
            lengths = Lengths.read(text)
            return [each.prompt_tokens for each in plan(100, 40, lengths, FIXED, [], 1)]

        self.assertEqual(set(drawn("12")), {12})
        self.assertEqual(set(drawn("uniform:3:6")), {3, 4, 5, 6})
        logs = drawn("lognormal:100:0.5")
        self.assertAlmostEqual(statistics.median(logs), 100, delta=5)
        self.assertGreater(statistics.mean(logs), 105)

    def test_phases_begin_at_their_marks(self):
        marks = [Mark(5, "while"), Mark(2, "before")]
        found = [phase_at(at, marks) for at in (0, 2, 4.9, 5, 100)]
        self.assertEqual(found, ["all", "before", "before", "while", "while"])

    def test_texts_that_are_not_understood_are_named(self):
        for text in ("", "x", "0", "-1", "nan", "inf", "uniform:5", "uniform:9:3", "normal:1:2",
                     "lognormal:10:99", "uniform:1:2:3", "1e9"):  # fmt: skip
            with self.subTest(text), self.assertRaisesRegex(PlanError, "is no length"):
                Lengths.read(text)
        for text in ("x", "5", "=a", "5=", "-1=a", "nan=a"):
            with self.subTest(text), self.assertRaisesRegex(PlanError, "is no mark"):
                read_mark(text)
        for words in (("x", "true"), ("1", " "), ("inf", "true")):
            with self.subTest(words), self.assertRaises(PlanError):
                read_command(*words)
        for text in ("", "localhost:80", "https://a", "http://", "http://a:x", "http://a/b"):
            with self.subTest(text), self.assertRaisesRegex(PlanError, "is no address"):
                read_url(text)


def outcome(at_s, first_s=None, end_s=0.0, phase="all", error=None, tokens=1):
    planned = Planned(1, at_s, phase, 8, 8)
    return Outcome(planned, at_s, first_s, end_s, 200, tokens, error)


class Summaries(unittest.TestCase):
    def test_percentiles_are_values_that_occurred(self):
        values = [float(n) for n in range(100, 0, -1)]
        found = [load_report.percentile(values, each) for each in (50, 90, 99)]
        self.assertEqual(found, [50, 90, 99])
        self.assertEqual(load_report.percentile([7.0], 99), 7)
        self.assertIsNone(load_report.percentile([], 50))

    def test_times_count_from_the_planned_arrival(self):
        late = outcome(1.0, 1.5, 2.0)
        late.sent_s = 1.4
        (row,) = load_report.summary([late])
        self.assertAlmostEqual(row["ttft_p50_ms"], 500)
        self.assertAlmostEqual(row["latency_p99_ms"], 1000)

    def test_phases_have_rows_and_failures_no_latency(self):
        rows = load_report.summary([
            outcome(0, 1, 2, "before"),
            outcome(1, None, 9, "while", error="status 503", tokens=0),
            outcome(2, 3, 4, "while", tokens=6),
        ])  # fmt: skip
        self.assertEqual([row["phase"] for row in rows], ["before", "while", "all"])
        self.assertEqual([row["requests"] for row in rows], [1, 2, 3])
        self.assertEqual([row["failures"] for row in rows], [0, 1, 1])
        self.assertEqual(rows[1]["latency_p99_ms"], 2000)
        self.assertAlmostEqual(rows[2]["tokens_per_s"], 7 / 9)
        self.assertIn("while", load_report.table(rows))


class Loads(unittest.TestCase):
    def run_load(self, *arguments):
        """Return the status, the lines by kind, and what was printed."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "out.jsonl"
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = load.main([f"--out={file}", *arguments])
            lines = [json.loads(line) for line in file.read_text().splitlines()]
        kinds: dict[str, list[Any]] = {}
        for line in lines:
            kinds.setdefault(line["kind"], []).append(line)
        return status, kinds, out.getvalue() + err.getvalue()

    def test_requests_commands_and_phases(self):
        with ServerProcess() as server:
            status, kinds, text = self.run_load(
                f"--url={server.about['url']}", "--rate=40", "--requests=30", "--output=3",
                "--mark=0=before", "--mark=0.3=while", "--at", "0.3", "echo started; exit 4",
            )  # fmt: skip
        self.assertEqual(status, 1, "a command failed")
        self.assertEqual(len(kinds["request"]), 30)
        for request in kinds["request"]:
            self.assertEqual((request["status"], request["tokens"]), (200, 3), request)
            times = [request[key] for key in ("arrival_s", "sent_s", "first_token_s", "end_s")]
            self.assertEqual(times, sorted(times))
        self.assertEqual({each["phase"] for each in kinds["request"]}, {"before", "while"})
        (command,) = kinds["command"]
        self.assertEqual((command["status"], command["output"]), (4, "started\n"))
        self.assertGreaterEqual(command["start_s"], 0.3)
        self.assertEqual([row["phase"] for row in kinds["summary"]], ["before", "while", "all"])
        self.assertIn("ended with status 4: started", text)

    def test_arrivals_do_not_wait_for_answers(self):
        with slow_server(answer_s=1.0) as url:
            status, kinds, _ = self.run_load(f"--url={url}", "--rate=100", "--requests=20")
        self.assertEqual(status, 1)
        late = [each["sent_s"] - each["arrival_s"] for each in kinds["request"]]
        self.assertLess(max(late), 0.5)
        self.assertLess(max(each["sent_s"] for each in kinds["request"]), 0.9)

    def test_failures_are_counted_and_named(self):
        for words, data in (
            ("status 503: busy", b"HTTP/1.1 503 No\r\n\r\nbusy"),
            ("not of HTTP", b"hello\r\n"),
            ("not of HTTP", b""),
            ("of 32 tokens came", chunks(b'{"token": 1}\n')),
            ("the engine died", chunks(b'{"error": "the engine died"}\n')),
            ("chunk of", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n"),
            ("IncompleteRead", chunks(b'{"token": 1}\n')[:-9]),
        ):
            with self.subTest(words), slow_server(data=data) as url:
                status, kinds, text = self.run_load(
                    f"--url={url}", "--requests=2", "--rate=50", "--output=32"
                )
                self.assertEqual(status, 1)
                self.assertIn(words, text)
                self.assertEqual(kinds["summary"][0]["failures"], 2)

    def test_a_server_that_does_not_answer_is_not_waited_for(self):
        with slow_server(answer_s=5) as url:
            began = time.monotonic()
            status, _, text = self.run_load(f"--url={url}", "--requests=1", "--timeout=0.2")
        self.assertLess(time.monotonic() - began, 4)
        self.assertEqual(status, 1)
        self.assertIn("no whole answer within 0.2 s", text)

    def test_bad_command_lines(self):
        for words in (["--rate=0"], ["--rate=nan"], ["--requests=0"], ["--url=x"],
                      ["--out=/nowhere/x"], ["--mark=x"], ["--duration=1e-9"]):  # fmt: skip
            err = io.StringIO()
            with self.subTest(words), contextlib.redirect_stderr(err):
                self.assertEqual(load.main(words), 2)
            self.assertTrue(err.getvalue().startswith("load: error: "), err.getvalue())


def chunks(*data):
    parts = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in [*data, b""])
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + parts


@contextlib.contextmanager
def slow_server(answer_s=0.0, data=b"HTTP/1.1 503 No\r\n\r\nslow"):
    """Answer every request with the same bytes, after a while."""

    async def answer(reader, writer):
        with contextlib.suppress(asyncio.CancelledError):
            await reader.readuntil(b"}")
            await asyncio.sleep(answer_s)
        writer.write(data)
        writer.close()

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(answer, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()


if __name__ == "__main__":
    unittest.main()
