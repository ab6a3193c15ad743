"""Compares what counters.sh left: bytes with operands, times with and without sampling, ncu.

Usage: counters_check.py OUTDIR. Prints PASS, FAIL and NOTE lines; the exit status is 1 with a FAIL.
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
from pathlib import Path
from typing import Any

VOCABULARY = 32000
"""Rows of the head, as in common.py, which needs torch."""

LIMIT = 0.03
"""How far sampled bytes may lie from what must be read."""

COARSE = 0.10
"""The same for a kernel of 5 to 10 us in samples of 100 us, where many others run."""

BESIDE_NCU = 0.05
"""How far sampled bytes may lie from those that ncu counts with warm caches."""

SMALL = 1e5
"""Fewer bytes than this a call are not compared with ncu: what ncu itself does between its replays
moves as many through L2, and 0.3 % of one busy sample of 50 us is more."""

LONGEST = 10
"""So many kernels must be known by samples and by ncu."""


class Lines:
    """The verdicts, and whether one of them is a failure."""

    def __init__(self) -> None:
        """Begin without a failure."""
        self.failed = False

    def check(self, good: bool, text: str) -> None:
        """Print a verdict."""
        self.failed |= not good
        print("PASS" if good else "FAIL", text)


def last_json(path: Path) -> dict[str, Any]:
    """Return the line of JSON that a workload prints last."""
    return dict(json.loads(path.read_text().splitlines()[-1]))


def costs(out: Path, lines: Lines) -> None:
    """Compare times of the host, by minima and medians over all processes."""
    times: dict[str, dict[str, list[float]]] = {}
    for file in sorted((out / "time").glob("*.out")):
        mode = file.stem.rsplit("-", 1)[0]
        for part, values in last_json(file)["step_ms"].items():
            # The first repetition is cold.
            times.setdefault(mode, {}).setdefault(part, []).extend(values[1:])
    for part, off in times.get("off", {}).items():
        for mode in ("bursts", "pauseless"):
            on = times.get(mode, {}).get(part, [])
            if not on or min(off) == 0:
                continue
            spread = (statistics.quantiles(off, n=4)[2] - statistics.quantiles(off, n=4)[0]) / min(
                off
            )
            text = (
                f"{part} {mode}: min {min(on):.4f} ms over {min(off):.4f} ms = "
                f"{min(on) / min(off):.4f}, "
                f"medians {statistics.median(on) / statistics.median(off):.4f}, "
                f"quartiles of off {100 * spread:.1f} % apart"
            )
            # Kernels run longer while a GPU counts: up to 3 % on an H200. More is a fault of ours.
            lines.check(min(on) / min(off) < 1.06, text)


def sampled(folder: Path) -> dict[str, Any]:
    """Return the sampled stages of a bundle by name."""
    metrics = json.loads((folder / "metrics.json").read_text())
    found = metrics.get("sampled") or {"stages": [], "devices": []}
    for device in found["devices"]:
        notes = {
            key: value for key, value in device.items() if key in ("note", "omitted") and value
        }
        if notes:
            print("NOTE", folder.name, notes)
    return {stage["stage"]: stage for stage in found["stages"]}


def steps(out: Path, name: str, lines: Lines) -> None:
    """Compare the bytes of a decode step with weights and KV cache."""
    stages = sampled(out / "bundle" / name)
    said = last_json(out / "run" / f"{name}.out")
    decode = stages.get("decode")
    lines.check(decode is not None, f"{name}: decode was sampled")
    if decode is None:
        return
    context = said["prompt"] + said["new"] / 2
    # Of the embedding a step reads a row for each token; the head is a matrix of its own.
    weights = said["weight_bytes"] - said["embedding_bytes"] - said["unused_expert_bytes"]
    cache = said["kv_bytes_per_token"] * context
    read = decode["steps"]["dram_read_bytes"]
    # A small cache stays in L2. A large one is read twice: each step copies it to append to it.
    low, high = (1 - LIMIT) * weights, (1 + LIMIT) * (weights + 2 * cache)
    text = (
        f"{name}: a decode step reads {read / 1e9:.4f} GB; weights {weights / 1e9:.4f} GB, "
        f"KV cache {cache / 1e9:.4f} GB; coverage {decode['coverage_percent']:.1f} %"
    )
    lines.check(low < read < high, text)


def kernels(out: Path, name: str, limit: float, lines: Lines) -> None:
    """Compare the projections of a dense model with their operands."""
    hidden, inner = 2048, 5632
    operands = {
        "gate, up": 2 * hidden * inner,
        "down": 2 * hidden * inner,
        "q, o": 2 * hidden * hidden,
        "k, v": hidden * hidden,
        "head": 2 * hidden * VOCABULARY,
    }
    with (out / "bundle" / name / "kernels.csv").open() as file:
        rows = list(csv.DictReader(file))
    for stage in ("decode", "graph"):
        mine = [row for row in rows if row["stage"] == stage and row["sampled_dram_read_bytes"]]
        for what, size in operands.items():
            near = [
                float(row["sampled_dram_read_bytes"])
                for row in mine
                if row["kernel_name"].startswith("nvjet")
                and abs(float(row["sampled_dram_read_bytes"]) / size - 1) < 0.2
            ]
            for value in near:
                off = value / size - 1
                text = (
                    f"{name}: {stage} {what}: {value / 1e6:.3f} MB of {size / 1e6:.3f} MB "
                    f"({100 * off:+.1f} %)"
                )
                lines.check(abs(off) < limit, text)
            if not near:
                print(
                    "NOTE",
                    f"{name}: {stage} {what}: no amount near {size / 1e6:.1f} MB",
                )


def beside_ncu(out: Path, lines: Lines) -> None:
    """Put the longest kernels beside ncu's bytes, which it took with warm caches."""
    with (out / "bundle" / "ncu" / "kernels.csv").open() as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["sampled_dram_read_bytes"] and row["dram_read_bytes_per_launch"]
        ]
    rows.sort(key=lambda row: -float(row["total_ns"]))
    lines.check(len(rows) >= LONGEST, f"ncu: {len(rows)} kernels have both")
    for row in rows:
        ratio = float(row["sampled_dram_read_bytes"]) / float(row["dram_read_bytes_per_launch"])
        # The report gives no ratio where one launch may not stand for all; a product does.
        doubt = row["counters_of_one_launch"]
        text = (
            f"ncu: {row['stage']} {row['kernel_name'][:60]} grid {row['grid_x']}, "
            f"{row['calls']} calls of {float(row['p50_ns']) / 1e3:.1f} us: "
            f"{float(row['sampled_dram_read_bytes']) / 1e6:.3f} MB read by samples, "
            f"{float(row['dram_read_bytes_per_launch']) / 1e6:.3f} MB by ncu, ratio {ratio:.3f}"
            f"{', ' + doubt if doubt else ''}"
        )
        if float(row["dram_read_bytes_per_launch"]) < SMALL:
            print("NOTE", text)
        else:
            lines.check(abs(ratio - 1) < BESIDE_NCU, text)


