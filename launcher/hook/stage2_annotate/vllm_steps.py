"""Importing vLLM's GPU worker puts a range around each step of the engine.

A step begins when the engine calls the worker to run the model, and ends when the worker has
sampled. The name of the range is the kind of the step (prefill, decode, both, or verification of
drafted tokens), and the fields are its amount of work. This works with both model runners and with
CUDA graphs, because the engine calls the worker in each case.

The work of a step comes from the scheduler's output, without a loop over the requests that only
decode: a step with hundreds of these must not cost more than a step with a few.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from . import vllm_modules, vllm_requests
from .notice import Notices
from .request_record import STEP
from .steps import DECODE, FIELDS, Work, first_of, kind_of, lacking, of_engine, require

WORKER = "vllm.v1.worker.gpu_worker"

_OUTPUT = (
    "total_num_scheduled_tokens",
    "num_scheduled_tokens",
    "scheduled_new_reqs",
    "scheduled_cached_reqs",
    "scheduled_spec_decode_tokens",
)
_CACHED = ("req_ids", "num_computed_tokens", "num_output_tokens")


def work_of(_worker: Any, scheduled: Any) -> Work:
    """Return what a step works on; None if no token is scheduled.

    Raises:
        AttributeError: The output of the scheduler lacks an expected attribute.

    """
    total: int = scheduled.total_num_scheduled_tokens
    if total == 0:
        return None
    tokens_of: dict[str, int] = scheduled.num_scheduled_tokens
    cached = scheduled.scheduled_cached_reqs
    computed: list[int] = cached.num_computed_tokens
    outputs: list[int] = cached.num_output_tokens
    new = scheduled.scheduled_new_reqs
    spec: dict[str, list[int]] = scheduled.scheduled_spec_decode_tokens
    decode_context = sum(computed)
    all_decode = all(outputs)
    if all_decode and not new and not spec:
        return DECODE, (0, 0, 0, len(tokens_of), total, decode_context + total, 0)
    requests = tokens = context = 0
    for request in new:
        requests += 1
        tokens += tokens_of[request.req_id]
        context += request.num_computed_tokens
    # A long prompt is read in pieces: from the second one on, its request is a known request
    # without an output token.
    if not all_decode:
        for name, generated, known in zip(cached.req_ids, outputs, computed):
            if generated == 0:
                requests += 1
                tokens += tokens_of[name]
                context += known
                decode_context -= known
    decoding, decoded = len(tokens_of) - requests, total - tokens
    drafted = sum(map(len, spec.values())) if spec else 0
    prompts = (requests, tokens, context + tokens)
    decodes = (decoding, decoded, decode_context + decoded)
    return kind_of(requests, decoding, drafted), (*prompts, *decodes, drafted)


class Reader:
    """Reads the work of the steps of a worker, and their numbers from the scheduler.

    Most steps generate a token for each request of the previous step. The contexts of these are
    known, so their sum is not computed again, which would take longer than everything else.
    """

    def __init__(self) -> None:
        """Start without a step."""
        self._requests: list[str] = []
        self._context = 0

    def read(self, worker: Any, scheduled: Any) -> Work:
        """Return what a step works on, and its number."""
        total: int = scheduled.total_num_scheduled_tokens
        cached = scheduled.scheduled_cached_reqs
        requests: list[str] = cached.req_ids
        before, self._requests = self._requests, []
        # Names from another process are different objects, and slow to compare.
        if (
            total == len(before) == len(requests) == len(scheduled.num_scheduled_tokens)
            and before
            and before[0] is requests[0]
            and before == requests
            and not scheduled.scheduled_spec_decode_tokens
            # A preempted request reads its context again.
            and not getattr(cached, "resumed_req_ids", True)
        ):
            self._context += total
            work: Work = DECODE, (0, 0, 0, total, total, self._context, 0)
        else:
            work = work_of(worker, scheduled)
        if work is None:
            return None
        kind, values = work
        if kind == DECODE:
            self._requests, self._context = requests, values[5]
        return kind, (*values, vllm_requests.step_of(scheduled))


def install(module: ModuleType, notices: Notices) -> None:
    """Mark the steps of vLLM's GPU worker."""
    from vllm.v1.core.sched.output import CachedRequestData, SchedulerOutput

    worker = module.Worker
    execute, sample = worker.execute_model, worker.sample_tokens
    require(
        lacking(SchedulerOutput, _OUTPUT) + lacking(CachedRequestData, _CACHED),
        'with --profiler-config \'{"profiler":"cuda"}\', vLLM itself marks its steps',
    )
    fields = (*FIELDS, STEP)
    steps = of_engine("vllm-steps", notices, Reader().read, describe, fields)
    if steps is None:
        return
    begin, end = steps.begin, steps.end

    @functools.wraps(execute)
    def execute_model(self: Any, *args: Any, **kwargs: Any) -> Any:
        begin(self, first_of(args, kwargs))
        result = None
        try:
            result = execute(self, *args, **kwargs)
        except BaseException:
            end()
            raise
        # Without a result, the step goes on until `sample_tokens`.
        if result is not None:
            end()
        return result

    @functools.wraps(sample)
    def sample_tokens(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return sample(self, *args, **kwargs)
        finally:
            end()

    worker.execute_model, worker.sample_tokens = execute_model, sample_tokens
    try:
        vllm_modules.install(module, notices)
    except AttributeError as error:
        notices.warn(f"vllm-steps: captured graphs have no modules: {error!r}")


def describe(worker: Any) -> dict[str, Any]:
    """Return the parts of a worker's configuration that determine step times."""
    import vllm

    config = worker.vllm_config
    model, parallel = config.model_config, config.parallel_config
    return {
        "engine": "vllm",
        "version": vllm.__version__,
        "rank": worker.rank,
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
