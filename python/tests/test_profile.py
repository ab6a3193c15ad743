"""`stage2.start`, `stop`, `schedule` and `profile`, with and without the collector."""

from __future__ import annotations

import enum
import inspect
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import stage2
from stage2 import Action, _control, _profile

PYTHON = Path(__file__).parents[1]
LIBRARY = os.environ.get("STAGE2_COLLECTOR")
needs_collector = pytest.mark.skipif(LIBRARY is None, reason="STAGE2_COLLECTOR names no library")

GUEST = """
import ctypes, os, sys, warnings
import stage2

cuda = ctypes.CDLL(os.environ["STAGE2_CUPTI"])
context, stream = ctypes.c_size_t(), ctypes.c_size_t()

def initialise():
    assert not cuda.cuInit(0)
    assert not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    assert not cuda.cuCtxSetCurrent(context)
    assert not cuda.cuStreamCreate(ctypes.byref(stream), 0)

def work(number):
    "Launch so many kernels, and leave them running."
    with stage2.annotate("decode"):
        for index in range(number):
            assert not cuda.stage2_sim_launch_recorded(1, index % 10, stream)

def tell(windows):
    print(" ".join(f"{w.number}:{w.records}:{w.lost}" for w in windows))
"""


def run_guest(
    folder: Path, code: str, **variables: str
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run a program under the collector; also return the names of its trace files."""
    environment = {**stage2.env(), "PYTHONPATH": str(PYTHON), "STAGE2_OUT": str(folder)}
    environment["STAGE2_CUPTI"] = str(stage2.library_path().with_name("libstage2_sim.so"))
    environment |= {"STAGE2_SUMMARY": "off", "STAGE2_START": "off", **variables}
    command = [sys.executable, "-c", GUEST + code]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done, sorted(path.name.rpartition("-")[2] for path in folder.glob("*.s2t"))


def test_a_schedule_is_that_of_torch() -> None:
    plan = stage2.schedule(wait=1, warmup=2, active=2, repeat=2, skip_first=1)
    letters = "".join(plan(step).name[0] + plan(step).name[-1] for step in range(14))
    assert letters == "NE" * 2 + "WPWPRDRE" + "NE" + "WPWPRDRE" + "NE" * 3
    forever = stage2.schedule(wait=0, warmup=0, active=1)
    assert {forever(step) for step in (0, 1, 10**9)} == {Action.RECORD_AND_SAVE}
    with pytest.raises(ValueError, match="active must be at least 1, not 0"):
        stage2.schedule(wait=1, warmup=0, active=0)
    with pytest.raises(ValueError, match="wait must be at least 0, not -1"):
        stage2.schedule(wait=-1, warmup=0, active=1)
    for wrong in (1.5, True, "1", None):
        with pytest.raises(TypeError, match="wait must be an integer, not "):
            stage2.schedule(wait=wrong, warmup=0, active=1)  # type: ignore[arg-type]


def test_a_schedule_and_a_callback_are_functions() -> None:
    with pytest.raises(TypeError, match="schedule must be a function or None, not 3"):
        stage2.profile(schedule=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="on_trace_ready must be a function or None, not 'x'"):
        stage2.profile(on_trace_ready="x")  # type: ignore[arg-type]


def test_without_a_collector_one_warning_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_profile, "_said", set())
    monkeypatch.setattr(_control, "_attach", lambda _pid: None)
    steps = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert stage2.start() is False
        assert stage2.stop() is None
        with stage2.profile(schedule=stage2.schedule(wait=0, warmup=1, active=1)) as prof:
            for step in range(5):
                steps.append(step)
                prof.step()
    assert (steps, prof.windows) == ([0, 1, 2, 3, 4], [])
    assert [warning.category for warning in caught] == [RuntimeWarning]
    assert "stage2-launch run --dormant" in str(caught[0].message)
    assert caught[0].filename == __file__


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what a profile asks of a collector, which does all of it."""
    made: list[str] = []

    def end() -> stage2.Window:
        made.append("end")
        return stage2.Window(made.count("begin"), 0, 0, 1, 0, None)

    monkeypatch.setattr(_control, "status", lambda: _control.Answer("stage2-control/1 ok\nend\n"))
    monkeypatch.setattr(_profile, "_begin", lambda: made.append("begin"))
    monkeypatch.setattr(_profile, "_end", end)
    return made


@pytest.mark.parametrize(
    ("numbers", "steps", "said", "kept"),
    [
        ({}, 3, "begin . . . end", [1]),
        ({"wait": 1, "active": 2, "repeat": 1}, 5, ". begin . . end . .", [1]),
        ({"wait": 1, "warmup": 1, "active": 1, "repeat": 1}, 4, ". begin . end begin . end .", [2]),
        ({"active": 1}, 2, "begin . end begin . end begin end", [1, 2, 3]),
        ({"warmup": 3, "active": 1}, 2, "begin . . end", []),
        ({"active": 5}, 2, "begin . . end", [1]),
    ],
)
def test_a_profile_follows_its_schedule(
    calls: list[str], numbers: dict[str, int], steps: int, said: str, kept: list[int]
) -> None:
    signature = "(number, began_ns, ended_ns, records, lost, path)"
    assert str(inspect.signature(stage2.Window)) == signature
    ready: list[stage2.Window] = []
    plan = stage2.schedule(**{"wait": 0, "warmup": 0, **numbers}) if numbers else None

    def keep(prof: stage2.profile) -> None:
        ready.append(prof.windows[-1])

    with stage2.profile(schedule=plan, on_trace_ready=keep) as prof:
        for _ in range(steps):
            calls.append(".")
            prof.step()
        assert repr(prof).startswith(f"<stage2.profile in step {steps}; ")
    assert " ".join(calls) == said
    assert [window.number for window in prof.windows] == kept
    assert ready == prof.windows
    names = ", ".join(f"w{number}" for number in kept) or "none"
    assert repr(prof) == f"<stage2.profile not running; windows kept: {names}>"


def test_what_is_called_after_a_window_may_raise(calls: list[str]) -> None:
    def refuse(_prof: stage2.profile) -> None:
        raise KeyError("passed on")

    plan = stage2.schedule(wait=0, warmup=0, active=1)
    with pytest.raises(KeyError), stage2.profile(schedule=plan, on_trace_ready=refuse) as prof:
        prof.step()
    assert calls == ["begin", "end"]


def test_a_schedule_of_torch_serves_as_well(calls: list[str]) -> None:
    theirs = enum.Enum("ProfilerAction", [action.name for action in Action])
    plan = stage2.schedule(wait=1, warmup=0, active=1)
    with stage2.profile(schedule=lambda step: theirs[plan(step).name]) as prof:
        for _ in range(4):
            prof.step()
    assert calls == ["begin", "end", "begin", "end"]
    with pytest.raises(TypeError, match="returned 3 for step 0"):
        stage2.profile(schedule=lambda _step: 3).start()


@needs_collector
def test_windows_hold_what_was_launched_in_them(tmp_path: Path) -> None:
    code = """
initialise()
work(3)
assert stage2.start()
work(7)
one = stage2.stop()
work(4)
assert stage2.start()
work(5)
tell([one, stage2.stop()])
"""
    done, files = run_guest(tmp_path, code)
    assert (done.stdout, done.stderr) == ("1:7:0 2:5:0\n", "")
    assert files == ["w1.s2t", "w2.s2t"]


@needs_collector
def test_a_window_that_is_started_twice_stays_open(tmp_path: Path) -> None:
    code = """
initialise()
assert stage2.start()
assert not stage2.start()
with stage2.profile() as prof:
    work(7)
tell([*prof.windows, stage2.stop()])
"""
    done, files = run_guest(tmp_path, code)
    assert (done.stdout, files) == ("1:7:0\n", ["w1.s2t"])
    assert done.stderr.count("a window is already open: this program began it with `stage2.") == 1
    assert "--dormant" not in done.stderr and "ctl" not in done.stderr


@needs_collector
@pytest.mark.parametrize("rotate", ["", "size=64K"])
def test_a_schedule_records_its_steps_and_discards_warm_ups(tmp_path: Path, rotate: str) -> None:
    code = """
plan = stage2.schedule(wait=1, warmup=1, active=2, repeat=2)
with stage2.profile(schedule=plan) as prof:
    initialise()
    for step in range(12):
        work(step + 1)
        prof.step()
tell(prof.windows)
assert [len(window.files) for window in prof.windows] == [1, 1]
"""
    done, files = run_guest(tmp_path, code, **({"STAGE2_ROTATE": rotate} if rotate else {}))
    assert (done.stdout, done.stderr) == ("2:7:0 4:15:0\n", "")
    assert len(files) == 2


@needs_collector
def test_a_window_in_pieces_has_all_of_them(tmp_path: Path) -> None:
    code = """
initialise()
stage2.start()
for _ in range(20):
    work(500)
window = stage2.stop()
print(window.records, len(window.files), window.path == window.files[-1])
stage2._profile._discard(window)
"""
    done, files = run_guest(tmp_path, code, STAGE2_ROTATE="every=10ms")
    records, pieces, is_last = done.stdout.split()
    assert records == "10000" and int(pieces) > 1 and is_last == "True"
    assert files == []


@needs_collector
def test_a_window_is_reported_while_the_program_runs(tmp_path: Path) -> None:
    try:
        programs = stage2.launcher_path().parent
    except stage2.InstallError as error:
        pytest.skip(str(error))
    code = f"""
def ready(prof):
    run = prof.windows[-1].report({str(tmp_path / "report")!r})
    print(sum(row["calls"] for row in run.kernels), [row["stage"] for row in run.stages])

plan = stage2.schedule(wait=0, warmup=0, active=2, repeat=1)
with stage2.profile(schedule=plan, on_trace_ready=ready) as prof:
    initialise()
    for _ in range(4):
        work(8)
        prof.step()
try:
    prof.windows[-1].report({str(tmp_path / "report")!r})
except stage2.RunError as error:
    print(error)
stage2.start()
empty = stage2.stop().report({str(tmp_path / "empty")!r})
print(len(empty.kernels), empty.kernels.absent, "EMPTY" in str(empty), "no stages" in repr(empty))
missing = prof.windows[-1]._replace(path=stage2.library_path().with_name("missing.s2t"))
try:
    missing.report({str(tmp_path / "missing")!r})
except stage2.RunError as error:
    print(error)
"""
    search = f"{programs}{os.pathsep}{os.environ['PATH']}"
    (tmp_path / "traces").mkdir()
    done, _ = run_guest(tmp_path / "traces", code, PATH=search)
    lines = done.stdout.splitlines()
    assert lines[0] == "16 ['decode']"
    assert lines[1].startswith(f"no report of window 1: {tmp_path / 'report'} ")
    assert "stage2-launch: " not in lines[1]
    assert lines[2] == "0 no kernel was recorded True True"
    assert "missing.s2t (it does not exist" in lines[3] and "--" not in lines[3]


@needs_collector
def test_a_process_that_records_from_its_start_is_left_alone(tmp_path: Path) -> None:
    code = """
initialise()
assert not stage2.start()
with stage2.profile() as prof:
    work(6)
tell([*prof.windows, stage2.stop()])
assert stage2.stop() is None
"""
    done, files = run_guest(tmp_path, code, STAGE2_START="on")
    assert done.stdout == "1:6:0\n"
    assert done.stderr.count("stage2-launch run --dormant") == 1
    assert done.stderr.count("no window is open, so nothing is recorded: begin one (`stage2.") == 1
    assert "ctl" not in done.stderr
    assert len(files) == 1


@needs_collector
@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"STAGE2_CONTROL": "off"}, "without STAGE2_CONTROL=off"),
        ({"STAGE2_OUT": ""}, "STAGE2_OUT"),
    ],
)
def test_what_cannot_be_recorded_is_said_once(
    tmp_path: Path, variables: dict[str, str], said: str
) -> None:
    code = "initialise()\nprint(stage2.start(), stage2.start())\nwork(1)"
    done, files = run_guest(tmp_path, code, **variables)
    assert done.stdout == "False False\n"
    assert done.stderr.count("RuntimeWarning") == 1 and said in done.stderr
    assert files == []