def two_gpus(out: Path, lines: Lines) -> None:
    """Compare what NVLink moved with the bytes that were copied from one GPU to the other."""
    bundle = out / "bundle" / "two"
    if not bundle.exists():
        print("SKIP two: one GPU only")
        return
    said = last_json(out / "run" / "two.out")
    metrics = json.loads((bundle / "metrics.json").read_text())
    sampled = metrics.get("sampled") or {"stages": []}
    found = {(stage["stage"], stage["device"][:1]): stage for stage in sampled["stages"]}
    # A copy belongs to the GPU that it is read from.
    for stage, device in (("copies", "0"), ("products", "0"), ("products", "1")):
        stands = (stage, device) in found
        lines.check(stands, f"two: {stage} was sampled on GPU {device}")
    rates = found.get(("copies", "0"), {}).get("rates", {})
    rate = said["bytes"] / said["seconds"]
    read, sent = rates.get("dram_read_bytes_per_s"), rates.get("nvlink_sent_bytes_per_s")
    if read is not None:
        text = f"two: {read / 1e9:.1f} GB/s were read, {rate / 1e9:.1f} GB/s copied"
        lines.check(abs(read / rate - 1) < LIMIT, text)
    if sent is None:
        print("NOTE", "two: the metrics for NVLink were not to be had")
    else:
        # On an H200 this counter says less than what was copied, that of the receiver more.
        text = f"two: NVLink sent {sent / 1e9:.1f} GB/s, {rate / 1e9:.1f} GB/s were copied"
        lines.check(0.8 < sent / rate < 1.3, text)


def main() -> None:
    """Run all comparisons."""
    out = Path(sys.argv[1])
    lines = Lines()
    costs(out, lines)
    for name in ("dense", "batch", "experts", "dense_25us", "batch_25us"):
        steps(out, name, lines)
    for name in ("dense", "batch"):
        kernels(out, name, COARSE, lines)
        kernels(out, f"{name}_25us", LIMIT, lines)
    beside_ncu(out, lines)
    two_gpus(out, lines)
    sys.exit(1 if lines.failed else 0)


if __name__ == "__main__":
    main()
