"""Answer five questions about a dataset of runs in DuckDB, Polars, Spark or Dask.

    python ask.py ENGINE DATASET [QUESTION...] [--workers N] [--spark URL]

DATASET is what `stage2-launch export RUN_DIR... -f parquet -o DATASET` wrote. QUESTION is the name
of a `.sql` file beside this one, which DuckDB and Spark run as it is; Polars and Dask, which have
no such SQL, have the same five below. Spark and Dask use N worker processes of this machine,
or the cluster at URL.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
QUESTIONS = sorted(file.stem for file in HERE.glob("*.sql"))

#: Tables in folders of host, rank and hour; those that a report gives have only that of the job.
RECORDS = ("kernels", "requests")
CONCLUSIONS = ("rank_stages", "late_ranks", "idle_causes")

Rows = list[tuple[Any, ...]]
Ask = Callable[[str], Rows]


def tables(dataset: Path) -> list[str]:
    """Return the tables that the dataset has: one without rows has no folder."""
    return [name for name in RECORDS + CONCLUSIONS if (dataset / name).is_dir()]


def question(name: str) -> str:
    """Return the SQL of a question."""
    return (HERE / f"{name}.sql").read_text()


def table_of(name: str) -> str:
    """Return the table that a question reads."""
    return next(t for t in RECORDS + CONCLUSIONS if f"FROM {t}\n" in question(name))


@contextmanager
def duckdb(dataset: Path, workers: int, url: str | None) -> Iterator[Ask]:
    """Run the SQL in this process."""
    import duckdb as engine

    connection = engine.connect()
    for table in tables(dataset):
        glob = str(dataset / table / "**" / "*.parquet").replace("'", "''")
        connection.execute(
            f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{glob}', hive_partitioning = true)"
        )
    yield lambda name: connection.sql(question(name)).fetchall()
    connection.close()


@contextmanager
def spark(dataset: Path, workers: int, url: str | None) -> Iterator[Ask]:
    """Run the SQL in a cluster of worker processes."""
    import pyspark
    from pyspark.sql import SparkSession

    # Where it comes from pip, the programs of the workers are in the package.
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    master = url or f"local-cluster[{workers},1,1024]"
    builder = SparkSession.builder.master(master).appName("stage2")
    options = {
        # A thousand ranks are more than a thousand folders: Spark would start a task for each.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    }
    if not url:
        # These processes live for a minute, which would go to compiling Spark well.
        java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        options |= {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": java,
            "spark.executor.extraJavaOptions": java,
            "spark.executor.memory": "1g",
            "spark.sql.shuffle.partitions": str(2 * workers),
        }
    for key, value in options.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for table in tables(dataset):
        session.read.parquet(str(dataset / table)).createOrReplaceTempView(table)
    try:
        yield lambda name: [tuple(row) for row in session.sql(question(name)).collect()]
    finally:
        session.stop()


@contextmanager
def polars(dataset: Path, workers: int, url: str | None) -> Iterator[Ask]:
    """Answer with expressions, in this process."""
    import polars as pl

    def ask(name: str) -> Rows:
        glob = str(dataset / table_of(name) / "**" / "*.parquet")
        table = pl.scan_parquet(glob, hive_partitioning=True)
        if name == "kernel_time":
            sums = table.group_by("job", "stage", "class").agg(
                pl.len().alias("kernels"), pl.col("duration_ns").sum().alias("total_ns")
            )
            frame = sums.sort(
                "job", "total_ns", "stage", "class", descending=[False, True, False, False]
            )
        elif name == "slowest_ranks":
            known = table.filter(
                pl.col("rank").is_not_null() & pl.col("host_warm_median_ns").is_not_null()
            )
            fastest = pl.col("host_warm_median_ns").min().over("job", "run", "stage")
            behind = (pl.col("host_warm_median_ns") - fastest).alias("behind_ns")
            frame = known.with_columns(behind).select(COLUMNS[name])
        elif name == "request_latency":
            done = table.filter(pl.col("first_token_ns").is_not_null() & (pl.col("aborted") == 0))
            first = pl.col("first_token_ns").sort()
            at = {p: first.get((pl.len() * p + 99) // 100 - 1) for p in (90, 99)}
            middle = first.get((pl.len() - 1) // 2) + first.get(pl.len() // 2)
            frame = (
                done.group_by("job")
                .agg(
                    pl.len().alias("requests"),
                    (middle // 2).alias("p50_ns"),
                    *(place.alias(f"p{p}_ns") for p, place in at.items()),
                    pl.col("first_token_ns").max().alias("max_ns"),
                    pl.col("total_ns").max().alias("max_total_ns"),
                )
                .sort("job")
            )
        else:
            frame = table.select(COLUMNS[name])
        return frame.collect().rows()

    yield ask


@contextmanager
def dask(dataset: Path, workers: int, url: str | None) -> Iterator[Ask]:
    """Answer with data frames, in a cluster of worker processes."""
    import dask.dataframe as dd
    import pyarrow as pa
    from distributed import Client, LocalCluster

    def ask(name: str) -> Rows:
        table = table_of(name)
        # Where no process has a rank, pyarrow cannot tell the type of the column.
        kinds = [("job", pa.string())]
        if table in RECORDS:
            kinds += [("host", pa.string()), ("rank", pa.int64()), ("hour", pa.int64())]
        partitioning = {"flavor": "hive", "schema": pa.schema(kinds)}
        frame = dd.read_parquet(
            str(dataset / table), dataset={"partitioning": partitioning}, aggregate_files=True
        )
        if name == "kernel_time":
            keys = ["job", "stage", "class"]
            sums = (
                frame.astype({"job": "string"}).groupby(keys)["duration_ns"].agg(["count", "sum"])
            )
            return [(*key, *map(int, row)) for key, row in zip(*split(sums.compute()), strict=True)]
        # The rest is small: a row for each rank and stage, or for each request.
        whole = frame.compute()
        if name == "slowest_ranks":
            whole = whole[whole["rank"].notna() & whole["host_warm_median_ns"].notna()]
            groups = whole.groupby(["job", "run", "stage"], observed=True)["host_warm_median_ns"]
            whole = whole.assign(behind_ns=whole["host_warm_median_ns"] - groups.transform("min"))
        if name == "request_latency":
            whole = whole[whole["first_token_ns"].notna() & (whole["aborted"] == 0)]
            rows = []
            for job, of in whole.groupby("job", observed=True):
                times = sorted(map(int, of["first_token_ns"]))
                at = [times[(len(times) * p + 99) // 100 - 1] for p in (90, 99)]
                middle = (times[(len(times) - 1) // 2] + times[len(times) // 2]) // 2
                rows.append((job, len(times), middle, *at, times[-1], int(of["total_ns"].max())))
            return rows
        whole = whole[COLUMNS[name]].astype(object)
        return list(whole.where(whole.notna(), None).itertuples(index=False, name=None))

    def split(sums: Any) -> tuple[list[Any], list[Any]]:
        return list(sums.index), list(sums.itertuples(index=False, name=None))

    if url:
        with Client(url):
            yield ask
    else:
        local = LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
        )
        with local as cluster, Client(cluster):
            yield ask


#: What the questions that only choose columns give, in their order.
COLUMNS = {
    "slowest_ranks": [
        "job", "run", "stage", "host", "rank", "instances", "host_warm_median_ns", "gpu_busy_ns",
        "waiting_ns", "behind_ns",
    ],
    "late_collectives": [
        "job", "run", "stage", "host", "rank", "collectives", "late_collectives", "late_total_ns",
        "late_max_ns", "delays", "delay_total_ns", "range_path",
    ],
    "idle_causes": [
        "job", "run", "stage", "cause", "line", "percent", "error_percent", "idle_ns",
    ],
}  # fmt: skip

ENGINES = {"duckdb": duckdb, "polars": polars, "spark": spark, "dask": dask}


def answers(
    engine: str, dataset: Path, names: list[str], workers: int = 2, url: str | None = None
) -> dict[str, Rows]:
    """Return the rows of each question that the dataset has a table for."""
    known = tables(dataset)
    with ENGINES[engine](dataset, workers, url) as ask:
        return {name: ask(name) for name in names if table_of(name) in known}


def main() -> int:
    """Print the answers, a line of JSON for each row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("questions", nargs="*", metavar="QUESTION", default=QUESTIONS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--spark", metavar="URL", help="a cluster that runs already")
    arguments = parser.parse_args()
    unknown = set(arguments.questions) - set(QUESTIONS)
    if unknown:
        parser.error(f"there are {', '.join(QUESTIONS)}; not {', '.join(sorted(unknown))}")
    found = answers(
        arguments.engine, arguments.dataset, arguments.questions, arguments.workers, arguments.spark
    )
    for name in arguments.questions:
        print(f"# {name}")
        for row in found.get(name, []):
            print(json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
