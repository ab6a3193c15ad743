"""Loads the measurements of a run as tables and Python values."""

from __future__ import annotations

import json
import os
import re
import shlex
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Mapping, NoReturn, Sequence

from ._layout import LayoutError, with_kernel_rows, with_timelines
from ._show import lines_html, visible, wrapped
from ._sources import SOURCES, table_of
from ._tables import Table, TableError, close_to

if TYPE_CHECKING:
    import pandas
    import polars

SCHEMA = "stage2.report"
SCHEMA_VERSIONS = (1, 2)
_FILE = "metrics.json"
_TIMELINES = "timelines.json"
_OF_A_RUN = ("run.json", "collector")
_MAX_BYTES = 2**30
_LATEST = "tmp/stage2/latest"
_NAMED_STAGES = 6
_NAMED_RUNS = 4


class RunError(ValueError):
    """A run cannot be read. The message names the run, the reason and the remedy."""


class _Report(Dict[str, Any]):
    """The content of a report: read-only, because the tables of a run are made from it."""

    if not TYPE_CHECKING:

        def _refuse(self, *_values: Any, **_options: Any) -> NoReturn:
            """Raise a TypeError: a report is read-only."""
            raise TypeError(
                "the report of a run is read-only: `copy.deepcopy(run.metrics)` is a copy that you "
                "can change"
            )

        clear = pop = popitem = setdefault = update = _refuse
        __delitem__ = __ior__ = __setitem__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy it as a dictionary that can be changed."""
        return dict, (dict(self),)


class Run:
    """The measurements of a run: `metrics.json` of its folder, and `timelines.json` next to it.

    Each table of `tables` is a property, for instance `stages`: a `Table`, which is a list of
    dictionaries with `to_pandas()` and `to_polars()`. Units end the names of the columns: `_ns`
    (integer nanoseconds), `_percent`, `_bytes`. None means "unknown"; it never stands for 0. The
    `absent` of a table without rows gives the reason. Two runs are equal if they were read from the
    same file, with the same content.

    Raises:
        RunError: From any table, if its part of the file has an unexpected form.

    """

    def __init__(self, path: Path, metrics: dict[str, Any]) -> None:
        """Create a run from the content of its files; use `load` to read them."""
        self.path = path
        """The file that it was read from."""
        self.metrics: dict[str, Any] = _Report(metrics)
        """All of the report: `metrics.json`, with an object for each row of its table of kernels,
        and with what `timelines.json` holds (`step_timelines`, and `sampled` of kernels). It is
        read-only; `copy.deepcopy` makes a copy that you can change."""
        self._read: dict[str, Table] = {}

    def __eq__(self, other: object) -> bool:
        """Tell whether the other one is the same file, read with the same content."""
        if not isinstance(other, Run):
            return NotImplemented
        return self.path.resolve() == other.path.resolve() and self.metrics == other.metrics

    def __hash__(self) -> int:
        """Return a hash of the file's path."""
        return hash(self.path.resolve())

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Name the attributes that are similar to one that does not exist."""
            public = [known for known in dir(type(self)) if not known.startswith("_")]
            hint = self._of_stage(name) or close_to(name, public)
            hint = hint or "; its tables are attributes, such as `run.stages` (`run.tables`)"
            error = AttributeError(f"a Run has no attribute {name!r}{hint}")
            # Otherwise, tracebacks of Python 3.10 and later add their own suggestion.
            error.obj = self
            raise error

        def __setattr__(self, name: str, value: object) -> None:
            """Refuse to replace a table."""
            if name in SOURCES:
                raise AttributeError(
                    f"the tables of a run are read-only: `list(run.{name})` is a copy that you can "
                    "change"
                )
            super().__setattr__(name, value)

        def __getitem__(self, name: object) -> NoReturn:
            """Raise an error that explains how to get a table."""
            which = f"run.{name}" if isinstance(name, str) and name in SOURCES else "run.stages"
            hint = self._of_stage(name) or (
                f": its tables are attributes, such as `{which}`; `run.metrics` is the dictionary "
                "of the whole report"
            )
            raise TypeError(f"a Run takes no [{name!r}]{hint}")

        def _of_stage(self, name: object) -> str:
            """Return how to get what has the name of a stage."""
            stages = self.__dict__.get("metrics", {}).get("stages")
            rows = stages if isinstance(stages, list) else []
            is_stage = any(isinstance(row, dict) and row.get("stage") == name for row in rows)
            return f"; `run.stages.row(stage={name!r})` is that stage" if is_stage else ""

    def __repr__(self) -> str:
        """Name the file, the stages and what is missing."""
        try:
            ranges = [row for row in self.stages if row["apart"] != "operator"] or self.stages
            names = [visible(row.get("stage")) for row in ranges[:_NAMED_STAGES]]
            others = len(self.stages) - len(names)
            stages = ", ".join([*names, *([f"and {others} more"] if others else [])])
        except RunError as error:
            stages = visible(error)
        marks = "".join(f"; {mark}" for mark in self._marks())
        return f"<stage2.Run {self.path}: {stages or 'no stages'}{marks}>"

    def __str__(self) -> str:
        """Return the first screen of the report, wrapped at the width of the terminal."""
        return wrapped(self._lines()) or repr(self)

    def _repr_html_(self) -> str:
        """Show the answer, what is missing and the stages in a notebook."""
        head = f"<p><b>{escape(str(self.path))}</b></p>{lines_html(self._lines())}"
        try:
            return head + self.stages._repr_html_()
        except RunError as error:
            return f"{head}<p>{escape(visible(error))}</p>"

    def _lines(self) -> list[tuple[str, str]]:
        """Return a fact in each line, or the answer in full, with what is missing in neither."""
        answer = self.answer
        lines = answer.get("short") or answer.get("lines")
        rows = [row for row in lines if isinstance(row, dict)] if isinstance(lines, list) else []
        shown = [(visible(row.get("label")), visible(row.get("text"))) for row in rows]
        told = " ".join(text for _, text in shown)
        notes = [mark for mark in self._marks() if mark not in told]
        return [*shown, *(("note", mark) for mark in notes)]

    def _marks(self) -> list[str]:
        """Return warnings about the numbers: a simulated GPU, missing records."""
        marks = ["simulated GPU"] if self.metrics.get("simulated") else []
        coverage = self.metrics.get("coverage")
        verdict = coverage.get("verdict") if isinstance(coverage, dict) else None
        if isinstance(verdict, dict) and verdict.get("status") != "complete":
            marks.append(visible(verdict.get("text")))
        return marks

    @property
    def answer(self) -> Mapping[str, Any]:
        """The answer: `short` (what `print` shows), `lines` (the same in full), `stages`, `first`.

        Empty if the run has none. Times that were calculated, such as floors, have fractions.
        """
        answer = self.metrics.get("answer")
        return answer if isinstance(answer, dict) else {}

    @property
    def stages(self) -> Table:
        """One row for each stage: those of the workload first, by their kernel time.

        `p50_ns`, `p99_ns` (None: of fewer than 100 steps), `max_ns` and `mean_ns` are times of a
        step, call or token, which `per` names, without the cold first call. `steps` is how many
        steps or calls were timed. `tokens_per_s` counts the tokens that `tokens_counted` names,
        over the timed steps, or over their GPU work where that takes longer (`gpu_work_ns` in
        `engine_steps`). `floor_ns` is the least time that the GPU needs for it.
        `idle_percent` and the columns in `window` are shares of the windows of warm calls.

        `gpu_window_ns`, `gpu_busy_ns` (any GPU work ran) and `kernel_sum_ns` (kernels that overlap
        count in full) are sums over all `instances`, the cold ones included, and those in `warm`
        over the warm ones. PyTorch operators that lie in no stage have rows, too (`apart` is
        `operator`); `print` counts them instead of showing them. Of a sampled run, the sums over
        all instances are estimates: what was recorded, scaled by `instances` /
        `recorded_instances`. The columns that begin with `recorded_` are not scaled.
        """
        return self.table("stages")

    @property
    def recommendations(self) -> Table:
        """One row for each recommendation, in the order of the report.

        `saves_ns` is the most that it can save of `window_mean_ns`, the mean GPU window of a step,
        call or token (`per`), and `saves_error_ns` is its standard error where it is an estimate.
        If it is None, only the share of the time that it affects is known (`concerns_percent`);
        report.html also gives the loss of a single kernel.
        Gains can overlap. `window_mean_ns` differs from `mean_ns` in `stages`: a window lasts until
        the GPU work of the step has ended, which can be after the next step has begun.
        """
        return self.table("recommendations")

    @property
    def kernels(self) -> Table:
        """One row for each range, kernel, launch configuration and device.

        `total_ns` is the sum of `calls` GPU times (None: none of them is known). Overlapping
        kernels count in full, so a sum is not a wall time. `launch.grid` and `launch.block` are
        tuples (x, y, z). `mangled` is the symbol, `short` a readable name. Columns that begin with
        `counters.` come from ncu or from samples; `sources.counters` names the source. In a sampled
        run, `calls` and `total_ns` are scaled to all instances, and `recorded_calls` is not.
        """
        return self.table("kernels")

    @property
    def operators(self) -> Table:
        """One row for each operator of PyTorch (`--annotate torch-ops`), without warm-ups.

        `gpu_inclusive_ns` is the sum of the GPU times of all work launched within its `calls`.
        """
        return self.table("operators")

    @property
    def ranks(self) -> Table:
        """One row for each stage and rank, in the order of the ranks.

        `warm_idle.ns` is the time of its `warm_idle.instances` warm calls in which its GPUs did not
        work. `waiting_ns` is the time in its collectives before the last rank arrived, and
        `transfer_ns` the time from then on. `communication_ns` adds up all communication kernels.
        In a sampled run, all sums are scaled to all instances.
        """
        return self.table("ranks")

    @property
    def late_ranks(self) -> Table:
        """One row for each stage and rank that was late by more than noise.

        The rank was late in `delays.steps.late` of `delays.steps.of` steps, by
        `delays.steps.median_ns` in the median one (None: the stage has no steps, and
        `delays.collectives` is the number of collectives that it held up). `late_total_ns` is the
        sum over `late_collectives` of its `collectives`. `metrics["ranks"]["late"]` also has the
        ranks that are late by no more than noise.
        """
        return self.table("late_ranks")

    @property
    def collectives(self) -> Table:
        """One row for each stage, operation and communicator.

        `calls` counts each member: a collective of two ranks is two calls. `time_ns` adds up the
        calls, each from its first kernel's start to its last kernel's end. For `matched_calls`,
        which all ranks recorded, `waiting_ns` is the time before the last rank arrived, and
        `transfer_ns` the time from then on.
        """
        return self.table("collectives")

    @property
    def steps(self) -> Table:
        """Host time of the steps of each stage, in order.

        A row covers `steps` consecutive steps, starting with number `first`. Steps that are not
        timed are left out: in an engine, the one before a step that only starts new requests.
        """
        return self.table("steps")

    @property
    def timelines(self) -> Table:
        """What happened in the median step of each stage.

        `kind` is `range` (of the host), `work` (of the GPU, in a `lane`) or `gap` (the GPU was
        idle). `start_ns` counts from the beginning of the step.
        """
        return self.table("timelines")

    @property
    def host_causes(self) -> Table:
        """What the host did while the GPU was idle, one row for each stage and cause.

        `percent` is the share of `idle_ns` of the stage, and `error_percent` its standard error in
        percentage points. `cause` is the name in the report. A function is one row: `frame.line` is
        the line with most of its time, and `lines` has the share of each. `stack` is a tuple of
        frames, outermost first.
        """
        return self.table("host_causes")

    @property
    def engine_steps(self) -> Table:
        """Steps of an inference engine, with one row for each stage.

        `p50_ns` and `p99_ns` are host times of a step, over `timed_steps` of all `steps`. (In the
        table `stages`, `steps` are the timed ones.) `decode_context_mean` is in tokens, and
        `tokens_per_s` counts the tokens that `tokens_counted` names.
        """
        return self.table("engine_steps")

    @property
    def requests(self) -> Table:
        """The slowest requests of an inference engine, at most ten.

        `queue_ns`, `first_token_ns` and `token_ns` are host times; `token_ns` is a mean per output
        token. `gpu_ns` is the request's share of the GPU time of its steps. The report keeps no
        other requests: `metrics["engine"]["requests"]` has the percentiles of all, and
        `stage2-launch export -f parquet` has each request.
        """
        return self.table("requests")

    @property
    def coverage(self) -> Table:
        """What was recorded and what is missing, one row for each trace file.

        `metrics["coverage"]["verdict"]` has all of it in one line.
        """
        return self.table("coverage")

    @property
    def findings(self) -> Table:
        """What to know before you use the numbers, with the remedy; the most severe first."""
        return self.table("findings")

    @property
    def stage_kernels(self) -> Table:
        """One row for each stage and kernel, with all its launches.

        `stage_kernel_sum_percent` is its share of the kernel time of the stage.
        """
        return self.table("stage_kernels")

    @property
    def stage_operators(self) -> Table:
        """One row for each stage and operator of PyTorch (`--annotate torch-ops`)."""
        return self.table("stage_operators")

    @property
    def engine_batches(self) -> Table:
        """Steps of an inference engine, one row for each stage and range of batch sizes."""
        return self.table("engine_batches")

    @property
    def paths(self) -> Table:
        """One row for each range: `path` has the names of the ranges around it."""
        return self.table("paths")

    @property
    def layers(self) -> Table:
        """Kernel time of each stage by the part of the model (`part`) and its `module`."""
        return self.table("layers")

    @property
    def copies(self) -> Table:
        """One row for each range, direction and GPU: its memory copies."""
        return self.table("copies")

    @property
    def fills(self) -> Table:
        """One row for each range and GPU: its memory fills (memset)."""
        return self.table("fills")

    @property
    def graph_launches(self) -> Table:
        """One row for each range and CUDA graph that was recorded as a whole."""
        return self.table("graph_launches")

    @property
    def energy(self) -> Table:
        """Energy, power and clocks of the GPUs, one row for each stage.

        `energy_absent` is the reason, in words, if `energy_j` is None.
        """
        return self.table("energy")

    @property
    def utilisation(self) -> Table:
        """MFU and MBU of prefill and decode, as shares from 0 to 1."""
        return self.table("utilisation")

    @property
    def devices(self) -> Table:
        """One row for each GPU, with its properties and its busy time in the whole run."""
        return self.table("devices")

    @property
    def processes(self) -> Table:
        """One row for each process that was recorded, with its rank and its GPUs."""
        return self.table("processes")

    @property
    def takeaways(self) -> Table:
        """What the report concludes from the numbers, with the evidence."""
        return self.table("takeaways")

    def table(self, name: str) -> Table:
        """Return a table by its name, and cache it; `tables` lists the names.

        Raises:
            RunError: There is no such table, or its part of the file has an unexpected form.
            TypeError: The name is not a string.

        """
        if not isinstance(name, str):
            what = f"the table {name.name!r} itself" if isinstance(name, Table) else repr(name)
            raise TypeError(f"the name of a table must be a string, not {what}")
        if name not in SOURCES:
            which = close_to(name, SOURCES) or f"; the tables are: {', '.join(SOURCES)}"
            raise RunError(f"there is no table {name!r}{which}")
        if name not in self._read:
            try:
                self._read[name] = table_of(self.metrics, name)
            except TableError as error:
                raise RunError(f"{self.path} has no table {name!r}: {error}") from error
        return self._read[name]

    @property
    def tables(self) -> dict[str, int]:
        """The names of all tables, with the number of rows that each has in this run."""
        return {name: len(self.table(name)) for name in SOURCES}

    def to_pandas(
        self, table: str = "stages", columns: Sequence[str] | None = None
    ) -> pandas.DataFrame:
        """Return a table as a `pandas.DataFrame`, as `Table.to_pandas` does.

        Raises:
            ImportError: pandas is not installed.
            RunError: There is no such table.

        """
        return self.table(table).to_pandas(columns)

    def to_polars(
        self, table: str = "stages", columns: Sequence[str] | None = None
    ) -> polars.DataFrame:
        """Return a table as a `polars.DataFrame`, as `Table.to_polars` does.

        Raises:
            ImportError: polars is not installed.
            RunError: There is no such table.

        """
        return self.table(table).to_polars(columns)


def load(run: str | os.PathLike[str] = _LATEST) -> Run:
    """Load a run: its folder, its `metrics.json`, or `latest` for `tmp/stage2/latest`.

    Raises:
        RunError: There is no run, or its report is one that this version cannot read.
        TypeError: `run` is not a path.

    """
    if not isinstance(run, (str, os.PathLike)):
        what = "a Run, which is loaded already" if isinstance(run, Run) else repr(run)
        raise TypeError(f"run must be a path (str or os.PathLike), not {what}")
    if not str(run):
        raise RunError("the path of the run is empty: name its folder, or `latest`")
    path, named = Path(run), str(run)
    if named.startswith("baseline:"):
        saved = f"tmp/stage2/baselines/{named.partition(':')[2]}"
        raise RunError(
            f"{run} is a baseline, and only diff and stage2_gate accept one; to load one of its "
            f"runs, name its file: {saved}/*.json"
        )
    if named == "latest" and not path.exists():
        path, named = Path(_LATEST), _LATEST
    folder = path
    windows = sorted(path.glob(f"windows/*/{_FILE}"))
    if path.is_dir():
        path = path / _FILE
    if windows and not path.is_file():
        of_run = ", ".join(str(window.parent) for window in windows)
        raise RunError(f"{named} is a dormant run, which has a folder for each window: {of_run}")
    is_report = path.is_file() and path.suffix == ".json"
    if folder.exists() and not is_report and (folder.parent / _FILE).is_file():
        raise RunError(f"{named} is a part of a run: name the run, {folder.parent}")
    if not path.is_file() and any((folder / name).exists() for name in _OF_A_RUN):
        raise RunError(
            f"{named} holds a run without a report ({_FILE} is missing): write it with "
            f"`stage2-launch report {shlex.quote(str(folder))}`"
        )
    if not path.is_file():
        what = f"has no {_FILE}" if folder.exists() else "does not exist"
        within = sorted(str(file.parent) for file in folder.glob(f"*/{_FILE}"))
        if within:
            more = f" and {len(within) - _NAMED_RUNS} more" if len(within) > _NAMED_RUNS else ""
            raise RunError(
                f"{named} {what}, but holds runs: {', '.join(within[:_NAMED_RUNS])}{more}"
            )
        siblings = [file.parent.name for file in folder.parent.glob(f"*/{_FILE}")]
        like = "" if folder.exists() else close_to(folder.name, siblings)
        if like:
            raise RunError(f"{named} {what}{like}")
        example = named != _LATEST and Path(_LATEST).exists()
        which = f", for instance {_LATEST}" if example else " (`stage2-launch run` makes one)"
        raise RunError(f"{named} {what}: name the folder of a run{which}")
    run_dir = shlex.quote(str(path.parent)) if path.name == _FILE else "RUN_DIR"
    again = f"write it again: stage2-launch report {run_dir}"
    metrics = _read(path, again)
    if not isinstance(metrics, dict) or metrics.get("schema") != SCHEMA:
        raise RunError(f"{path} is not a report of stage2: its `schema` is not {SCHEMA!r}")
    version = metrics.get("schema_version")
    if version not in SCHEMA_VERSIONS:
        raise RunError(
            f"{path} has version {version!r} of the report, and this package reads "
            f"{' and '.join(map(str, SCHEMA_VERSIONS))}: use the stage2 that wrote it, or {again}"
        )
    try:
        metrics = with_kernel_rows(metrics)
    except LayoutError as error:
        raise RunError(f"{path} cannot be understood: {error}; {again}") from error
    timelines = path.with_name(_TIMELINES)
    # Without it, for instance where metrics.json alone was kept, only its tables are empty.
    if path.name == _FILE and timelines.is_file() and version != 1:
        try:
            metrics = with_timelines(metrics, _read(timelines, again))
        except LayoutError as error:
            raise RunError(f"{timelines} does not fit {path}: {error}; {again}") from error
    return Run(path, metrics)


def _read(path: Path, again: str) -> Any:
    """Return what is in a file.

    Raises:
        RunError: It cannot be read, or is not JSON.

    """
    try:
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise RunError(f"{path} has {size} bytes, more than the {_MAX_BYTES} that are read")
        return json.loads(path.read_bytes().decode("utf-8"), parse_constant=_refuse_constant)
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, RunError):
            raise
        what = _fault(error) if size else "is empty"
        is_ours = path.name in (_FILE, _TIMELINES)
        remedy = again if is_ours else "name the folder of a run, or its metrics.json"
        raise RunError(f"{path} {what}; {remedy}") from error


def _refuse_constant(name: str) -> NoReturn:
    """Raise a ValueError: NaN and infinities are not JSON, and no report has any."""
    raise ValueError(name)


def _fault(error: ValueError | RecursionError) -> str:
    """Return why a text is not JSON, as the command line states it."""
    if isinstance(error, json.JSONDecodeError):
        # Also within a number or a word.
        is_at_end = re.fullmatch(r"[\w.+-]*\s*", error.doc[error.pos :]) is not None
        is_cut = error.msg.startswith("Unterminated") or is_at_end
        return "is truncated" if is_cut else f"is not valid JSON (line {error.lineno})"
    is_cut = isinstance(error, UnicodeDecodeError) and error.reason == "unexpected end of data"
    return "is truncated" if is_cut else "is not valid JSON"
