"""The torch backend on the CPU: any architecture by configuration, ranges and errors."""

import importlib.util
import unittest

import numpy as np

from runner.errors import RunnerError
from runner.generate import generate
from runner.ranges import OFF
from runner.settings import Model
from runner.tests.support import Recorder

HAVE_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
if HAVE_TORCH:
    import torch

    from runner.model_torch import TorchModel, find_device, read_config
    from runner.ranges import choose

SMALL = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
PROMPT = np.random.default_rng(1).integers(0, 97, (2, 5))


def spec(architecture="llama", **changes):
    return Model(name="test", architecture=architecture, config={**SMALL, **changes})


@unittest.skipUnless(HAVE_TORCH, "needs torch and transformers")
class Torch(unittest.TestCase):
    def test_dense_and_moe_are_deterministic(self):
        moe = spec("mixtral", num_local_experts=4, num_experts_per_tok=2)
        for model in (spec(), moe):
            with self.subTest(model.architecture):
                one, two = (
                    generate(TorchModel(model, "cpu", None, 0), PROMPT, 4, OFF).tokens
                    for _ in range(2)
                )
                np.testing.assert_array_equal(one, two)
                self.assertEqual(one.shape, (2, 5))

    def test_cache_equals_full_recompute(self):
        net = TorchModel(spec(), "cpu", "float64", 0)
        tokens = generate(net, PROMPT, 4, OFF).tokens
        for step in range(5):
            seen = np.concatenate([PROMPT, tokens[:, :step]], axis=1)
            token, _ = net.prefill(net.place(seen), 0)
            np.testing.assert_array_equal(token.numpy()[:, 0], tokens[:, step])

    def test_layers_are_marked(self):
        recorder = Recorder()
        net = TorchModel(spec(), "cpu", None, 0, layer_ranges=recorder.ranges)
        generate(net, PROMPT, 1, recorder.ranges)
        inside = [f"layer.{i}{half}" for i in range(2) for half in ("", "/attn", "/mlp")]
        expected = [
            f"{stage}{rest}"
            for stage in ("prefill", "decode")
            for rest in ["", *(f"/{each}" for each in inside)]
        ]
        self.assertEqual(recorder.paths, expected)
        self.assertEqual(recorder.stack, [])

    def test_ranges_of_layers_change_nothing_at_any_depth(self):
        recorder = Recorder()
        plain = TorchModel(spec(), "cpu", None, 0)
        marked = TorchModel(spec(), "cpu", None, 0, layer_ranges=recorder.ranges)
        one, two = (generate(net, PROMPT, 3, OFF).tokens for net in (plain, marked))
        np.testing.assert_array_equal(one, two)
        self.assertEqual(recorder.paths[0], "layer.0")

    def test_default_dtype_is_left_as_it_was(self):
        before = torch.get_default_dtype()
        net = TorchModel(spec(), "cpu", "bfloat16", 0)
        self.assertEqual((net.dtype, torch.get_default_dtype()), ("bfloat16", before))

    def test_provider_of_ranges(self):
        expected = "nvtx" if torch.version.cuda is None else "torch.cuda.nvtx"
        self.assertIn(choose(True, torch).provider, (expected, "off"))

    def test_errors_name_what_is_wrong(self):
        with self.assertRaisesRegex(RunnerError, "no_such_model"):
            read_config(spec("no_such_model"))
        for changes in ({"hidden_size": 33}, {"num_hidden_layers": "x"}, {"vocab_size": -5}):
            with self.subTest(changes), self.assertRaisesRegex(RunnerError, "model.config"):
                TorchModel(spec(**changes), "cpu", None, 0)
        with self.assertRaisesRegex(RunnerError, "/no/such/folder"):
            read_config(Model(name="x", path="/no/such/folder"))
        with self.assertRaisesRegex(RunnerError, "nonsense"):
            find_device("nonsense")

    @unittest.skipIf(HAVE_TORCH and torch.cuda.is_available(), "there is a GPU")
    def test_no_gpu(self):
        with self.assertRaisesRegex(RunnerError, "device=cpu"):
            find_device("cuda:0")
        self.assertEqual(find_device("auto").type, "cpu")


if __name__ == "__main__":
    unittest.main()
