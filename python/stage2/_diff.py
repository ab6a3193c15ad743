"""Compares two sides, each of one or several runs, with `stage2-launch diff`."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Sequence, Union

from ._launch import as_operand, launch
from ._run import Run
from ._tables import Table, TableError, lines_html, visible

_SCHEMA, _SCHEMA_VERSION = "stage2.diff", 1
FAILED = 1
"""The exit status where a condition failed."""

OneRun = Union[str, "os.PathLike[str]", Run]
Side = Union[OneRun, Sequence[OneRun]]


class DiffError(RuntimeError):
    """Runs could not be compared. The text explains why, and what to do."""


class Diff:
    """The changes between two sides: every change is the new value minus the old one."""

    def __init__(self, comparison: dict[str, Any]) -> None:
        """Take a comparison from `stage2-launch diff --json`; use `diff` to make one."""
        self.comparison = comparison
        """All of it, as `--json` has it."""

    def __repr__(self) -> str:
        """Return the lines and the conditions as text."""
        return "\n".join(f"{label}: {text}" for label, text in self._shown())

    def _repr_html_(self) -> str:
        """Show the lines, the conditions and what changed most in a notebook."""
        return lines_html(self._shown()) + self.metrics._repr_html_()

    def _shown(self) -> list[tuple[str, str]]:
        conditions = [
            (visible(row.get("outcome")), visible(row.get("text"))) for row in self.conditions
        ]
        return [*self.lines.items(), *conditions]

    @property
    def lines(self) -> dict[str, str]:
        """The first lines of the comparison, by their labels: `time`, `kernels`, ..."""
        return {visible(row.get("label")): visible(row.get("text")) for row in self._rows("lines")}

    @property
    def metrics(self) -> Table:
        """One row for each stage and metric, with its `unit`; `run` is the whole run.

        `before` and `after` are medians over the runs of a side. `verdict` states whether the
        change exceeds the noise (`increased`, `decreased`). `word` is the word of the pages:
        where the verdict is `none`, it is `within noise` or `not judged`, for instance.
        """
        of_run = [{"stage": "run", **row} for row in self._rows("run")]
        return Table("metrics", [*self._of_stages("metrics"), *of_run])

    @property
    def work(self) -> Table:
        """One row for each stage and kernel, copy, fill or graph; the largest change first.

        Times are nanoseconds per unit, which `per_text` names: a step, a token, an instance.
        """
        return Table("work", self._of_stages("work"))

    @property
    def conditions(self) -> Table:
        """The `outcome` of each condition of `fail_if`, and the reason."""
        return Table("conditions", self._rows("conditions"))

    @property
    def failed(self) -> bool:
        """Whether a condition failed, or could not be evaluated."""
        return any(row.get("outcome") in ("failed", "not_evaluated") for row in self.conditions)

    def _of_stages(self, part: str) -> list[dict[str, Any]]:
        return [
            {"stage": stage.get("stage"), "per_text": stage.get("per_text"), **row}
            for stage in self._rows("stages")
            for row in stage.get(part) or []
        ]

    def _rows(self, part: str) -> list[dict[str, Any]]:
        rows = self.comparison.get(part)
        if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
            return rows
        raise TableError(f"the comparison has no list `{part}`")


def diff(
    before: Side,
    after: Side,
    *,
    fail_if: str | Sequence[str] = (),
    strict: bool = False,
    timeout_s: float = 600,
) -> Diff:
    """Compare runs, as `stage2-launch diff` does; see docs/diff.md for what counts as a change.

    Each side is a run (a folder, a `metrics.json`, a `Run`) or a list of runs. `fail_if` are
    conditions such as `decode.step_ms>+5%`: `Diff.failed` is true if one failed. With `strict`,
    a condition also fails on a change within noise.

    Raises:
        DiffError: The runs cannot be compared, a condition cannot be read, or `timeout_s` is over.
        InstallError: `stage2-launch` is not there.

    """
    words = ["--json", *(["--strict"] if strict else [])]
    words += [*_operands(before), "--against", *_operands(after)]
    done = compare(words, [fail_if] if isinstance(fail_if, str) else fail_if, timeout_s)
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
    return Diff(comparisons[0])


def compare(
    words: Sequence[str], conditions: Sequence[str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run `stage2-launch diff` with these words and conditions; its status is 0 or `FAILED`.

    Raises:
        DiffError: The runs cannot be compared, a condition cannot be read, or `timeout_s` is over.
        InstallError: `stage2-launch` is not there.

    """
    # In one word, because a condition may begin with a dash.
    options = [f"--fail-if={condition}" for condition in conditions]
    try:
        done = launch(["diff", *options, *words], timeout_s)
    except subprocess.TimeoutExpired as error:
        raise DiffError(f"stage2-launch diff took more than {timeout_s} s") from error
    except OSError as error:
        raise DiffError(f"stage2-launch cannot be started: {error}") from error
    if done.returncode not in (0, FAILED):
        raise DiffError(
            f"the runs were not compared (stage2-launch diff ended with {done.returncode}): "
            f"{(done.stdout + done.stderr).strip()}"
        )
    return done


def _operands(side: Side) -> list[str]:
    runs = [side] if isinstance(side, (str, os.PathLike, Run)) else side
    return [as_operand(run.path if isinstance(run, Run) else run) for run in runs]
