"""Slots that join and leave a batch give the tokens that the model gives each sequence alone."""

import importlib.util
import unittest

import numpy as np

from runner.generate import generate
from runner.model_numpy import NumpyModel
from runner.ranges import OFF as RUNNER_OFF
from server.ranges import OFF
from server.slots_numpy import NoGpuWork, NumpySlots
from server.tests.support import Recorder, make_options

CONFIG = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
PROMPTS = [tuple(np.random.default_rng(n).integers(0, 97, n).tolist()) for n in (1, 3, 9, 20)]
HAVE_TORCH = importlib.util.find_spec("torch") is not None


def net(dtype="float64"):
    return NumpyModel(CONFIG, dtype, 5)


def alone(model, prompt, tokens):
    """Return the tokens that the runner generates."""
    result = generate(model, np.array([prompt]), tokens - 1, RUNNER_OFF).tokens
    return result[0].tolist()


def staggered(slots, prompts, tokens):
    """Let a sequence join at each step; return the tokens of each, and use every slot twice."""
    found: dict[int, list[int]] = {number: [] for number in range(len(prompts))}
    place: dict[int, int] = {}
    free = [2, 0, 1]
    waiting = list(found)
    while waiting or place:
        if waiting and free:
            number = waiting.pop(0)
            place[number] = free.pop(0)
            found[number].append(slots.prefill(place[number], prompts[number]))
        running = list(place)
        given = slots.decode([place[n] for n in running], [found[n][-1] for n in running])
        for number, token in zip(running, given, strict=True):
            found[number].append(token)
            if len(found[number]) == tokens:
                free.append(place.pop(number))
    return list(found.values())


class Numpy(unittest.TestCase):
    def test_a_batch_of_different_lengths_gives_the_tokens_of_each_alone(self):
        model = net()
        slots = NumpySlots(model, 3, 64, NoGpuWork(), OFF)
        expected = [alone(model, prompt, 7) for prompt in PROMPTS * 2]
        self.assertEqual(staggered(slots, PROMPTS * 2, 7), expected)

    def test_a_slot_is_as_long_as_its_capacity(self):
        slots = NumpySlots(net(), 1, 8, NoGpuWork(), OFF)
        token = slots.prefill(0, (1, 2, 3, 4, 5, 6, 7))
        self.assertEqual(len(slots.decode([0], [token])), 1)

    def test_ranges_inside_of_a_step(self):
        recorder = Recorder()
        slots = NumpySlots(net(), 1, 8, NoGpuWork(), recorder.ranges)
        slots.decode([0], [slots.prefill(0, (1,))])
        once = [("prepare", None), ("forward", None), ("sample", None)]
        self.assertEqual(recorder.paths, once * 2)


@unittest.skipUnless(HAVE_TORCH, "needs torch")
class Torch(unittest.TestCase):
    def slots(self, ranges=OFF, **changes):
        from server.llama_torch import weights_of
        from server.slots_torch import TorchSlots

        options = make_options(slots=3, capacity=64, **changes)
        return TorchSlots(CONFIG, options, ranges, weights_of(net("float32")))

    def test_the_tokens_are_those_of_numpy(self):
        slots = self.slots()
        slots.warm_up()
        expected = [alone(net("float32"), prompt, 7) for prompt in PROMPTS * 2]
        self.assertEqual(staggered(slots, PROMPTS * 2, 7), expected)
        self.assertEqual(slots.parameters, net().parameters)

    def test_places_of_a_graph_that_are_free_change_no_slot(self):
        # What a graph computes, without the capture, which needs a GPU.
        import torch

        from server.slots_torch import Step

        class Replayed:
            def __init__(self, slots):
                self.slots = slots

            def replay(self):
                with torch.inference_mode():
                    step.tokens.copy_(self.slots._next(step.inputs))

        slots = self.slots()
        with torch.inference_mode():
            inputs = torch.zeros(3, 3, dtype=torch.int64)
            step = Step(Replayed(slots), inputs, torch.zeros(3, dtype=torch.int64))
        slots._steps = dict.fromkeys(slots._sizes, step)
        expected = [alone(net("float32"), prompt, 7) for prompt in PROMPTS * 2]
        self.assertEqual(staggered(slots, PROMPTS * 2, 7), expected)

    def test_random_weights_are_those_of_the_seed(self):
        from server.slots_torch import TorchSlots

        def tokens(seed):
            options = make_options(slots=1, capacity=64, device="cpu", seed=seed)
            slots = TorchSlots(CONFIG, options, OFF)
            return staggered_one(slots)

        def staggered_one(slots):
            found = [slots.prefill(0, (1, 2, 3))]
            for _ in range(8):
                found += slots.decode([0], found[-1:])
            return found

        self.assertEqual(tokens(1), tokens(1))
        self.assertNotEqual(tokens(1), tokens(2))

    def test_a_device_that_is_not_there_is_named(self):
        from server.errors import ServerError
        from server.slots_torch import find_device

        for device in ("cuda:99", "abacus", "meta"):
            with self.assertRaisesRegex(ServerError, device):
                find_device(device)


if __name__ == "__main__":
    unittest.main()
