"""Runs gen.py of the dummy model, and prints the times of its requests as vLLM measured them.

    engine_offline.py [--drafts N] [ARGUMENTS OF gen.py]

With `--drafts`, N tokens are drafted for each request and step from n-grams of its context.
"""

from __future__ import annotations

import functools
import importlib
import statistics
import sys
from typing import Any


def times(outputs: list[Any]) -> tuple[float, float]:
    """Return the mean time to the first token and the mean time per further token, s."""
    measured = [output.metrics for output in outputs]
    tokens = [len(output.outputs[0].token_ids) for output in outputs]
    first = statistics.mean(one.first_token_latency for one in measured)
    spans = [one.last_token_ts - one.first_token_ts for one in measured]
    each = (span / max(count - 1, 1) for span, count in zip(spans, tokens, strict=True))
    return first, statistics.mean(each)


def main() -> None:
    """Run gen.py with vLLM's statistics, and print a line for all of its calls."""
    drafts = 0
    if "--drafts" in sys.argv:
        at = sys.argv.index("--drafts")
        drafts = int(sys.argv[at + 1])
        del sys.argv[at : at + 2]
    gen = importlib.import_module("gen")
    from vllm import LLM

    found: list[tuple[float, float]] = []
    start, generate = LLM.__init__, LLM.generate

    @functools.wraps(start)
    def with_statistics(self: Any, *args: Any, **kwargs: Any) -> None:
        kwargs["disable_log_stats"] = False
        if drafts:
            kwargs["speculative_config"] = {
                "method": "ngram",
                "num_speculative_tokens": drafts,
                "prompt_lookup_max": 3,
            }
        start(self, *args, **kwargs)

    @functools.wraps(generate)
    def measured(self: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = generate(self, *args, **kwargs)
        found.append(times(outputs))
        return outputs

    LLM.__init__, LLM.generate = with_statistics, measured
    gen.main()
    first, token = (statistics.mean(values) * 1e3 for values in zip(*found, strict=True))
    print(f"the engine measured: first token {first:.3f} ms, token {token:.3f} ms", flush=True)


if __name__ == "__main__":
    main()
