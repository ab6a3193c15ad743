"""What a Python program may do while its threads are sampled.

Usage: host_hazards.py NAME [VALUE]

Prints `NAME VALUE` lines. Ends with status 0 if the samples did it no harm.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import importlib
import mmap
import os
import resource
import sys
import threading
from collections.abc import Callable, Generator
from typing import Any

from host import clock, launch, say

LIBC = ctypes.CDLL(None, use_errno=True)


def spin(seconds: float) -> None:
    """Run Python code for so long."""
    end = clock() + seconds
    while clock() < end:
        sum(range(500))


def launch_and_spin(seconds: float = 0.5) -> None:
    """Be a thread that launches and computes."""
    launch()
    spin(seconds)


def sampler_turns() -> int:
    """How often the thread that samples has got a processor."""
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm", encoding="ascii") as file:
            is_sampler = file.read() == "stage2-host\n"
        if is_sampler:
            with open(f"/proc/self/task/{task}/schedstat", encoding="ascii") as file:
                return int(file.read().split()[2])
    return 0


def launch_until_sampled() -> None:
    """Launch, and compute until the sampler has run: on a busy machine it may start late."""
    launch()
    end = clock() + 60
    while sampler_turns() < 100 and clock() < end:
        spin(0.05)


def sub_interpreters() -> None:
    """Compute in two sub-interpreters and in the main one."""
    try:
        import _interpreters as interpreters  # type: ignore[import-not-found]

        run = interpreters.exec
    except ImportError:
        import _xxsubinterpreters as interpreters  # type: ignore[import-not-found]

        run = interpreters.run_string
    code = """
import time
def in_sub():
    end = time.perf_counter() + 1
    while time.perf_counter() < end:
        sum(range(500))
