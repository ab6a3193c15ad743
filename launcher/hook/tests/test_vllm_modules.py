"""Which modules the graphs of vLLM get at their capture."""

from __future__ import annotations

import unittest

from .support import EngineRan, run_engine
from .test_vllm_steps import OUTPUT

TORCH = """
class Tensor:
    def __init__(self, address): self.address = address
    def data_ptr(self):
        if self.address is None: raise RuntimeError("no storage")
        return self.address
class nn:
    class Module:
        def __init__(self, weights=(), **modules): self.weights, self.modules = weights, modules
        def parameters(self, recurse=True): return iter(self.weights)
        def named_modules(self, prefix=""):
            yield prefix, self
            for name, module in self.modules.items():
                yield from module.named_modules(f"{prefix}.{name}" if prefix else name)
        def __call__(self, *args): return self.forward(*args)
        def forward(self, *args):
            for module in self.modules.values(): module(*args)
class _ops:
    class OpOverload:
        def __init__(self, call): self.call = call
        def __call__(self, *args): return self.call(*args)
    class OpOverloadPacket(OpOverload):
        def __call__(self, *args): return self.call(*args)
class cuda:
    class graph:
        def __enter__(self): return self
        def __exit__(self, *error): return None
"""
HEURISTICS = """
class CachingAutotuner:
    def run(self, *args, stream): return "run"
"""
SELECT = """
class Namespace: pass
extern_kernels = Namespace()
extern_kernels.mm = lambda a, b, out: "mm"
extern_kernels.version = 3
"""
WORKER = """
from types import SimpleNamespace as Of
import torch
Module, Tensor = torch.nn.Module, torch.Tensor
model = Module(layers=Module(**{"0": Module(
    norm=Module([Tensor(10)]),
    attn=Module(),
    mlp=Module(up=Module([Tensor(20)]), down=Module([Tensor(20), Tensor(30)])),
)}))
class Worker:
    rank = 0
    def __init__(self, mode=3, eager=False):
        self.vllm_config = Of(
            model_config=Of(enforce_eager=eager), compilation_config=Of(mode=mode))
    def get_model(self): return model
    def get_draft_model(self): return None
    def execute_model(self, output): return None
    def sample_tokens(self, grammar): return None
    def compile_or_warm_up_model(self, run): return run()
"""
USE = """
import torch
from torch import Tensor
from torch._inductor.select_algorithm import extern_kernels
from torch._inductor.runtime.triton_heuristics import CachingAutotuner
from vllm.v1.worker.gpu_worker import Worker, model
def compiled():
    assert CachingAutotuner().run(Tensor(1), Tensor(10), stream=0) == "run"
    assert extern_kernels.mm(Tensor(1), Tensor(20), out=Tensor(2)) == "mm"
    attention = torch._ops.OpOverloadPacket(lambda q, layer: extern_kernels.mm(q, q, out=q))
    attention(Tensor(None), "layers.0.attn")
    extern_kernels.mm(Tensor(1), b=Tensor(30), out=Tensor(2))
    extern_kernels.mm(Tensor(1), Tensor(2), out=Tensor(3))
    return "ran"
def captured():
    compiled()
    with torch.cuda.graph(): return compiled()
"""
FOUND = ["layers.0.norm", "layers.0.mlp.up", "layers.0.attn", "layers.0.mlp.down"]


def run(code: str, **sources: str) -> EngineRan:
    """Run `code` with a stand-in for vLLM and PyTorch; `sources` replace some of their files."""
    inductor = "torch/_inductor"
    packages = ["torch", inductor, f"{inductor}/runtime", "vllm", "vllm/v1", "vllm/v1/worker"]
    packages += ["vllm/v1/core", "vllm/v1/core/sched"]
    files = {f"{package}/__init__.py": "" for package in packages}
    files["torch/__init__.py"] = sources.get("torch", TORCH)
    files[f"{inductor}/runtime/triton_heuristics.py"] = HEURISTICS
    files[f"{inductor}/select_algorithm.py"] = SELECT
    files["vllm/v1/worker/gpu_worker.py"] = sources.get("worker", WORKER)
    files["vllm/v1/core/sched/output.py"] = OUTPUT
    return run_engine(files, USE + code, "vllm-steps")


