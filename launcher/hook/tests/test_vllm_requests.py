"""Which records vLLM's requests have, and which steps worked on them."""

from __future__ import annotations

import tempfile
import time
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from stage2_annotate import request_record, vllm_requests

from .support import Ran, nvtx_tool, run

SCHEDULER = """
class Scheduler:
    def add_request(self, request): pass
    def schedule(self, throttle_prefills=False): return self.next
    def update_from_output(self, scheduler_output, model_runner_output): pass
    def _free_request(self, request, delay_free_blocks=False): return None, None
    def make_spec_decoding_stats(self, stats, num_draft_tokens, num_accepted_tokens, request_id):
        return "stats"
class AsyncScheduler(Scheduler): pass
"""
USE = """
import time
from types import SimpleNamespace
from vllm.v1.core.sched.scheduler import AsyncScheduler
request = SimpleNamespace(
    request_id="a", arrival_time=time.time(), num_prompt_tokens=3, num_output_tokens=0,
    num_preemptions=0, is_prefill_chunk=False, status=SimpleNamespace(name="FINISHED_STOPPED"),
)
output = SimpleNamespace(
    total_num_scheduled_tokens=3, num_scheduled_tokens={"a": 3},
    scheduled_new_reqs=[SimpleNamespace(req_id="a", num_computed_tokens=0)],
)
scheduler = AsyncScheduler()
scheduler.next = output
"""


class Engine:
    """A scheduler like that of vLLM, with one microsecond for each call."""

    def __init__(self) -> None:
        """Start without requests."""
        self.now = 1_000_000_000_000
        self.records: list[dict[str, int]] = []
        self.requests = vllm_requests.Requests(self.record, lambda: self.now)
        self.outputs: list[Any] = []

    def record(self, *values: int) -> None:
        self.records.append(dict(zip(request_record.FIELDS, values)))

    def arrive(self, name: str, prompt: int, waited_s: float = 0.0) -> SimpleNamespace:
        request = SimpleNamespace(
            request_id=name,
            arrival_time=time.time() - waited_s,
            num_prompt_tokens=prompt,
            num_output_tokens=0,
            num_preemptions=0,
            is_prefill_chunk=True,
            status=SimpleNamespace(name="FINISHED_STOPPED"),
        )
        self.requests.arrive(request)
        return request

    def schedule(self, tokens: dict[str, int], new: dict[str, int] | None = None) -> Any:
        self.now += 1_000
        output = SimpleNamespace(
            total_num_scheduled_tokens=sum(tokens.values()),
            num_scheduled_tokens=tokens,
            scheduled_new_reqs=[
                SimpleNamespace(req_id=name, num_computed_tokens=cached)
                for name, cached in (new or {}).items()
            ],
        )
        self.requests.schedule(output)
        return output

    def update(self, output: Any, *generated: Any, finish: tuple[Any, ...] = ()) -> None:
        self.now += 1_000
        for request in generated:
            request.num_output_tokens += 1
        for request in finish:
            self.requests.finish(request)
        self.requests.update(output)


