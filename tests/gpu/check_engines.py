"""Whether the bundle of an engine says what ran, against what the load generator printed.

    check_engines.py BUNDLE LOG [engine=NAME] [requests=N] [calls=N] [ranks=N] [batches=N,N...]
                     [streamed=N] [modules] [drafts] [window=N] [kernels=N]

The engine is vLLM if no other is named. Prompts have 512 tokens and 64 new ones. `modules`: the
graphs were captured with modules; `drafts`: tokens were drafted; `window`: a window of N calls of a
dormant process; `kernels`: a range called `generate` has so many kernels, and nothing else is
checked.
Prints a line for each check; status 1: one failed.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

PROMPT, NEW = 512, 64


def checks(report: dict[str, Any], log: str, expected: dict[str, str]) -> list[tuple[bool, str]]:
    """Return each check of `report` as whether it holds, and what was found."""
    if "kernels" in expected:
        return of_kernels(report, int(expected["kernels"]))
    run = report.get("engine") or {}
    engine = expected.get("engine", "vllm")
    kinds = {kind["stage"]: kind for kind in run.get("kinds", [])}
    lines = {line["label"]: line["text"] for line in report["answer"]["lines"]}
    decode, prefill = kinds.get("decode"), kinds.get("prefill")
    found = [
        (
            run.get("engine") == engine and bool(run.get("version")),
            f"engine {run.get('engine')} {run.get('version')}",
        ),
        (decode is not None and prefill is not None, f"kinds {sorted(kinds)}"),
        (lines.get("coverage", "").startswith("complete"), f"coverage: {lines.get('coverage')}"),
        ("decode " in lines.get("floor", ""), f"floor: {lines.get('floor')}"),
    ]
    if decode is None or prefill is None:
        return found
    found.append(
        (run["processes"] == int(expected.get("ranks", 1)), f"{run['processes']} processes")
    )
    if "batches" in expected:
        wanted = {int(batch) for batch in expected["batches"].split(",")}
        rows = {row["requests"] for row in decode["rows"] if row["timed_steps"] > NEW}
        found.append((wanted <= rows, f"batches with many steps {sorted(rows)}"))
    if "modules" in expected:
        found += of_modules(report)
    requests = run.get("requests") or {}
    if "drafts" in expected:
        drafted, accepted = requests.get("draft_tokens", 0), requests.get("accepted_tokens", 0)
        found.append((0 < accepted <= drafted, f"{accepted} of {drafted} drafts accepted"))
        found.append(("verify" in kinds, f"kinds {sorted(kinds)}"))
    found += of_engine(requests, log)
    if "window" in expected:
        steps = int(expected["window"]) * (NEW - 1)
        found.append((steps <= decode["steps"] <= steps + 1, f"{decode['steps']} decode steps"))
    if "streamed" in expected:
        # SGLang runs a request of its own for each health check.
        own = 1 if expected.get("engine") == "sglang" else 0
        found += of_requests(requests, log, int(expected["streamed"]), own)
    elif "calls" in expected:
        cost = requests.get("cost") or {}
        whole = int(expected["calls"]) * int(expected["requests"])
        found += [(cost.get("whole_requests") == whole, f"{cost.get('whole_requests')} requests")]
        # SGLang loads and compiles kernels before the first step of its first call.
        cold = 1 if expected.get("engine") == "sglang" else 0
        found += of_calls(kinds, log, int(expected["calls"]), int(expected["requests"]), cold)
    return found


def of_kernels(report: dict[str, Any], kernels: int) -> list[tuple[bool, str]]:
    """Check the kernels of a call against those that another profiler counted."""
    stages = {row["stage"]: row for row in report["stages"]}
    ours = (stages.get("generate") or {}).get("kernels_per_instance_median", 0)
    return [(ours == kernels > 0, f"{ours} kernels, another profiler counted {kernels}")]


def of_modules(report: dict[str, Any]) -> list[tuple[bool, str]]:
    """Check which parts of the model the kernels of decode belong to."""
    rows = [row for row in report.get("layers", []) if row["stage"] == "decode"]
    of_part: dict[str, float] = {}
    named = 0.0
    for row in rows:
        percent = row["stage_kernel_sum_percent"] or 0.0
        of_part[row["part"]] = of_part.get(row["part"], 0.0) + percent
        named += percent if row["module"] else 0.0
    text = ", ".join(f"{part} {percent:.1f} %" for part, percent in of_part.items())
    # Kernels of communication belong to their part, whoever launches them.
    rest = 100.0 - of_part.get("communication", 0.0)
    return [
        (of_part.get("attention", 0) > 10 and of_part.get("mlp", 0) > 10, f"parts: {text}"),
        (named > rest / 2, f"{named:.1f} of {rest:.1f} % of decode belong to a module"),
    ]


def of_engine(requests: dict[str, Any], log: str) -> list[tuple[bool, str]]:
    """Check the mean times of requests against those that the engine itself measured."""
    said = re.search(r"the engine measured: (.*)", log)
    named = re.findall(r"(first token|token|whole) ([0-9.]+) ms", said[1]) if said else []
    keys = {"first token": "first_token", "token": "token", "whole": "total"}
    found = []
    for name, text in named:
        ours = (requests.get(keys[name], {}).get("mean_ns") or 0) / 1e6
        engine = float(text)
        holds = abs(ours - engine) <= 0.03 * engine
        found.append((holds, f"{name}: mean {ours:.3f} ms, the engine says {engine:.3f} ms"))
    return found


def of_calls(
    kinds: dict[str, Any], log: str, calls: int, requests: int, cold: int
) -> list[tuple[bool, str]]:
    """Check steps against calls of equally many concurrent requests, after the cold calls."""
    read = [kinds[kind] for kind in ("prefill", "mixed") if kind in kinds]
    # The engine warms itself up with prompts that are far shorter.
    rows = [row for kind in read for row in kind["rows"] if (row["tokens_mean"] or 0) >= PROMPT]
    # The mean is of the timed steps; that of the engine's own warm-up is not among them.
    tokens = sum((kind["prefill_tokens_mean"] or 0) * kind["timed_steps"] for kind in read)
    decode = kinds["decode"]
    steps = calls * (NEW - 1)
    ours = decode["timed_ns"] / max(decode["timed_steps"], 1) * steps
    ours += sum((row["p50_ns"] or 0) * row["steps"] for row in rows)
    said = [float(text) for text in re.findall(r"^generate \d+: ([0-9.]+) s", log, re.MULTILINE)]
    warm = said[cold:]
    ratio = ours / 1e9 / calls * len(warm) / sum(warm) if warm else 0.0
    return [
        (abs(tokens - calls * requests * PROMPT) <= 256, f"{tokens:.0f} tokens of prompts"),
        (steps <= decode["steps"] <= steps + 4 * calls, f"{decode['steps']} decode steps"),
        (len(said) == calls and 0.9 < ratio < 1.1, f"steps take {ratio:.3f} of what calls took"),
    ]


def of_requests(
    requests: dict[str, Any], log: str, streamed: int, own: int
) -> list[tuple[bool, str]]:
    """Check the times and costs of requests against those that engine_client.py measured.

    The server may have sent itself `own` requests more.
    """
    cost = requests.get("cost") or {}
    taken, steps = cost.get("requests_gpu_ns", 0), cost.get("steps_gpu_ns", 0)
    found = [
        (
            streamed <= cost.get("whole_requests", 0) <= streamed + own,
            f"{cost.get('whole_requests')} whole requests",
        ),
        (0 < taken <= steps <= taken * 1.001, f"requests took {taken} ns of {steps} ns"),
    ]
    said = re.search(r"first token ([0-9.]+) ms, token ([0-9.]+) ms", log)
    for what, group, least in (("first_token", 1, 0.7), ("token", 2, 0.97)):
        ours = (requests.get(what, {}).get("p50_ns") or 0) / 1e6
        client = float(said[group]) if said else 0.0
        # The client also waits for HTTP, above all before the first token.
        holds = least * client < ours < client * 1.03
        found.append((holds, f"{what}: {ours:.3f} ms, the client says {client:.3f} ms"))
    return found


def main() -> int:
    """Check the bundle that the command line names."""
    bundle, log, *rest = sys.argv[1:]
    expected = {name: value for name, _, value in (word.partition("=") for word in rest)}
    report = json.loads(Path(bundle, "metrics.json").read_text())
    found = checks(report, Path(log).read_text(errors="replace"), expected)
    for holds, what in found:
        print("ok  " if holds else "FAIL", what)
    return 0 if all(holds for holds, _ in found) else 1


if __name__ == "__main__":
    sys.exit(main())
