"""A Llama in PyTorch whose key/value cache has slots, so that a CUDA graph can hold a decode step.

It computes what `runner.model_numpy` computes. The runner's torch backend is not used here: caches
of transformers give all sequences of a batch one length.

Shapes: B sequences, T new positions, S positions in the cache, H query heads, K key/value heads,
D features of a head, E = `hidden_size`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention, silu

from runner.model_numpy import WEIGHT_STD, NumpyModel, Shape


@dataclass(frozen=True)
class Layer:
    """Weights of one layer, applied as `x @ weight`; query, key and value stand side by side."""

    qkv: torch.Tensor  # (E, (H + 2K) * D)
    out: torch.Tensor  # (H * D, E)
    gate_up: torch.Tensor  # (E, 2 * intermediate_size)
    down: torch.Tensor  # (intermediate_size, E)
    attn_norm: torch.Tensor  # (E,)
    mlp_norm: torch.Tensor  # (E,)


@dataclass(frozen=True)
class Weights:
    """All weights of a network."""

    embedding: torch.Tensor
    layers: list[Layer]
    norm: torch.Tensor
    head: torch.Tensor

    @property
    def count(self) -> int:
        """Return the number of weights."""
        tensors = [self.embedding, self.norm, self.head]
        tensors += [each for layer in self.layers for each in vars(layer).values()]
        return sum(tensor.numel() for tensor in tensors)


def draw(shape: Shape, device: torch.device, dtype: torch.dtype, seed: int) -> Weights:
    """Return random weights, drawn on the device."""
    generator = torch.Generator(device).manual_seed(seed)

    def weight(rows: int, columns: int) -> torch.Tensor:
        values = torch.randn(rows, columns, generator=generator, device=device, dtype=dtype)
        return values.mul_(WEIGHT_STD)

    def ones() -> torch.Tensor:
        return torch.ones(shape.hidden_size, device=device, dtype=dtype)

    width, inner = shape.hidden_size, shape.intermediate_size
    heads = shape.num_attention_heads * shape.head_dim
    both = 2 * shape.num_key_value_heads * shape.head_dim
    return Weights(
        embedding=weight(shape.vocab_size, width),
        layers=[
            Layer(
                qkv=weight(width, heads + both),
                out=weight(heads, width),
                gate_up=weight(width, 2 * inner),
                down=weight(inner, width),
                attn_norm=ones(),
                mlp_norm=ones(),
            )
            for _ in range(shape.num_hidden_layers)
        ],
        norm=ones(),
        head=weight(width, shape.vocab_size),
    )


def weights_of(model: NumpyModel) -> Weights:
    """Return the weights of a NumPy model, on the CPU."""
    return Weights(
        embedding=torch.from_numpy(model._embedding),
        layers=[
            Layer(**{name: torch.from_numpy(value) for name, value in vars(layer).items()})
            for layer in model._layers
        ],
        norm=torch.from_numpy(model._norm),
        head=torch.from_numpy(model._head),
    )


class Llama:
    """The network and the cache of its slots."""

    def __init__(self, shape: Shape, weights: Weights, slots: int, capacity: int) -> None:
        """Make room for `slots` sequences of up to `capacity` positions."""
        self._shape = shape
        self._weights = weights
        self._capacity = capacity
        like: dict[str, Any] = {"device": weights.head.device, "dtype": weights.head.dtype}
        kv_heads, size = shape.num_key_value_heads, shape.head_dim
        room = (shape.num_hidden_layers, slots, kv_heads, capacity, size)
        self._keys, self._values = torch.zeros(room, **like), torch.zeros(room, **like)
        pairs = torch.arange(0, size, 2, device=like["device"], dtype=torch.float32) / size
        places = torch.arange(capacity, device=like["device"], dtype=torch.float32)
        angles = places[:, None] * shape.rope_theta**-pairs  # (capacity, D / 2)
        self._cos, self._sin = angles.cos().to(like["dtype"]), angles.sin().to(like["dtype"])
        self._places = torch.arange(capacity, device=like["device"])

    def next_tokens(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        slots: torch.Tensor,
        end: int | None = None,
    ) -> torch.Tensor:
        """Append `tokens`, (B, T), at `positions`, (B, T), to `slots`, (B,); return (B,) tokens.

        `end` is the end of the longest sequence where the host knows it. Without, attention reads
        all positions of a slot and masks those that are later: the work of a CUDA graph is fixed.
        """
        end = end or self._capacity
        batch, length = tokens.shape
        kv_heads, size = self._shape.num_key_value_heads, self._shape.head_dim
        heads = self._shape.num_attention_heads
        mask = (self._places[:end] <= positions[:, :, None])[:, None]  # (B, 1, T, S)
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        rows = slots[:, None]
        x = self._weights.embedding[tokens]  # (B, T, E)
        for index, layer in enumerate(self._weights.layers):
            qkv = self._rms_norm(x, layer.attn_norm) @ layer.qkv
            qkv = qkv.view(batch, length, -1, size).transpose(1, 2)
            query, key, value = qkv.split([heads, kv_heads, kv_heads], dim=1)
            key = _rotate(key, cos, sin)
            for held, new in ((self._keys[index], key), (self._values[index], value)):
                held[rows, :, positions] = new.transpose(1, 2)  # (B, T, K, D)
            keys = self._keys[index, :, :, :end][slots]
            values = self._values[index, :, :, :end][slots]
            mixed = scaled_dot_product_attention(
                _rotate(query, cos, sin),
                keys.repeat_interleave(heads // kv_heads, dim=1),
                values.repeat_interleave(heads // kv_heads, dim=1),
                attn_mask=mask,
            )
            x = x + mixed.transpose(1, 2).reshape(batch, length, -1) @ layer.out
            gate, up = (self._rms_norm(x, layer.mlp_norm) @ layer.gate_up).chunk(2, dim=-1)
            x = x + (silu(gate) * up) @ layer.down
        last = self._rms_norm(x[:, -1], self._weights.norm)
        return (last @ self._weights.head).argmax(dim=-1)

    def _rms_norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self._shape.rms_norm_eps)
        return (wide * scale).to(x.dtype) * weight


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn the feature pairs of x, (B, heads, T, D), by angles of (B, 1, T, D / 2)."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
