"""The fields of a Llama configuration become a decoder-only transformer in NumPy.

It exists so that the workload runs, with real stages and a real key/value cache, on a machine
without torch. It is not fast, and it computes in float32 or float64 on the CPU only.

Shapes: B sequences, T new positions, S positions in the cache, H query heads, K key/value heads,
D features of a head, E = `hidden_size`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from runner.errors import RunnerError
from runner.generate import Tokens
from runner.ranges import OFF, Ranges

Array = npt.NDArray[np.floating[Any]]

WEIGHT_STD = 0.02
"""Standard deviation of the random weights, as transformers initialises them."""


@dataclass(frozen=True)
class Shape:
    """Sizes of the network; field names are those of transformers' `LlamaConfig`."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0

    @property
    def head_dim(self) -> int:
        """Features of one head."""
        return self.hidden_size // self.num_attention_heads

    @staticmethod
    def read(config: dict[str, Any]) -> Shape:
        """Take the known fields from `model.config`; raise `RunnerError` for a bad one."""
        known = {key: config[key] for key in Shape.__dataclass_fields__ if key in config}
        known.setdefault("num_key_value_heads", known.get("num_attention_heads"))
        for key, kind in Shape.__annotations__.items():
            value, real = known.get(key), kind == "float"
            if real and value is None:
                continue
            good = isinstance(value, (int, float) if real else int) and not isinstance(value, bool)
            if value is None or not good or value <= 0:
                raise RunnerError(
                    f"model.config.{key}={value} is no positive {'number' if real else 'integer'}",
                    f"set model.config.{key}",
                )
        shape = Shape(**known)
        heads, kv_heads = shape.num_attention_heads, shape.num_key_value_heads
        if shape.hidden_size % heads or shape.head_dim % 2 or heads % kv_heads:
            raise RunnerError(
                f"hidden_size={shape.hidden_size}, num_attention_heads={heads} and "
                f"num_key_value_heads={kv_heads} do not fit together",
                "let the heads divide the hidden size into an even number of features, "
                "and the key/value heads divide the heads",
            )
        return shape


@dataclass(frozen=True)
class Layer:
    """Weights of one layer, applied as `x @ weight`; query, key and value stand side by side."""

    qkv: Array  # (E, (H + 2K) * D)
    out: Array  # (H * D, E)
    gate_up: Array  # (E, 2 * intermediate_size)
    down: Array  # (intermediate_size, E)
    attn_norm: Array  # (E,)
    mlp_norm: Array  # (E,)


class CacheView(Protocol):
    """What attention needs of a key/value cache: where tokens stand, and all keys and values."""

    def positions(self, count: int) -> npt.NDArray[np.integer[Any]]:
        """Return where the next `count` tokens of each sequence stand: (B, count) or (1, count)."""

    def extend(self, layer: int, keys: Array, values: Array) -> tuple[Array, Array]:
        """Put (B, K, T, D) at the next positions of a layer; return what it holds, (B, K, S, D)."""

    def advance(self, count: int) -> None:
        """Let the next tokens stand `count` positions further."""


@dataclass
class Cache:
    """Keys and values of every position so far; room for the rest is already there.

    All of its sequences are of one length.
    """

    keys: Array  # (layers, B, K, capacity, D)
    values: Array  # (layers, B, K, capacity, D)
    length: int = 0

    def positions(self, count: int) -> npt.NDArray[np.integer[Any]]:
        """Return the next `count` positions, the same of every sequence: (1, count)."""
        return self.length + np.arange(count)[None]

    def extend(self, layer: int, keys: Array, values: Array) -> tuple[Array, Array]:
        """Append to a layer; return all of it."""
        end = self.length + keys.shape[2]
        self.keys[layer, :, :, self.length : end] = keys
        self.values[layer, :, :, self.length : end] = values
        return self.keys[layer, :, :, :end], self.values[layer, :, :, :end]

    def advance(self, count: int) -> None:
        """Move the end."""
        self.length += count


