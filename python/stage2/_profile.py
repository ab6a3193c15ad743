"""Recording windows that the program opens: `start`, `stop`, `schedule` and `profile`."""

from __future__ import annotations

import enum
import os
import re
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, NamedTuple
from urllib.parse import unquote

from . import _control
from ._control import ControlError
from ._launch import launch
from ._run import Run, RunError, load


class Action(enum.Enum):
    """What happens in a step. The names are those of `torch.profiler.ProfilerAction`."""

    NONE = 0
    """Nothing is recorded."""
    WARMUP = 1
    """The step is recorded and discarded, so that CUPTI has started and knows each kernel."""
    RECORD = 2
    """The step is recorded."""
    RECORD_AND_SAVE = 3
    """The step is recorded, and the window ends with it."""


@dataclass(frozen=True)
class Schedule:
    """Selects the steps to record: a call with the number of a step returns its action."""

    wait: int
    warmup: int
    active: int
    repeat: int
    skip_first: int

    def __call__(self, step: int) -> Action:
        """Return the action of a step, counted from 0."""
        step -= self.skip_first
        cycle, place = divmod(step, self.wait + self.warmup + self.active)
        if step < 0 or (self.repeat > 0 and cycle >= self.repeat) or place < self.wait:
            return Action.NONE
        if place < self.wait + self.warmup:
            return Action.WARMUP
        is_last = place == self.wait + self.warmup + self.active - 1
        return Action.RECORD_AND_SAVE if is_last else Action.RECORD


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0
) -> Schedule:
    """Return a schedule, as `torch.profiler.schedule` does. All arguments count steps.

    After `skip_first` steps, it waits for `wait` steps, discards `warmup` steps and records
    `active` steps as one window. It repeats this `repeat` times (0: until the end).

    Raises:
        TypeError: A number is not an integer.
        ValueError: A number is negative, or `active` is 0.

    """
    numbers = Schedule(wait, warmup, active, repeat, skip_first)
    for name, number in asdict(numbers).items():
        if not isinstance(number, int) or isinstance(number, bool):
            raise TypeError(f"{name} must be an integer, not {number!r}")
        least = 1 if name == "active" else 0
        if number < least:
            raise ValueError(f"{name} must be at least {least}, not {number}")
    return numbers


class Window(NamedTuple):
    """A finished recording window.

    `number` counts from 1 in the process, with warm-ups, as in the name of the file. `began_ns` and
    `ended_ns` are nanoseconds since 1970, exact to a millisecond. `records` counts the GPU work in
    it: kernels, copies, fills and graphs. `lost` counts the records and events that are missing in
    it. `path` is its trace file, the last piece where STAGE2_ROTATE cut it; None if none could be
    written.
    """

    # `help` shows no text below a field.
    number: int
    began_ns: int
    ended_ns: int
    records: int
    lost: int
    path: Path | None

    @property
    def files(self) -> list[Path]:
        """The trace file, or all its existing pieces, in order."""
        piece = re.fullmatch(r"(.*-w\d+-p)\d+\.s2t", self.path.name) if self.path else None
        if self.path is None or piece is None:
            return [self.path] if self.path else []
        name = re.compile(rf"{re.escape(piece[1])}\d+\.s2t")
        return sorted(path for path in self.path.parent.iterdir() if name.fullmatch(path.name))

    def report(self, folder: str | os.PathLike[str]) -> Run:
        """Write a bundle with the reports of this window into a new folder, and load it.

        This runs `stage2-launch merge` on the trace file, which takes a second or more. The run of
        a window without GPU work has empty tables, and `print` says that nothing was recorded.

        Raises:
            RunError: The window has no trace file, or the reports could not be written.
            InstallError: `stage2-launch` is not installed.

        """
        spools = [f"--spool={path.absolute()}" for path in self.files]
        if not spools:
            raise RunError(f"window {self.number} has no trace file, because none could be written")
        done = launch(["merge", "--allow-empty", *spools, f"--output={os.path.abspath(folder)}"])
        if done.returncode != 0:
            said = done.stderr.partition("stage2-launch: error: ")[2]
            said = said or f"`merge` ended with {done.returncode}: {done.stderr}"
            why, *hints = said.strip().split("\nstage2-launch: hint: ")
            # What helps only at the command line has its options.
            why = "; ".join([why, *(hint for hint in hints if "--" not in hint)])
            raise RunError(f"no report of window {self.number}: {' '.join(why.split())}")
        return load(folder)


