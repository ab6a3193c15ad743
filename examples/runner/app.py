"""A Hydra command line becomes one run of the workload and its metrics, in `hydra.run.dir`."""

from __future__ import annotations

import json
import logging
import os
import platform
import statistics
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import hydra
import numpy as np
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from runner import backend, settings
from runner.errors import RunnerError
from runner.generate import Generation, LanguageModel, Tokens, generate
from runner.ranges import OFF, Ranges
from runner.settings import Settings

log = logging.getLogger("runner")

METRICS_VERSION = 1
"""Version of the document that `metrics` returns."""

settings.register()


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(config: DictConfig) -> None:
    """Run the workload; a problem that the user can fix ends it with exit status 2.

    With HYDRA_FULL_ERROR=1 in the environment it ends with the traceback instead.
    """
    _log_to_stderr()
    try:
        chosen = OmegaConf.to_object(config)
        assert isinstance(chosen, Settings)
        run(chosen, Path(HydraConfig.get().runtime.output_dir))
    except RunnerError as error:
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        log.error("%s", error)
        sys.exit(2)


def run(chosen: Settings, folder: Path) -> dict[str, Any]:
    """Check, build, warm up, measure; print the metrics as one JSON line and write the files."""
    settings.check(chosen)
    _check_length(chosen)
    for unused in settings.accepted_only(chosen):
        log.warning("accepted without effect: %s", unused)
    model, ranges = backend.build(chosen)
    new_tokens = chosen.infer.max_new_tokens
    try:
        first = next(make_prompts(chosen, model.vocab_size))
        for _ in range(chosen.run.warmup):
            with ranges.open("warmup"):
                generate(model, first, new_tokens, OFF)
        results = [
            generate(model, prompt, new_tokens, ranges, chosen.nvtx.steps)
            for prompt in make_prompts(chosen, model.vocab_size)
        ]
    except (MemoryError, OverflowError) as error:
        raise RunnerError(
            f"{chosen.model.name} with {chosen.infer.batch_size} x {chosen.infer.prompt_tokens} "
            f"prompt tokens and {new_tokens} new ones does not fit into memory: {error}",
            "choose a smaller model, infer.batch_size, prompt_tokens or max_new_tokens",
        ) from error
    document = metrics(chosen, model, ranges, results)
    write(folder / chosen.outputs.metrics, json.dumps(document, indent=2) + "\n")
    if chosen.outputs.tokens is not None:
        tokens = [result.tokens.tolist() for result in results]
        write(folder / chosen.outputs.tokens, json.dumps(tokens) + "\n")
    print(json.dumps(document), flush=True)
    return document


def make_prompts(chosen: Settings, vocab_size: int) -> Iterator[Tokens]:
    """Draw the prompt of each repeat: random token ids, shape (batch, tokens).

    Every epoch has the same prompts. They depend on the seed and their number alone, so that a
    second run of the same configuration does the same work.
    """
    sampling = chosen.dataset.sampling
    seed = sampling.seed if sampling.randomize else chosen.seed
    entropy = np.random.SeedSequence(seed).entropy
    size = (chosen.infer.batch_size, chosen.infer.prompt_tokens)
    for index in range(settings.repeats(chosen)):
        number = index % (sampling.num_samples_per_epoch or chosen.run.repeats)
        draw = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(number,)))
        yield draw.integers(0, vocab_size, size)


def metrics(
    chosen: Settings, model: LanguageModel, ranges: Ranges, results: list[Generation]
) -> dict[str, Any]:
    """Put together what was run and how long the host waited for each stage, in ms."""
    infer = chosen.infer
    prefill_ms = [result.prefill_host_ns / 1e6 for result in results]
    decode_ms = [result.decode_host_ns / 1e6 for result in results]
    steps = infer.max_new_tokens
    per_step_ms = statistics.median(decode_ms) / steps if steps else None
    return {
        "metrics_version": METRICS_VERSION,
        "workload": "runner",
        "experiment": chosen.experiment,
        "model": {
            "name": chosen.model.name if chosen.model.path is None else chosen.model.path,
            "architecture": chosen.model.architecture if chosen.model.path is None else None,
            "parameters": model.parameters,
        },
        "backend": model.backend,
        "device": model.device,
        "device_name": model.device_name,
        "dtype": model.dtype,
        "batch_size": infer.batch_size,
        "prompt_tokens": infer.prompt_tokens,
        "decode_steps": steps,
        "warmup": chosen.run.warmup,
        "nvtx": {
            "provider": ranges.provider,
            "steps": chosen.nvtx.steps and ranges is not OFF,
            "layers": chosen.nvtx.layers and ranges is not OFF,
        },
        "repeats": [
            {"prefill_host_ms": prefill, "decode_host_ms": decode}
            for prefill, decode in zip(prefill_ms, decode_ms, strict=True)
        ],
        "median": {
            "prefill_host_ms": statistics.median(prefill_ms),
            "decode_host_ms": statistics.median(decode_ms),
            "decode_host_ms_per_step": per_step_ms,
            "decode_tokens_per_s": infer.batch_size * 1e3 / per_step_ms if per_step_ms else None,
        },
        "versions": _versions(),
    }


def write(file: Path, text: str) -> None:
    """Write `text` into `file`, or raise `RunnerError`."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunnerError(
            f"{file} cannot be written: {error.strerror}",
            "choose a folder that is writable: hydra.run.dir=FOLDER",
        ) from error


def _check_length(chosen: Settings) -> None:
    """Raise `RunnerError` when prompt and answer are longer than the model has positions."""
    longest = chosen.model.config.get("max_position_embeddings")
    length = chosen.infer.prompt_tokens + chosen.infer.max_new_tokens
    if chosen.model.path is None and isinstance(longest, int) and length > longest:
        raise RunnerError(
            f"infer.prompt_tokens + infer.max_new_tokens = {length}, but {chosen.model.name} has "
            f"{longest} positions",
            "ask for fewer tokens or raise model.config.max_position_embeddings",
        )


def _versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide what is computed."""
    found = {"python": platform.python_version()}
    for package in ("numpy", "torch", "transformers", "nvtx", "hydra-core"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _log_to_stderr() -> None:
    """Send warnings and errors to standard error, one line each."""

    class Line(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            text = " ".join(record.getMessage().split())
            return f"runner: {record.levelname.lower()}: {text}"

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Line())
    log.handlers = [handler]
    log.propagate = False
