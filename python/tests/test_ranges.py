"""`stage2.annotate`: what it does without a tool, and what a tool sees."""

from __future__ import annotations

import os
import subprocess
import sys
import timeit
from pathlib import Path

import pytest

import stage2

PYTHON = Path(__file__).parents[1]
LIBRARY = os.environ.get("STAGE2_COLLECTOR")
WORKLOAD = """
import threading, stage2
class Mute:
    def __str__(self):
        raise RuntimeError("no text")
values = dict(share=0.5, big=2**70, odd=object(), mute=Mute())
with stage2.annotate("decode", step=3, label="caf\\u00e9", **values):
    with stage2.annotate("a \\0 nul \\ud800 surrogate"):
        pass
@stage2.annotate("layer", index=1)
def layer():
    raise KeyError("passed on")
for _ in range(3):
    try:
        layer()
    except KeyError:
        pass
many = {f"f{i}": i for i in range(16)}
with stage2.annotate("many", **many):
    pass
thread = threading.Thread(target=stage2.annotate("thread")(print))
thread.start()
thread.join()
print(type(stage2._ranges._backend).__name__)
"""


def test_without_a_tool_a_range_is_nearly_free() -> None:
    def one() -> None:
        with stage2.annotate("decode", step=1):
            pass

    one()
    seconds = min(timeit.repeat(one, number=10_000, repeat=5)) / 10_000
    assert seconds < 10e-6, f"{seconds * 1e9:.0f} ns"


def test_functions_that_suspend_themselves_are_refused() -> None:
    async def coroutine() -> None: ...

    def generator():
        yield

    for function in (coroutine, generator):
        with pytest.raises(TypeError, match=r"put `with stage2\.annotate"):
            stage2.annotate("x")(function)


def test_a_range_takes_a_name_and_at_most_16_fields() -> None:
    assert repr(stage2.annotate("a", step=3, on="x")) == "stage2.annotate('a', step=3, on='x')"
    with pytest.raises(TypeError, match="the name of a range must be a string, not 3"):
        stage2.annotate(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at most 16 fields, not 17"):
        stage2.annotate("x", **{f"f{i}": i for i in range(17)})


def test_exceptions_and_results_pass_through_a_decorator() -> None:
    @stage2.annotate("double")
    def double(number: int) -> int:
        """Say what it does."""
        return 2 * number

    assert double(4) == 8
    assert (double.__name__, double.__doc__) == ("double", "Say what it does.")


@pytest.mark.skipif(LIBRARY is None, reason="STAGE2_COLLECTOR names no library")
def test_the_collector_sees_ranges_and_fields(tmp_path: Path) -> None:
    environment = {**stage2.env(), "PYTHONPATH": str(PYTHON), "STAGE2_OUT": str(tmp_path)}
    environment["STAGE2_SUMMARY"] = "off"
    command = [sys.executable, "-c", WORKLOAD]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "\nNvtxClient\n"), done.stderr
    (trace,) = tmp_path.glob("*.s2t")
    content = trace.read_bytes()
    names = (b"decode", b"layer", b"many", b"thread")
    fields = (b"step", b"label", "café".encode(), b"share", b"index", b"f15")
    fields += (b"(Mute without a text)",)
    for text in (*names, *fields):
        assert text in content, text


def test_a_tool_that_cannot_be_loaded_leaves_the_workload_alone() -> None:
    environment = {**os.environ, "PYTHONPATH": str(PYTHON), "NVTX_INJECTION64_PATH": "/no/such.so"}
    environment.pop("LD_PRELOAD", None)
    command = [sys.executable, "-c", WORKLOAD]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
