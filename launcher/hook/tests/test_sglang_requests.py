"""Which records SGLang's requests have, and which steps worked on them."""

from __future__ import annotations

import gc
import time
import unittest
from types import SimpleNamespace
from typing import Any
from weakref import ref

from stage2_annotate import request_record
from stage2_annotate.sglang_requests import Requests

US = 1_000
BASE = 8 << 32


class Times:
    """The times of a request, which SGLang keeps in seconds."""

    prefill_finished_time = 0.0


class Request:
    """A request like SGLang's, with the fields that the hook reads."""

    def __init__(self, prompt: int) -> None:
        """Start without an output token."""
        self.time_stats = Times()
        self.origin_input_ids = range(prompt)
        self.output_ids: list[int] = []
        self.cached_tokens = self.spec_verify_ct = self.spec_num_correct_drafts = 0
        self.retraction_count = 0
        self.finished_reason: Any = None


class Engine:
    """A scheduler whose calls take one microsecond each."""

    def __init__(self, drafts: int = 0, records: bool = True) -> None:
        """Start without requests."""
        self.now = 1_000_000 * US
        self.records: list[dict[str, int]] = []
        record = self.record if records else None
        self.requests = Requests(record, engine=7, drafts=drafts, clock=lambda: self.now)

    def record(self, *values: int) -> None:
        self.records.append(dict(zip(request_record.FIELDS, values)))

    def arrive(self, prompt: int, created_s: float = 0.0) -> Request:
        request = Request(prompt)
        vars(request.time_stats)["created_time"] = created_s
        self.requests.arrive(request)
        return request

    def step(self, requests: list[Request], prompts: int = 0) -> int:
        self.now += US
        return self.requests.begin(requests, prompts) - BASE

    def answer(self, *requests: Request) -> None:
        self.now += US
        for request in requests:
            request.time_stats.prefill_finished_time = (
                request.time_stats.prefill_finished_time or self.now / 1e9
            )
            request.output_ids.append(5)

    def finish(self, request: Request, reason: type = SimpleNamespace) -> None:
        request.finished_reason = reason()
        seen = vars(request.time_stats).pop("_stage2_request", None)
        if seen is not None:
            seen.of.finish(seen, request.time_stats)


class FINISH_ABORT:
    """Why a request ended early."""


class Records(unittest.TestCase):
    """There is one record for each request, with its times and its steps."""

    def test_a_prompt_in_two_pieces_and_a_step_launched_before_the_end_was_known(self):
        engine = Engine()
        a, b = engine.arrive(10), engine.arrive(6)
        a.cached_tokens = 4
        self.assertEqual(engine.step([a], prompts=1), 1)
        engine.step([a, b], prompts=2)
        engine.answer(a, b)
        engine.step([a, b])
        # The scheduler launches a step before it knows that the previous one ended a request.
        engine.step([a, b])
        engine.answer(a, b)
        engine.finish(a)
        engine.step([b])
        engine.answer(b)
        engine.finish(b)
        first, second = engine.records
        expected = {
            "request": first["request"],
            "arrived_ns": 1_000_000 * US,
            "queue_ns": 1 * US,
            "first_token_ns": 3 * US,
            "total_ns": 6 * US,
            "prompt_tokens": 10,
            "cached_tokens": 4,
            "output_tokens": 2,
            "first_step": BASE + 1,
            "prompt_step": BASE + 2,
            "last_step": BASE + 4,
            "prompt_steps": 2,
            "preemptions": 0,
            "aborted": 0,
            "draft_tokens": 0,
            "accepted_tokens": 0,
        }
        # SGLang's times are floating-point numbers of seconds.
        self.assertAlmostEqual(first.pop("first_token_ns"), expected.pop("first_token_ns"), delta=1)
        self.assertEqual(first, expected)
        self.assertEqual(second["request"], first["request"] + 1)
        steps = [second[name] - BASE for name in ("first_step", "prompt_step", "last_step")]
        self.assertEqual((steps, second["prompt_steps"]), ([2, 2, 5], 1))

    def test_a_preempted_request_reads_its_context_again_but_not_its_prompt(self):
        engine = Engine()
        request = engine.arrive(10)
        engine.step([request], prompts=1)
        engine.answer(request)
        request.retraction_count = 1
        engine.requests.arrive(request)
        engine.step([Request(1)], prompts=1)
        engine.step([request], prompts=1)
        engine.answer(request)
        engine.finish(request, FINISH_ABORT)
        (record,) = engine.records
        found = [record[name] - BASE for name in ("first_step", "prompt_step", "last_step")]
        self.assertEqual((found, record["prompt_steps"]), ([1, 1, 3], 1))
        self.assertEqual((record["preemptions"], record["aborted"]), (1, 1))
        self.assertEqual(record["arrived_ns"], 1_000_000 * US)

    def test_a_request_arrives_where_it_is_accepted_unless_that_clock_is_another_one(self):
        arrived = []
        for created_s in (0.9, 0.0, 1.1, -90_000.0):
            engine = Engine()
            engine.finish(engine.arrive(4, created_s))
            arrived.append(engine.records[0]["arrived_ns"])
        now = 1_000_000 * US
        self.assertEqual(arrived, [900_000 * US, now, now, now])

    def test_drafted_and_accepted_tokens(self):
        engine = Engine(drafts=3)
        request = engine.arrive(4)
        request.spec_verify_ct, request.spec_num_correct_drafts = 5, 9
        engine.finish(request)
        # The name in version 0.5.11.
        other: Any = engine.arrive(4)
        other.spec_verify_ct, other.spec_accepted_drafts = 2, 1
        del other.spec_num_correct_drafts
        engine.finish(other)
        found = [(record["draft_tokens"], record["accepted_tokens"]) for record in engine.records]
        self.assertEqual(found, [(15, 9), (6, 1)])

    def test_what_never_happened_is_unknown(self):
        engine = Engine()
        engine.finish(engine.arrive(4), FINISH_ABORT)
        (record,) = engine.records
        unknown = {name for name, value in record.items() if value == request_record.UNKNOWN}
        events = {"queue_ns", "first_token_ns", "first_step", "prompt_step", "last_step"}
        self.assertEqual(unknown, events)

    def test_other_ranks_number_the_steps_alike_and_record_nothing(self):
        first, other = Engine(), Engine(records=False)
        for engine in (first, other):
            request = engine.arrive(4)
            numbers = [engine.step([request], prompts=1), engine.step([request])]
            engine.finish(request)
            self.assertEqual(numbers, [1, 2])
        self.assertEqual((len(first.records), len(other.records)), (1, 0))

    def test_requests_that_vanish_are_forgotten(self):
        engine = Engine()
        request = engine.arrive(4)
        gone = ref(request)
        del request
        for _ in range(8):
            engine.step([])
        gc.disable()
        self.addCleanup(gc.enable)
        self.assertIsNone(gone())

    def test_a_step_of_many_requests_costs_no_more_than_one_of_a_few(self):
        engine = Engine()
        requests = [engine.arrive(4) for _ in range(512)]
        rounds = 500
        begin = time.perf_counter()
        for _ in range(rounds):
            engine.step(requests)
        each_us = (time.perf_counter() - begin) / rounds * 1e6
        # The allowed time is 5 us. A loop over the requests would take 30 us or more.
        self.assertLess(each_us, 10.0)


if __name__ == "__main__":
    unittest.main()
