"""Which iterations of TensorRT-LLM's PyTorch executor are marked, and with what."""

from __future__ import annotations

import random
import unittest
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

from stage2_annotate.trtllm_steps import Iterations

from .support import EngineRan, run_engine

# Names of classes and fields as in TensorRT-LLM's public source, commits 00043967 and 002f3cc3.
REQUEST = """
class LlmRequest:
    context_chunk_size = context_current_position = max_beam_num_tokens = 0
    def __init__(self, **fields): self.__dict__.update(fields)
"""
EXECUTOR = """
from types import SimpleNamespace as Of
class PyExecutor:
    max_draft_len, disable_overlap_scheduler = 0, True
    dist = Of(rank=0, tp_size=4, pp_size=1)
    model_engine = Of(model=Of(model_config=Of(
        pretrained_config=Of(torch_dtype="torch.bfloat16", _name_or_path="/m",
                             to_dict=lambda: {"model_type": "llama"}),
        quant_config=Of(quant_algo="FP8", kv_cache_quant_algo=None))))
    def _forward_step(self, scheduled_requests, new_tensors_device=None):
        if new_tensors_device == "fails": raise ValueError("of the model")
        return "outputs"
"""
USE = """
from types import SimpleNamespace
from tensorrt_llm._torch.pyexecutor.py_executor import PyExecutor
from tensorrt_llm._torch.pyexecutor.llm_request import LlmRequest
executor = PyExecutor()
def run(prompts=(), lengths=(), *more):
    # (tokens, computed), and lengths of requests that generate
    scheduled = SimpleNamespace(
        context_requests=[LlmRequest(context_chunk_size=tokens, context_current_position=computed)
                          for tokens, computed in prompts],
        generation_requests=[LlmRequest(max_beam_num_tokens=length) for length in lengths])
    assert executor._forward_step(scheduled, *more) == "outputs"
"""


@dataclass(eq=False)
class Request:
    """A request that is equal only to itself, as requests of TensorRT-LLM are."""

    length: int
    asked: ClassVar[int] = 0

    @property
    def max_beam_num_tokens(self) -> int:
        Request.asked += 1
        return self.length


def executor(drafts: int = 0, overlap: bool = False) -> Any:
    return SimpleNamespace(max_draft_len=drafts, disable_overlap_scheduler=not overlap)


def scheduled(prompts: list[Any], generating: list[Any]) -> Any:
    return SimpleNamespace(context_requests=prompts, generation_requests=generating)


class Work(unittest.TestCase):
    """The requests of an iteration determine what it works on."""

    def test_any_change_of_requests_is_seen(self):
        iterations, chance = Iterations(), random.Random(4)
        generating: list[Request] = []
        for step in range(300):
            if step % 5 == 0:
                generating = [r for r in generating if chance.random() < 0.8]
                generating += [Request(length=chance.randrange(1, 900)) for _ in range(2)]
            prompts = [
                SimpleNamespace(context_chunk_size=100, context_current_position=28)
                for _ in range(chance.choice([0, 0, 1]))
            ]
            kind, values = iterations.work_of(executor(), scheduled(prompts, list(generating))) or (
                "",
                (),
            )
            many = len(prompts)
            self.assertEqual(kind, "mixed" if many else "decode")
            context = sum(r.length for r in generating)
            number = len(generating)
            expected = (many, 100 * many, 128 * many, number, number, context, 0)
            self.assertEqual(values, expected)
            for request in generating:
                request.length += 1
        self.assertLess(Request.asked, 1_000)

    def test_drafts_are_verified_and_overlap_is_one_token_ahead(self):
        requests = [
            SimpleNamespace(max_beam_num_tokens=50, py_draft_tokens=[1, 2, 3]),
            SimpleNamespace(max_beam_num_tokens=60, py_draft_tokens=None),
        ]
        work = Iterations().work_of(executor(drafts=3), scheduled([], requests))
        self.assertEqual(work, ("verify", (0, 0, 0, 2, 5, 113, 3)))
        work = Iterations().work_of(executor(overlap=True), scheduled([], requests))
        self.assertEqual(work, ("decode", (0, 0, 0, 2, 2, 112, 0)))
        self.assertIsNone(Iterations().work_of(executor(), scheduled([], [])))


class TrtllmSteps(unittest.TestCase):
    """What happens to a program that imports the executor, and to one of another TensorRT-LLM."""

    def marked(self, code: str, request: str = REQUEST, executor: str = EXECUTOR) -> EngineRan:
        sources = {
            "tensorrt_llm/__init__.py": "__version__ = '1.2.1'",
            "tensorrt_llm/_torch/pyexecutor/llm_request.py": request,
            "tensorrt_llm/_torch/pyexecutor/py_executor.py": executor,
        }
        done = run_engine(sources, code, "trtllm-steps")
        self.assertEqual(done.ran.status, 0, done.ran.err)
        return done

    def test_each_iteration_is_one_range_and_the_model_is_kept(self):
        code = """
run([(512, 0)])
run([], [512, 40])
run([(9, 0)], [513])
run()
try: run([], [514], "fails")
except ValueError: pass
"""
        ran, description = self.marked(USE + code)
        self.assertEqual((ran.ranges, ran.err), (["prefill", "decode", "mixed", "decode"], ""))
        assert description is not None
        keys = ("engine", "version", "model", "dtype", "quantization", "tensor_parallel_size")
        expected = ["tensorrt-llm", "1.2.1", "/m", "bfloat16", "fp8", 4]
        self.assertEqual([description[key] for key in keys], expected)
        self.assertEqual(description["config"], {"model_type": "llama"})

    def test_an_executor_whose_argument_has_another_name_runs_as_before(self):
        renamed = EXECUTOR.replace("scheduled_requests", "scheduled_batch")
        use = USE.replace("_forward_step(scheduled,", "_forward_step(scheduled_batch=scheduled,")
        self.assertNotEqual((renamed, use), (EXECUTOR, USE))
        ran, _ = self.marked(use + "run([(512, 0)])", executor=renamed)
        self.assertEqual((ran.ranges, ran.err), (["prefill"], ""))

    def test_another_version_runs_without_ranges_and_one_line_says_so(self):
        changed = REQUEST.replace("max_beam_num_tokens", "tokens")
        ran, _ = self.marked("import tensorrt_llm._torch.pyexecutor.py_executor", changed)
        self.assertEqual(ran.ranges, [])
        self.assertRegex(ran.err, r"\Astage2: trtllm-steps .*LlmRequest.max_beam_num_tokens.*\n\Z")


if __name__ == "__main__":
    unittest.main()
