"""Delays of 0, 50, 250 and 1,000 us before the collectives of one of two ranks -> what `job` finds.

    python delays.py PATH_TO_libstage2.so PATH_TO_stage2-launch OUTDIR

A kernel that spins delays the GPU of rank 1 before every all_reduce; the program times it with
events. Both GPUs work for longer than their hosts need to launch, so that no host is late. Records
only summaries, of the last delay with `STAGE2_DETAIL=auto`. Then one rank runs under `stage2-launch
run` with a summary alone. Takes about a minute, prints PASS, FAIL and NOTE lines, and keeps
everything in OUTDIR. Exit status: 1 when something failed; 77 without two GPUs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

DELAYS_US = (0, 50, 250, 1_000)
LATE_RANK = 1
STEPS = 120
CALLS = 20
"""In a step."""
WORK_US = 400
"""Of each rank in a call."""
LONG_STEP = 100
"""The step that takes longer by LONG_S."""
LONG_S = 0.5
TOLERANCE = 0.1
SECONDS = 60
"""Of one run at most."""


def main() -> int:
    """Run all delays, and compare; with --rank, be one of the ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--rank", type=int, help="be this rank")
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--delay-us", type=float, default=0.0)
    options = parser.parse_args()
    if options.rank is not None:
        be_rank(options.rank, options.world, options.delay_us, options.paths[0])
        return 0
    if len(options.paths) != 3:
        parser.error("give libstage2.so, stage2-launch and a folder")
    library, launcher, out = (path.absolute() for path in options.paths)
    listed = subprocess.run(["nvidia-smi", "-L"], check=False, capture_output=True, text=True)
    if listed.stdout.count("GPU ") < 2:
        print("SKIP there are not two GPUs")
        return 77
    found = [under_collector(library, launcher, out, delay) for delay in DELAYS_US]
    found.append(under_launcher(launcher, out))
    return 0 if all(found) else 1


def verdict(good: bool, text: str) -> bool:
    """Print whether something is as expected."""
    print("PASS" if good else "FAIL", text, flush=True)
    return good


def rank_words(rank: int, world: int, delay_us: float, folder: Path) -> list[str]:
    """Return the command of a rank."""
    words = [sys.executable, __file__, str(folder), "--rank", str(rank), "--world", str(world)]
    return [*words, "--delay-us", str(delay_us)]


def under_collector(library: Path, launcher: Path, out: Path, delay_us: int) -> bool:
    """Run two ranks, and compare the lateness that their summaries tell with the truth."""
    folder = out / f"delay-{delay_us}"
    folder.mkdir(parents=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "STAGE2_OUT": str(folder / "traces"),
        "STAGE2_DETAIL": "auto" if delay_us == max(DELAYS_US) else "summary",
        "STAGE2_ROTATE": "every=100ms",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(29_500 + delay_us % 499),
        "NCCL_NVLS_ENABLE": "0",
        "WORLD_SIZE": "2",
    }
    if environment["STAGE2_DETAIL"] == "summary":
        del environment["STAGE2_ROTATE"]
    ranks = []
    for number in range(2):
        own = {**environment, "RANK": str(number), "LOCAL_RANK": str(number)}
        with (folder / f"rank.{number}.log").open("w") as log:
            words = rank_words(number, 2, delay_us, folder)
            ranks.append(subprocess.Popen(words, env=own, stdout=log, stderr=log))
    try:
        ended = [rank.wait(timeout=SECONDS) for rank in ranks]
    except subprocess.TimeoutExpired:
        for rank in ranks:
            rank.kill()
        return verdict(False, f"{delay_us} us: the ranks did not end within {SECONDS} s")
    if any(ended):
        return verdict(False, f"{delay_us} us: exit statuses {ended}, see {folder}/rank.*.log")
    words = [str(launcher), "job", str(folder / "traces"), "--out", str(folder)]
    with (folder / "job.log").open("w") as log:
        status = subprocess.run(words, check=False, stdout=log, stderr=log).returncode
    if status:
        return verdict(False, f"{delay_us} us: job ended with {status}, see {folder}/job.log")
    job = json.loads((folder / "job.json").read_text())
    truth = json.loads((folder / f"rank.{LATE_RANK}.json").read_text())
    good = lateness(job, delay_us, truth["delay_us"])
    if environment["STAGE2_DETAIL"] == "auto":
        good &= pieces(folder / "traces")
    return good