class Records(unittest.TestCase):
    """There is one record for each request, with its times and its steps."""

    def test_a_request_from_its_arrival_to_its_end(self):
        engine = Engine()
        a, b = engine.arrive("a", 10, waited_s=2.0), engine.arrive("b", 6)
        # The prompt of a comes in two pieces, and four of its tokens are cached.
        first = engine.schedule({"a": 4}, new={"a": 4})
        engine.update(first)
        a.is_prefill_chunk = b.is_prefill_chunk = False
        second = engine.schedule({"a": 2, "b": 6}, new={"b": 0})
        # It schedules ahead: a step after the last token of a works on a.
        third = engine.schedule({"a": 1, "b": 1})
        engine.update(second, a, b, finish=(a,))
        engine.update(third, b)
        fourth = engine.schedule({"b": 1})
        engine.update(fourth, b, finish=(b,))
        one, other = engine.records
        step = vllm_requests.step_of(first)
        steps = [vllm_requests.step_of(output) - step for output in (second, third, fourth)]
        self.assertEqual(steps, [1, 2, 3])
        self.assertGreater(step >> 32, 0)
        waited = one["queue_ns"] - 1_000
        self.assertTrue(2.0e9 <= waited < 4.0e9, waited)
        self.assertEqual(one["first_token_ns"] - one["queue_ns"], 4_000)
        expected = {
            "prompt_tokens": 10,
            "cached_tokens": 4,
            "output_tokens": 1,
            "first_step": step,
            "prompt_step": step + 1,
            "last_step": step + 2,
            "prompt_steps": 2,
            "preemptions": 0,
            "aborted": 0,
        }
        self.assertEqual({name: one[name] for name in expected}, expected)
        self.assertEqual(one["total_ns"], one["first_token_ns"])
        self.assertEqual(
            [other[name] - step for name in ("first_step", "prompt_step", "last_step")], [1, 1, 3]
        )
        self.assertEqual(other["output_tokens"], 3)
        self.assertEqual(other["total_ns"] - other["queue_ns"], 5_000)

    def test_what_never_came_is_not_known(self):
        engine = Engine()
        waiting = engine.arrive("w", 5, waited_s=-3.0)
        waiting.status.name = "FINISHED_ABORTED"
        engine.requests.finish(waiting)
        (record,) = engine.records
        unknown = [name for name, value in record.items() if value == request_record.UNKNOWN]
        self.assertEqual(
            unknown, ["queue_ns", "first_token_ns", "first_step", "prompt_step", "last_step"]
        )
        self.assertEqual((record["aborted"], record["total_ns"]), (1, 0))

    def test_the_end_of_a_request_is_recorded_once_and_its_name_may_come_again(self):
        engine = Engine()
        for _ in range(2):
            request = engine.arrive("a", 1)
            engine.arrive("a", 1)
            engine.requests.finish(request)
            engine.requests.finish(request)
        engine.requests.finish(SimpleNamespace(request_id="never seen"))
        first, second = (record["request"] for record in engine.records)
        self.assertEqual(second, first + 1)

    def test_two_engines_of_a_process_never_give_the_same_number(self):
        one, other = Engine(), Engine()
        for engine in (one, other):
            engine.requests.finish(engine.arrive("a", 1))
        (first,), (second,) = one.records, other.records
        self.assertNotEqual(first["request"], second["request"])

    def test_one_that_lost_its_place_keeps_its_first_step(self):
        engine = Engine()
        a = engine.arrive("a", 4)
        a.is_prefill_chunk = False
        first = engine.schedule({"a": 4}, new={"a": 0})
        engine.update(first, a)
        a.num_preemptions = 1
        again = engine.schedule({"a": 5}, new={"a": 0})
        engine.update(again, a, finish=(a,))
        (record,) = engine.records
        self.assertEqual(record["first_step"], vllm_requests.step_of(first))
        self.assertEqual(record["last_step"], vllm_requests.step_of(again))
        self.assertEqual((record["preemptions"], record["prompt_steps"]), (1, 1))

    def test_drafted_tokens_are_those_of_the_request(self):
        engine = Engine()
        a, b = engine.arrive("a", 4), engine.arrive("b", 4)
        for accepted in (0, 3, 2):
            engine.requests.verify("a", 3, accepted)
        engine.requests.verify("gone", 3, 1)
        for request in (a, b):
            engine.requests.finish(request)
        found = [(record["draft_tokens"], record["accepted_tokens"]) for record in engine.records]
        self.assertEqual(found, [(9, 5), (0, 0)])

    def test_an_empty_step_has_no_number(self):
        engine = Engine()
        self.assertEqual(vllm_requests.step_of(engine.schedule({})), 0)

    def test_steps_whose_output_never_comes_are_forgotten(self):
        engine = Engine()
        for _ in range(1_000):
            engine.schedule({"x": 1})
        self.assertLessEqual(len(engine.requests._in_flight), 64)

    def test_a_step_of_many_requests_costs_no_more_than_one_of_a_few(self):
        engine = Engine()
        tokens = {f"request-{number}": 1 for number in range(512)}
        rounds = 500
        begin = time.perf_counter()
        for _ in range(rounds):
            engine.update(engine.schedule(tokens))
        each_us = (time.perf_counter() - begin) / rounds * 1e6
        # The allowed time is 5 us, but this includes the work of the test. A loop would take 40 us.
        self.assertLess(each_us, 30.0)


class VllmRequests(unittest.TestCase):
    """What happens to a program that imports vLLM's scheduler."""

    def ran(self, code: str, scheduler: str = SCHEDULER) -> Ran:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name, "vllm/v1/core/sched/scheduler.py")
        path.parent.mkdir(parents=True)
        path.write_text(scheduler)
        # The hook recognises the collector, which records fields, by this name.
        tool = Path(folder.name, "libstage2.so")
        tool.symlink_to(nvtx_tool())
        find = f"import sys; sys.path.insert(0, {folder.name!r})\n"
        ran = run(find + code, "vllm-steps", env={"NVTX_INJECTION64_PATH": str(tool)})
        self.assertEqual(ran.status, 0, ran.err)
        return ran

    def test_each_request_that_ends_is_one_empty_range(self):
        code = """
scheduler.add_request(request)
assert scheduler.schedule(throttle_prefills=True) is output and output.stage2_step > 0
request.num_output_tokens = 1
scheduler.update_from_output(output, None)
verify = scheduler.make_spec_decoding_stats
assert verify(None, num_draft_tokens=3, num_accepted_tokens=1, request_id="a") == "stats"
assert verify(None, 3, 1, "a") == "stats"
for _ in range(2):
    assert scheduler._free_request(request, delay_free_blocks=True) == (None, None)
"""
        ran = self.ran(USE + code)
        self.assertEqual((ran.ranges, ran.err), (["stage2.request"], ""))

    def test_a_request_of_another_kind_is_told_once_and_changes_nothing(self):
        code = """
del request.arrival_time
for _ in range(3):
    scheduler.add_request(request)
    assert scheduler.schedule() is output
"""
        ran = self.ran(USE + code)
        self.assertEqual(ran.ranges, [])
        self.assertRegex(ran.err, r"\Astage2: vllm-steps: requests are not .*arrival_time.*\n\Z")

    def test_a_scheduler_of_another_vllm_runs_without_records_and_one_line_says_so(self):
        ran = self.ran("import vllm.v1.core.sched.scheduler", "class Scheduler: pass")
        self.assertEqual(ran.ranges, [])
        self.assertRegex(ran.err, r"\Astage2: vllm-steps does not work with .*_free_request.*\n\Z")


if __name__ == "__main__":
    unittest.main()
