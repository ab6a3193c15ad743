"""Nested ranges with known work -> what range replay of ncu has to find in each of them.

Without arguments it is the workload. With `--check RUN_DIR` it compares `ncu_regions.csv` of the
bundle with the work, and ends with status 1 where the FLOPs of a region are off by more than 1 %.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

SIZE = 2048
"""Rows and columns of each matrix."""
PRODUCTS = {"prefill": {"attn": 2, "mlp": 3}, "decode": {"attn": 1, "mlp": 4}}
"""Matrix products in each range within each stage."""
TOLERANCE = 0.01


def workload() -> None:
    """Multiply bf16 matrices under ranges whose names occur in several places."""
    import torch

    nvtx = torch.cuda.nvtx
    a = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(a)
    torch.mm(a, a, out=out)
    torch.cuda.synchronize()
    for stage, inner in PRODUCTS.items():
        nvtx.range_push(stage)
        for name, count in inner.items():
            nvtx.range_push(name)
            for _ in range(count):
                torch.mm(a, a, out=out)
            torch.cuda.synchronize()
            nvtx.range_pop()
        torch.mm(a, a, out=out)
        torch.cuda.synchronize()
        nvtx.range_pop()


def expected() -> dict[str, tuple[int, int]]:
    """Products of each region, inclusive and exclusive."""
    products = {}
    for stage, inner in PRODUCTS.items():
        products[stage] = (sum(inner.values()) + 1, 1)
        products.update({f"{stage}/{name}": (count, count) for name, count in inner.items()})
    return products


def check(run_dir: Path) -> int:
    """Print each region beside its expectation; the number of those that are off or missing."""
    with (run_dir / "ncu_regions.csv").open(newline="") as table:
        rows = {r["region"]: r for r in csv.DictReader(table) if r["scope"].startswith("all ")}
    wrong = 0
    for region, products in expected().items():
        row = rows.get(region, {})
        for side, count in zip(("inclusive", "exclusive"), products, strict=True):
            wanted = count * 2 * SIZE**3
            text = row.get(f"{side}_flops", "")
            # Products by tensor cores are all the work, but for a few operations on scalars.
            off = abs(float(text) / wanted - 1) if text else float("inf")
            wrong += off > TOLERANCE
            verdict = "ok" if off <= TOLERANCE else "WRONG"
            print(f"{verdict:5} {region:14} {side:9} {wanted:.6g} expected, {text or 'none'} found")
    return wrong


def main() -> None:
    """Run the workload, or check what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", type=Path, metavar="RUN_DIR")
    options = parser.parse_args()
    if options.check is None:
        workload()
    elif check(options.check):
        sys.exit(1)


if __name__ == "__main__":
    main()
