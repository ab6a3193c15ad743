"""The settings become one of the language models, or an error that says what is missing."""

from __future__ import annotations

import importlib.util
import logging
from types import ModuleType

from runner.errors import RunnerError
from runner.generate import LanguageModel
from runner.model_numpy import NumpyModel
from runner.ranges import OFF, Ranges, choose
from runner.settings import Settings

log = logging.getLogger("runner")

DTYPES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
}
"""Short names of `model.dtype`; the long ones are accepted too."""


def build(settings: Settings) -> tuple[LanguageModel, Ranges]:
    """Build the model that `settings` ask for, and choose the ranges that fit its backend."""
    dtype = _dtype(settings.model.dtype)
    if _use_torch(settings):
        import torch

        from runner.model_torch import TorchModel

        ranges = choose(settings.nvtx.enable, torch)
        return TorchModel(
            settings.model,
            settings.device,
            dtype,
            settings.seed,
            settings.use_flash_attn,
            ranges if settings.nvtx.layers and ranges is not OFF else None,
        ), ranges
    _check_numpy(settings)
    if dtype not in (None, "float32", "float64"):
        log.warning("model.dtype=%s is not for the numpy backend: float32 is used", dtype)
        dtype = None
    ranges = choose(settings.nvtx.enable, None)
    layer_ranges = ranges if settings.nvtx.layers else OFF
    try:
        return NumpyModel(
            settings.model.config, dtype or "float32", settings.seed, layer_ranges
        ), ranges
    except MemoryError as error:
        raise RunnerError(
            f"out of memory while building {settings.model.name}: {error}", "choose a smaller model"
        ) from error


def _dtype(name: str) -> str | None:
    """Return the long name, or None for `auto`."""
    if name == "auto":
        return None
    if name not in DTYPES and name not in DTYPES.values():
        raise RunnerError(
            f"model.dtype={name} is unknown", f"choose auto or one of {', '.join(DTYPES)}"
        )
    return DTYPES.get(name, name)


def _use_torch(settings: Settings) -> bool:
    """Decide for torch or numpy; raise `RunnerError` when torch is asked for and is not there."""
    if settings.backend == "numpy":
        return False
    missing = [name for name in ("torch", "transformers") if not _installed(name)]
    if not missing:
        return True
    if settings.backend == "torch":
        raise RunnerError(
            f"backend=torch, but {' and '.join(missing)} cannot be imported",
            "run: python -m pip install torch transformers, or use backend=numpy",
        )
    return False


def _installed(name: str) -> bool:
    """Say whether the package can be imported; a broken one is warned about."""
    if importlib.util.find_spec(name) is None:
        return False
    try:
        module: ModuleType = importlib.import_module(name)
    except Exception as error:  # A package broken in any way must not end an automatic choice.
        log.warning("%s is installed, but cannot be imported: %s", name, error)
        return False
    return hasattr(module, "__version__")


def _check_numpy(settings: Settings) -> None:
    """Raise `RunnerError` for what only torch can do."""
    torch_needed = "install torch and transformers"
    if settings.device not in ("auto", "cpu"):
        raise RunnerError(
            f"device={settings.device} needs the torch backend, and this run uses numpy",
            f"{torch_needed}, or use device=cpu",
        )
    if settings.model.path is not None:
        raise RunnerError(
            f"model.path={settings.model.path} needs the torch backend",
            f"{torch_needed}, or use model.path=null",
        )
    if settings.model.architecture != "llama":
        raise RunnerError(
            f"model={settings.model.name} is of architecture {settings.model.architecture}, "
            "and the numpy backend has llama only",
            f"{torch_needed}, or use model=llama_tiny",
        )