class Modules(unittest.TestCase):
    """The kernels of a graph get the modules whose weights they read."""

    def found(self, code: str, **sources: str) -> list[str]:
        ran = run(code, **sources).ran
        self.assertEqual((ran.status, ran.err), (0, ""))
        for path in ran.ranges:
            self.assertTrue(path.rpartition("/")[2].startswith("stage2.module "), path)
        return [path.replace("stage2.module ", "") for path in ran.ranges]

    def test_calls_of_compiled_code_belong_to_their_weights_and_layers(self):
        check = "assert Worker().compile_or_warm_up_model(captured) == 'ran'"
        self.assertEqual(self.found(check), FOUND)

    def test_a_version_that_does_not_tell_its_draft_model_has_modules(self):
        check = "assert Worker().compile_or_warm_up_model(captured) == 'ran'"
        without = "\ndel Worker.get_draft_model\n"
        self.assertEqual(self.found(check, worker=WORKER + without), FOUND)

    def test_modules_of_a_draft_model_are_told_apart(self):
        draft = """
# A weight of the model serves the drafts as well; the names of the layers of attention differ.
drafts = Module(shared=model.modules["layers"], layers=Module(**{"9": Module(
    attn=Module(), mlp=Module(down=Module([Tensor(30), Tensor(40)])))}))
class Worker(Worker):
    def get_draft_model(self): return drafts
"""
        check = """
def captured():
    with torch.cuda.graph():
        for address in (20, 30, 40):
            extern_kernels.mm(Tensor(1), Tensor(address), out=Tensor(2))
        attention = torch._ops.OpOverloadPacket(lambda q, layer: extern_kernels.mm(q, q, out=q))
        attention(Tensor(None), "layers.9.attn")
        return "ran"
assert Worker().compile_or_warm_up_model(captured) == 'ran'
"""
        found = self.found(check, worker=WORKER + draft)
        own = ["layers.0.mlp.up", "layers.0.mlp.down"]
        self.assertEqual(found, [*own, "draft.layers.9.mlp.down", "draft.layers.9.attn"])

    def test_nothing_stays_behind_a_capture(self):
        check = """
places = lambda: (vars(torch.cuda.graph)["__enter__"], vars(torch.cuda.graph)["__exit__"],
    torch._ops.OpOverload.__call__, torch._ops.OpOverloadPacket.__call__, extern_kernels.mm,
    CachingAutotuner.run, extern_kernels.version)
before = places()
def fails():
    with torch.cuda.graph():
        compiled()
        raise ValueError("of the capture")
for run in (captured, fails):
    try: Worker().compile_or_warm_up_model(run)
    except ValueError: pass
    assert places() == before
captured()
"""
        self.assertEqual(self.found(check), FOUND * 2)

    def test_what_the_workload_puts_around_ours_meanwhile_stays(self):
        check = """
calls = []
def around(original, name):
    def call(*args, **kwargs):
        calls.append(name)
        return original(*args, **kwargs)
    return call
def patches():
    with torch.cuda.graph():
        extern_kernels.mm = around(extern_kernels.mm, "mm")
        torch.cuda.graph.__enter__ = around(torch.cuda.graph.__enter__, "enter")
        return compiled()
assert Worker().compile_or_warm_up_model(patches) == "ran"
calls.clear()
captured()
assert calls.count("enter") == 1 and calls.count("mm") == 8, calls
"""
        self.assertEqual(self.found(check), FOUND)

    def test_arguments_that_raise_belong_to_no_module(self):
        check = """
class Odd:
    def __getattr__(self, name): raise RuntimeError(name)
def run():
    with torch.cuda.graph(): return CachingAutotuner().run(Odd(), stream=0)
assert Worker().compile_or_warm_up_model(run) == "run"
"""
        self.assertEqual(self.found(check), [])

    def test_modules_that_run_uncompiled_are_marked_by_themselves(self):
        check = """
def run():
    with torch.cuda.graph(): model(1)
Worker(mode=0).compile_or_warm_up_model(run)
"""
        layer = "layers/layers.0"
        expected = ["layers", layer, f"{layer}/layers.0.norm", f"{layer}/layers.0.attn"]
        expected += [f"{layer}/layers.0.mlp", f"{layer}/layers.0.mlp/layers.0.mlp.up"]
        expected += [f"{layer}/layers.0.mlp/layers.0.mlp.down"]
        self.assertEqual(self.found(check), expected)

    def test_an_eager_engine_is_left_alone(self):
        self.assertEqual(self.found("Worker(eager=True).compile_or_warm_up_model(captured)"), [])

    def test_an_unknown_version_captures_without_modules(self):
        torch = TORCH.replace("OpOverloadPacket", "Packet")
        use = """
def run():
    with torch.cuda.graph(): return "ran"
assert Worker().compile_or_warm_up_model(run) == "ran"
"""
        ran = run(use, torch=torch).ran
        self.assertEqual((ran.status, ran.ranges), (0, []))
        self.assertIn("vllm-steps: captured graphs have no modules: AttributeError", ran.err)

    def test_a_worker_without_the_entry_still_marks_its_steps(self):
        worker = WORKER.replace("compile_or_warm_up_model", "prepare")
        ran = run("Worker()", worker=worker).ran
        self.assertEqual(ran.status, 0)
        self.assertEqual(ran.err.count("captured graphs have no modules"), 1)


if __name__ == "__main__":
    unittest.main()
