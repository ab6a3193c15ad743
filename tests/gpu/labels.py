"""The same work under the same labels, spelled in three ways -> whether the bundles agree.

    labels.py workload SPELLING    opens the ranges (needs torch, nvtx and a GPU)
    labels.py check FOLDER         PASS and FAIL lines for the bundles FOLDER/SPELLING

SPELLING is domain (`decode_all` in the domain LLM), literal (`LLM@decode_all`) or plain.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

SPELLINGS = ["domain", "literal", "plain"]
GATES = {"domain": "decode_all@LLM", "literal": r"LLM\@decode_all@*", "plain": "decode_all"}
"""What nsys has to be asked for."""
FILTERS = {"domain": "LLM@decode_all/", "literal": r"LLM\@decode_all/", "plain": "decode_all/"}
"""What ncu has to be asked for."""


def workload(spelling: str) -> None:
    """Run four generations of matrix products."""
    import nvtx
    import torch

    def pushed(name: str) -> AbstractContextManager[Any]:
        @contextlib.contextmanager
        def around() -> Any:
            torch.cuda.nvtx.range_push(name)
            try:
                yield
            finally:
                torch.cuda.nvtx.range_pop()

        return around()

    ways: dict[str, Callable[[str], AbstractContextManager[Any]]] = {
        "domain": lambda name: nvtx.annotate(name, domain="LLM"),
        "literal": lambda name: pushed(f"LLM@{name}"),
        "plain": pushed,
    }
    opened = ways[spelling]
    a = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
    for _ in range(4):
        for name, products in [("prefill", 20), ("decode_all", 160)]:
            with opened(name):
                for _ in range(products):
                    b = a @ a
                torch.cuda.synchronize()
    print(json.dumps({"norm": float(b.norm())}))


def seen(bundle: Path) -> dict[str, tuple[int, int]]:
    """Return instances and kernels of the stages of a bundle, by role."""
    metrics = json.loads((bundle / "metrics.json").read_text(encoding="utf-8"))
    stages = [row for row in metrics["stages"] if row["role"] in ("prefill", "decode")]
    return {row["role"]: (row["instances"], row["kernels"]) for row in stages}


def check(folder: Path) -> int:
    """Print a line for each thing that the bundles have to hold; return 1 where one fails."""
    lines = []
    expected = seen(folder / "plain")
    lines.append((set(expected) == {"prefill", "decode"}, f"plain: roles {expected}"))
    for spelling in SPELLINGS:
        bundle = folder / spelling
        commands = (bundle / "nsys/cmd.txt").read_text(encoding="utf-8").replace("\\\\", "\\")
        filters = (bundle / "ncu/cmd.txt").read_text(encoding="utf-8").replace("\\\\", "\\")
        metrics = json.loads((bundle / "metrics.json").read_text(encoding="utf-8"))
        findings = json.dumps(metrics["findings"])
        rows = (bundle / "ncu/raw.csv").read_text(encoding="utf-8").count("\n")
        rate = metrics["utilisation"]["model"]["generated_tokens_per_s"]
        for good, what in [
            (seen(bundle) == expected, f"stages {seen(bundle)}"),
            (f"--nvtx-capture={GATES[spelling]}" in commands, f"nsys waits for {GATES[spelling]}"),
            ((bundle / "nsys/run.nsys-rep").is_file(), "nsys/run.nsys-rep"),
            ("lost records" not in findings, "nsys and the collector agree"),
            (FILTERS[spelling] in filters, f"ncu profiles in {FILTERS[spelling]}"),
            (rows > 2, f"{rows} lines of counters"),
            ("known" in rate, f"generated tokens/s {rate}"),
        ]:
            lines.append((good, f"{spelling}: {what}"))
    for good, what in lines:
        print("PASS" if good else "FAIL", what)
    return 0 if all(good for good, _ in lines) else 1


def main() -> int:
    """Do what the first argument says."""
    match sys.argv[1:]:
        case ["workload", spelling] if spelling in SPELLINGS:
            workload(spelling)
            return 0
        case ["check", folder]:
            return check(Path(folder))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
