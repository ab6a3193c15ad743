"""Inferred steps of a bundle and a workload's JSON line become PASS and FAIL lines.

Usage: check_steps.py RUN_DIR_OR_METRICS_JSON WORKLOAD_OUTPUT

WORKLOAD_OUTPUT holds the standard output of `llm.py --no-ranges`. Exit status: 0 when every number
is the expected one, 1 when one is not, 2 when a file cannot be read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import verdicts
from verdicts import Line

PERIODS = 5
"""Steps that a decode needs to be a phase."""


def main() -> int:
    """Compare and print."""
    return verdicts.check_bundle(__doc__, lambda metrics, said: compare(metrics, said["infer"]))


def compare(metrics: dict[str, Any], expected: dict[str, Any]) -> Iterator[Line]:
    """Compare the one row of steps with what the workload did."""
    stages = [row["stage"] for row in metrics["stages"] if row["kernels"]]
    missing = {"prefill (inferred)", "decode (inferred)"}.difference(stages)
    yield not missing, f"prefill and decode are stages: {stages}"
    inferred = metrics.get("inferred_steps") or {"rows": []}
    rows = inferred["rows"]
    yield len(rows) == 1, f"one kind of step is inferred: {len(rows)}"
    if len(rows) != 1:
        return
    row = rows[0]
    decodes = [steps for steps in expected["decodes"] if steps >= PERIODS]
    step, prefill = expected["step_kernels"], expected["prefill_kernels"]
    yield row["kernels_per_step"] == step, f"{row['kernels_per_step']} kernels per step, not {step}"
    yield row["phases"] == len(decodes), f"{row['phases']} phases of {len(decodes)}"
    # Kernels that a prefill and a step have in common at their ends may make one step more or less.
    off = abs(row["steps"] - sum(decodes))
    yield off <= len(decodes), f"{row['steps']} steps of {sum(decodes)}"
    before = row["before"] or {}
    median = before.get("kernels_median")
    yield median == prefill, f"{median} kernels before a phase, of a prefill of {prefill}"
    likes = (row["resembles"], before.get("prefill_like"))
    yield likes == ("decode_like", True), f"prefill stands apart: {likes}"
    times = (row["step_p50_ns"], row["step_p99_ns"])
    yield all(times) and times[0] <= times[1], f"times of a step, p50 and p99 in ns: {times}"


if __name__ == "__main__":
    sys.exit(main())
