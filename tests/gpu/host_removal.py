"""A model that spends time on the host in each decode step, in a function that other calls omit.

    host_removal.py hf|vllm [ARGUMENTS OF gen.py]

`hf`: `generate` of Hugging Face with a logits processor that looks at the tokens in Python, as
many do. `vllm`: gen.py of the dummy model, in this process, with a scheduler that sorts its
requests by a key in Python. The calls are in ranges `kept` and `removed`, in turn, so that both
meet the same machine. check_removal.py compares what the report says of the first with what the
second gains.
"""

from __future__ import annotations

import importlib
import itertools
import sys
from contextlib import AbstractContextManager
from typing import Any

BATCH, PROMPT, TOKENS, CALLS = 16, 128, 96, 12
WORDS_BACK = 128
"""Tokens that the logits processor looks at in each sequence."""

active = True
"""Whether the function is called."""


def in_turn(number: int) -> AbstractContextManager[None]:
    """Open the range of a call, and leave the function out of every other one."""
    import torch

    global active
    active = number % 2 == 0
    return torch.cuda.nvtx.range("kept" if active else "removed")


class SeenTokens:
    """Lower the score of a sequence's last tokens, one after the other."""

    def __call__(self, tokens: Any, scores: Any) -> Any:
        """Return the scores for the next token."""
        if not active:
            return scores
        for row, sequence in enumerate(tokens.tolist()):
            seen = sorted(set(sequence[-WORDS_BACK:]))
            scores[row, seen] -= 0.1
        return scores


def hugging_face() -> None:
    """Generate with a small Llama of random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32000,
        hidden_size=1024,
        intermediate_size=4096,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=8,
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()
    prompt = torch.randint(3, 32000, (BATCH, PROMPT), device="cuda")
    for number in range(CALLS):
        with in_turn(number):
            model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                do_sample=False,
                max_new_tokens=TOKENS,
                min_new_tokens=TOKENS,
                pad_token_id=0,
                logits_processor=[SeenTokens()],
            )
            torch.cuda.synchronize()


def vllm() -> None:
    """Run gen.py with a scheduler that sorts its requests in every step."""
    from vllm import LLM

    from sorting_scheduler import SortingScheduler

    start, generate = LLM.__init__, LLM.generate
    calls = itertools.count()

    def with_scheduler(self: Any, *args: Any, **kwargs: Any) -> None:
        start(self, *args, **kwargs, scheduler_cls=SortingScheduler)

    def ranged(self: Any, *args: Any, **kwargs: Any) -> Any:
        with in_turn(next(calls)):
            SortingScheduler.active = active
            return generate(self, *args, **kwargs)

    LLM.__init__, LLM.generate = with_scheduler, ranged
    sys.argv += ["--inproc", "--calls", str(CALLS)]
    importlib.import_module("gen").main()


if __name__ == "__main__":
    {"hf": hugging_face, "vllm": vllm}[sys.argv.pop(1)]()
