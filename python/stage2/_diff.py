"""Compares two sides, each of one or several runs, with `stage2-launch diff`."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Mapping, NoReturn, Sequence, Union

from ._launch import as_operand, launch
from ._run import Run
from ._show import lines_html, visible, wrapped
from ._tables import Table, TableError, close_to

_SCHEMA, _SCHEMA_VERSION = "stage2.diff", 1
_NAMED_PARTS = 4
_NAMED_RUNS = 2
_ERROR = re.compile(r"^stage2-launch: error:\s+", re.MULTILINE)
_CONDITION = re.compile(
    r"invalid value `(.*)` for `--(fail-if|expect) <CONDITION>`: "
    r"(.*?)(; see `stage2-launch diff --help`)?$"
)
_UNSUITABLE = re.compile(
    r"; the newest run, [^;]*, recorded no GPU work$"
    r"|; see `stage2-launch diff --help`$"
    r"|, and `stage2-launch merge` makes one of captures$"
)
"""What helps only at the command line, and a run without GPU work, which nobody means."""
_LONGER = 1.1
"""Windows that are by this factor longer than their steps need an explanation."""
_OUTCOMES = {"passed_within_noise": "not decided", "not_evaluated": "not evaluated"}
"""Outcomes that the pages call otherwise."""
_FAILURES = ("failed", "not evaluated")
_COMMAND = re.compile(r"stage2-launch diff ([^;]*) --against ([^;]*)$")
_OPTIONS = {
    "--against": "before=[...], after=[...]",
    "--full": "in `metrics`",
    "--strict": "strict=True",
}
"""Options of the command line, and what they are here."""
_NOT_COMPARED = "not compared"
"""The text of a line about sides that have nothing in common."""
_PAGES = (".html", ".htm")
_NAMED_OPTION = re.compile(rf"(?<=\()({'|'.join(_OPTIONS)})(?=\))|(?<=use )--strict(?= )")
"""Where a text recommends one: the command of a run may have such words too."""
FAILED = 1
"""The exit status where a condition failed."""

OneRun = Union[str, "os.PathLike[str]", Run]
Side = Union[OneRun, Sequence[OneRun]]


class DiffError(RuntimeError):
    """Runs could not be compared. The message explains why, and what to do."""


class Diff:
    """The changes between two sides: every change is the new value minus the old one.

    - `verdict`: what changed, as a sentence; `lines`: this and the other first lines.
    - `metrics`, `work`: tables of all stages, their numbers and their kernels.
    - `conditions`, `failed`: what became of the conditions.
    - `write_html(path)`: writes the page of the comparison.
    - `comparison`: all of it as a dictionary, as `stage2-launch diff --json` prints it.

    It is neither true nor false: `assert not change.failed`.
    """

    def __init__(self, comparison: dict[str, Any]) -> None:
        """Create it from the output of `stage2-launch diff --json`; use `diff` to compare runs."""
        self.comparison = comparison
        """All of it, as `--json` has it."""
        self._words: tuple[list[str], float, str] | None = None
        """The words of the command, its time limit and its folder; None: it is not from `diff`."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Name the attributes that a Diff has instead of one that does not exist."""
            is_public = "comparison" in self.__dict__ and not name.startswith("_")
            is_line = is_public and name in self.lines
            public = [known for known in dir(type(self)) if not known.startswith("_")]
            hint = f"; use `lines[{name!r}]`" if is_line else close_to(name, public)
            hint = hint or "; use `metrics`, `work` or `write_html`"
            error = AttributeError(f"a Diff has no attribute {name!r}{hint}")
            # Otherwise, tracebacks of Python 3.10 and later add their own suggestion.
            error.obj = self
            raise error

    # With NoReturn, type checkers would take all that follows `assert change` for unreachable.
    def __bool__(self) -> bool:
        """Raise a ValueError: `assert stage2.diff(...)` would pass even if a condition failed."""
        raise ValueError(
            "a Diff is neither true nor false; `not change.failed` tells whether all conditions "
            "hold, and `change.verdict` what changed"
        )

    def __repr__(self) -> str:
        """Name the sides, and return the verdict without its remarks."""
        verdict = visible(self.comparison.get("verdict")).partition(". ")[0].rstrip(".")
        verdict = self._caution() + verdict
        failed = "; a condition failed" if self.failed else ""
        return f"<stage2.Diff {self._sides(' -> ')}: {verdict}{failed}>"

    def __str__(self) -> str:
        """Return the sides, the lines and the conditions, wrapped at the width of the terminal."""
        return wrapped([self._named_sides(), *self._said(), *self._outcomes()])

    def _repr_html_(self) -> str:
        """Show the sides, the lines with the conditions, and the first metrics in a notebook."""
        verdict, *others = self._said()
        lines = [self._named_sides(), verdict, *self._outcomes(), *others]
        return lines_html(lines, _FAILURES) + self.metrics._repr_html_()

    def _sides(self, arrow: str) -> str:
        """Name the runs of both sides."""
        named = []
        for name in ("before", "after"):
            labels = [str(run.get("label")) for run in self._rows(name)]
            shared = {label.rpartition("/")[0] for label in labels}
            (baseline,) = shared if len(shared) == 1 else ("",)
            if baseline.startswith("baseline:"):
                side = f"{baseline} ({len(labels)} run{'' if len(labels) == 1 else 's'})"
            elif len(labels) > _NAMED_RUNS:
                side = f"{labels[0]} \N{HORIZONTAL ELLIPSIS} {labels[-1]}"
            else:
                side = ", ".join(labels)
            named.append(visible(side) or name)
        return arrow.join(named)

    def _named_sides(self) -> tuple[str, str]:
        return "runs", self._sides(" \N{RIGHTWARDS ARROW} ")

    def _outcomes(self) -> list[tuple[str, str]]:
        return [
            (
                visible(_OUTCOMES.get(row["outcome"], row["outcome"])),
                visible(f"{'expect ' * bool(row['expected'])}{row['condition']}: {row['text']}"),
            )
            for row in self.conditions
        ]

    def _caution(self) -> str:
        """Return why the sides are not comparable, as a sentence, if they are not."""
        unlike = self.comparison.get("unlike")
        return f"Not comparable: {', '.join(map(visible, unlike))}. " if unlike else ""

    @property
    def lines(self) -> dict[str, str]:
        """The first lines of the comparison, by their labels: `verdict`, `changed`, `time`, ...

        `changed` has the largest changes beyond noise: causes of idle time, and classes of kernels.
        """
        lines: list[tuple[Any, Any]] = [
            ("verdict", f"{self._caution()}{self.comparison.get('verdict')}"),
            ("changed", self._changed()),
            *((row.get("label"), row.get("text")) for row in self._rows("lines")),
        ]
        windows = self._longer_windows()
        lines = [
            (label, f"{text}. {windows}" if label == "window" and windows else text)
            for label, text in lines
        ]
        return {visible(label): visible(_in_python(text)) for label, text in lines}

    def _said(self) -> list[tuple[str, str]]:
        """Return the lines that say more than that something is not compared."""
        return [line for line in self.lines.items() if line[1] != _NOT_COMPARED]

    def _longer_windows(self) -> str:
        """Return why the parts of a window can add up to more than the time of its step."""
        longer = []
        for stage in self._compared():
            by_name = {row.get("metric"): row for row in stage.get("metrics") or []}
            window, step = by_name.get("window_ms", {}), by_name.get("step_mean_ms", {})
            sides = [(window.get(side), step.get(side)) for side in ("before", "after")]
            if any(wide and ms and wide >= _LONGER * ms for wide, ms in sides):
                windows, steps = (
                    " and ".join(f"{ms or 0:,.2f}" for ms in of) for of in zip(*sides)
                )
                longer.append(f"{stage.get('stage')}: {windows} ms, mean steps {steps} ms")
        if not longer:
            return ""
        return (
            "A window ends with the GPU work of its step, so it can be longer than the step "
            f"({'; '.join(longer)})"
        )

    def _compared(self) -> list[dict[str, Any]]:
        """Return the stages in which both sides do work that is timed in the same way."""
        stages = self._rows("stages")
        return [row for row in stages if row.get("presence") == "both" and not row.get("apart")]

    def _changed(self) -> str:
        """Return what the step of the first stage that changed gained and lost."""
        stages = [stage for stage in self._compared() if not stage.get("other_work")]
        if stages and self.comparison.get("unlike"):
            return f"{_NOT_COMPARED}: the sides are not comparable"
        for stage in stages:
            parts = sorted(_parts(stage), key=lambda part: -abs(part[0]))
            if parts:
                texts = [f"{_signed_time(ms)} {name}" for ms, name in parts[:_NAMED_PARTS]]
                more = len(parts) - len(texts)
                texts += [f"{more} more beyond noise"] if more else []
                return f"{stage.get('stage')}, per {_unit(stage)}: {'; '.join(texts)}"
        if not stages:
            return f"{_NOT_COMPARED}: no stage does the same work on both sides"
        return "no part of a step changed beyond noise"

    @property
    def verdict(self) -> str:
        """What changed, as a sentence; it begins with a caution if the sides do not compare."""
        return self.lines["verdict"]

    def write_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the comparison as one page for a browser, as `stage2-launch diff --html` does.

        It compares the runs again, as they are now, and replaces the file. Returns its path.

        Raises:
            ValueError: The name of the file has another suffix than `.html` or `.htm`.
            DiffError: The file cannot be written, the runs can no longer be compared, or this is
                not from `stage2.diff`.

        """
        if self._words is None:
            raise DiffError("only a comparison that `stage2.diff` returned has runs to write of")
        words, timeout_s, folder = self._words
        file = Path(os.path.abspath(path))
        if file.suffix and file.suffix.lower() not in _PAGES:
            raise ValueError(f"write_html writes a page, named .html or .htm, not {file.name!r}")
        try:
            _run(["--html", str(file), *words], timeout_s, folder)
        except DiffError as error:
            why = str(error).replace("the runs were not compared", "the page was not written", 1)
            raise DiffError(why.replace(" with --html", "")) from None
        return file

    @property
    def metrics(self) -> Table:
        """One row for each stage and metric, with its `unit`; `run` is the whole run.

        `before` and `after` are medians over the runs of a side; times of windows, of GPU work
        (`class_*`), busy and idle times are means. `verdict` states whether the change exceeds the
        noise (`increased`, `decreased`), and `word` is how the report of the comparison states it.
        Where the verdict is `none`, the word is the reason: `within noise`,
        `inconclusive`, or `not comparable` (the sides do different work, or differ in GPU, model or
        program).
        """
        rows = [
            *self._of_stages("metrics"),
            *({"stage": "run", **row} for row in self._rows("run")),
        ]
        percent = [{**row, "interval_percent": _interval(row, row.get("before"))} for row in rows]
        return Table("metrics", percent)

    @property
    def work(self) -> Table:
        """One row for each stage and kernel, copy, fill or graph; the largest change first.

        `name` is the name before; for what is new, the name after.
        Times are nanoseconds per unit, which `per` names: `step`, `token`, `call`, `run`.
        `verdict` and `word` are those of `metrics`; the words are `shorter`, `longer`, `new` and
        `gone`.
        """
        stages = {stage.get("stage"): stage for stage in self._rows("stages")}
        rows = [
            {
                **row,
                "name": _name(row),
                "change_percent": _percent(row),
                "per": _unit(stages[row["stage"]]),
                "interval_percent": _interval(row, _ns(row, "before")),
            }
            for row in self._of_stages("work")
        ]
        return Table("work", rows)

    @property
    def conditions(self) -> Table:
        """The `outcome` of each condition of `fail_if` and `expect`, and the reason."""
        rows = self._rows("conditions")
        return Table("conditions", [{**row, "text": _in_python(row.get("text"))} for row in rows])

    @property
    def failed(self) -> bool:
        """Whether a condition failed, or could not be evaluated."""
        return any(row.get("outcome") in ("failed", "not_evaluated") for row in self.conditions)

    def _of_stages(self, part: str) -> list[dict[str, Any]]:
        return [
            {"stage": stage.get("stage"), **row}
            for stage in self._rows("stages")
            for row in stage.get(part) or []
        ]

    def _rows(self, part: str) -> list[dict[str, Any]]:
        rows = self.comparison.get(part)
        if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
            return rows
        raise TableError(f"the comparison has no list `{part}`")


def _parts(stage: Mapping[str, Any]) -> Iterator[tuple[float, str]]:
    """Give the parts of a step that changed beyond noise: the change in ms, and the name."""
    metrics = {row.get("metric"): row for row in stage.get("metrics") or []}
    for name, row in metrics.items():
        if _is_changed(row) and str(name).startswith("class_") and str(name).endswith("_ms"):
            yield row["change"], str(name)[len("class_") : -len("_ms")]
    causes = stage.get("host") or []
    for row in filter(_is_changed, causes):
        function, _, file = str(row.get("metric")).partition(" (")
        yield row["change"], f"idle: {function}" + (file and f" ({file.rpartition('/')[2]}")
    idle, gaps = metrics.get("idle_ms", {}), metrics.get("launch_gaps_ms", {})
    if causes:
        return
    gaps_ms = gaps["change"] if _is_changed(gaps) else 0
    if gaps_ms:
        yield gaps_ms, "idle: launch gaps"
    if _is_changed(idle):
        threshold = (idle.get("noise") or {}).get("threshold") or 0
        others_ms = idle["change"] - gaps_ms
        if abs(others_ms) > threshold and others_ms * idle["change"] > 0:
            yield others_ms, "idle: not launch gaps" if gaps_ms else "GPU idle"


def _in_python(text: Any) -> str:
    """Return a text with the arguments of `diff` instead of words of its command line."""

    def call(found: re.Match[str]) -> str:
        before, after = (found[side].split() for side in (1, 2))
        return f"stage2.diff(before={before!r}, after={after!r})"

    said = _COMMAND.sub(call, str(text))
    said = said.replace("; ± is that within the runs,", "; judged by the noise within the runs,")
    return _NAMED_OPTION.sub(lambda found: _OPTIONS[found[0]], said)


def _name(work: Mapping[str, Any]) -> Any:
    sides = [work.get(side) for side in ("before", "after")]
    return next((side.get("name") for side in sides if isinstance(side, dict)), None)


def _percent(work: Mapping[str, Any]) -> float | None:
    """Return the change relative to the time before, if there was work before."""
    ns, change = _ns(work, "before"), work.get("change_ns")
    return 100 * change / ns if ns and change is not None else None


def _ns(work: Mapping[str, Any], side: str) -> float | None:
    sides = work.get(side)
    return sides.get("ns") if isinstance(sides, dict) else None


def _interval(row: Mapping[str, Any], before: float | None) -> list[float] | None:
    """Return the changes that several runs allow, relative to the value before."""
    ends = row.get("interval")
    return [100 * end / abs(before) for end in ends] if ends and before else None


def _is_changed(row: Mapping[str, Any]) -> bool:
    return row.get("verdict") in ("increased", "decreased") and bool(row.get("change"))


def _unit(stage: Mapping[str, Any]) -> str:
    """Return what the numbers of a stage are per."""
    if stage.get("per") != "instance":
        return str(stage.get("per"))
    return "step" if stage.get("step") == "step" else "call"


def _signed_time(ms: float) -> str:
    return f"{ms:+,.2f} ms" if abs(ms) >= 0.1 else f"{ms * 1e3:+.1f} us"


def diff(
    before: Side,
    after: Side,
    *,
    fail_if: str | Sequence[str] = (),
    expect: str | Sequence[str] = (),
    strict: bool = False,
    timeout_s: float = 600,
) -> Diff:
    """Compare runs, as `stage2-launch diff` does; see docs/diff.md for what counts as a change.

    Each side is a run or a list of runs. A run is a folder, a `metrics.json`, a `Run`, or a name:
    `"latest"`, `"baseline:main"` (see `stage2-launch baseline`). `fail_if` are
    conditions such as `decode.step_ms>+5%`: `Diff.failed` is true if one failed. With `strict`,
    such a condition also fails on a change within noise. `expect` are changes that must have
    happened, beyond noise, such as `decode.step_ms<-20%`.

    Raises:
        DiffError: The runs cannot be compared, a condition cannot be read, or the comparison takes
            longer than `timeout_s`.
        InstallError: `stage2-launch` is not installed.
        TypeError: An argument has the wrong type, for instance a side that is not a run.
        ValueError: `timeout_s` is not more than 0.

    """
    if not isinstance(timeout_s, (int, float)):
        raise TypeError(f"timeout_s must be a number of seconds, not {timeout_s!r}")
    if not timeout_s > 0:
        raise ValueError(f"timeout_s must be more than 0 seconds, not {timeout_s!r}")
    options = [*condition_options(fail_if, expect), *(["--strict"] if strict else [])]
    words = words_of({"before": before, "after": after}, options)
    done = _run(["--json", *words], timeout_s)
    try:
        read = json.loads(done.stdout)
    except ValueError as error:
        raise DiffError(f"stage2-launch diff printed no JSON: {error}") from error
    is_known = isinstance(read, dict) and read.get("schema") == _SCHEMA
    if not is_known or read.get("schema_version") != _SCHEMA_VERSION:
        raise DiffError(
            f"stage2-launch diff did not print version {_SCHEMA_VERSION} of {_SCHEMA}, which this "
            "package reads: install both from one wheel"
        )
    comparisons = read.get("comparisons")
    if not isinstance(comparisons, list) or not comparisons:
        raise DiffError("stage2-launch diff printed no comparison")
    change = Diff(comparisons[0])
    change._words = words, timeout_s, os.getcwd()
    return change


def compare(
    sides: Mapping[str, Side], options: Sequence[str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run `stage2-launch diff` of the side before and the one after; its status is 0 or `FAILED`.

    Raises:
        DiffError: The runs cannot be compared, a condition cannot be read, or it takes too long.
        InstallError: `stage2-launch` is not installed.
        TypeError: A side is not a run, or a list of runs; the message has its name.

    """
    return _run(words_of(sides, options), timeout_s)


