"""A bundle's `metrics.json` and a workload's JSON line become PASS and FAIL lines.

Usage: check_counts.py RUN_DIR_OR_METRICS_JSON WORKLOAD_OUTPUT

WORKLOAD_OUTPUT holds the standard output of one of the workloads here. Exit status: 0 when every
count is exactly the expected one, 1 when one is not, 2 when a file cannot be read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import verdicts
from verdicts import Line


def main() -> int:
    """Compare and print."""
    return verdicts.check_bundle(__doc__, compare)


def compare(metrics: dict[str, Any], workload: dict[str, Any]) -> Iterator[Line]:
    """Check every expectation, then that nothing was lost."""
    for expected in workload["expect"]:
        yield from compare_path(metrics, expected)
    for captured in workload.get("captures", []):
        yield compare_captures(metrics, captured)
    coverage = metrics["coverage"]["total"]
    for loss in ("unattributed", "dropped_by_cupti", "range_events_lost", "unreadable_records"):
        yield coverage[loss] == 0, f"coverage: {loss} {coverage[loss]}, expected 0"


def compare_path(metrics: dict[str, Any], expected: dict[str, Any]) -> Iterator[Line]:
    """Check instances and kernels of one range path, and that its instances are alike."""
    path, kernels = expected["path"], expected["kernels"]
    rows = [row for row in metrics["paths"] if row["path"] == path]
    if len(rows) != 1:
        yield False, f"{path}: found {len(rows)} times among the paths, expected once"
        return
    if "instances" in expected:
        found = rows[0]["instances"]
        yield (
            found == expected["instances"],
            f"{path}: {found} instances, expected {expected['instances']}",
        )
    found = rows[0]["kernels_inclusive"]
    if kernels is None:
        yield None, f"{path}: {found} kernels, expected number unknown"
        return
    yield found == kernels, f"{path}: {found} kernels, expected {kernels}"
    each = expected.get("kernels_per_instance")
    for row in metrics["stages"]:
        if row["stage"] == path and each is not None:
            low, high = row["kernels_per_instance_min"], row["kernels_per_instance_max"]
            yield low == high == each, f"{path}: {low} to {high} per instance, expected {each}"


def compare_captures(metrics: dict[str, Any], captured: dict[str, Any]) -> Line:
    """Check that replayed kernels, where their capture is known, lie evenly on the layers."""
    prefix = captured["capture_prefix"]
    layers: dict[str, int] = {}
    for row in metrics["graph_captures"]:
        path = row["capture_path"]
        if row["replay_path"] == captured["replay_path"] and path.startswith(f"{prefix}/layer."):
            layers[path] = layers.get(path, 0) + row["kernels"]
    if not layers:
        return None, f"{prefix}: where the replayed kernels were captured is not known"
    alike = len(layers) == captured["layers"] and len(set(layers.values())) == 1
    counts = sorted(set(layers.values()))
    return alike, (
        f"{prefix}: replayed kernels of {len(layers)} layers, {counts} each, "
        f"expected {captured['layers']} layers alike"
    )


if __name__ == "__main__":
    sys.exit(main())
