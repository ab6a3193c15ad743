"""Determines the stage of a language model's forward pass, and its work, from its arguments.

A call with more than one new token for each sequence, or with an empty cache, is `prefill`. A call
with one new token and a filled cache is `decode`. A step of speculative decoding that verifies a
draft has several new tokens, and so is `prefill`: a single call looks the same as a piece of a
long prompt. The GPU is never asked whether a cache is filled: that would cost a synchronisation
for each token.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Mapping
from typing import Any

from .steps import DECODE, PREFILL

TOKENS = ("decoder_input_ids", "decoder_inputs_embeds", "input_ids", "inputs_embeds")
"""Arguments that hold the new tokens; the first one that is given counts."""

CACHES = ("past_key_values", "cache", "cache_params", "past_key_value", "past", "state")
"""Arguments and results that hold the cache, by the names that models use."""


class Stages:
    """Determines stages, and tracks which caches have been filled."""

    def __init__(self) -> None:
        """Start without a filled cache."""
        self._filled: weakref.WeakSet[Any] = weakref.WeakSet()
        self._parameters: weakref.WeakKeyDictionary[type, tuple[str, ...]] = (
            weakref.WeakKeyDictionary()
        )

    def of_call(
        self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[str, tuple[int, ...] | None] | None:
        """Return the stage of `model(*args, **kwargs)` and the values of FIELDS; None: no stage.

        A call with labels is training or scoring, which is not a stage. Sequences count as
        requests, and padding as tokens. The values are None if the host does not know the cache
        length.
        """
        if args:
            kwargs = {**dict(zip(self._parameters_of(model), args)), **kwargs}
        if kwargs.get("labels") is not None:
            return None
        sizes = _sizes(kwargs)
        if sizes is None:
            return None
        batch, new = sizes
        cache = next((kwargs[name] for name in CACHES if kwargs.get(name) is not None), None)
        length = _length_on_host(cache)
        holds = self._holds_tokens(cache) if length is None else length > 0
        # The call fills the cache, even if the caller created it and passed it in empty.
        self._remember(cache)
        stage = DECODE if new == 1 and holds else PREFILL
        if length is None and cache is not None:
            return stage, None
        work = (batch, batch * new, batch * ((length or 0) + new))
        return stage, (0, 0, 0, *work, 0) if stage == DECODE else (*work, 0, 0, 0, 0)

    def take_result(self, result: Any) -> None:
        """Remember the cache that a call returned."""
        for name in CACHES:
            self._remember(getattr(result, name, None))

    def _parameters_of(self, model: Any) -> tuple[str, ...]:
        cls = type(model)
        names = self._parameters.get(cls)
        if names is None:
            names = tuple(inspect.signature(cls.forward).parameters)[1:]
            self._parameters[cls] = names
        return names

    def _holds_tokens(self, cache: Any) -> bool:
        if cache is None:
            return False
        if isinstance(cache, (tuple, list)):
            return len(cache) > 0
        try:
            return cache in self._filled
        except TypeError:
            # A cache that cannot be tracked counts as filled, which it mostly is.
            return True

    def _remember(self, cache: Any) -> None:
        if cache is None or isinstance(cache, (tuple, list)):
            return
        try:
            self._filled.add(cache)
        except TypeError:
            return


def _sizes(kwargs: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the number of sequences and of new tokens in each, from the first such argument."""
    for name in TOKENS:
        shape = getattr(kwargs.get(name), "shape", None)
        if shape is None or len(shape) == 0:
            continue
        if name.endswith("embeds"):
            # The shape is [batch, tokens, width], or [tokens, width].
            shape = shape[:-1]
            if len(shape) == 0:
                return None
        return int(shape[0]) if len(shape) > 1 else 1, int(shape[-1])
    return None


def _length_on_host(cache: Any) -> int | None:
    """Return the number of tokens in a dynamic cache, from its shape; None for other caches."""
    inner = getattr(cache, "self_attention_cache", cache)
    if type(inner).__name__ != "DynamicCache":
        return None
    length = inner.get_seq_length()
    return length if isinstance(length, int) else None