def words_of(sides: Mapping[str, Side], options: Sequence[str] = ()) -> list[str]:
    """Return the words that compare the side before and the one after on the command line."""
    before, after = (_operands(name, side) for name, side in sides.items())
    return [*options, *before, "--against", *after]


def _run(
    words: Sequence[str], timeout_s: float, folder: str | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        done = launch(["diff", *words], timeout_s, folder)
    except subprocess.TimeoutExpired as error:
        raise DiffError(
            f"stage2-launch diff took more than {timeout_s} s: raise timeout_s"
        ) from error
    except OSError as error:
        raise DiffError(f"stage2-launch cannot be started: {error}") from error
    if done.returncode not in (0, FAILED):
        raise DiffError(_reason(done))
    return done


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """Return why runs were not compared, in the words of a caller who wrote no command line."""
    said = (done.stdout + done.stderr).strip().replace("\nstage2-launch: hint: ", "; ")
    if not _ERROR.search(said):
        status = f"stage2-launch diff ended with {done.returncode}"
        return f"the runs were not compared ({status}): {said}"
    # Lines end where the terminal does, also within a word in backticks.
    why = " ".join(_ERROR.split(said)[-1].split())
    why = why.replace("(docs/diff.md lists all)", "(the column `metric` of `metrics` has all)")
    condition = _CONDITION.fullmatch(why)
    if condition:
        text = condition[3].replace(" (the shell takes them if you left out the quotes)", "")
        return f"{condition[2].replace('-', '_')} {condition[1]!r}: {text}"
    if why.startswith(("--fail-if ", "--expect ")):
        return why[len("--") :].replace("-", "_", 1)
    return f"the runs were not compared: {_UNSUITABLE.sub('', why)}"


def condition_options(fail_if: Any, expect: Any) -> list[str]:
    """Return the options of the conditions in these arguments.

    Raises:
        TypeError: One is neither a condition nor a list of them.

    """
    options = []
    for name, value in (("fail_if", fail_if), ("expect", expect)):
        conditions = [value] if isinstance(value, str) else value
        is_list = isinstance(conditions, (list, tuple))
        if not is_list or not all(isinstance(condition, str) for condition in conditions):
            raise TypeError(f"{name} must be a condition (str) or a list of them, not {value!r}")
        # In one word, because a condition may begin with a dash.
        options += [f"--{name.replace('_', '-')}={condition}" for condition in conditions]
    return options


def _operands(name: str, side: Any) -> list[str]:
    kinds = (str, os.PathLike, Run)
    runs = [side] if isinstance(side, kinds) else side
    if not isinstance(runs, (list, tuple)) or not all(isinstance(run, kinds) for run in runs):
        raise TypeError(f"{name} must be a run (a path or a Run) or a list of runs, not {side!r}")
    if not runs:
        raise DiffError(f"{name} has no runs: give a run, or a list of runs")
    return [as_operand(_folder(run.path) if isinstance(run, Run) else run) for run in runs]


def named(side: Side) -> str:
    """Name the runs of a side."""
    return ", ".join(_operands("side", side))


def _folder(file: Path) -> Path:
    """Return the folder of a run, whose name is shorter, instead of the report in it."""
    is_in_run = file.name == "metrics.json" and file.with_name("run.json").is_file()
    return file.parent if is_in_run else file