def lateness(job: dict[str, Any], asked_us: int, truth_us: float) -> bool:
    """Compare what the job says of who is late."""
    late = [(row["rank"], row["late_ns"] / 1e3, row["error_ns"] / 1e3) for row in job["late"]]
    print(f"NOTE {asked_us} us: truth {truth_us:.1f} us, found (rank, us, error): {late}")
    compared = job["collectives"]["samples"]
    good = verdict(compared > 10, f"{asked_us} us: {compared} sampled calls were compared")
    if asked_us == 0:
        most = max((us for _, us, _ in late), default=0.0)
        return good & verdict(most < 25.0, f"0 us: the most is {most:.1f} us")
    rank, found_us, error_us = late[0] if late else (None, 0.0, 0.0)
    off = abs(found_us - truth_us)
    good &= verdict(
        rank == LATE_RANK and off <= max(TOLERANCE * truth_us, error_us),
        f"{asked_us} us: rank {rank} is late by {found_us:.1f} us, {off:.1f} us off the truth",
    )
    cause = job["late"][0]["cause"] if late else None
    return good & verdict(
        cause in ("gpu_work", "low_clock"), f"{asked_us} us: the cause is {cause}"
    )


def pieces(traces: Path) -> bool:
    """Check that dull pieces are gone."""
    good = True
    for summary in sorted(traces.glob("*.s2s")):
        files = traces.glob(f"{summary.stem}-p*.s2t")
        numbers = sorted(int(file.stem.rsplit("-p", 1)[1]) for file in files)
        last = numbers[-1] if numbers else 0
        text = f"auto: {len(numbers)} of {last} pieces are left of {summary.stem}: {numbers}"
        good &= verdict(0 < len(numbers) < last and numbers[0] == 1, text)
    return good


def under_launcher(launcher: Path, out: Path) -> bool:
    """Run one rank under the launcher, with a summary alone."""
    folder = out / "launcher"
    folder.mkdir(parents=True)
    settings = ["run.mode=light", "profiling.collector.detail=summary"]
    words = [str(launcher), "--run-dir", str(folder / "bundle"), *settings, "--"]
    with (folder / "log").open("w") as log:
        words += rank_words(0, 1, 0, folder)
        status = subprocess.run(words, check=False, stdout=log, stderr=log).returncode
    is_there = (folder / "bundle" / "job.html").is_file()
    return verdict(status == 0 and is_there, f"summary under run: status {status}, page {is_there}")


def be_rank(rank: int, world: int, delay_us: float, folder: Path) -> None:
    """Multiply and sum over all ranks, delayed if this rank is to be."""
    import torch
    import torch.distributed as dist

    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    if world > 1:
        dist.init_process_group("nccl", device_id=device)
    matrix = torch.randn(2048, 2048, device=device, dtype=torch.bfloat16)
    values = torch.randn(64, 2048, device=device, dtype=torch.bfloat16)
    is_late = rank == LATE_RANK and delay_us > 0

    def spun_us(cycles: int, times: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(times):
            torch.cuda._sleep(cycles)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / times

    # The clock goes up with work; then so many cycles are so long, with what one more kernel costs.
    for _ in range(400):
        matrix @ matrix
    spun_us(100_000, 100)
    cycles_of_us = 100_000 / spun_us(100_000, 200)
    cycles, work = round(cycles_of_us * delay_us), round(cycles_of_us * WORK_US)

    def call() -> None:
        torch.cuda._sleep(work)
        if is_late:
            torch.cuda._sleep(cycles)
        for _ in range(3):
            torch.mm(values, matrix)
        if world > 1:
            dist.all_reduce(values)

    for _ in range(10):
        call()
    torch.cuda.synchronize()
    before_us = spun_us(cycles, 100) if is_late else 0.0
    if world > 1:
        dist.barrier()
    for step in range(STEPS):
        with torch.cuda.nvtx.range("decode"):
            if step == LONG_STEP:
                time.sleep(LONG_S)
            for _ in range(CALLS):
                call()
    torch.cuda.synchronize()
    after_us = spun_us(cycles, 100) if is_late else 0.0
    truth = {"delay_us": (before_us + after_us) / 2, "before_us": before_us, "after_us": after_us}
    (folder / f"rank.{rank}.json").write_text(json.dumps(truth) + "\n")
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
