"""Tables and frames: the numbers of the report, the same columns in every run, and reasons."""

from __future__ import annotations

import importlib.util
import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import columns
import stage2
from stage2._run import Run

REPOSITORY = Path(__file__).parents[2]
SAMPLES = sorted((REPOSITORY / "docs/sample").glob("*/metrics.json"))
EMPTY = Run(Path("metrics.json"), {})
LIBRARIES = ["pandas", "polars"]
NONE = "\N{EN DASH}"


def sample(name: str) -> Run:
    return stage2.load(REPOSITORY / "docs/sample" / name)


def section(run: Run, title: str) -> str:
    page = run.path.with_name("report.md").read_text()
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def tables(text: str) -> list[list[dict[str, str]]]:
    found = []
    for lines in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, _, *body = (
            [cell.strip().strip("`") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in lines.splitlines()
        )
        found.append([dict(zip(head, cells)) for cells in body])
    return found


def number(text: str) -> float:
    return float(text.replace(",", "").removesuffix("x"))


def test_the_columns_are_those_of_the_schemas() -> None:
    known = (REPOSITORY / "python/stage2/_columns.json").read_text()
    assert columns.text() == known, "run python3 python/columns.py"
    assert not re.search(r"[A-Z]\w*::\w|\bnull\b", known)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.parent.name)
def test_stages_have_the_numbers_of_the_report(path: Path) -> None:
    run = stage2.load(path)
    rows = {row["stage"]: row for row in run.stages}
    times, windows, *floors = tables(section(run, "Stages"))
    # The steps of a stage stand behind its calls.
    shown = {row["Stage"]: row for row in times}
    assert shown
    compared = [
        ("p50 (ms)", "p50_ns", 1e6),
        ("p99 (ms)", "p99_ns", 1e6),
        ("Mean (ms)", "mean_ns", 1e6),
        ("Std (ms)", "std_ns", 1e6),
        ("Values", "steps", 1),
    ]
    for stage, cells in shown.items():
        for title, column, scale in compared:
            if cells.get(title, NONE) != NONE:
                assert rows[stage][column] / scale == pytest.approx(number(cells[title]), abs=1e-3)
        if cells.get("Longest (ms)", NONE) != NONE:
            assert rows[stage]["max_ns"] / 1e6 == pytest.approx(
                number(cells["Longest (ms)"]), abs=1e-3
            )
            assert rows[stage]["p99_ns"] is None
    for cells in times:
        if cells.get("Tokens/s", NONE) != NONE:
            known = rows[cells["Stage"]]["tokens_per_s"]
            assert known == pytest.approx(number(cells["Tokens/s"]), rel=1e-2)
    for cells in windows:
        row = rows[cells["Stage"]]
        kinds = {"Launch gaps (%)": "launch_gaps", "Other idle (%)": "other_idle"}
        parts = [row[f"window.{kind}_percent"] for kind in kinds.values()]
        if None not in parts:
            shares = [number(cells[title]) for title in kinds]
            assert parts == pytest.approx(shares, abs=0.1)
            assert row["idle_percent"] == pytest.approx(sum(shares), abs=0.2)
    for cells in floors[0] if floors else []:
        row = rows[cells["Stage"]]
        assert row["per"] == cells["Per"]
        if cells["Floor (ms)"] == NONE:
            assert row["floor_ns"] is None and row["floor_absent"]
        else:
            assert row["floor_ns"] / 1e6 == pytest.approx(number(cells["Floor (ms)"]), abs=1e-3)
            over = number(cells["Mean step over the floor"])
            assert row["mean_over_floor"] == pytest.approx(over, abs=1e-3)


def test_a_step_of_several_tokens_has_times_per_token() -> None:
    run = stage2.load(REPOSITORY / "tests/fixtures/reports/moe_small.json")
    row = next(row for row in run.stages if row["stage"] == "decode")
    assert (row["per"], row["tokens_per_step"]) == ("token", 16)
    assert row["p50_ns"] == round(237682913 / 16)
    # Three steps: the 99th percentile is the longest, and called so.
    assert (row["p99_ns"], row["max_ns"]) == (None, round(244485464 / 16))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.parent.name)
def test_recommendations_are_those_of_the_report(path: Path) -> None:
    run = stage2.load(path)
    shown = tables(section(run, "Recommendations"))
    if not shown:
        assert run.recommendations == []
        assert run.recommendations.absent == "no takeaway calls for one"
        return

    def plain(text: str) -> str:
        return re.sub(r"\\(.)", r"\1", text.replace("&lt;", "<").replace("&gt;", ">"))

    assert [row["text"] for row in run.recommendations] == [plain(row["To do"]) for row in shown[0]]
    for row, cells in zip(run.recommendations, shown[0]):
        saves = re.search(r"([\d.]+)(?: ± ([\d.]+))? of ([\d.]+) ms per (\w+)", cells["Gain"])
        if "not known" in cells["Gain"]:
            assert row["saves_ns"] is None and row["faster"] is None
        elif saves:
            assert row["saves_ns"] / 1e6 == pytest.approx(float(saves[1]), abs=0.011)
            assert row["mean_ns"] / 1e6 == pytest.approx(float(saves[3]), abs=0.01)
            assert row["per"] == saves[4]
            if saves[2]:
                assert row["saves_error_ns"] / 1e6 == pytest.approx(float(saves[2]), abs=0.01)
        faster = re.search(r"up to ([\d.]+)x faster", cells["Gain"])
        if faster:
            assert row["faster"] == pytest.approx(float(faster[1]), rel=1e-2)
        tokens = re.search(r"up to ([\d.]+)x the tokens/s", cells["Gain"])
        if tokens:
            assert row["tokens_per_s_factor"] == pytest.approx(float(tokens[1]), rel=1e-2)


