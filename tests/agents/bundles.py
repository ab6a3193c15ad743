#!/usr/bin/env python3
"""Makes the ten bundles of the evaluation, each with one seeded cause.

Usage: bundles.py LAUNCHER FOLDER [NAME]...

Five are trace files of a real program on the simulated GPU (traces/, from record.sh); five are
written here from a recipe, to the nanosecond. `stage2-launch merge` makes the bundles, so that they
are those of the current version.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tracefile import RUNNING, SLEEP, Trace

HERE = Path(__file__).parent
US, MS = 1_000, 1_000_000
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul>>(int, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul>)"
)
GEMM = "nvjet_tst_128x64_64x8_1x2_h_bz_TNT"
GEMV = "void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, float, 128, 16, 4, 4>"
ATTENTION = "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>"
LOOP = ("Engine.step", "/srv/app/engine.py", 40)


def prefill(trace: Trace, start: int) -> int:
    """Run a prefill of 20 ms, 19.2 of which are products; gives when it ended."""
    number, at = trace.open("prefill", start), start + 400 * US
    for _ in range(64):
        at = trace.kernel(number, GEMM, at, 300 * US)
    trace.close(number, start + 20 * MS)
    return start + 20 * MS


def generations(folder: Path, step_ns: int, layer: list[tuple[str, int]]) -> None:
    """Run 5 generations of a prefill and 20 decode steps of 32 layers, with gaps of 200 ns."""
    trace, start = Trace(100), 10 * MS
    for _ in range(5):
        start = prefill(trace, start)
        for _ in range(20):
            number, at = trace.open("decode", start), start + 20 * US
            for name, ns in layer * 32:
                at = trace.kernel(number, name, at, ns) + 200
            start += step_ns
            trace.close(number, start)
    trace.save(folder)


def launch_bound(folder: Path) -> None:
    """Decode of 1.8 ms: 300 kernels of 2 us, one every 6 us, launched from one line."""
    trace, steps, start = Trace(100), 100, 10 * MS
    forward = trace.stack(LOOP, ("LlamaModel.forward", "/srv/app/model.py", 88))
    seen = []
    for _ in range(steps):
        number = trace.open("decode", start)
        for place in range(300):
            name = (GEMV, GEMV, ATTENTION, ELEMENTWISE)[place % 4]
            trace.kernel(number, name, start + place * 6 * US + 4 * US, 2 * US)
        seen += [(start + at * 90 * US + 45 * US, RUNNING, forward) for at in range(20)]
        trace.close(number, start + 1_800 * US)
        start += 1_820 * US
    trace.samples(90 * US, seen)
    trace.sampled(90 * US, start, len(seen))
    trace.save(folder)


def ranks(folder: Path, late: Callable[[int], tuple[int, int]], *, sampled: bool) -> None:
    """Run 40 steps on two ranks: 5 ms of products, an AllReduce of 200 us, 200 us idle.

    `late` gives how much longer rank 1 takes in a step, ns: on the host before it launches, and on
    the GPU.
    """
    for rank in range(2):
        facts = (("env.RANK", str(rank)), ("env.LOCAL_RANK", str(rank)), ("env.WORLD_SIZE", "2"))
        trace, start = Trace(100 + rank, rank, facts), 10 * MS
        busy = trace.stack(LOOP)
        reload = trace.stack(LOOP, ("Sampler.reload_penalties", "/srv/app/sampler.py", 88))
        number = trace.open("ncclCommInitRankConfig", 1 * MS)
        trace.fields(number, NCCL_communicator_ID=0xFEED, **{"No._of_ranks": 2}, Rank=rank)
        trace.close(number, 2 * MS)
        seen = []
        for step in range(40):
            on_host, on_gpu = late(step)
            number = trace.open("decode", start)
            begin = start + 100 * US + (on_host if rank else 0)
            at = begin
            for _ in range(100):
                at = trace.kernel(number, GEMM, at, 50 * US + (on_gpu // 100 if rank else 0))
            call = trace.open("decode/ncclAllReduce", start + 10 * US, number)
            trace.fields(call, **{"Message_size_[bytes]": 16_384}, NCCL_communicator_ID=0xFEED)
            trace.close(call, start + 20 * US)
            end = start + 100 * US + on_host + 5 * MS + on_gpu + 200 * US
            trace.kernel(call, ALL_REDUCE, at, end - at, 24)
            after = end + 100 * US
            for moment in range(start + 50 * US, after, 100 * US):
                is_late = rank and on_host and moment < begin
                seen.append((moment, SLEEP, reload) if is_late else (moment, RUNNING, busy))
            trace.close(number, after)
            start = after
        if sampled:
            trace.samples(100 * US, seen)
            trace.sampled(100 * US, start, len(seen))
        trace.save(folder)


def late_host(folder: Path) -> None:
    """In each fourth step rank 1 sleeps for 4 ms before it launches."""
    ranks(folder, lambda step: (4 * MS if step % 4 == 3 else 0, 0), sampled=True)


def late_gpu(folder: Path) -> None:
    """In each step rank 1 takes 1 ms longer for the same products; nobody sampled the host."""
    ranks(folder, lambda _: (0, 1 * MS), sampled=False)


def unfused(folder: Path) -> None:
    """Decode of 3.6 ms: in each layer two products (60 us), 12 elementwise kernels (48 us)."""
    between = [(ELEMENTWISE, 4 * US)] * 6
    generations(folder, 3_600 * US, [(GEMM, 30 * US), *between, (GEMM + "_2", 30 * US), *between])


def memory_bound(folder: Path) -> None:
    """Decode of Llama 3 8B, one request, on an H200: 4.0 ms; reading its weights takes 3.13."""
    layer = [(GEMV, 85 * US), (ATTENTION, 6 * US), (GEMV + "_o", 30 * US), (ELEMENTWISE, 4 * US)]
    generations(folder, 4_060 * US, layer)


RECORDED = ("host_lock", "gil_hog", "item", "outlier", "incomplete")
WRITTEN = {
    made.__name__: made for made in (launch_bound, late_host, late_gpu, unfused, memory_bound)
}
LLAMA = (
    "model/llm=llama_3_8b hardware=h200 model.tokens.batch_size=1 model.tokens.prompt_tokens=512 "
    "model.tokens.decode_steps=20"
)
SETTINGS = {"memory_bound": LLAMA.split()}
NAMES = (*WRITTEN, *RECORDED)


def make(launcher: Path, folder: Path, name: str) -> Path:
    """Make a bundle."""
    bundle = folder / name
    with tempfile.TemporaryDirectory() as spool:
        if name in WRITTEN:
            WRITTEN[name](Path(spool))
        else:
            shutil.copy(HERE / "traces" / f"{name}.s2t", spool)
        command = [launcher, "-q", "merge", "--spool", spool, "-o", bundle, *SETTINGS.get(name, ())]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return bundle


if __name__ == "__main__":
    if len(sys.argv) < 3 or not set(sys.argv[3:]) <= set(NAMES):
        sys.exit(f"{__doc__}\nNames: {' '.join(NAMES)}")
    for which in sys.argv[3:] or NAMES:
        print(make(Path(sys.argv[1]).resolve(), Path(sys.argv[2]), which))
