"""Mark ranges in a workload, record parts of it, and load and compare runs.

    with stage2.annotate("decode", step=3):    # an NVTX range with fields
        ...
    with stage2.profile(schedule=stage2.schedule(wait=5, warmup=1, active=3)) as prof:
        ...                                    # prof.step() after each step
    run = stage2.load("tmp/stage2/latest")     # run.answer, run.stages, run.kernels.to_pandas()
    stage2.diff(before="a", after=run).lines   # what changed
    subprocess.run(command, env=stage2.env())  # the command under the collector

Start with these; `help(stage2.load)` explains one:

    annotate                      marks a range: a context manager or a decorator
    profile, schedule             record the steps that a schedule chooses
    start, stop                   record everything between the two calls; stop returns a Window
    load -> Run                   loads a run; its tables are attributes: `help(stage2.Run.stages)`
    Table                         the rows of a report: where, row, sort_by, to_pandas, to_polars
    diff -> Diff                  compares runs
    env                           an environment that loads the collector
    launcher_path, library_path   the installed files
    RunError, DiffError, InstallError

Modules that begin with `_` are internal. `stage2.pytest_plugin` has the fixture `stage2_gate`.

Times are integers in nanoseconds, and their names end in `_ns`. None means "unknown"; it never
stands for 0.
"""

from ._diff import Diff, DiffError, diff
from ._install import InstallError, env, launcher_path, library_path
from ._profile import Action, Schedule, Window, profile, schedule, start, stop
from ._ranges import annotate
from ._run import Run, RunError, load
from ._tables import Table

__version__ = "0.1.0"

# Tracebacks name them as they are imported.
for _error in (DiffError, InstallError, RunError):
    _error.__module__ = __name__
del _error

__all__ = [
    "Action",
    "Diff",
    "DiffError",
    "InstallError",
    "Run",
    "RunError",
    "Schedule",
    "Table",
    "Window",
    "__version__",
    "annotate",
    "diff",
    "env",
    "launcher_path",
    "library_path",
    "load",
    "profile",
    "schedule",
    "start",
    "stop",
]