def test_sums_of_a_sample_are_of_all_instances() -> None:
    run = sample("server_window")
    decode = run.stages[0]
    assert (decode["instances"], decode["recorded_instances"]) == (1653, 103)
    # As the report has them: 2.23 ms of kernels in the mean call of 3.95 ms.
    assert decode["gpu_busy_ns"] / decode["instances"] == pytest.approx(2.23e6, rel=0.01)
    assert decode["gpu_window_ns"] / decode["instances"] == pytest.approx(3.95e6, rel=0.01)
    assert decode["kernel_sum_ns"] == pytest.approx(decode["gpu_busy_ns"], rel=0.01)
    assert decode["gpu_busy_parts.compute_ns"] == pytest.approx(decode["gpu_busy_ns"], rel=0.01)
    assert decode["devices"][0]["gpu_busy_ns"] == decode["gpu_busy_ns"]
    assert decode["recorded_gpu_busy_ns"] == 229854840
    assert decode["gpu_busy_percent"] == pytest.approx(
        decode["gpu_busy_ns"] * 100 / decode["gpu_window_ns"]
    )
    # Where all was recorded, nothing changes.
    whole = sample("vllm_sorting")
    assert whole.stages["gpu_busy_ns"] == [row["gpu_busy_ns"] for row in whole.metrics["stages"]]
    assert set(whole.stages["recorded_gpu_busy_ns"]) == {None}


def test_the_gpu_times_of_a_rank_in_a_sample_are_of_all_its_instances() -> None:
    stage = {"stage": "a", "instances": 40, "recorded_instances": 10}
    # The report has scaled the kernels.
    row = {"stage": "a", "instances": 20, "gpu_busy_ns": 7, "gpu_idle_ns": None, "kernels": 80}
    run = Run(Path("x"), {"stages": [stage], "ranks": {"stages": [row, {**row, "stage": "b"}]}})
    assert run.ranks["gpu_busy_ns"] == [28, 7]
    assert run.ranks["gpu_idle_ns"] == [None, None]
    assert run.ranks["kernels"] == [80, 80]


def test_a_stage_without_recorded_instances_has_no_gpu_times() -> None:
    stage = {"stage": "a", "instances": 40, "recorded_instances": 0, "gpu_busy_ns": 7}
    row = Run(Path("x"), {"stages": [stage]}).stages[0]
    assert (row["gpu_busy_ns"], row["recorded_gpu_busy_ns"]) == (None, 7)


@pytest.mark.parametrize("path", [*SAMPLES, None], ids=lambda path: path and path.parent.name)
def test_every_empty_table_says_why(path: Path | None) -> None:
    run = EMPTY if path is None else stage2.load(path)
    for name, rows in run.tables.items():
        assert bool(run.table(name).absent) == (rows == 0), name


def test_the_reason_of_missing_host_causes_is_that_of_the_report() -> None:
    for name in ("sampled_counters", "regions"):
        run = sample(name)
        absent = run.host_causes.absent or ""
        told = re.findall(
            r"### `(\w+)`\n\n.*\n\n"
            r"None: (\d+) samples are too few, (\d+) are needed\. To do: (.*)\.",
            section(run, "What the GPU waits for"),
        )
        assert told
        for stage, samples, needed, remedy in told:
            assert f"{stage} {samples}" in absent and f"{needed} are needed" in absent
            assert remedy in absent
    # Its process has no samples at all.
    assert "was not sampled" in (sample("server_window").host_causes.absent or "")

    def absent_of(**host: object) -> str:
        return Run(Path("x"), {"host": host}).host_causes.absent or ""

    busy = {"stage": "a", "samples": 3, "idle_ns": 1, "window_ns": 100}
    assert absent_of(stages=[busy]) == "the GPU is hardly idle in any stage"
    often = {"asked_hz": 1000.0, "off": None}
    few = {**busy, "idle_ns": 90}
    assert absent_of(stages=[few, busy], processes=[often]) == (
        "too few samples of the idle time (a 3), 30 are needed in a stage; record for longer"
    )
    assert absent_of(stages=[], processes=[{"off": "no interpreter"}]) == "no interpreter"
    assert "no sample lies in a stage" in absent_of(stages=[])