in_sub()
"""

    def work() -> None:
        for _ in range(2):
            number = interpreters.create()
            run(number, code)
            interpreters.destroy(number)

    launch()
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    spin(1.5)
    for thread in threads:
        thread.join()


def thousand_threads() -> None:
    """Compute on a thread that is the oldest of a thousand."""
    threading.stack_size(256 << 10)
    end = threading.Event()
    threads = [threading.Thread(target=end.wait) for _ in range(1_000)]
    for thread in threads:
        thread.start()
    launch_and_spin(1.5)
    end.set()
    for thread in threads:
        thread.join()


def inner_generator() -> Generator[int, None, None]:
    """Compute between two values."""
    for number in range(50):
        spin(0.01)
        yield number


def outer_generator() -> Generator[int, None, None]:
    """Have another generator compute."""
    yield from inner_generator()


async def inner_coroutine() -> None:
    """Compute, and give way to others."""
    for _ in range(25):
        spin(0.01)
        await asyncio.sleep(0)


async def outer_coroutine() -> None:
    """Have another coroutine compute."""
    await inner_coroutine()


async def coroutines() -> None:
    """Run two chains of coroutines by turns."""
    await asyncio.gather(outer_coroutine(), outer_coroutine())


def generators() -> None:
    """Compute in a generator of a generator, in coroutines, and in a greenlet if there is one."""
    launch()
    sum(outer_generator())
    asyncio.run(coroutines())
    try:
        greenlet = importlib.import_module("greenlet")
    except ImportError:
        return

    def in_greenlet() -> None:
        for _ in range(25):
            spin(0.01)
            main.switch()

    main = greenlet.getcurrent()
    green = greenlet.greenlet(in_greenlet)
    for _ in range(25):
        green.switch()
        spin(0.01)
    say("greenlets", 1)


def holds_the_gil() -> None:
    """Wait with the GIL, while another thread waits for it."""
    launch()
    done: list[bool] = []

    def wants() -> None:
        while not done:
            sum(range(100))

    thread = threading.Thread(target=wants)
    thread.start()
    spin(0.1)
    # Functions of a PyDLL are called with the GIL.
    ctypes.PyDLL(None).sleep(5)
    done.append(True)
    thread.join()


def odd_names() -> None:
    """Run functions whose names are long, or are no text that has a UTF-8 form."""
    launch()
    names = ["n" * (1 << 20), "half \ud800 \udcff", "", "\x00\x1b[31m\n", "\U0001f600" * 1_000]
    codes = []
    for name in names:
        new = {"co_name": name, "co_filename": f"/x/{name}.py"}
        if sys.version_info >= (3, 11):
            new["co_qualname"] = name
        codes.append(spin.__code__.replace(**new))  # type: ignore[arg-type]
    for _ in range(12):
        for code in codes:
            spin.__code__ = code
            spin(0.03)


def reused_code() -> None:
    """Run functions that come and go at the same addresses, each on a line of its own number."""
    launch()
    end = clock() + 1.5
    while clock() < end:
        for number in range(1, 50):
            names: dict[str, Any] = {}
            text = "\n" * number + f"def at_{number + 1}(): sum(range(20_000))"
            exec(text, names)
            names[f"at_{number + 1}"]()
            names.clear()
            gc.collect(0)


def ends_with_daemons() -> None:
    """End while daemon threads compute."""
    for _ in range(4):
        threading.Thread(target=spin, args=(60,), daemon=True).start()
    launch_and_spin()


def few_descriptors() -> None:
    """Leave so many descriptors to everybody."""
    # Loaded before the limit holds.
    ctypes.CDLL(os.environ["STAGE2_TEST_SIM"])
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
    taken = []
    while True:
        try:
            taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            break
    for descriptor in taken[: int(sys.argv[2])]:
        os.close(descriptor)
    launch_and_spin()


def other_user(threads: int | None = None) -> None:
    """Be another user, who may have so many threads."""
    ctypes.CDLL(os.environ["STAGE2_TEST_SIM"])
    os.chmod(os.environ["STAGE2_OUT"], 0o777)
    user = 61_000 + os.getpid() % 4_000
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    if threads is not None:
        resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))
    launch_and_spin()


KILL, REFUSE, ALLOW = 0x80000000, 0x00050000 | errno.EPERM, 0x7FFF0000
PROCESS_VM_READV, PREAD64 = 310, 17


def install_filter(calls: list[int], result: int, all_threads: bool) -> None:
    """Give this thread, or all, a seccomp filter that does this to these calls."""

    def instruction(code: int, yes: int, no: int, value: int) -> bytes:
        number = code.to_bytes(2, "little") + bytes([yes, no])
        return number + value.to_bytes(4, "little")

    program = [instruction(0x20, 0, 0, 0)]
    for at, call in enumerate(calls):
        program.append(instruction(0x15, len(calls) - at, 0, call))
    program += [instruction(0x06, 0, 0, ALLOW), instruction(0x06, 0, 0, result)]
    text = ctypes.create_string_buffer(b"".join(program))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    what = Program(len(program), ctypes.addressof(text))
    if LIBC.prctl(38, 1, 0, 0, 0) or LIBC.syscall(317, 1, int(all_threads), ctypes.byref(what)):
        raise OSError(ctypes.get_errno(), "no filter can be installed")


def late_filter() -> None:
    """Forbid all threads to read memory, on pain of death, while they are sampled."""
    launch_and_spin()
    install_filter([PROCESS_VM_READV], KILL, all_threads=True)
    spin(0.5)


def own_filter() -> None:
    """Begin with a filter."""
    install_filter([PROCESS_VM_READV], KILL, all_threads=False)
    launch_and_spin()


def contained() -> None:
    """Begin in a container whose filter refuses to read memory: by one call, or by all."""
    new_mounts, new_processes = 0x00020000, 0x20000000
    if LIBC.unshare(new_mounts | new_processes):
        say("refused", ctypes.get_errno())
        return
    child = os.fork()
    if child:
        say("status", os.waitpid(child, 0)[1])
        return
    private, recursive = 1 << 18, 1 << 14
    LIBC.mount(b"none", b"/", None, ctypes.c_ulong(private | recursive), None)
    if LIBC.mount(b"proc", b"/proc", b"proc", ctypes.c_ulong(0), None):
        os._exit(77)
    calls = [PROCESS_VM_READV, PREAD64][: int(sys.argv[2])]
    install_filter(calls, REFUSE, all_threads=False)
    launch_and_spin()


def executes() -> None:
    """Go on as another program."""
    launch_and_spin()
    os.execv(sys.executable, [sys.executable, __file__, "spin"])


def forged_build() -> None:
    """Say that this build has no GIL, as one without it does."""
    runtime = ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime")
    told = ctypes.c_uint64.from_address(ctypes.addressof(runtime) + 16)
    told.value = 1
    launch_until_sampled()
    told.value = 0


def stale_number() -> None:
    """Fork a child whose state keeps the parent's thread number, as 3.11.0 and 3.11.1 do."""
    child = os.fork()
    if child == 0:
        state = ctypes.pythonapi.PyThreadState_Get
        state.restype = ctypes.c_void_p
        own = ctypes.c_uint64.from_address(state() + 160)
        if own.value != os.getpid():
            os._exit(3)
        own.value = os.getppid()
        launch_and_spin()
        os._exit(0)
    say("child", child)
    say("status", os.waitpid(child, 0)[1])


def unmapped() -> None:
    """Map and unmap memory while other threads come and go."""
    launch()
    end = clock() + 1
    while clock() < end:
        thread = threading.Thread(target=sum, args=(range(10_000),))
        thread.start()
        mmap.mmap(-1, 8 << 20).close()
        thread.join()


if __name__ == "__main__":
    hazards: dict[str, Callable[[], None]] = {
        "sub_interpreters": sub_interpreters,
        "thousand_threads": thousand_threads,
        "generators": generators,
        "odd_names": odd_names,
        "reused_code": reused_code,
        "ends_with_daemons": ends_with_daemons,
        "few_descriptors": few_descriptors,
        "holds_the_gil": holds_the_gil,
        "few_threads": lambda: other_user(int(sys.argv[2])),
        "other_user": other_user,
        "late_filter": late_filter,
        "own_filter": own_filter,
        "contained": contained,
        "executes": executes,
        "forged_build": forged_build,
        "stale_number": stale_number,
        "unmapped": unmapped,
        "spin": launch_and_spin,
        "sampled": launch_until_sampled,
    }
    hazards[sys.argv[1]]()
