"""Importing SGLang's scheduler puts a range around each batch that it runs.

The range surrounds `Scheduler.run_batch`, which launches the model, the drafts and the sampling of
a batch, with and without CUDA graphs. Nothing is read from the GPU. Batches without a token of a
language model (idle, split prefill, diffusion) have no range. Class and field names are those of
SGLang 0.5.4, 0.5.17 and 0.5.23.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, Callable

from . import sglang_requests
from .notice import Notices
from .request_record import STEP
from .sglang_requests import drafts_of, rank_of
from .steps import DECODE, FIELDS, VERIFY, Work, first_of, kind_of, lacking, of_engine, require

SCHEDULER = "sglang.srt.managers.scheduler"

_BATCH = (
    "reqs",
    "forward_mode",
    "seq_lens_cpu",
    "seq_lens_sum",
    "prefix_lens",
    "extend_num_tokens",
    "decoding_reqs",
)
_MODES = ("EXTEND", "DECODE", "MIXED")


class Batches:
    """Reads what a batch works on."""

    def __init__(self, modes: Any) -> None:
        """Store the modes of SGLang's enumeration of forward modes."""
        self._decode, self._extends = modes.DECODE, (modes.EXTEND, modes.MIXED)
        # The last decode batch: SGLang replaces or extends this list when requests start or end.
        self._requests: Any = None
        self._number = self._context = 0

    def work_of(self, scheduler: Any, batch: Any) -> Work:
        """Return what a batch works on; None if the batch is not of a language model.

        Raises:
            AttributeError: The batch lacks an expected attribute.

        """
        mode = batch.forward_mode
        if mode is self._decode:
            return self._decoding(scheduler, batch)
        if mode not in self._extends:
            return None
        total = len(batch.reqs)
        # Decode requests come last, with one new token each.
        decoding = len(batch.decoding_reqs or ())
        prompts, prefixes = total - decoding, batch.prefix_lens
        tokens = batch.extend_num_tokens - decoding
        context = sum(prefixes[:prompts]) + tokens
        decode_context = sum(prefixes[prompts:]) + decoding
        values = (prompts, tokens, context, decoding, decoding, decode_context, 0)
        return (kind_of(prompts, decoding, 0), values) if total else None

    def _decoding(self, scheduler: Any, batch: Any) -> Work:
        number = len(batch.reqs)
        if number == 0:
            return None
        if scheduler.draft_worker is None:
            context = self._context_of(batch, number)
            return DECODE, (0, 0, 0, number, number, context, 0)
        # One forward pass verifies the last token and the drafts of each request.
        tokens = number * (drafts_of(scheduler) + 1)
        lengths = batch.seq_lens_cpu
        # While earlier drafts are still being verified, lengths are only on the GPU.
        context = 0 if lengths is None else lengths.sum().item() + tokens
        kind = VERIFY if tokens > number else DECODE
        return kind, (0, 0, 0, number, tokens, context, tokens - number)

    def _context_of(self, batch: Any, number: int) -> int:
        context: int | None = batch.seq_lens_sum
        if context is not None:
            return context
        requests = batch.reqs
        if requests is self._requests and number == self._number:
            # Each request has one token more than at the previous step.
            self._context += number
        else:
            self._requests, self._number = requests, number
            self._context = batch.seq_lens_cpu.sum().item()
        return self._context


def install(module: ModuleType, notices: Notices) -> None:
    """Mark the batches of SGLang's scheduler."""
    from sglang.srt.managers.schedule_batch import ScheduleBatch
    from sglang.srt.model_executor.forward_batch_info import ForwardMode

    scheduler = module.Scheduler
    run = scheduler.run_batch
    modes = [f"ForwardMode.{mode}" for mode in _MODES if not hasattr(ForwardMode, mode)]
    require(
        lacking(ScheduleBatch, _BATCH) + modes,
        "with --annotate torch-ops, SGLang itself names its steps",
    )
    read = Batches(ForwardMode).work_of

    def work_of(self: Any, batch: Any) -> Work:
        work = read(self, batch)
        if work is None:
            return None
        kind, values = work
        return kind, (*values, number(self, batch.reqs, values[0]))

    steps = of_engine("sglang-steps", notices, work_of, describe, (*FIELDS, STEP))
    if steps is None:
        return
    number = _numbering(module, notices)
    begin, end = steps.begin, steps.end

    @functools.wraps(run)
    def run_batch(self: Any, *args: Any, **kwargs: Any) -> Any:
        begin(self, first_of(args, kwargs))
        try:
            return run(self, *args, **kwargs)
        finally:
            end()

    scheduler.run_batch = run_batch


def _numbering(module: ModuleType, notices: Notices) -> Callable[[Any, Any, int], int]:
    try:
        return sglang_requests.install(module, notices)
    except Exception as error:
        notices.warn(f"sglang-steps: steps are marked, but not requests: {error!r}")
        return lambda *_: 0


def describe(scheduler: Any) -> dict[str, Any]:
    """Return the parts of a scheduler's configuration that determine step times."""
    import sglang

    model, arguments = scheduler.model_config, scheduler.server_args
    return {
        "engine": "sglang",
        "version": sglang.__version__,
        "rank": rank_of(scheduler, "tp_rank"),
        "model": str(model.model_path),
        "dtype": str(model.dtype).replace("torch.", "", 1),
        "quantization": model.quantization,
        "kv_cache_dtype": arguments.kv_cache_dtype,
        "tensor_parallel_size": arguments.tp_size,
        "pipeline_parallel_size": arguments.pp_size,
        "data_parallel_size": arguments.dp_size,
        "expert_parallel_size": arguments.ep_size,
        "config": model.hf_config.to_dict(),
    }