class NumpyModel:
    """The network, with random weights that `seed` fixes."""

    backend = "numpy"
    device = "cpu"
    device_name: str | None = None

    def __init__(
        self, config: dict[str, Any], dtype: str, seed: int, layer_ranges: Ranges = OFF
    ) -> None:
        """Build the network in `dtype` (`float32` or `float64`); layers run in `layer_ranges`."""
        self.shape = shape = Shape.read(config)
        self.dtype = dtype
        self.vocab_size = shape.vocab_size
        self._ranges = layer_ranges
        draw = np.random.default_rng(seed)

        def weight(rows: int, columns: int) -> Array:
            return (WEIGHT_STD * draw.standard_normal((rows, columns))).astype(dtype)

        width, inner = shape.hidden_size, shape.intermediate_size
        heads = shape.num_attention_heads * shape.head_dim
        both = 2 * shape.num_key_value_heads * shape.head_dim
        self._embedding = weight(shape.vocab_size, width)
        self._layers = [
            Layer(
                qkv=weight(width, heads + both),
                out=weight(heads, width),
                gate_up=weight(width, 2 * inner),
                down=weight(inner, width),
                attn_norm=np.ones(width, dtype),
                mlp_norm=np.ones(width, dtype),
            )
            for _ in range(shape.num_hidden_layers)
        ]
        self._norm = np.ones(width, dtype)
        self._head = weight(width, shape.vocab_size)
        everything = [self._embedding, self._norm, self._head]
        everything += [each for layer in self._layers for each in vars(layer).values()]
        self.parameters = sum(each.size for each in everything)
        # Angle of each pair of features for one position (rotary position embedding).
        pairs = np.arange(0, shape.head_dim, 2) / shape.head_dim
        self._frequencies = shape.rope_theta**-pairs  # (D / 2,)

    def place(self, prompt: Tokens) -> Tokens:
        """Return `prompt` as it is."""
        return prompt

    def new_cache(self, batch: int, capacity: int) -> Cache:
        """Return an empty cache for `batch` sequences of up to `capacity` positions."""
        shape = self.shape
        dims = (shape.num_hidden_layers, batch, shape.num_key_value_heads, capacity, shape.head_dim)
        return Cache(np.zeros(dims, self.dtype), np.zeros(dims, self.dtype))

    def prefill(self, prompt: Tokens, new_tokens: int) -> tuple[Tokens, Cache]:
        """Return the greedy next token, shape (B, 1), and the cache with the prompt in it."""
        batch, length = prompt.shape
        cache = self.new_cache(batch, length + new_tokens)
        return self._greedy(self.logits(prompt, cache)), cache

    def decode_step(self, token: Tokens, cache: Cache) -> tuple[Tokens, Cache]:
        """Return the greedy token after `token`, both of shape (B, 1)."""
        return self._greedy(self.logits(token, cache)), cache

    def synchronize(self) -> None:
        """Return at once: NumPy computes when asked."""

    def collect(self, tokens: list[Tokens]) -> Tokens:
        """Return the tokens side by side, shape (B, steps)."""
        return np.concatenate(tokens, axis=1)

    def logits(self, tokens: Tokens, cache: CacheView) -> Array:
        """Append `tokens`, shape (B, T), to `cache`; return their logits, (B, T, vocab_size)."""
        x = self._embedding[tokens]  # (B, T, E)
        positions = cache.positions(tokens.shape[1])
        for index, layer in enumerate(self._layers):
            with self._ranges.open(f"layer.{index}"):
                with self._ranges.open("attn"):
                    x = x + self._attention(
                        self._rms_norm(x, layer.attn_norm), layer, index, positions, cache
                    )
                with self._ranges.open("mlp"):
                    x = x + self._mlp(self._rms_norm(x, layer.mlp_norm), layer)
        cache.advance(tokens.shape[1])
        return self._rms_norm(x, self._norm) @ self._head

    def _attention(
        self,
        x: Array,
        layer: Layer,
        index: int,
        positions: npt.NDArray[np.integer[Any]],
        cache: CacheView,
    ) -> Array:
        """Attend from x, (B, T, E), to everything cached and to itself; return (B, T, E)."""
        shape = self.shape
        batch, length, _ = x.shape
        kv_heads, size = shape.num_key_value_heads, shape.head_dim
        group = shape.num_attention_heads // kv_heads
        qkv = (x @ layer.qkv).reshape(batch, length, -1, size).transpose(0, 2, 1, 3)
        query = self._rotate(qkv[:, : kv_heads * group], positions)  # (B, H, T, D)
        new_keys = self._rotate(qkv[:, -2 * kv_heads : -kv_heads], positions)
        keys, values = cache.extend(index, new_keys, qkv[:, -kv_heads:])
        keys, values = keys[:, :, None], values[:, :, None]  # (B, K, 1, S, D)

        query = query.reshape(batch, kv_heads, group, length, size)
        scores = query @ keys.swapaxes(-1, -2) / np.sqrt(size).astype(x.dtype)
        future = np.arange(keys.shape[-2]) > positions[:, :, None]  # (B or 1, T, S)
        scores = np.where(future[:, None, None], -np.inf, scores)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = scores / scores.sum(axis=-1, keepdims=True)
        mixed = (weights @ values).reshape(batch, -1, length, size)
        return mixed.transpose(0, 2, 1, 3).reshape(batch, length, -1) @ layer.out

    def _mlp(self, x: Array, layer: Layer) -> Array:
        """Return SwiGLU of x, (B, T, E)."""
        gate, up = np.split(x @ layer.gate_up, 2, axis=-1)
        return (gate / (1 + np.exp(-gate)) * up) @ layer.down

    def _rotate(self, x: Array, positions: npt.NDArray[np.integer[Any]]) -> Array:
        """Turn the feature pairs of x, (B, heads, T, D), by the angles of (B or 1, T) positions."""
        angles = positions[:, None, :, None] * self._frequencies  # (B or 1, 1, T, D / 2)
        cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
        first, second = np.split(x, 2, axis=-1)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    def _rms_norm(self, x: Array, weight: Array) -> Array:
        """Scale each vector of x, (B, T, E), to a root mean square of one."""
        mean_square = np.mean(np.square(x), axis=-1, keepdims=True)
        return x / np.sqrt(mean_square + self.shape.rms_norm_eps).astype(x.dtype) * weight

    @staticmethod
    def _greedy(logits: Array) -> Tokens:
        """Return the most likely token after the last position: (B, T, vocab) becomes (B, 1)."""
        return logits[:, -1:].argmax(axis=-1)
