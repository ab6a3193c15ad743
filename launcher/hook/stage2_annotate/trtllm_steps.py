"""Importing TensorRT-LLM's PyTorch executor puts a range around each of its forward steps.

The range surrounds `PyExecutor._forward_step`. Sampling and bookkeeping follow outside of it, in
ranges that TensorRT-LLM opens itself; a step lasts until the next one begins. Class and field
names are those of its public source: PyExecutor of commit 00043967, ScheduledRequests of commit
002f3cc3.
"""

from __future__ import annotations

import functools
from operator import attrgetter
from types import ModuleType
from typing import Any

from .notice import Notices
from .steps import Work, first_of, kind_of, of_engine, require

EXECUTOR = "tensorrt_llm._torch.pyexecutor.py_executor"

_REQUEST = ("context_chunk_size", "context_current_position", "max_beam_num_tokens")
_length_of = attrgetter("max_beam_num_tokens")


class Iterations:
    """Reads what an iteration works on."""

    def __init__(self) -> None:
        """Start without a previous batch."""
        self._requests: list[Any] = []
        self._context = 0

    def work_of(self, executor: Any, scheduled: Any, *_: Any) -> Work:
        """Return what an iteration works on; None if no request is scheduled.

        Raises:
            AttributeError: The scheduled requests lack an expected attribute.

        """
        prompts = tokens = context = 0
        for request in scheduled.context_requests:
            prompts += 1
            tokens += request.context_chunk_size
            context += request.context_current_position
        generating = scheduled.generation_requests
        decoding = len(generating)
        if not prompts and not decoding:
            return None
        drafted = 0
        if executor.max_draft_len:
            drafted = sum(len(request.py_draft_tokens or ()) for request in generating)
            decode_context = sum(map(_length_of, generating)) + drafted
            self._requests = []
        else:
            decode_context = self._context_of(generating)
        if not executor.disable_overlap_scheduler:
            # The token of the previous step is not counted yet.
            decode_context += decoding
        values = (decoding, decoding + drafted, decode_context, drafted)
        return kind_of(prompts, decoding, drafted), (prompts, tokens, context + tokens, *values)

    def _context_of(self, generating: list[Any]) -> int:
        # A comparison by identity takes a fraction of the time of reading each length.
        if generating == self._requests:
            # Each request has one token more than at the previous step.
            self._context += len(generating)
        else:
            self._requests = list(generating)
            self._context = sum(map(_length_of, generating))
        return self._context


def install(module: ModuleType, notices: Notices) -> None:
    """Mark the forward steps of TensorRT-LLM's PyTorch executor."""
    from tensorrt_llm._torch.pyexecutor.llm_request import LlmRequest

    executor = module.PyExecutor
    forward = executor._forward_step
    lacks = [f"LlmRequest.{field}" for field in _REQUEST if not hasattr(LlmRequest, field)]
    require(lacks, "TensorRT-LLM itself names its steps, without decode tokens")
    steps = of_engine("trtllm-steps", notices, Iterations().work_of, describe)
    if steps is None:
        return
    begin, end = steps.begin, steps.end

    @functools.wraps(forward)
    def _forward_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        begin(self, first_of(args, kwargs))
        try:
            return forward(self, *args, **kwargs)
        finally:
            end()

    executor._forward_step = _forward_step


def describe(executor: Any) -> dict[str, Any]:
    """Return the parts of an executor's configuration that determine step times."""
    import tensorrt_llm

    model, ranks = executor.model_engine.model.model_config, executor.dist
    config = model.pretrained_config
    quantization = getattr(model, "quant_config", None)
    dtype = getattr(config, "torch_dtype", None) or getattr(config, "dtype", None)
    return {
        "engine": "tensorrt-llm",
        "version": tensorrt_llm.__version__,
        "rank": ranks.rank,
        "model": str(getattr(config, "_name_or_path", "") or "") or None,
        "dtype": str(dtype).replace("torch.", "", 1) if dtype is not None else None,
        "quantization": _text(quantization, "quant_algo"),
        "kv_cache_dtype": _text(quantization, "kv_cache_quant_algo"),
        "tensor_parallel_size": ranks.tp_size,
        "pipeline_parallel_size": ranks.pp_size,
        "config": config.to_dict(),
    }


def _text(holder: Any, name: str) -> str | None:
    value = getattr(holder, name, None)
    return None if value is None else str(getattr(value, "value", value)).lower()
