"""Importing vLLM's GPU worker becomes a range around each step of the engine.

A step begins when the worker is asked to run the model, and ends when it has sampled. Its name says
what it does (prefill, decode, both, or the check of drafted tokens), and its fields how much. That
holds for both model runners and under CUDA graphs, since the worker is asked in each case.

What a step works on is taken from the scheduler's output, without a loop over the requests that
only decode: a step of hundreds of them must not cost more than one of a few.
"""

from __future__ import annotations

import functools
import threading
from types import ModuleType
from typing import Any, Callable

from . import engine_file
from ._backend import find_backend
from .notice import Notices

WORKER = "vllm.v1.worker.gpu_worker"

PREFILL, DECODE, MIXED, VERIFY = "prefill", "decode", "mixed", "verify"

FIELDS = (
    "prefill_requests",
    "prefill_tokens",
    "prefill_context_tokens",
    "decode_requests",
    "decode_tokens",
    "decode_context_tokens",
    "draft_tokens",
)
"""What is kept of a step: requests that have no token yet, their new tokens, and all that they have
after the step; the same three of the requests that have one; drafted tokens that it checks."""

_OUTPUT = (
    "total_num_scheduled_tokens",
    "num_scheduled_tokens",
    "scheduled_new_reqs",
    "scheduled_cached_reqs",
    "scheduled_spec_decode_tokens",
)
_CACHED = ("req_ids", "num_computed_tokens", "num_output_tokens")


def work_of(scheduled: Any) -> tuple[str, tuple[int, ...]] | None:
    """Return the kind of a step and the values of FIELDS; None where no token is scheduled.

    Raises:
        AttributeError: It is not the output of a scheduler that we know.

    """
    total: int = scheduled.total_num_scheduled_tokens
    if total == 0:
        return None
    tokens_of: dict[str, int] = scheduled.num_scheduled_tokens
    cached = scheduled.scheduled_cached_reqs
    computed: list[int] = cached.num_computed_tokens
    decode_context = sum(computed)
    requests = tokens = context = 0
    for new in scheduled.scheduled_new_reqs:
        requests += 1
        tokens += tokens_of[new.req_id]
        context += new.num_computed_tokens
    # A long prompt comes in pieces: the request is known by then, and has no token.
    if 0 in cached.num_output_tokens:
        for name, outputs, known in zip(cached.req_ids, cached.num_output_tokens, computed):
            if outputs == 0:
                requests += 1
                tokens += tokens_of[name]
                context += known
                decode_context -= known
    decoding, decoded = len(tokens_of) - requests, total - tokens
    spec: dict[str, list[int]] = scheduled.scheduled_spec_decode_tokens
    drafted = sum(map(len, spec.values())) if spec else 0
    prompts = (requests, tokens, context + tokens)
    decodes = (decoding, decoded, decode_context + decoded)
    return _kind(requests, decoding, drafted), (*prompts, *decodes, drafted)


def _kind(prefilling: int, decoding: int, drafted: int) -> str:
    if prefilling:
        return MIXED if decoding else PREFILL
    return VERIFY if drafted else DECODE


class Steps:
    """Opens a range when a step begins, and closes it when the step ends."""

    def __init__(self, openers: dict[str, Callable[..., None]], pop: Callable[[], None]) -> None:
        """Take what opens a range of each kind with the values of FIELDS, and what closes it."""
        self._openers = openers
        self._pop = pop
        self._thread = threading.local()

    def begin(self, scheduled: Any) -> None:
        """Begin a step; one that this thread never sampled for is over."""
        self.end()
        work = work_of(scheduled)
        if work is not None:
            kind, values = work
            self._openers[kind](*values)
            self._thread.open = True

    def end(self) -> None:
        """End this thread's step, if it is in one."""
        if getattr(self._thread, "open", False):
            self._thread.open = False
            self._pop()


def install(module: ModuleType, notices: Notices) -> None:
    """Mark the steps of vLLM's GPU worker."""
    worker = module.Worker
    execute, sample, load = worker.execute_model, worker.sample_tokens, worker.load_model
    missing = _missing()
    if missing:
        raise RuntimeError(
            f"its scheduler's output has no {', '.join(missing)}; "
            '--profiler-config \'{"profiler":"cuda"}\' has vLLM itself mark its steps'
        )
    backend = find_backend()
    if backend is None:
        return
    openers = {kind: backend.prepare(kind, FIELDS) for kind in (PREFILL, DECODE, MIXED, VERIFY)}
    steps = Steps(openers, backend.pop)

    @functools.wraps(execute)
    def execute_model(self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            steps.begin(scheduler_output)
        except Exception as error:
            notices.warn(f"vllm-steps: steps are not marked: {error!r}")
        result = None
        try:
            result = execute(self, scheduler_output, *args, **kwargs)
        except BaseException:
            steps.end()
            raise
        # Without a result it waits to be asked for the sampled tokens.
        if result is not None:
            steps.end()
        return result

    @functools.wraps(sample)
    def sample_tokens(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return sample(self, *args, **kwargs)
        finally:
            steps.end()

    @functools.wraps(load)
    def load_model(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            engine_file.write(describe(self.vllm_config, self.rank))
        except Exception as error:
            notices.warn(f"vllm-steps: what the engine was configured with is not kept: {error!r}")
        return load(self, *args, **kwargs)

    worker.execute_model, worker.sample_tokens = execute_model, sample_tokens
    worker.load_model = load_model


def describe(config: Any, rank: int) -> dict[str, Any]:
    """Return what a worker of this rank was configured with, as far as times follow from it."""
    import vllm

    model, parallel = config.model_config, config.parallel_config
    return {
        "engine": "vllm",
        "version": vllm.__version__,
        "rank": rank,
        "model": str(model.model),
        "dtype": str(model.dtype).removeprefix("torch."),
        "quantization": model.quantization,
        "kv_cache_dtype": config.cache_config.cache_dtype,
        "tensor_parallel_size": parallel.tensor_parallel_size,
        "pipeline_parallel_size": parallel.pipeline_parallel_size,
        "data_parallel_size": parallel.data_parallel_size,
        "expert_parallel": bool(parallel.enable_expert_parallel),
        "eager": bool(model.enforce_eager),
        "config": model.hf_config.to_dict(),
    }


def _missing() -> list[str]:
    """Name what the output of this vLLM's scheduler lacks of what is read."""
    from vllm.v1.core.sched.output import CachedRequestData, SchedulerOutput

    lacks = []
    for cls, fields in ((SchedulerOutput, _OUTPUT), (CachedRequestData, _CACHED)):
        known = getattr(cls, "__dataclass_fields__", {})
        lacks += [f"{cls.__name__}.{field}" for field in fields if field not in known]
    return lacks
