"""An architecture's name and fields become a transformers model with random weights.

Nothing is downloaded: the architecture comes from transformers' configuration classes, the
weights from a seeded generator.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers

from runner.errors import RunnerError
from runner.generate import Tokens
from runner.ranges import Ranges
from runner.settings import Model

log = logging.getLogger("runner")


class TorchModel:
    """A decoder-only transformer of any kind that transformers can build from a configuration."""

    backend = "torch"

    def __init__(
        self,
        model: Model,
        device: str,
        dtype: str | None,
        seed: int,
        flash_attention: bool = False,
        layer_ranges: Ranges | None = None,
    ) -> None:
        """Build the network on `device`; `dtype` None takes bfloat16 on a GPU, else float32."""
        place = find_device(device)
        kind = dtype or ("float32" if place.type == "cpu" else "bfloat16")
        config = read_config(model)
        options: dict[str, Any] = {}
        if flash_attention:
            if importlib.util.find_spec("flash_attn") is None:
                log.warning(
                    "use_flash_attn=true, but the package flash_attn is not installed: "
                    "torch's own attention is used; install it or set use_flash_attn=false"
                )
            else:
                options["attn_implementation"] = "flash_attention_2"

        torch.manual_seed(seed)
        before = torch.get_default_dtype()
        torch.set_default_dtype(getattr(torch, kind))
        try:
            with _readable("building the model"), torch.device(place):
                network = transformers.AutoModelForCausalLM.from_config(config, **options)
        except RunnerError:
            raise
        except Exception as error:  # Any kind: the fields are the user's, the code is not ours.
            raise _refused(f"build {model.name} ({config.model_type})", error) from error
        finally:
            torch.set_default_dtype(before)

        self._network = network.eval()
        self._place = place
        self.device = str(place)
        self.device_name = torch.cuda.get_device_name(place) if place.type == "cuda" else None
        self.dtype = kind
        self.parameters = sum(weight.numel() for weight in network.parameters())
        self.vocab_size = config.get_text_config().vocab_size
        if layer_ranges is not None:
            _mark_layers(self._network, layer_ranges)

    def place(self, prompt: Tokens) -> torch.Tensor:
        """Copy `prompt`, shape (batch, tokens), to the device."""
        with _readable("copying the prompt"):
            return torch.from_numpy(prompt).to(self._place)

    def prefill(self, prompt: torch.Tensor, new_tokens: int) -> tuple[torch.Tensor, Any]:
        """Return the greedy next token, shape (batch, 1), and transformers' cache, which grows."""
        del new_tokens
        return self._forward(prompt, None)

    def decode_step(self, token: torch.Tensor, cache: Any) -> tuple[torch.Tensor, Any]:
        """Return the greedy token after `token`, both of shape (batch, 1), and the cache."""
        return self._forward(token, cache)

    def synchronize(self) -> None:
        """Wait for the GPU; a failure of work queued earlier is reported here."""
        if self._place.type == "cuda":
            with _readable("running the model"):
                torch.cuda.synchronize(self._place)

    def collect(self, tokens: list[torch.Tensor]) -> Tokens:
        """Copy tokens, one (batch, 1) tensor per step, to the host: shape (batch, steps)."""
        return torch.cat(tokens, dim=1).cpu().numpy()

    def _forward(self, tokens: torch.Tensor, cache: Any) -> tuple[torch.Tensor, Any]:
        with torch.inference_mode(), _readable("running the model"):
            out = self._network(input_ids=tokens, past_key_values=cache, use_cache=True)
            return out.logits[:, -1:].argmax(-1), out.past_key_values


def find_device(name: str) -> torch.device:
    """Turn `device` of the configuration into a device that is there, or raise `RunnerError`."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise RunnerError(
            f"device={name} is unknown to torch", "use auto, cpu, cuda or cuda:N"
        ) from error
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            built = torch.version.cuda or "no CUDA"
            raise RunnerError(
                f"device={name}, but torch {torch.__version__} (built with {built}) sees no GPU",
                "use device=cpu, or check the driver, CUDA_VISIBLE_DEVICES and the torch build",
            )
        if (device.index or 0) >= count:
            raise RunnerError(
                f"device={name}, but torch sees {count} GPU(s)",
                f"use cuda:0 to cuda:{count - 1}, or check CUDA_VISIBLE_DEVICES",
            )
        device = torch.device("cuda", device.index or 0)
    return device


def read_config(model: Model) -> transformers.PretrainedConfig:
    """Make the configuration object from `model.path` or from `architecture` and `config`."""
    if model.path is not None:
        file = Path(model.path) / "config.json"
        if not file.is_file():
            raise RunnerError(
                f"model.path={model.path} has no config.json",
                "give the folder of a transformers model, or model.path=null",
            )
        try:
            return transformers.AutoConfig.from_pretrained(model.path, local_files_only=True)
        except Exception as error:  # Any kind, as above.
            raise _refused(f"use {file}", error) from error
    if model.architecture not in transformers.CONFIG_MAPPING:
        raise RunnerError(
            f"model.architecture={model.architecture} is unknown to transformers "
            f"{transformers.__version__}",
            "use a model_type that it knows, for instance llama, mixtral or qwen3_moe",
        )
    try:
        return transformers.AutoConfig.for_model(model.architecture, **model.config)
    except Exception as error:  # Any kind, as above.
        raise _refused(f"configure {model.name} ({model.architecture})", error) from error


def _refused(doing: str, error: Exception) -> RunnerError:
    """Say what transformers could not do with the user's configuration, and why."""
    return RunnerError(
        f"transformers {transformers.__version__} cannot {doing}: {type(error).__name__}: {error}",
        "correct model.architecture, model.config or model.path",
    )


def _mark_layers(network: torch.nn.Module, ranges: Ranges) -> None:
    """Open `layer.N`, and in it `attn` and `mlp`, around the forward calls of those modules."""
    layers = getattr(network.get_decoder(), "layers", None)
    if not isinstance(layers, torch.nn.ModuleList):
        log.warning(
            "nvtx.layers=true, but %s has no list of layers: its layers get no ranges",
            type(network).__name__,
        )
        return
    for index, layer in enumerate(layers):
        _mark(layer, f"layer.{index}", ranges)
        for name, child in layer.named_children():
            if name.endswith("attn"):
                _mark(child, "attn", ranges)
            elif name.endswith(("mlp", "moe")):
                _mark(child, "mlp", ranges)


def _mark(module: torch.nn.Module, name: str, ranges: Ranges) -> None:
    # What a hook returns replaces the module's input or output, and NVTX's functions return the
    # nesting depth: so the hooks return nothing.
    def before(*_: object) -> None:
        ranges.push(name)

    def after(*_: object) -> None:
        ranges.pop()

    module.register_forward_pre_hook(before)
    # always_call: the range closes also when the forward call raises.
    module.register_forward_hook(after, always_call=True)


@contextlib.contextmanager
def _readable(doing: str) -> Iterator[None]:
    """Turn running out of memory into a `RunnerError`; let everything else through."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error):
            first = str(error).partition("\n")[0]
            raise RunnerError(
                f"out of memory while {doing}: {first}",
                "choose a smaller model, infer.batch_size or infer.prompt_tokens, "
                "or another device",
            ) from error
        raise
