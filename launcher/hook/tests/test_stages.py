"""Which arguments mean which stage."""

from __future__ import annotations

import unittest
from types import SimpleNamespace

from stage2_annotate.stages import Stages
from stage2_annotate.steps import DECODE, PREFILL


def tokens(*shape: int) -> SimpleNamespace:
    return SimpleNamespace(shape=shape)


class Model:
    def forward(self, input_ids=None, attention_mask=None, past_key_values=None):
        raise NotImplementedError


class DynamicCache:
    """A cache that grows, of `length` tokens."""

    def __init__(self, length: int) -> None:  # noqa: D107
        self.length = length

    def get_seq_length(self) -> int:
        return self.length


class StaticCache:
    """A cache on the GPU: asking for its length would synchronise."""

    def get_seq_length(self) -> int:
        raise AssertionError("asked")


class Unhashable(StaticCache):
    __hash__ = None  # type: ignore[assignment]


class StageOfCall(unittest.TestCase):
    def setUp(self):
        self.stages = Stages()

    def stage(self, *args: object, **kwargs: object) -> str | None:
        work = self.stages.of_call(Model(), args, kwargs)
        return None if work is None else work[0]

    def test_several_new_tokens_are_prefill(self):
        self.assertEqual(self.stage(tokens(1, 7)), PREFILL)
        self.assertEqual(self.stage(input_ids=tokens(7)), PREFILL)
        self.assertEqual(self.stage(inputs_embeds=tokens(2, 7, 64)), PREFILL)
        self.assertEqual(self.stage(tokens(1, 7), past_key_values=DynamicCache(9)), PREFILL)

    def test_one_token_after_what_is_cached_is_decode(self):
        for cache in (DynamicCache(1), ((1, 2),), [1]):
            self.assertEqual(self.stage(tokens(4, 1), past_key_values=cache), DECODE)
        self.assertEqual(self.stage(tokens(4, 1), None, DynamicCache(3)), DECODE)
        self.assertEqual(
            self.stage(inputs_embeds=tokens(2, 1, 64), past_key_values=DynamicCache(1)), DECODE
        )

    def test_sequences_tokens_and_what_they_have_after_the_call_are_counted(self):
        for cache, new, expected in (
            (None, 7, (PREFILL, (4, 28, 28, 0, 0, 0, 0))),
            (DynamicCache(9), 7, (PREFILL, (4, 28, 64, 0, 0, 0, 0))),
            (DynamicCache(9), 1, (DECODE, (0, 0, 0, 4, 4, 40, 0))),
            # The length is only on the GPU, so the hook does not read it.
            (StaticCache(), 7, (PREFILL, None)),
            (Unhashable(), 1, (DECODE, None)),
        ):
            for name in ("past_key_values", "cache"):
                work = self.stages.of_call(Model(), (tokens(4, new),), {name: cache})
                self.assertEqual(work, expected)
        work = self.stages.of_call(Model(), (), {"inputs_embeds": tokens(7, 64)})
        self.assertEqual(work, (PREFILL, (1, 7, 7, 0, 0, 0, 0)))

    def test_a_prompt_of_one_token_is_prefill(self):
        self.assertEqual(self.stage(tokens(1, 1)), PREFILL)
        for cache in (DynamicCache(0), (), StaticCache()):
            self.assertEqual(self.stage(tokens(1, 1), past_key_values=cache), PREFILL)

    def test_a_preallocated_cache_is_filled_by_its_first_call(self):
        cache = StaticCache()
        calls = [self.stage(tokens(1, n), past_key_values=cache) for n in (7, 1, 1)]
        self.assertEqual(calls, [PREFILL, DECODE, DECODE])

    def test_a_cache_that_a_call_returned_is_filled(self):
        cache = StaticCache()
        self.stages.take_result(SimpleNamespace(logits=1, cache_params=cache))
        self.assertEqual(self.stage(tokens(1, 1), cache_params=cache), DECODE)
        self.stages.take_result((1, 2))

    def test_caches_that_cannot_be_remembered_hold_something(self):
        self.assertEqual(self.stage(tokens(1, 1), past_key_values=Unhashable()), DECODE)

    def test_the_decoder_counts_where_there_is_an_encoder(self):
        cache = SimpleNamespace(self_attention_cache=DynamicCache(2))
        stage = self.stage(tokens(1, 50), decoder_input_ids=tokens(1, 1), past_key_values=cache)
        self.assertEqual(stage, DECODE)
        cache.self_attention_cache.length = 0
        stage = self.stage(tokens(1, 50), decoder_input_ids=tokens(1, 1), past_key_values=cache)
        self.assertEqual(stage, PREFILL)

    def test_what_is_no_stage_gets_no_name(self):
        self.assertIsNone(self.stage(tokens(1, 7), labels=tokens(1, 7)))
        self.assertIsNone(self.stage())
        self.assertIsNone(self.stage(input_ids=tokens()))
        self.assertIsNone(self.stage(inputs_embeds=tokens(4)))
        self.assertIsNone(self.stage(input_ids="text"))
