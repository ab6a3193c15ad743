"""The options become a model with slots, or an error that says what is missing."""

from __future__ import annotations

import importlib.util
import logging
from typing import Any

from runner.errors import RunnerError
from server.batch import buckets
from server.errors import ServerError
from server.options import MODELS, Options
from server.ranges import Ranges
from server.slots import SlotModel

log = logging.getLogger("server")


def build(options: Options, ranges: Ranges) -> SlotModel:
    """Build the model in this process, which may not be forked from then on.

    Raises `ServerError`: a package or a device is missing, or the model does not fit.
    """
    config = _config(options)
    try:
        if _use_torch(options):
            from server.slots_torch import TorchSlots

            return TorchSlots(config, options, ranges)
        return _numpy(config, options, ranges)
    except RunnerError as error:
        raise ServerError(error.problem, error.remedy) from error
    except MemoryError as error:
        raise ServerError(
            f"{options.model} with {options.slots} slots of {options.capacity} positions does not "
            f"fit into memory: {error}",
            "choose a smaller --model, --slots or --capacity",
        ) from error


def _config(options: Options) -> dict[str, Any]:
    """Read the fields of the model, which has to be a Llama with enough positions."""
    from omegaconf import OmegaConf

    model: Any = OmegaConf.to_container(OmegaConf.load(MODELS / f"{options.model}.yaml"))
    if model["architecture"] != "llama":
        raise ServerError(
            f"--model={options.model} is of architecture {model['architecture']}, and the server "
            "has llama only",
            "choose a llama, for instance --model=llama_tiny",
        )
    config: dict[str, Any] = model["config"]
    positions = config.get("max_position_embeddings", options.capacity)
    if options.capacity > positions:
        raise ServerError(
            f"--capacity={options.capacity}, but {options.model} has {positions} positions",
            f"choose --capacity={positions} or less",
        )
    return config


def _use_torch(options: Options) -> bool:
    if options.backend == "numpy":
        return False
    if importlib.util.find_spec("torch") is not None:
        return True
    if options.backend == "torch" or options.device not in ("auto", "cpu"):
        raise ServerError(
            f"--backend={options.backend} --device={options.device}, but torch is not installed",
            "run: python -m pip install torch, or use --backend=numpy --device=cpu",
        )
    return False


def _numpy(config: dict[str, Any], options: Options, ranges: Ranges) -> SlotModel:
    from runner.model_numpy import NumpyModel
    from server import simulated_gpu
    from server.slots_numpy import GpuWork, NoGpuWork, NumpySlots

    gpu: GpuWork = NoGpuWork()
    library = simulated_gpu.find(options.simulated_gpu)
    if library is not None:
        sizes = buckets(options.slots)
        gpu = simulated_gpu.SimulatedGpu(library, sizes, options.graphs, ranges)
    elif options.simulated_gpu == "auto":
        log.warning(
            "no GPU work: neither torch nor a simulated GPU is here; "
            "run: cargo build --release -p stage2-sim"
        )
    model = NumpyModel(config, "float32", options.seed)
    return NumpySlots(model, options.slots, options.capacity, gpu, ranges)
