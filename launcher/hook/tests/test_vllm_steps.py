"""Which steps of vLLM's worker are marked, and with what."""

from __future__ import annotations

import random
import unittest
from types import SimpleNamespace
from typing import Any

from stage2_annotate import vllm_steps
from stage2_annotate.steps import FIELDS

from .support import EngineRan, run_engine

OUTPUT = """
from dataclasses import dataclass, field
@dataclass
class CachedRequestData:
    req_ids: list
    num_computed_tokens: list
    num_output_tokens: list
@dataclass
class SchedulerOutput:
    total_num_scheduled_tokens: int
    num_scheduled_tokens: dict
    scheduled_new_reqs: list
    scheduled_cached_reqs: CachedRequestData
    scheduled_spec_decode_tokens: dict = field(default_factory=dict)
"""
WORKER = """
from types import SimpleNamespace as Of
class Worker:
    rank = 1
    vllm_config = Of(
        model_config=Of(model="/m", dtype="torch.bfloat16", quantization=None, enforce_eager=False,
                        hf_config=Of(to_dict=lambda: {"model_type": "llama"})),
        cache_config=Of(cache_dtype="auto"),
        parallel_config=Of(tensor_parallel_size=2, pipeline_parallel_size=1, data_parallel_size=1,
                           enable_expert_parallel=False),
    )
    def execute_model(self, scheduler_output):
        if scheduler_output == "fails": raise ValueError("of the model")
        return getattr(scheduler_output, "answer", None)
    def sample_tokens(self, grammar_output):
        return "sampled"
    def compile_or_warm_up_model(self):
        pass
"""
USE = """
from types import SimpleNamespace
from vllm.v1.worker.gpu_worker import Worker
from vllm.v1.core.sched.output import CachedRequestData, SchedulerOutput
def step(new=(), cached=(), spec=()):
    # (name, tokens, computed), (name, tokens, computed, outputs)
    tokens = {r[0]: r[1] for r in (*new, *cached)}
    return SchedulerOutput(
        sum(tokens.values()), tokens,
        [SimpleNamespace(req_id=r[0], num_computed_tokens=r[2]) for r in new],
        CachedRequestData([r[0] for r in cached], [r[2] for r in cached], [r[3] for r in cached]),
        {name: [0] * drafts for name, drafts in spec},
    )
worker = Worker()
def run(output):
    worker.execute_model(output)
    assert worker.sample_tokens(None) == "sampled"
"""


class Work(unittest.TestCase):
    """What a step works on is what a loop over all of its requests finds."""

    def test_any_mixture_of_requests(self):
        chance = random.Random(5)
        kinds = set()
        for _ in range(500):
            requests = [
                SimpleNamespace(
                    req_id=f"request-{number}",
                    tokens=chance.choice([1, 1, 4, 512]),
                    num_computed_tokens=chance.randrange(900),
                    outputs=chance.choice([0, 0, 1, 60]),
                    is_new=chance.random() < 0.3,
                    drafts=chance.choice([0, 0, 0, 3]),
                )
                for number in range(chance.randrange(6))
            ]
            kinds.add(self.compare(requests))
        self.assertEqual(kinds, {"prefill", "decode", "mixed", "verify", None})

    def test_the_contexts_of_going_requests_are_those_of_a_sum(self):
        chance = random.Random(6)
        reader = vllm_steps.Reader()
        requests: dict[str, list[int]] = {}
        repeats = 0
        for number in range(2_000):
            before = list(requests)
            if chance.random() < 0.1:
                requests[f"request-{number}"] = [chance.randrange(900), chance.choice([0, 1])]
            if requests and chance.random() < 0.1:
                del requests[chance.choice(list(requests))]
            resumed = chance.random() < 0.05
            if requests and resumed:
                requests[next(iter(requests))] = [3, 1]
            repeats += before == list(requests) != []
            # One or none of the prompts ends with a piece of one token.
            output = SimpleNamespace(
                total_num_scheduled_tokens=len(requests),
                num_scheduled_tokens=dict.fromkeys(requests, 1),
                scheduled_new_reqs=[],
                scheduled_cached_reqs=SimpleNamespace(
                    req_ids=list(requests),
                    resumed_req_ids={next(iter(requests))} if requests and resumed else set(),
                    num_computed_tokens=[computed for computed, _ in requests.values()],
                    num_output_tokens=[outputs for _, outputs in requests.values()],
                ),
                scheduled_spec_decode_tokens={},
                stage2_step=number,
            )
            expected = vllm_steps.work_of(None, output)
            found = reader.read(None, output)
            if expected is None:
                self.assertIsNone(found)
            else:
                kind, values = expected
                self.assertEqual(found, (kind, (*values, number)))
            for request in requests.values():
                request[0] += 1
                request[1] += 1
        self.assertGreater(repeats, 500)

    def compare(self, requests: list[Any]) -> str | None:
        in_context = [r for r in requests if r.is_new or r.outputs == 0]
        decoding = [r for r in requests if not (r.is_new or r.outputs == 0)]
        drafts = sum(r.drafts for r in requests)
        expected = (
            len(in_context),
            sum(r.tokens for r in in_context),
            sum(r.tokens + r.num_computed_tokens for r in in_context),
            len(decoding),
            sum(r.tokens for r in decoding),
            sum(r.tokens + r.num_computed_tokens for r in decoding),
            drafts,
        )
        cached = [r for r in requests if not r.is_new]
        found = vllm_steps.work_of(
            None,
            SimpleNamespace(
                total_num_scheduled_tokens=sum(r.tokens for r in requests),
                num_scheduled_tokens={r.req_id: r.tokens for r in requests},
                scheduled_new_reqs=[r for r in requests if r.is_new],
                scheduled_cached_reqs=SimpleNamespace(
                    req_ids=[r.req_id for r in cached],
                    num_computed_tokens=[r.num_computed_tokens for r in cached],
                    num_output_tokens=[r.outputs for r in cached],
                ),
                scheduled_spec_decode_tokens={
                    r.req_id: [7] * r.drafts for r in requests if r.drafts
                },
            ),
        )
        if not requests:
            self.assertIsNone(found)
            return None
        kind, values = found or ("", ())
        self.assertEqual(dict(zip(FIELDS, values)), dict(zip(FIELDS, expected)))
        if in_context:
            self.assertEqual(kind, "mixed" if decoding else "prefill")
        else:
            self.assertEqual(kind, "verify" if drafts else "decode")
        return kind


