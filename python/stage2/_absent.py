"""Why a number of the report is not known, in the words that the pages of the report use."""

from __future__ import annotations

from typing import Any, Mapping

REASONS = {
    "no_model": "no model is configured (choose one, also for stage2-launch report RUN_DIR: "
    "model/llm=NAME, or model.llm.config_json=PATH)",
    "bad_model": "{why}",
    "no_token_count": "{count} is not known (give it in the configuration, or let the workload "
    "write it)",
    "no_peak": "the GPU's dense peak for {precision} is not known (set "
    "hardware.dense_tflops.{precision})",
    "no_bandwidth": "the GPU's peak memory bandwidth is not known (set hardware.memory_gb_per_s)",
    "no_stage": "no stage is {stage} (mark it with an NVTX range, or name its range in "
    "roles.{stage})",
    "several_stages": "more than one stage is {stage} (roles.{stage} selects one)",
    "stages_overlap": "its stages may overlap (several threads or streams), and it is not known "
    "{why}",
    "no_wall_time": "the wall time of the stage is not known",
    "no_busy_time": "the GPU busy time of the stage is not known",
    "zero": "{of} is zero",
    "no_kernels": "the number of kernels is not known",
    "decode_only": "it is computed for decode only",
    "no_requests": "no range, or more than one, lasts from the arrival of a request to its first "
    "token (open one named time_to_first_token)",
    "prefill_only": "it is computed for prefill only",
    "no_step_time": "no warm step of the stage was timed",
    "not_modelled": "the stage is not part of the model's FLOPs",
    "no_vision_flops": "the FLOPs of the vision encoder are not known (set "
    "model.llm.vision_flops_per_prefill)",
    "no_vision_part_flops": "the FLOPs of {part}, a part of the vision encoder, are not known (set "
    "model.llm.vision_part_flops_per_prefill.{part})",
    "not_measured": "no counters were measured",
    "few_counters": "only {covered} of the stage's kernel time has counters",
    "no_energy": "the energy of the GPU is not known ({why})",
    "too_short_for_energy": "its windows add up to less than 1 s, and the GPU's energy counter "
    "changes every 0.1 s",
    "energy_uncertain": "the error of its energy can be {percent} % (the limit is 10 %), because "
    "the GPU's energy was read only every {spacing_ms} ms; longer windows have a smaller one",
    "shared_gpu": "several processes of the run used the GPU at once, and its energy is theirs "
    "together",
    "several_gpus": "the stage ran on several GPUs, and it is not known which tokens each worked "
    "on",
    "no_generations": "it is not known which steps or calls make up a generation",
    "not_finite": "the calculation gives no finite number",
}
"""The sentence of each reason, with the names of the values that it has."""


class _Values(dict):  # type: ignore[type-arg]
    """The values of a reason: one that a report lacks is not known."""

    def __missing__(self, _name: str) -> str:
        return "?"


def absence_of(figure: Any) -> str | None:
    """Return why a number of the report is not known; None if it is known, or has no reason."""
    absent: Mapping[str, Any] = _object(_object(figure).get("absent"))
    reason = absent.get("reason")
    if not isinstance(reason, str):
        return None
    # A newer report may have further reasons.
    return REASONS[reason].format_map(_Values(absent)) if reason in REASONS else reason


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