# Otherwise, `help` shows the types as `ForwardRef('int')`.
Window.__new__.__annotations__ = {}


def start() -> bool:
    """Begin a recording window in this process, and wait until it is open.

    The window contains the GPU work launched from now until `stop`. The first window starts
    CUPTI, which can take seconds. The program must run dormant under the collector
    (`stage2-launch run --dormant -- python ...`). Without a collector, or if a window is already
    open, it warns once per process and does nothing else.

    Returns whether a window has begun. It never raises.
    """
    try:
        _begin()
    except ControlError as error:
        _warn(error)
        return False
    return True


def stop() -> Window | None:
    """End the recording window, and wait until its trace file is written (4 s at most).

    The window includes GPU work that was launched before this call, even if it still runs.

    Returns the window. If none was open, returns None and warns, once per process. Never raises.
    """
    try:
        return _end()
    except ControlError as error:
        _warn(error)
        return None


class profile:
    """Records windows of a program by a schedule, as `torch.profiler.profile` does.

        with stage2.profile(schedule=stage2.schedule(wait=5, warmup=1, active=3)) as prof:
            for batch in batches:
                model(batch)
                prof.step()
        prof.windows                   # number, records, trace file of each

    Without a schedule, the whole block is one window. The program must run dormant under the
    collector (`stage2-launch run --dormant -- python ...`), which makes a bundle of each window
    when the program ends. Without a collector, this class prints one warning and has no effect.

    The program waits where recording starts or ends: once for CUPTI to start (seconds), and at
    the end of each window until its file is written (4 s at most). No other step waits. A process
    may use one profile at a time, in one thread. Ranks of one job that use the same
    schedule record the same steps.
    """

    def __init__(
        self,
        *,
        schedule: Callable[[int], Any] | None = None,
        on_trace_ready: Callable[[profile], object] | None = None,
    ) -> None:
        """Create a profile that follows a schedule.

        `on_trace_ready` is called after each window that is kept. `schedule` may also come from
        `torch.profiler.schedule`.

        Raises:
            TypeError: One of them cannot be called.

        """
        for name, value in (("schedule", schedule), ("on_trace_ready", on_trace_ready)):
            if value is not None and not callable(value):
                raise TypeError(f"{name} must be a function or None, not {value!r}")
        self._action = schedule or (lambda _step: Action.RECORD)
        self._on_trace_ready = on_trace_ready
        self._now = Action.NONE
        self._is_running = False
        self.step_num = 0
        """The number of the step that runs, counted from 0."""
        self.windows: list[Window] = []
        """The windows that were recorded and kept, in their order."""

    def __repr__(self) -> str:
        """Name the step and the windows that were kept."""
        state = f"in step {self.step_num}" if self._is_running else "not running"
        kept = ", ".join(f"w{window.number}" for window in self.windows) or "none"
        return f"<stage2.profile {state}; windows kept: {kept}>"

    def __enter__(self) -> profile:
        """Start the schedule at step 0."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop. An exception in the block propagates."""
        self.stop()

    def start(self) -> None:
        """Start the schedule at step 0."""
        self._is_running = True
        self.step_num = 0
        try:
            _check_off()
        except ControlError as error:
            self._give_up(error)
            return
        self._enter(self._action_of(0))

    def step(self) -> None:
        """Mark the end of a step and the start of the next one."""
        if self._is_running:
            self.step_num += 1
            self._enter(self._action_of(self.step_num))

    def stop(self) -> None:
        """End the open window, if any, and keep it unless it was a warm-up."""
        if self._is_running:
            self._enter(Action.NONE)
            self._is_running = False

    def _action_of(self, step: int) -> Action:
        action = self._action(step)
        try:
            # By name: an action of torch.profiler is another type.
            return Action[action.name]
        except (AttributeError, KeyError):
            raise TypeError(
                f"the schedule returned {action!r} for step {step}, and not one of "
                f"{', '.join(map(str, Action))}: use stage2.schedule or torch.profiler.schedule"
            ) from None

    def _enter(self, action: Action) -> None:
        """Change from the action of one step to that of the next."""
        before = self._now
        if _PHASES[before] == _PHASES[action] and before is not Action.RECORD_AND_SAVE:
            self._now = action
            return
        try:
            # At each moment it is what is on, also if `on_trace_ready` raises.
            self._now = Action.NONE
            if before is not Action.NONE:
                self._close(before)
            if action is not Action.NONE:
                _begin()
                self._now = action
        except ControlError as error:
            self._give_up(error)

    def _close(self, action: Action) -> None:
        window = _end()
        if action is Action.WARMUP:
            _discard(window)
            return
        self.windows.append(window)
        if self._on_trace_ready is not None:
            self._on_trace_ready(self)

    def _give_up(self, error: ControlError) -> None:
        self._now, self._is_running = Action.NONE, False
        _warn(error)


