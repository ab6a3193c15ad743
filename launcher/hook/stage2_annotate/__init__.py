"""Puts NVTX ranges into a workload that has none, as STAGE2_ANNOTATE requests.

The hook imports nothing that the workload does not import itself: each annotation waits for its
module. The hook must not break the workload: an annotation that fails prints one line.
"""

from __future__ import annotations

from types import ModuleType
from typing import Callable, Mapping

from . import (
    imports,
    prefill_decode,
    sglang_steps,
    torch_ops,
    trtllm_steps,
    vllm_requests,
    vllm_steps,
)
from .notice import Notices

ANNOTATIONS: dict[str, dict[str, Callable[[ModuleType, Notices], None]]] = {
    "torch-ops": {"torch": torch_ops.install},
    "prefill-decode": {
        "torch": prefill_decode.install_in_torch,
        "transformers.modeling_utils": prefill_decode.install_in_transformers,
    },
    "vllm-steps": {
        vllm_steps.WORKER: vllm_steps.install,
        vllm_requests.SCHEDULER: vllm_requests.install,
    },
    "sglang-steps": {sglang_steps.SCHEDULER: sglang_steps.install},
    "trtllm-steps": {trtllm_steps.EXECUTOR: trtllm_steps.install},
}
"""For each annotation, the modules that it waits for, and what to call after their import."""


def start(environment: Mapping[str, str]) -> None:
    """Set up the annotations that `environment` requests."""
    notices = Notices(environment)
    words = [word.strip() for word in environment.get("STAGE2_ANNOTATE", "").split(",")]
    actions: dict[str, list[imports.Action]] = {}
    for word in dict.fromkeys(filter(None, words)):
        if word not in ANNOTATIONS:
            known = ", ".join(ANNOTATIONS)
            notices.warn(f"STAGE2_ANNOTATE: {word!r} is not an annotation; use any of: {known}")
        for module, action in ANNOTATIONS.get(word, {}).items():
            actions.setdefault(module, []).append(_guarded(word, action, notices))
    if actions:
        imports.after(actions)


def _guarded(
    word: str, action: Callable[[ModuleType, Notices], None], notices: Notices
) -> imports.Action:
    def run(module: ModuleType) -> None:
        try:
            action(module, notices)
        except Exception as error:
            version = getattr(module, "__version__", "of an unknown version")
            what = f"{module.__name__} {version}"
            notices.warn(f"{word} does not work with {what}, which runs without it: {error!r}")

    return run