def test_the_reason_of_missing_late_ranks_is_what_is_missing() -> None:
    ranks: dict[str, object] = {"stages": [{"stage": "a"}], "collectives": [], "late": []}

    def absent_of(**more: object) -> str:
        return Run(Path("x"), {"ranks": {**ranks, **more}}).late_ranks.absent or ""

    assert absent_of() == "the ranks ran no communication kernels"
    assert "all 4 communication kernels" in absent_of(kernels_left_out=4)
    assert "could be matched" in absent_of(collectives=[{}])
    assert "error of the clocks" in absent_of(collectives=[{}], clock_error_ns=900)


@pytest.mark.parametrize("library", LIBRARIES)
def test_frames_of_any_runs_have_the_same_types(library: str) -> None:
    module: Any = pytest.importorskip(library)
    runs = [EMPTY, *map(stage2.load, SAMPLES)]
    for name in EMPTY.tables:
        frames: list[Any] = [getattr(run, f"to_{library}")(name) for run in runs]
        types = [dict(zip(frame.columns, frame.dtypes)) for frame in frames]
        assert all(list(found.items()) == list(types[0].items()) for found in types), name
        assert types[0], name
        whole = module.concat(frames)
        assert len(whole) == sum(map(len, frames))
        assert list(whole.dtypes) == list(frames[0].dtypes), name


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_values_in_frames_are_those_of_the_table(library: str) -> None:
    pytest.importorskip(library)
    for path in SAMPLES:
        run = stage2.load(path)
        for name in run.tables:
            table, frame = run.table(name), getattr(run, f"to_{library}")(name)
            for column in table.columns:
                types = {type(value) for value in table[column]} - {type(None)}
                if types <= {int, float, bool, str}:
                    values = list(frame[column])
                    nones = [value is None or value != value for value in map(_plain, values)]
                    assert nones == [value is None for value in table[column]], (name, column)
                    known = [value for value in table[column] if value is not None]
                    assert [v for v, none in zip(values, nones) if not none] == known


def _plain(value: object) -> object:
    return None if type(value).__name__ == "NAType" else value


def test_values_of_another_type_than_declared_are_kept() -> None:
    table = stage2.Table("stages", [{"stage": 3, "instances": "many", "x": 2**70, "p50_ns": 2**70}])
    assert table["instances"] == ["many"]
    assert "x" in table.columns
    if importlib.util.find_spec("pandas"):
        frame = table.to_pandas()
        assert frame["instances"][0] == "many" and frame["p50_ns"][0] == 2**70
    if importlib.util.find_spec("polars"):
        assert table.to_polars()["instances"][0] == "many"


def test_objects_in_lists_are_structs_and_values_of_several_types_are_texts() -> None:
    pytest.importorskip("polars")
    frame = sample("vllm_sorting").table("takeaways").to_polars()
    evidence = frame["evidence"][0][0]
    assert set(evidence) == {"name", "value", "unit", "basis", "source", "threshold", "error"}
    assert json.loads(evidence["value"]) > 0
    counters = sample("runner").kernels
    tensor = [value for value in counters["counters.flops.tensor"] if value]
    assert tensor and all(isinstance(value, dict) for value in tensor)


def test_a_part_of_a_table_is_a_table() -> None:
    kernels = sample("vllm_sorting").kernels
    for part in (kernels[:3], kernels.head(3)):
        assert isinstance(part, stage2.Table)
        assert list(part) == list(kernels)[:3]
        assert (part.name, part.columns) == ("kernels", kernels.columns)
    assert len(kernels.head()) == 5 and len(kernels.head(-1)) == 0
    assert kernels[-1] == list(kernels)[-1]
    assert kernels["class"] == [row["class"] for row in kernels]
    assert "3 rows" in repr(kernels.head(3))
    if importlib.util.find_spec("pandas"):
        assert kernels.head(2).to_pandas().shape == (2, len(kernels.columns))
    with pytest.raises(KeyError, match=r"no column 'grid'; did you mean launch\.grid"):
        kernels["grid"]
    with pytest.raises(KeyError, match="no column 'qqq'; `columns` names all"):
        kernels["qqq"]
    with pytest.raises(IndexError):
        kernels[99_999]
    copied = pickle.loads(pickle.dumps(kernels))
    assert copied == kernels and copied.columns == kernels.columns


def test_each_column_has_a_description() -> None:
    for name in EMPTY.tables:
        for column, text in EMPTY.table(name).descriptions.items():
            assert text, (name, column)


def test_numbers_are_aligned_on_the_right() -> None:
    stages = sample("vllm_sorting").stages
    head, first, second, *_ = repr(stages).splitlines()
    end = head.index("steps") + len("steps")
    assert first[:end].endswith(" 744") and second[:end].endswith("  11")
    html = stages._repr_html_()
    assert "<td style='text-align:right;padding:2px 8px'>744</td>" in html
    assert "<td style='text-align:left;padding:2px 8px'>decode</td>" in html