_PHASES = {
    Action.NONE: "nothing",
    Action.WARMUP: "warm-up",
    Action.RECORD: "recording",
    Action.RECORD_AND_SAVE: "recording",
}


def _check_off() -> None:
    """Check that nothing is recorded at the moment.

    Raises:
        ControlError: Something is, or there is no collector.

    """
    if _control.status().get("phase") != "on":
        return
    if _is_begun:
        raise ControlError(
            "a window is already open: this program began it with `stage2.start()` or a "
            "`stage2.profile`, and it stays open until `stage2.stop()` or the end of that block; "
            "windows cannot be nested"
        )
    # `stage2-launch run --dormant` sets it.
    if os.environ.get("STAGE2_START") == "off":
        raise ControlError(
            "a window is already open, which was begun from outside the program (`stage2-launch "
            "ctl` or `top`); it stays open until it is ended there, or by `stage2.stop()`"
        )
    raise ControlError(
        "the whole program is being recorded: to record parts of it, start it with "
        "`stage2-launch run --dormant -- python ...`"
    )


_is_begun = False
"""Whether this program began the window that is open."""


def _begin() -> None:
    global _is_begun
    _check_off()
    _control.ask("start")
    # A window that cannot begin is over at once.
    answer = _control.await_phase("on", "dormant", "ended")
    if answer.get("phase") != "on":
        raise ControlError(f"the window could not begin: {answer.get('cupti_off') or 'it is over'}")
    _is_begun = True


def _end() -> Window:
    global _is_begun
    _is_begun = False
    if _control.status().get("phase") != "on":
        raise ControlError(
            "no window is open, so nothing is recorded: begin one (`stage2.start()`)"
        )
    number = _control.ask("stop").get("window")
    answer = _control.await_phase("dormant", "ended")
    for line in answer.all("done"):
        window = _read(line)
        if window is not None and str(window.number) == number:
            return window
    raise ControlError(f"the collector does not list window {number} any more")


def _read(line: str) -> Window | None:
    """Parse a finished window from an answer; None if it cannot be parsed."""
    words = dict(word.split("=", 1) for word in line.split(" ") if "=" in word)
    path = words.get("file")
    try:
        return Window(
            int(words["number"]),
            int(words["began_unix_ms"]) * 1_000_000,
            int(words["ended_unix_ms"]) * 1_000_000,
            int(words["records"]),
            int(words["lost"]),
            Path(unquote(path)) if path else None,
        )
    except (KeyError, ValueError):
        return None


def _discard(window: Window) -> None:
    """Delete the trace file of a warm-up."""
    try:
        for path in window.files:
            path.unlink()
    except OSError as error:
        _warn(ControlError(f"{window.path} of a warm-up cannot be deleted: {error.strerror}"))


_said: set[str] = set()
_PACKAGE = os.path.dirname(__file__) + os.sep


def _warn(error: ControlError) -> None:
    """Warn once per process, so that a profiler cannot flood its workload's output."""
    text = f"stage2: {error}"
    if text not in _said:
        _said.add(text)
        warnings.warn(text, RuntimeWarning, stacklevel=_callers_level())


def _callers_level() -> int:
    """Return the stack level of the first caller outside this package, as `_warn` counts."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