class VllmSteps(unittest.TestCase):
    """What happens to a program that imports vLLM's worker, and to one whose vLLM is another."""

    def marked(self, code: str, output: str = OUTPUT, worker: str = WORKER) -> EngineRan:
        sources = {
            "vllm/__init__.py": "__version__ = '0.26.0'",
            "vllm/v1/core/sched/output.py": output,
            "vllm/v1/worker/gpu_worker.py": worker,
        }
        done = run_engine(sources, code, "vllm-steps")
        self.assertEqual(done.ran.status, 0, done.ran.err)
        return done

    def test_each_step_is_one_range_from_the_model_to_the_sampler(self):
        code = """
run(step(new=[("a", 512, 0), ("b", 9, 3)]))
run(step(cached=[("a", 1, 512, 1), ("b", 1, 12, 1)]))
run(step(new=[("c", 4, 0)], cached=[("a", 1, 513, 2)]))
run(step(cached=[("c", 4, 4, 0)]))
run(step(cached=[("a", 4, 513, 2)], spec=[("a", 3)]))
run(step())
"""
        ran, description = self.marked(USE + code)
        self.assertEqual(ran.ranges, ["prefill", "decode", "mixed", "prefill", "verify"])
        self.assertEqual(ran.err, "")
        assert description is not None
        self.assertEqual(
            [description[key] for key in ("engine", "version", "rank", "tensor_parallel_size")],
            ["vllm", "0.26.0", 1, 2],
        )
        self.assertEqual(description["config"], {"model_type": "llama"})

    def test_a_step_that_samples_nothing_ends_all_the_same(self):
        code = """
one = step(cached=[("a", 1, 5, 1)])
one.answer = "no tokens are needed"
assert worker.execute_model(one) == "no tokens are needed"
del one.answer
worker.execute_model(one)
run(one)
"""
        self.assertEqual(self.marked(USE + code).ran.ranges, ["decode"] * 3)

    def test_errors_of_the_model_and_of_the_marking_change_nothing(self):
        code = """
import threading
broken = step(cached=[("a", 1, 5, 1)])
broken.answer, broken.num_scheduled_tokens = 5, None
assert worker.execute_model(broken) == 5
for _ in range(2):
    try: worker.execute_model("fails")
    except ValueError: pass
    else: raise SystemExit("no exception")
run(step(cached=[("a", 1, 5, 1)]))
"""
        ran, _ = self.marked(USE + code)
        self.assertEqual(ran.ranges, ["decode"])
        self.assertRegex(
            ran.err, r"\A(stage2: vllm-steps: steps are not marked: \w+Error.*\n){2}\Z"
        )

    def test_another_vllm_runs_without_ranges_and_one_line_says_so(self):
        output = OUTPUT.replace("num_output_tokens: list", "outputs: list")
        ran, _ = self.marked("import vllm.v1.worker.gpu_worker", output=output)
        self.assertEqual(ran.ranges, [])
        self.assertRegex(
            ran.err, r"\Astage2: vllm-steps .*CachedRequestData.num_output_tokens.*\n\Z"
        )
        ran, _ = self.marked("import vllm.v1.worker.gpu_worker", worker="class Worker: pass")
        self.assertRegex(ran.err, r"\Astage2: vllm-steps does not work with .*execute_model.*\n\Z")


if __name__ == "__main__":
    unittest.main()
