"""Guests that stand still on a GPU, and whoever asks why.

    standstill.py all COLLECTOR LAUNCHER OUT      runs the cases, prints a line of each
    standstill.py dormant-ranks COLLECTOR LAUNCHER OUT    only the two ranks, dormant
    standstill.py guest CASE FLAG                 a guest: spin, graph or gil
    standstill.py idle FLAG                       a process with a context that sleeps
    standstill.py rank RANK FLAG PORT             a rank of two, with NCCL

FLAG is a file of 4 KiB that parent and guest map: its first word ends the kernel, the second one
lets rank 1 go on, the others say how far each guest is.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

END, GO, STEP = 0, 1, 8
IDLE_S = 20.0
SPIN = r"""
extern "C" __global__ void spin_on_flag(volatile int* flag) { while (*flag == 0) {} }
extern "C" __global__ void ordinary(int* place) { atomicAdd(place, 1); }
"""


class Flags:
    """Words of a file that several processes map."""

    def __init__(self, path: str) -> None:
        """Map the file."""
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 4096)
        self.words = (ctypes.c_int32 * 1024).from_buffer(self.map)
        self.address = ctypes.addressof(self.words)

    def wait(self, word: int, value: int, seconds: float = 60) -> None:
        """Wait until a word has a value or more."""
        until = time.monotonic() + seconds
        while self.words[word] < value:
            if time.monotonic() > until:
                raise TimeoutError(f"word {word} is {self.words[word]}, not {value}")
            time.sleep(0.01)


def guest(case: str, flag: str) -> None:
    """Launch work, then work that does not end until the flag is set."""
    import cupy
    import torch

    flags = Flags(flag)
    torch.ones(1, device="cuda")
    # cudaHostRegisterMapped: the address is the same on the device.
    cupy.cuda.runtime.hostRegister(flags.address, 4096, 2)
    module = cupy.RawModule(code=SPIN)
    spin, ordinary = module.get_function("spin_on_flag"), module.get_function("ordinary")
    place = cupy.zeros(1, dtype=cupy.int32)
    address = cupy.uint64(flags.address)
    flags.words[END] = 1
    stream = torch.cuda.Stream()

    def launch(stuck: bool, behind: int) -> None:
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            if stuck:
                spin((1,), (1,), (address,))
            for _ in range(behind):
                ordinary((1,), (32,), (place,))

    with torch.cuda.stream(stream):
        torch.cuda.nvtx.range_push("before")
        launch(True, 10)
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
        graph = torch.cuda.CUDAGraph()
        if case == "graph":
            with torch.cuda.graph(graph, stream=stream):
                launch(False, 3)
                launch(True, 3)
            graph.replay()
            torch.cuda.synchronize()
        flags.words[END] = 0
        flags.words[STEP] = 1
        torch.cuda.nvtx.range_push("decode")
        if case == "graph":
            graph.replay()
            launch(False, 10)
        else:
            launch(True, 10)
        if case == "gil":
            hold_the_gil(stream)
        else:
            wait_for_the_gpu()
        torch.cuda.nvtx.range_pop()
        flags.words[STEP] = 2
        launch(False, 10)
        torch.cuda.synchronize()
    print("went on", int(place.get()[0]), flush=True)


def wait_for_the_gpu() -> None:
    """Wait for all work."""
    import torch

    torch.cuda.synchronize()


def hold_the_gil(stream: torch.cuda.Stream) -> None:
    """Wait for the GPU without giving up the GIL, which another thread wants."""

    def wants_the_gil() -> None:
        while not done:
            time.sleep(0.001)

    done: list[bool] = []
    threading.Thread(target=wants_the_gil, name="wants-the-gil").start()
    maps = Path("/proc/self/maps").read_text().splitlines()
    runtime = next(line.split()[-1] for line in maps if "libcudart" in line)
    holding = ctypes.PyDLL(runtime)
    time.sleep(0.1)
    holding.cudaStreamSynchronize(ctypes.c_void_p(stream.cuda_stream))
    done.append(True)


def rank(number: int, flag: str, port: str) -> None:
    """All-reduce in turns; rank 1 stops where it is told to."""
    import torch
    import torch.distributed as dist

    flags = Flags(flag)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=str(number), WORLD_SIZE="2")
    torch.cuda.set_device(number)
    dist.init_process_group("nccl")
    data = torch.ones(1 << 20, device="cuda")
    for turn in range(100):
        if number == 1 and turn >= 5:
            sleep_instead(flags, turn)
        flags.words[STEP + number] = turn + 1
        if turn == 9:
            break
        torch.cuda.nvtx.range_push("step")
        dist.all_reduce(data)
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
    print("went on", flush=True)
    os._exit(0)


def sleep_instead(flags: Flags, turn: int) -> None:
    """Sleep until the flag lets this turn begin."""
    while flags.words[GO] < turn - 4:
        time.sleep(0.02)


class Case:
    """Processes under the collector, and what they are asked."""

    failed = 0

    def __init__(self, name: str, out: str, collector: str, launcher: str, recording: bool) -> None:
        """Make the folder and the flags."""
        self.name = f"{name}, {'recording' if recording else 'dormant'}"
        self.launcher = launcher
        self.folder = os.path.join(out, re.sub(r"\W+", "-", self.name))
        os.makedirs(self.folder)
        # CUDA maps shared memory, but no file of a disk.
        self.flag = f"/dev/shm/stage2-standstill-{os.getpid()}-{id(self)}"
        with open(self.flag, "wb") as file:
            file.write(bytes(4096))
        self.flags = Flags(self.flag)
        run = os.path.join(out, "run")
        os.makedirs(run, mode=0o700, exist_ok=True)
        self.environment = dict(
            os.environ,
            LD_PRELOAD=collector,
            CUDA_INJECTION64_PATH=collector,
            NVTX_INJECTION64_PATH=collector,
            STAGE2_OUT=self.folder,
            STAGE2_SUMMARY="off",
            STAGE2_START="on" if recording else "off",
            STAGE2_HOST="on",
            XDG_RUNTIME_DIR=run,
        )
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str) -> None:
        """Start a guest."""
        log = Path(self.folder, f"{len(self.processes)}.log").open("w")  # noqa: SIM115
        command = [sys.executable, os.path.abspath(__file__), *words]
        process = subprocess.Popen(
            command, env=self.environment, stdout=log, stderr=subprocess.STDOUT
        )
        self.processes.append(process)

    def why(self, what: str, target: str, expected: str) -> None:
        """Ask why, and compare the first line with what it has to say."""
        self.ask(what, [target, "why"], expected)

    def ask(self, what: str, words: list[str], expected: str) -> None:
        """Give a command to `ctl`, and compare the first line with what it has to say."""
        environment = {
            "PATH": os.environ["PATH"],
            "XDG_RUNTIME_DIR": self.environment["XDG_RUNTIME_DIR"],
        }
        begun = time.monotonic()
        command = [self.launcher, "ctl", *words]
        try:
            asked = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=20
            )
            text = asked.stdout or asked.stderr
        except subprocess.TimeoutExpired:
            text = "no answer in 20 s"
        took = time.monotonic() - begun
        with open(
            os.path.join(self.folder, f"why-{re.sub(chr(92) + 'W+', '-', what)}.txt"), "w"
        ) as file:
            file.write(text)
        first = text.splitlines()[0] if text else ""
        fits = re.search(expected, first) is not None and took < 2.0
        self.say(fits, f"{what} ({took:.2f} s): {first}")

    def say(self, fits: bool, text: str) -> None:
        """Print a line of the result."""
        Case.failed += not fits
        print(f"{'PASS' if fits else 'FAIL'} {self.name}: {text}", flush=True)

    def end(self, going_on: list[int] | None = None) -> None:
        """Wait until all of them went on and ended by themselves."""
        # The mappings stay.
        os.unlink(self.flag)
        for index, process in enumerate(self.processes):
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
            if going_on is None or index in going_on:
                log = Path(self.folder, f"{index}.log").read_text()
                fits = process.returncode == 0 and "went on" in log
                self.say(fits, f"process {index} went on (status {process.returncode})")
                if not fits:
                    print(log[-1500:], flush=True)


def alone(
    name: str, out: str, collector: str, launcher: str, recording: bool, expected: str
) -> None:
    """Run a guest of one process."""
    case = Case(name, out, collector, launcher, recording)
    case.start("guest", name, case.flag)
    try:
        case.flags.wait(STEP, 1, 60)
        time.sleep(3)
        pid = str(case.processes[0].pid)
        case.why("it stands", pid, expected)
        if name == "spin":
            case.why("asked again", pid, expected)
            if not recording:
                refused = "(?i)kernel.*--force"
                case.ask("a start is refused", [pid, "start", "--for", "1s"], refused)
    except TimeoutError as error:
        case.say(False, str(error))
    case.flags.words[END] = 1
    case.end()


def ranks(out: str, collector: str, launcher: str, recording: bool) -> None:
    """Run two ranks, of which one sleeps, is stopped, and dies."""
    case = Case("two ranks", out, collector, launcher, recording)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    for number in range(2):
        case.environment["RANK"] = str(number)
        case.start("rank", str(number), case.flag, port)
    try:
        # Rank 1 sleeps in Python before its sixth turn.
        case.flags.wait(STEP, 6, 90)
        time.sleep(3)
        missing = r"[Rr]ank 1 .*" + (
            "did not enter the collective" if recording else "seems to be what"
        )
        # Rank and line are known without a record.
        place = r".*sleeps at standstill\.py:\d+ \(sleep_instead\)"
        case.why("rank 1 sleeps", case.folder, missing + place)
        case.flags.words[GO] = 1
        case.flags.wait(STEP, 7, 20)
        # It is stopped there.
        os.kill(case.processes[1].pid, signal.SIGSTOP)
        time.sleep(3)
        case.why("rank 1 is stopped", case.folder, r"[Rr]ank 1 .*is stopped")
        os.kill(case.processes[1].pid, signal.SIGCONT)
        case.flags.words[GO] = 2
        case.flags.wait(STEP, 8, 20)
        case.processes[1].kill()
        case.processes[1].wait()
        time.sleep(2)
        case.why(
            "rank 1 has died",
            case.folder,
            rf"(?i)process {case.processes[1].pid}\).* has ended"
            if recording
            else rf"(?i)process {case.processes[1].pid}\b.* (seems to be|has ended)",
        )
    except TimeoutError as error:
        case.say(False, str(error))
        for number in range(2):
            print(Path(case.folder, f"{number}.log").read_text()[-1500:], flush=True)
    for process in case.processes:
        process.kill()


def idle(flag: str) -> None:
    """Sleep with a context, and say what processor time the process took."""
    import torch

    flags = Flags(flag)
    torch.ones(1, device="cuda")
    torch.cuda.synchronize()
    flags.words[STEP] = 1
    flags.wait(GO, 1, 60)
    before = time.process_time()
    time.sleep(IDLE_S)
    print(f"went on {time.process_time() - before:.4f}", flush=True)


def watch_cost(out: str, collector: str, launcher: str) -> None:
    """Compare idle processes, dormant, one of them with a watch that looks once a second."""
    cases = []
    for name, watch in (("idle", ""), ("idle again", ""), ("idle and watched", "6s")):
        case = Case(name, out, collector, launcher, False)
        if watch:
            case.environment["STAGE2_WATCH"] = watch
        case.start("idle", case.flag)
        cases.append(case)
    try:
        for case in cases:
            case.flags.wait(STEP, 1, 60)
        for case in cases:
            case.flags.words[GO] = 1
    except TimeoutError as error:
        cases[0].say(False, str(error))
    took = []
    for case in cases:
        case.end()
        words = Path(case.folder, "0.log").read_text().split()
        took.append(float(words[-1]) if words and words[-1][:1].isdigit() else float("nan"))
    base, again, watched = (1e3 * seconds for seconds in took)
    print(
        f"processor time of {IDLE_S:.0f} s of idleness: {base:.1f} ms, again {again:.1f} ms, "
        f"with a look each second {watched:.1f} ms: {(watched - base) / IDLE_S:.2f} ms a look",
        flush=True,
    )


def main(cases: str, collector: str, launcher: str, out: str) -> None:
    """Run the cases."""
    import torch

    gpus = torch.cuda.device_count()
    print(f"{gpus} GPUs, torch {torch.__version__}", flush=True)
    if cases == "all":
        all_cases(gpus, collector, launcher, out)
    elif gpus >= 2:
        ranks(out, collector, launcher, False)
    else:
        sys.exit(f"two ranks need two GPUs, there are {gpus}")
    print(f"{Case.failed} failed", flush=True)
    sys.exit(Case.failed > 0)


def all_cases(gpus: int, collector: str, launcher: str, out: str) -> None:
    """Run each case, recording and dormant."""
    kernel = "work on the GPU stands: kernel `spin_on_flag`.*launched in decode"
    unknown = "a kernel has been running.* that moves no data"
    for recording in (True, False):
        expected = kernel if recording else unknown
        alone("spin", out, collector, launcher, recording, f"(?i){expected}")
        # A dormant process knows no nodes.
        in_graph = expected.replace(".*", ".*node .* of graph.*", 1) if recording else expected
        alone("graph", out, collector, launcher, recording, f"(?i){in_graph}")
        alone("gil", out, collector, launcher, recording, "(?i)holds the GIL")
        if gpus >= 2:
            ranks(out, collector, launcher, recording)
        else:
            print(f"SKIP two ranks: {gpus} GPU", flush=True)
    watch_cost(out, collector, launcher)


if __name__ == "__main__":
    if sys.argv[1] in ("all", "dormant-ranks"):
        main(*sys.argv[1:])
    elif sys.argv[1] == "guest":
        guest(*sys.argv[2:])
    elif sys.argv[1] == "idle":
        idle(sys.argv[2])
    else:
        rank(int(sys.argv[2]), sys.argv[3], sys.argv[4])
