"""The NumPy transformer: deterministic, causal, and the same with and without its cache."""

import importlib.util
import unittest

import numpy as np

from runner.errors import RunnerError
from runner.generate import generate
from runner.model_numpy import NumpyModel, Shape
from runner.ranges import OFF
from runner.tests.support import Recorder

CONFIG = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
HAVE_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))


def model(seed=0, dtype="float64", **changes):
    return NumpyModel({**CONFIG, **changes}, dtype, seed)


def prompt(tokens, batch=2, seed=1):
    return np.random.default_rng(seed).integers(0, CONFIG["vocab_size"], (batch, tokens))


class Cached(unittest.TestCase):
    def test_decode_with_cache_equals_full_recompute(self):
        net, ids = model(), prompt(9)
        full = net.logits(ids, net.new_cache(2, 9))
        cache = net.new_cache(2, 9)
        pieces = [net.logits(ids[:, :4], cache)]
        pieces += [net.logits(ids[:, i : i + 1], cache) for i in range(4, 9)]
        np.testing.assert_allclose(np.concatenate(pieces, axis=1), full, rtol=1e-9, atol=1e-12)

    def test_greedy_tokens_equal_those_of_full_recompute(self):
        net, ids = model(), prompt(5)
        tokens = generate(net, ids, 6, OFF).tokens
        for step in range(7):
            seen = np.concatenate([ids, tokens[:, :step]], axis=1)
            logits = net.logits(seen, net.new_cache(2, seen.shape[1]))
            np.testing.assert_array_equal(logits[:, -1].argmax(-1), tokens[:, step])

    def test_later_tokens_do_not_change_earlier_logits(self):
        net, ids = model(), prompt(6)
        other = ids.copy()
        other[:, 3:] = (other[:, 3:] + 1) % CONFIG["vocab_size"]
        one, two = (net.logits(each, net.new_cache(2, 6)) for each in (ids, other))
        np.testing.assert_array_equal(one[:, :3], two[:, :3])
        self.assertGreater(np.abs(one[:, 3:] - two[:, 3:]).max(), 0)


class Deterministic(unittest.TestCase):
    def test_same_seed_same_tokens(self):
        one, two = (generate(model(seed=4), prompt(5), 8, OFF).tokens for _ in range(2))
        np.testing.assert_array_equal(one, two)

    def test_other_seed_other_logits(self):
        ids = prompt(5)
        one, two = (model(seed=s).logits(ids, model().new_cache(2, 5)) for s in (4, 5))
        self.assertGreater(np.abs(one - two).max(), 0)

    def test_sequences_of_a_batch_do_not_mix(self):
        net, ids = model(), prompt(5)
        both = generate(net, ids, 4, OFF).tokens
        alone = generate(net, ids[1:], 4, OFF).tokens
        np.testing.assert_array_equal(both[1:], alone)


class Shapes(unittest.TestCase):
    def test_tokens_and_parameters(self):
        result = generate(model(dtype="float32"), prompt(5), 3, OFF)
        self.assertEqual(result.tokens.shape, (2, 4))
        self.assertGreater(result.prefill_host_ns, 0)
        self.assertGreater(result.decode_host_ns, 0)
        layer = 32 * (32 + 2 * 16) + 32 * 32 + 32 * 96 + 48 * 32 + 2 * 32
        self.assertEqual(model().parameters, 2 * 97 * 32 + 32 + 3 * layer)

    def test_bad_fields_are_named(self):
        for field, value in (
            ("hidden_size", 33),
            ("vocab_size", "many"),
            ("num_hidden_layers", -1),
            ("num_key_value_heads", 3),
            ("intermediate_size", True),
            ("rope_theta", "x"),
        ):
            with self.subTest(field), self.assertRaisesRegex(RunnerError, field):
                Shape.read({**CONFIG, field: value})
        with self.assertRaisesRegex(RunnerError, "vocab_size"):
            Shape.read({})


class LayerRanges(unittest.TestCase):
    def test_each_layer_and_its_halves_are_opened_and_closed(self):
        recorder = Recorder()
        net = NumpyModel(CONFIG, "float32", 0, recorder.ranges)
        generate(net, prompt(4), 1, recorder.ranges, steps=True)
        inside = [f"layer.{i}{half}" for i in range(3) for half in ("", "/attn", "/mlp")]
        expected = ["prefill", *[f"prefill/{each}" for each in inside], "decode", "decode/step"]
        expected += [f"decode/step/{each}" for each in inside]
        self.assertEqual(recorder.paths, expected)
        self.assertEqual(recorder.stack, [])


@unittest.skipUnless(HAVE_TORCH, "needs torch and transformers")
class AgainstTransformers(unittest.TestCase):
    def test_logits_equal_those_of_llama_with_the_same_weights(self):
        import torch
        import transformers

        net, ids = model(), prompt(7)
        config = transformers.LlamaConfig(**CONFIG)
        reference = transformers.LlamaForCausalLM(config).double().eval()
        shape, heads, kv = net.shape, 32, 16
        self.assertEqual(shape.head_dim * shape.num_attention_heads, heads)
        weights = {"model.embed_tokens": net._embedding, "lm_head": net._head.T}
        weights["model.norm"] = net._norm
        for i, layer in enumerate(net._layers):
            gate, up = np.split(layer.gate_up.T, 2)
            weights |= {
                f"model.layers.{i}.self_attn.q_proj": layer.qkv.T[:heads],
                f"model.layers.{i}.self_attn.k_proj": layer.qkv.T[heads : heads + kv],
                f"model.layers.{i}.self_attn.v_proj": layer.qkv.T[heads + kv :],
                f"model.layers.{i}.self_attn.o_proj": layer.out.T,
                f"model.layers.{i}.mlp.gate_proj": gate,
                f"model.layers.{i}.mlp.up_proj": up,
                f"model.layers.{i}.mlp.down_proj": layer.down.T,
                f"model.layers.{i}.input_layernorm": layer.attn_norm,
                f"model.layers.{i}.post_attention_layernorm": layer.mlp_norm,
            }
        reference.load_state_dict(
            {f"{k}.weight": torch.from_numpy(v.copy()) for k, v in weights.items()}
        )
        with torch.inference_mode():
            expected = reference(torch.from_numpy(ids)).logits.numpy()
        # transformers computes the rotation's angles and the norms in float32.
        np.testing.assert_allclose(net.logits(ids, net.new_cache(2, 7)), expected, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
