"""Which forwards of a language model are marked, and as what."""

from __future__ import annotations

import unittest
from types import SimpleNamespace
from typing import Any
from unittest import mock

from stage2_annotate import prefill_decode

from .support import needs, run_engine, run_with_nvtx

BEGIN = """
import threading, torch
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM
sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
config = LlamaConfig(num_key_value_heads=2, vocab_size=64, **sizes)
def llama(): return LlamaForCausalLM(config).eval()
model = llama()
ids = torch.randint(0, 64, (2, 7))
torch.set_grad_enabled(False)
eager = dict(fullgraph=True, backend="eager")
"""


@needs("torch", "transformers")
class PrefillDecode(unittest.TestCase):
    def marked(self, code: str) -> list[str]:
        ran = run_with_nvtx(BEGIN + code, "prefill-decode")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertNotIn("stage2:", ran.err)
        return ran.ranges

    def test_generate(self):
        once = ["prefill", "decode", "decode"]
        code = "model.generate(ids, max_new_tokens=3, min_new_tokens=3, do_sample=False)"
        self.assertEqual(self.marked(code), once)
        self.assertEqual(self.marked(code.replace("ids,", "ids[:, :1],")), once)
        self.assertEqual(self.marked(code.replace("3)", "3, cache_implementation='static')")), once)

    def test_under_the_collector_the_largest_model_is_kept(self):
        code = """
small = LlamaForCausalLM(LlamaConfig(num_key_value_heads=1, vocab_size=8, hidden_size=8,
    intermediate_size=8, num_hidden_layers=1, num_attention_heads=1)).eval()
small(ids % 8)
model.generate(ids, max_new_tokens=2, min_new_tokens=2, do_sample=False)
small(ids % 8)
"""
        ran, description = run_engine({}, BEGIN + code, "prefill-decode")
        self.assertEqual((ran.status, ran.ranges.count("decode")), (0, 1), ran.err)
        assert description is not None
        self.assertEqual((description["engine"], description["dtype"]), ("transformers", "float32"))
        self.assertEqual(description["config"]["hidden_size"], 32)

    def test_a_loop_by_hand_under_inference_mode(self):
        code = """
with torch.inference_mode():
    out = model(ids, use_cache=True)
    out = model(out.logits[:, -1:].argmax(-1), past_key_values=out.past_key_values)
    model.forward(ids, None, None)
"""
        self.assertEqual(self.marked(code), ["prefill", "decode", "prefill"])

    def test_ranges_of_the_workload_stay_around(self):
        code = "with torch.cuda.nvtx.range('mine'): model(ids)"
        self.assertEqual(self.marked(code), ["mine", "mine/prefill"])

    def test_only_what_generates_is_marked_and_only_the_outermost(self):
        code = """
BertModel(BertConfig(vocab_size=64, **sizes))(ids)
model.model(ids)
model(ids, labels=ids)
class Around(LlamaForCausalLM):
    def forward(self, *args, **kwargs):
        super().forward(*args, **kwargs)
        return model(*args, **kwargs)
Around(model.config).eval()(ids)
"""
        self.assertEqual(self.marked(code), ["prefill"])

    def test_an_exception_closes_the_range(self):
        code = """
try: model(torch.full((1, 3), 9999))
except IndexError: pass
else: raise SystemExit("no exception")
model(ids)
"""
        self.assertEqual(self.marked(code), ["prefill", "prefill"])

    def test_threads_have_their_own_ranges(self):
        code = """
threads = [threading.Thread(target=model, args=[ids]) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
        self.assertEqual(self.marked(code), ["prefill"] * 3)

    def test_compiled_models_keep_one_graph_and_are_marked(self):
        code = """
torch.compile(model, **eager)(ids)
torch.compile(model.forward, **eager)(ids)
other = llama()
other.compile(**eager)
other(ids)
other = llama()
other.forward = torch.compile(other.forward, **eager)
other(ids)
@torch.compile(backend="eager")
def call(ids): return model(ids).logits.sum()
call(ids)
"""
        # Within a function that is compiled as a whole there is nothing to put a range around.
        self.assertEqual(self.marked(code), ["prefill"] * 4)

    def test_what_compile_returns_is_what_it_was(self):
        code = """
import inspect
compiled = torch.compile(model, **eager)
assert isinstance(compiled, torch.nn.Module) and compiled._orig_mod is model
assert list(inspect.signature(model.forward).parameters)[0] == "input_ids"
assert torch.compile(lambda x: x + 1, **eager)(ids).shape == ids.shape
@torch.compile(**eager)
def twice(x): return x * 2
assert (twice(ids) == ids * 2).all()
"""
        self.assertEqual(self.marked(code), [])

    def test_with_both_annotations_operators_lie_in_stages(self):
        ran = run_with_nvtx(BEGIN + "model(ids)", "torch-ops,prefill-decode")
        self.assertEqual(ran.status, 0, ran.err)
        operators = [path for path in ran.ranges if path.startswith("prefill/aten::linear")]
        self.assertGreater(len(operators), 14)
        self.assertNotIn("(still open)", ran.ranges)


class Nvtx(unittest.TestCase):
    def test_without_cuda_the_package_nvtx_is_used(self):
        torch: Any = SimpleNamespace(version=SimpleNamespace(cuda=None))
        package = SimpleNamespace(push_range="push", pop_range="pop")
        with mock.patch.dict("sys.modules", nvtx=package):
            self.assertEqual(prefill_decode._nvtx(torch), ("push", "pop"))
        with mock.patch.dict("sys.modules", nvtx=None), self.assertRaisesRegex(
            RuntimeError, "pip install nvtx"
        ):
            prefill_decode._nvtx(torch)
