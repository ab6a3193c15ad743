"""Matrix products in one range, an idle GPU in another -> what the report says of their energy.

Without `--check` it is the workload, and prints one JSON line with what NVML, nvidia-smi and the
kernel say. `--check RUN_DIR OUTPUT` compares the report with that line; `--check-off RUN_DIR`
expects no readings.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from verdicts import Line, metrics_of, show

SIZE = 8192
"""Rows and columns of each matrix."""
ENERGY_TOLERANCE = 0.05
"""The report against NVML's counter, beside the uncertainty that the report gives."""
READER_SHARE = 0.05
"""Of one core, at most, for the thread that reads."""
ABOVE_LIMIT = 1.05
"""The board may exceed its power limit for a moment."""
LEAST_CLOCK_MHZ = 200


class Counter:
    """NVML's counter of the energy of one GPU."""

    def __init__(self, uuid: str) -> None:
        """Load the driver's NVML and find the GPU."""
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        self.call("nvmlInit_v2")
        self.call("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(self.device))

    def call(self, name: str, *arguments: object) -> None:
        """Call a function; raise where it fails."""
        code = getattr(self.nvml, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} returned {code}")

    def joules(self) -> float:
        """Return the energy since the driver was loaded."""
        value = ctypes.c_ulonglong()
        self.call("nvmlDeviceGetTotalEnergyConsumption", self.device, ctypes.byref(value))
        return value.value / 1e3


def reader_seconds() -> float | None:
    """CPU time of the collector's thread that reads NVML, s; None: there is no such thread."""
    for task in Path("/proc/self/task").iterdir():
        try:
            if (task / "comm").read_text().strip() == "stage2-nvml":
                fields = (task / "stat").read_text().rpartition(")")[2].split()
                return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:  # The thread has ended meanwhile.
            continue
    return None


def workload(seconds: float) -> int:
    """Run both ranges and print what was seen."""
    import torch

    if not torch.cuda.is_available():
        print("SKIP no GPU", file=sys.stderr)
        return 77
    nvtx = torch.cuda.nvtx
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    counter = Counter(uuid)
    a = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(a)
    torch.mm(a, a, out=out)
    torch.cuda.synchronize()
    began = time.monotonic()
    nvtx.range_push("products")
    before = counter.joules()
    while time.monotonic() - began < seconds:
        for _ in range(20):
            torch.mm(a, a, out=out)
        torch.cuda.synchronize()
    taken = counter.joules() - before
    nvtx.range_pop()
    nvtx.range_push("idle")
    out.zero_()
    torch.cuda.synchronize()
    # Little energy, and still to be known within 10 %: that takes longer.
    time.sleep(3 * seconds)
    nvtx.range_pop()
    query = "--query-gpu=power.limit,clocks.max.sm,clocks.max.mem"
    command = ["nvidia-smi", "-i", uuid, query, "--format=csv,noheader,nounits"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    limit, sm, memory = answer.split(",")
    seen = {
        "joules": taken,
        "power_limit_w": float(limit),
        "sm_clock_max_mhz": float(sm),
        "memory_clock_max_mhz": float(memory),
        "reader_s": reader_seconds(),
        "wall_s": time.monotonic() - began,
    }
    print(json.dumps(seen))
    return 0


def compare(report: dict[str, Any], seen: dict[str, Any]) -> Iterator[Line]:
    """Compare the report with what the workload saw."""
    rows = {row["stage"]: row for row in report.get("energy", [])}
    for stage in ("products", "idle"):
        joules = rows.get(stage, {}).get("energy_j", {}).get("known")
        why = rows.get(stage, {}).get("energy_j", "no row")
        yield joules is not None and joules > 0, f"{stage} took {joules or why} J"
    known = [stage for stage, row in rows.items() if "known" in row["energy_j"]]
    if not {"products", "idle"} <= set(known):
        return
    products, idle = rows["products"], rows["idle"]
    joules, off = products["energy_j"]["known"], products["uncertainty_j"]
    most = off + ENERGY_TOLERANCE * seen["joules"]
    text = f"products: {joules:.1f} J (±{off:.1f}), NVML's counter says {seen['joules']:.1f} J"
    yield abs(joules - seen["joules"]) <= most, text
    watts, still = (row["mean_power_w"]["known"] for row in (products, idle))
    limit = seen["power_limit_w"]
    text = f"power: idle {still:.0f} W < products {watts:.0f} W <= limit {limit:.0f} W"
    yield 0 < still < watts <= limit * ABOVE_LIMIT, text
    clocks = products["clocks"]
    for key in ("sm", "memory"):
        clock, top = clocks[f"{key}_clock_mhz"], seen[f"{key}_clock_max_mhz"]
        text = f"{key} clock: {clock} MHz, at most {top:.0f}"
        yield clock is not None and LEAST_CLOCK_MHZ <= clock["min"] <= clock["max"] <= top, text
    celsius = clocks["temperature_max_c"]
    yield celsius is not None and 15 <= celsius <= 110, f"temperature: {celsius} degrees Celsius"
    yield None, f"clocks held down by: {clocks['limits']}"
    yield None, f"other processes: {[device['other_processes'] for device in products['devices']]}"
    if seen["reader_s"] is None:
        yield False, "the collector has no thread that reads NVML"
    else:
        share = seen["reader_s"] / seen["wall_s"]
        text = f"the reads cost {share:.3%} of a core ({clocks['reads']} readings of products)"
        yield share < READER_SHARE, text


def compare_off(report: dict[str, Any]) -> Iterator[Line]:
    """Expect no readings, and the reason."""
    yield not report.get("energy"), "no energy where STAGE2_DEVICE_STATE=off"
    facts = [process["meta"].get("nvml.off") for process in report["coverage"]["processes"]]
    yield "STAGE2_DEVICE_STATE=off" in facts, f"the reason is in the trace file: {facts}"


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds",
        type=float,
        default=6.0,
        help="length of the products; the idle range takes three times as long",
    )
    parser.add_argument("--check", type=Path, nargs=2, metavar=("RUN_DIR", "OUTPUT"))
    parser.add_argument("--check-off", type=Path, metavar="RUN_DIR")
    arguments = parser.parse_args()
    if arguments.check:
        bundle, output = arguments.check
        return show(
            compare(
                metrics_of(bundle), json.loads(output.read_text(encoding="utf-8").splitlines()[-1])
            )
        )
    if arguments.check_off:
        return show(compare_off(metrics_of(arguments.check_off)))
    return workload(arguments.seconds)


if __name__ == "__main__":
    sys.exit(main())
