"""The folder of a run -> what it measured, as Python values or as tables."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Iterator, Mapping

SCHEMA = "stage2.report"
SCHEMA_VERSION = 1
_FILE = "metrics.json"
_MAX_BYTES = 2**30

Row = Mapping[str, Any]
"""A row of a table by column. Units end the names: `_ns`, `_percent`, `_bytes`. None: not known."""


class RunError(ValueError):
    """A run cannot be read. The text says which, why, and what to do."""


class Run:
    """What a run measured: `metrics.json` of its folder."""

    def __init__(self, path: Path, metrics: dict[str, Any]) -> None:
        """Take what was read; `load` reads it."""
        self.path = path
        """The file that it was read from."""
        self.metrics = metrics
        """All of the report, as `metrics.json` has it."""

    def __repr__(self) -> str:
        """Name the file and the stages."""
        stages = ", ".join(str(row.get("stage")) for row in self.stages)
        return f"<stage2.Run {self.path}: {stages}>"

    @property
    def answer(self) -> Row | None:
        """The answer: `lines`, `stages` and `first`. None: an older stage2-launch wrote the run."""
        answer: Row | None = self.metrics.get("answer")
        return answer

    @property
    def stages(self) -> list[dict[str, Any]]:
        """One row for each stage, for instance `host_warm_mean_ns`: a warm instance on the host."""
        return self._rows("stages")

    @property
    def kernels(self) -> list[dict[str, Any]]:
        """One row for each path, kernel, launch configuration and device.

        `total_ns` is the sum of `calls` GPU times (None: not one of them is known), and `mangled`
        the symbol of the kernel. The times of kernels that overlap are all in their sums: a sum is
        no wall time.
        """
        names = self._rows("kernel_names")

        def mangled(row: Row) -> Any:
            index = row.get("name_index")
            if isinstance(index, int) and 0 <= index < len(names):
                return names[index].get("mangled")
            return None

        return [{**row, "mangled": mangled(row)} for row in self._rows("kernels")]

    def to_pandas(self, table: str = "stages") -> Any:
        """Return a table of the report as a pandas DataFrame: `stages`, `kernels`, `paths`, ...

        Raises:
            ImportError: pandas is not installed.
            RunError: The report has no such table.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError(
                "Run.to_pandas needs pandas, which cannot be imported: pip install pandas"
            ) from error
        return pandas.DataFrame(self._flat(table))

    def kernels_pandas(self) -> Any:
        """Return `kernels` as a pandas DataFrame, as `to_pandas("kernels")` does."""
        return self.to_pandas("kernels")

    def to_polars(self, table: str = "stages") -> Any:
        """Return a table of the report as a polars DataFrame: `stages`, `kernels`, `paths`, ...

        Raises:
            ImportError: polars is not installed.
            RunError: The report has no such table.
        """
        try:
            import polars
        except ImportError as error:
            raise ImportError(
                "Run.to_polars needs polars, which cannot be imported: pip install polars"
            ) from error
        return polars.DataFrame(self._flat(table), infer_schema_length=None)

    def kernels_polars(self) -> Any:
        """Return `kernels` as a polars DataFrame, as `to_polars("kernels")` does."""
        return self.to_polars("kernels")

    def _flat(self, table: str) -> list[dict[str, Any]]:
        """Return the rows with a column for each value: `launch.grid` where the report nests."""
        rows = self.kernels if table == "kernels" else self._rows(table)
        return [dict(_columns(row, "")) for row in rows]

    def _rows(self, table: str) -> list[dict[str, Any]]:
        rows = self.metrics.get(table)
        if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
            return rows
        tables = [name for name, value in self.metrics.items() if isinstance(value, list)]
        raise RunError(
            f"{self.path} has no table {table!r}; its tables: {', '.join(sorted(tables))}"
        )


def _columns(row: Row, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _columns(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            # A cell holds one value.
            yield prefix + name, json.dumps(value)
        else:
            yield prefix + name, value


def load(run: str | os.PathLike[str]) -> Run:
    """Load a run: its folder (for instance `tmp/stage2/latest`), or its `metrics.json`.

    Raises:
        RunError: There is none, or it is no report that this version can read.
    """
    path = Path(run)
    if path.is_dir():
        path = path / _FILE
    again = "write it again: stage2-launch report RUN_DIR"
    if not path.is_file():
        raise RunError(f"{path} is no file: name the folder of a run, e.g. tmp/stage2/latest")
    try:
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise RunError(f"{path} has {size} bytes, more than the {_MAX_BYTES} that are read")
        metrics = json.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, RunError):
            raise
        raise RunError(f"{path} is no whole JSON ({error}); {again}") from error
    if not isinstance(metrics, dict) or metrics.get("schema") != SCHEMA:
        raise RunError(f"{path} is no report of stage2: its `schema` is not {SCHEMA!r}")
    version = metrics.get("schema_version")
    if version != SCHEMA_VERSION:
        raise RunError(
            f"{path} has version {version!r} of the report, and this package reads "
            f"{SCHEMA_VERSION}: use the stage2 that wrote it, or {again}"
        )
    return Run(path, metrics)
