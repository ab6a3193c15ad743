"""Windows that a PyTorch program asks for hold exactly the kernels of their steps.

    stage2-launch run --dormant --run-dir DIR -- python3 python_windows.py

Needs the package `stage2` (PYTHONPATH=python in a checkout). Prints what the start and the end of
a window took, and a line for each window; exit status 1: a window holds something else.
"""

from __future__ import annotations

import sys
import time

import stage2

ACTIVE, REPEAT, KERNELS = 5, 3, 40


def main() -> None:
    """Run steps under a schedule, and then one window by hand."""
    import torch

    value = torch.ones(64, 64, device="cuda")
    weight = torch.eye(64, device="cuda")

    def step(number: int) -> None:
        nonlocal value
        with stage2.annotate("step", step=number):
            for _ in range(KERNELS // 2):
                value = torch.mm(value, weight) + 1

    for number in range(10):
        step(number)
    plan = stage2.schedule(wait=3, warmup=2, active=ACTIVE, repeat=REPEAT)
    with stage2.profile(schedule=plan) as prof:
        for number in range(REPEAT * (3 + 2 + ACTIVE)):
            step(number)
            prof.step()
    begin = time.perf_counter()
    stage2.start()
    middle = time.perf_counter()
    for number in range(ACTIVE):
        step(number)
    window = stage2.stop()
    end = time.perf_counter()
    print(f"start {middle - begin:.3f} s, steps and stop {end - middle:.3f} s")
    if window is None:
        sys.exit("the program does not run under the collector: use stage2-launch run --dormant")
    windows = [*prof.windows, window]
    right = len(windows) == REPEAT + 1
    for one in windows:
        report = one.report(f"python-window-{one.number}")
        found = sum(row["calls"] for row in report.kernels if row["stage"] == "step")
        steps = sum(row["instances"] for row in report.stages if row["stage"] == "step")
        is_right = (found, steps, one.lost) == (ACTIVE * KERNELS, ACTIVE, 0)
        right &= is_right
        said = "PASS" if is_right else "FAIL"
        print(f"{said} w{one.number}: {found} kernels, {steps} steps, {one.lost} lost")
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
