"""Tables and frames: the numbers of the report, the same columns in every run, and reasons."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import json
import pickle
import re
from html import escape
from pathlib import Path
from typing import Any, Callable

import pytest

import columns
import stage2
from stage2._absent import REASONS
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
    # Between them stand the latencies of the requests of a server.
    all_of = [rows for rows in tables(section(run, "Stages")) if "Stage" in rows[0]]
    times, windows, *floors = all_of
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
            assert row["mean_over_floor"] == pytest.approx(over, abs=0.05 if over >= 2 else 5e-3)


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
    item = r"^\d+\. (.*)\n(?:   - \*\*Gain:\*\* (.*)\n)?   - \*\*Why:\*\* "
    told_by_page = re.findall(item, section(run, "Recommendations"), re.MULTILINE)
    shown = [{"To do": to_do, "Gain": gain} for to_do, gain in told_by_page]
    if not shown:
        assert run.recommendations == []
        assert run.recommendations.absent == "no takeaway calls for one"
        return

    def plain(text: str) -> str:
        text = text.replace("&lt;", "<").replace("&gt;", ">").replace("`", "")
        return re.sub(r"\\(.)", r"\1", text)

    def told(row: stage2.Row) -> str:
        """As the page has it: with its stage in front, unless it begins with a name."""
        if row["stage"] is None:
            return str(row["text"])
        text = row["text"]
        if text[1:2].islower():
            text = text[0].lower() + text[1:]
        return f"In {row['stage']}, {text}"

    assert [told(row) for row in run.recommendations] == [plain(row["To do"]) for row in shown]
    for row, cells in zip(run.recommendations, shown):
        saves = re.search(r"([\d.]+)(?: ± ([\d.]+))? of ([\d.]+) ms per (\w+)", cells["Gain"])
        # What a single kernel loses, only the pages say.
        if re.search("(^|: )not known", cells["Gain"]) or "reaches its roof" in cells["Gain"]:
            assert row["saves_ns"] is None and row["faster"] is None
        elif saves:
            assert row["saves_ns"] / 1e6 == pytest.approx(float(saves[1]), abs=0.011)
            assert row["window_mean_ns"] / 1e6 == pytest.approx(float(saves[3]), abs=0.01)
            assert row["per"] == saves[4]
            if saves[2]:
                assert row["saves_error_ns"] / 1e6 == pytest.approx(float(saves[2]), abs=0.01)
        faster = re.search(r"up to ([\d.]+)x faster", cells["Gain"])
        if faster:
            assert row["faster"] == pytest.approx(float(faster[1]), rel=1e-2)
            assert row["gain"] == f"{row['faster']:.2f}x faster"
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
            r"None: too few samples for causes: (\d+), and (\d+) are needed\. To do: (.*)\.",
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
    assert len(kernels.head()) == 5
    # As in pandas and polars.
    assert kernels.head(-1) == list(kernels)[:-1]
    assert kernels.shape == (386, len(kernels.columns)) and kernels.head(0).shape[0] == 0
    copied = kernels.copy()
    assert isinstance(copied, stage2.Table) and copied == kernels
    assert kernels[-1] == list(kernels)[-1]
    assert kernels["class"] == [row["class"] for row in kernels]
    assert "3 rows" in repr(kernels.head(3))
    if importlib.util.find_spec("pandas"):
        assert kernels.head(2).to_pandas().shape == (2, len(kernels.columns))
    for frame_of in map("to_{}".format, filter(importlib.util.find_spec, LIBRARIES)):
        frame = getattr(kernels, frame_of)(columns=("calls", "stage"))
        assert list(frame.columns) == ["calls", "stage"]
        assert getattr(sample("vllm_sorting"), frame_of)("stages", "stage").shape == (4, 1)
        with pytest.raises(KeyError, match="no column 'grid'; did you mean"):
            getattr(kernels, frame_of)(["grid"])
        with pytest.raises(TypeError, match="a list of names of columns, not 3"):
            getattr(kernels, frame_of)(columns=3)
    with pytest.raises(KeyError, match=r"no column 'grid'; did you mean 'launch\.grid'"):
        kernels["grid"]
    with pytest.raises(KeyError, match="no column 'qqq'; `columns` has all names"):
        kernels["qqq"]
    with pytest.raises(IndexError):
        kernels[99_999]
    copied = pickle.loads(pickle.dumps(kernels))
    assert copied == kernels and copied.columns == kernels.columns


def test_each_column_has_a_description() -> None:
    # Each stands alone: it refers to columns by their names only, not by their order.
    refers = re.compile(
        r"here and below|the (next two|two before|former|latter)|of these, ns|^Of so|is late in\."
    )
    tables = [*(EMPTY.table(name) for name in EMPTY.tables), stage2.Table("metrics")]
    for table in [*tables, stage2.Table("work"), stage2.Table("conditions")]:
        for column, text in table.descriptions.items():
            assert text.endswith(".") and not refers.search(text), (table.name, column, text)


def test_a_rate_can_be_calculated_from_what_its_description_names() -> None:
    run = sample("vllm_sorting")
    said = run.stages.descriptions["tokens_per_s"]
    assert "over their GPU work where that takes longer" in said and "`gpu_work_ns`" in said
    for engine in run.engine_steps:
        tokens = engine["prefill_tokens_mean"] + engine["decode_requests_mean"]
        step_ns = engine["gpu_work_ns"] or engine["timed_ns"] / engine["timed_steps"]
        stage = run.stages.row(stage=engine["stage"])
        assert stage["tokens_per_s"] == pytest.approx(tokens * 1e9 / step_ns, rel=0.01)
        assert stage["steps"] == engine["timed_steps"]
    assert "not shown: tokens_counted, steps, " in str(run.stages)
    # `steps` of an engine are more than those that are timed, which stand beside them.
    assert str(run.engine_steps).splitlines()[1].split()[:3] == ["decode", "757", "744"]


def test_all_shares_are_printed_in_percent() -> None:
    utilisation = sample("vllm_sorting").utilisation
    assert utilisation[0]["mfu_wall"] == pytest.approx(0.00749, rel=0.001)
    for shown in (str(utilisation), repr(utilisation[0]), utilisation._repr_html_()):
        assert "0.75 %" in shown and "0.0075" not in shown and "0.00749" not in shown


def test_what_idle_time_holds_is_said() -> None:
    stages = sample("vllm_sorting").stages
    for kind, text in (("busy", "All GPU work, where it is not split"), ("launch_gaps", "50 us, ")):
        assert text in stages.descriptions[f"window.{kind}_percent"]
    decode = stages.row(stage="decode")
    # As in a report: idle, and what the GPU did for other stages.
    shares = decode["idle_percent"] + decode["window.other_work_percent"]
    idle = decode["gpu_idle_ns"] / decode["gpu_window_ns"] * 100
    assert decode["window.other_work_percent"] > 3 and shares == pytest.approx(idle, abs=0.1)
    for name in ("gpu_idle_ns", "recorded_gpu_idle_ns"):
        assert "worked for another stage" in stages.descriptions[name]


def test_a_heading_or_a_value_leads_to_its_column() -> None:
    kernels = sample("vllm_sorting").kernels
    listed = kernels.where(stage="decode", short="x").absent or ""
    assert len(listed) < 200 and "'nvjet_sm90_tst_" in listed and listed.endswith(" more")
    stages = sample("vllm_sorting").stages
    said: dict[str, str] = {
        "p50": "did you mean 'p50_ns'?",
        "idle %": "did you mean 'idle_percent'?",
        "decode": "it is a value of 'stage'; select rows with `row(stage='decode')`",
        "qqqq": "`columns` has all names: 'stage', 'per', 'p50_ns', ",
        "tokens": "did you mean 'tokens_per_s' or 'tokens_counted' or 'tokens_per_step'?",
    }
    for wrong, what in said.items():
        with pytest.raises(KeyError) as caught:
            stages[wrong]
        assert what in caught.value.args[0]
    # A short word is like many others; what other tools say is known.
    run = sample("vllm_sorting")
    asked = [
        ("kernels", "count", "did you mean 'calls'?"),
        ("kernels", "name", "did you mean 'short' or 'kernel'?"),
        ("kernels", "dur", "did you mean 'total_ns' or 'mean_ns'?"),
        ("kernels", "duration_ns", "did you mean 'total_ns' or 'mean_ns'?"),
        ("requests", "ttft_ms", "did you mean 'first_token_ns'?"),
        ("stages", "timed_steps", "did you mean 'steps'?"),
        ("stages", "nope", ""),
        ("stages", "x", ""),
    ]
    for table, wrong, what in asked:
        for holder in (run.table(table), run.table(table)[0]):
            with pytest.raises(KeyError) as caught:
                holder[wrong]  # type: ignore[index]
            said_now = caught.value.args[0]
            assert said_now.endswith(what) if what else "did you mean" not in said_now
    with pytest.raises(AttributeError, match=r"frames calculate: `to_pandas\(\)\[...\].mean\(\)`"):
        kernels.mean()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="did you mean the column 'total_ns' or 'mean_ns'"):
        kernels.dur()  # type: ignore[attr-defined]
    wrong_keys: list[Any] = [1.5, ["stage", 1], [], None, (0, 1), stages["stage"] == "decode"]
    for key in wrong_keys:
        with pytest.raises(
            TypeError, match=r"a column or a list of names, not .*; `where` selects"
        ):
            stages[key]
    wrong_number: Any = "a"
    with pytest.raises(TypeError, match="n must be an integer, not 'a'"):
        stages.head(wrong_number)


def test_rows_are_selected_by_their_values() -> None:
    run = sample("vllm_sorting")
    assert run.stages.row(stage="decode") is run.stages[0]
    of_decode = run.kernels.where(stage="decode", **{"launch.grid": (132, 1, 1)})
    assert isinstance(of_decode, stage2.Table) and of_decode.columns == run.kernels.columns
    assert list(of_decode) == [
        row for row in run.kernels if row["stage"] == "decode" and row["launch.grid"] == (132, 1, 1)
    ]
    assert of_decode and run.kernels.where(stage="x").shape == (0, len(run.kernels.columns))
    with pytest.raises(ValueError, match="84 rows of 'kernels' have stage='decode'; `where`"):
        run.kernels.row(stage="decode")
    with pytest.raises(ValueError, match="no row of 'stages' has stage='decod'; did you mean 'dec"):
        run.stages.row(stage="decod")
    there = r"the values of 'stage' are 'decode', 'mixed', 'prefill', '\(outside ranges\)'"
    with pytest.raises(ValueError, match=f"no row of 'stages' has stage='zzz'; {there}"):
        run.stages.row(stage="zzz")
    # An empty table says the same where it is printed.
    assert re.search(
        f"no rows: no row has stage='zzz'; {there}", _flat(run.stages.where(stage="zzz"))
    )
    said = {
        "no row has stage='mixed', calls=5": run.kernels.where(stage="mixed", calls=5),
        "calls=-1; the values of 'calls' are 1 to 12112": run.kernels.where(calls=-1),
        "no row meets the condition and has calls=5": run.kernels.where(lambda row: False, calls=5),
        "subject=3; 'subject' is None in all rows": run.findings.where(subject=3),
        "evidence='x'; the values of 'evidence' are (": run.takeaways.where(evidence="x"),
    }
    for text, empty in said.items():
        assert not empty and text in _flat(empty)
    with pytest.raises(ValueError, match="of 'operators' has op_name='x': no operator ranges"):
        run.operators.row(op_name="x")
    with pytest.raises(KeyError, match="did you mean 'stage'"):
        run.stages.row(stag="decode")
    with pytest.raises(TypeError, match="row needs the value of a column: stage="):
        run.stages.row()
    by_number: Any = run.stages.row
    with pytest.raises(TypeError, match=r"`table\[0\]` is a row by its number"):
        by_number(0)
    # A list is a shape as well.
    assert run.kernels.where(stage="decode", **{"launch.grid": [132, 1, 1]}) == of_decode
    with pytest.raises(ValueError, match=r"no row of 'kernels' has launch\.grid=\[1\]"):
        run.kernels.row(**{"launch.grid": [1]})
    # Of other columns, it is any of its values.
    for several in (["decode", "mixed", "x"], {"decode", "mixed"}, ("decode", "mixed")):
        assert run.stages.where(stage=several)["stage"] == ["decode", "mixed"]
    shapes = run.kernels.where(stage="decode", **{"launch.grid": [(132, 1, 1), [1, 1, 1]]})
    assert set(shapes["launch.grid"]) == {(132, 1, 1), (1, 1, 1)}
    assert run.findings.where(subject=[None, 3]) == run.findings
    assert run.steps.where(first=range(3)) == run.steps.where(first=[0, 1, 2]) != []
    # Nothing of its size is made of it.
    assert len(run.kernels.where(calls=range(10**12))) == len(run.kernels)
    for library in filter(importlib.util.find_spec, LIBRARIES):
        column: Any = importlib.import_module(library).Series(["decode", "mixed"])
        assert run.stages.where(stage=column)["stage"] == ["decode", "mixed"]
    with pytest.raises(ValueError, match=rf"has stage=\['x', 'zzz'\]; {there}"):
        run.stages.row(stage=["x", "zzz"])
    with pytest.raises(ValueError, match="2 rows of 'stages' have stage="):
        run.stages.row(stage=["decode", "mixed"])


def test_a_name_that_a_row_lacks_is_explained_as_that_of_a_column() -> None:
    run = sample("vllm_sorting")
    row: Any = run.stages[0]
    with pytest.raises(KeyError, match="the row has no 'cals'; did you mean 'calls'"):
        run.kernels.where(lambda row: row["cals"] > 3)
    with pytest.raises(KeyError, match="has no 'p50'; did you mean 'p50_ns'"):
        row["p50"]
    with pytest.raises(KeyError, match="the row has no 3"):
        row[3]
    assert row.get("p50") is None and "p50" not in row
    with pytest.raises(AttributeError, match=r"a row has no attribute 'p50'; use `row\['p50_ns"):
        assert row.p50
    with pytest.raises(AttributeError, match=r"no attribute 'q'; .* columns: `row\['stage'\]`"):
        assert row.q
    assert "calls" in run.kernels and "cals" not in run.kernels
    assert run.stages[0] in run.stages and run.kernels[0] not in run.stages


def _flat(table: stage2.Table) -> str:
    return " ".join(str(table).split())


def test_columns_are_chosen_by_a_list_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    kernels = sample("vllm_sorting").kernels
    names = ["p99_ns", "stage", "counters.roofline.bound"]
    part = kernels[names]
    assert part.columns == names and list(part[0]) == names and part.shape == (386, 3)
    # All of them are shown in this order, even one without values.
    for table in (part, part.where(stage="mixed"), copy.copy(part), part.sort_by("p99_ns")):
        assert str(table).split()[:3] == ["p99", "stage", "counters.roofline.bound"]
    assert "3 rows, 3 of 3 columns" in str(part.head(3)) and "not shown" not in str(part)
    if importlib.util.find_spec("pandas"):
        assert list(part.to_pandas().columns) == names
    with pytest.raises(KeyError, match="did you mean 'total_ns'"):
        kernels[["stage", "total"]]
    assert (part + kernels).columns[:3] == names
    for name in EMPTY.tables:
        table = sample("vllm_sorting").table(name)
        for column in table.columns:
            some = table[[column]].head(3)
            assert str(some) and some._repr_html_()


def test_what_only_frames_have_leads_to_what_tables_have() -> None:
    kernels: Any = sample("vllm_sorting").kernels
    for name, instead in (
        ("sort_values", "use `sort_by`"),
        ("query", "use `where`"),
        ("tail", r"use `\[-5:\]`"),
        ("groupby", r"use `to_pandas\(\).groupby`"),
        ("describe", r"use `to_pandas\(\).describe`"),
        ("sample", r"if frames have it, use"),
        ("iterrows", "use `for row in table`"),
    ):
        with pytest.raises(AttributeError, match=rf"{instead}.*`to_p(andas|olars)\(\)"):
            getattr(kernels, name)
    calls = kernels["calls"]
    assert calls == list(calls) and max([calls, [1]]) is calls and isinstance(calls, list)
    for change in (
        lambda: calls > 3,
        lambda: calls / 2,
        lambda: calls < calls,
        lambda: calls.sum,
        lambda: calls * 2,
        lambda: calls + 1,
        lambda: 1 / calls,
        lambda: -calls,
    ):
        with pytest.raises(
            (AttributeError, TypeError), match=r"`to_pandas\(\)\['calls'\]` is a col"
        ):
            change()
    assert pickle.loads(pickle.dumps(calls)) == calls
    assert sum(calls) == sum(list(calls)) and len(calls + calls) == 2 * len(calls)


def test_tables_of_the_same_name_can_be_joined() -> None:
    one, other = sample("vllm_sorting").stages, sample("vllm_server").stages
    both = one + other
    assert isinstance(both, stage2.Table)
    assert list(both) == [*one, *other] and both.columns == one.columns
    assert len(one) == 4
    whole = EMPTY.operators + sample("runner").operators
    assert (whole.absent is None) == bool(whole)
    further: Any
    for further in ([{}], sample("vllm_sorting").kernels, None):
        with pytest.raises(
            TypeError, match="only another table 'stages' can be added to the table 'stages', not"
        ):
            one + further


def test_causes_are_named_as_in_the_report() -> None:
    """No row gives a line the time of its whole function."""
    several = 0
    for path in SAMPLES:
        run = stage2.load(path)
        shown = [
            re.sub(r"\\(.)", r"\1", row["What the host did"].replace("`", ""))
            for rows in tables(section(run, "What the GPU waits for"))
            if "Of the idle time (%)" in rows[0]
            for row in rows
            if not row["What the host did"].startswith("\N{EN DASH} of which line")
        ]
        # The table has the file without its folders, and what was called in a column.
        places = [re.sub(r"\((?:[^()]*/)?([^/()]*)\)( in .*)?$", r"(\1)", text) for text in shown]
        # The report leaves out calls that took next to no time.
        causes = iter(run.host_causes["cause"])
        assert all(place in causes for place in places), path
        assert bool(places) == bool(run.host_causes)
        for row in run.host_causes:
            lines = row["lines"] or ()
            if len(lines) > 1:
                several += 1
                assert f"and {len(lines) - 1} more line" in row["cause"]
                assert row["frame.line"] == lines[0]["line"]
                assert row["percent"] == pytest.approx(sum(line["percent"] for line in lines))
    assert several > 20


def test_a_gain_is_of_a_window_and_not_of_a_step() -> None:
    run = sample("vllm_two_gpus")
    prefill = run.stages.row(stage="prefill")
    advice = run.recommendations.where(stage="prefill")[0]
    # Its GPU work ends after the next step has begun.
    assert advice["window_mean_ns"] > 1.05 * prefill["mean_ns"]
    assert "mean_ns" not in advice
    assert "GPU window" in run.recommendations.descriptions["window_mean_ns"]


def test_energy_that_is_not_known_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    energy = sample("vllm_sorting").energy
    why = energy.row(stage="decode")["energy_absent"]
    assert why.startswith(
        "the error of its energy can be 49 % (the limit is 10 %), because the GPU's energy was "
    )
    assert "energy_j" in str(energy).splitlines()[0]
    known = {"energy": [{"stage": "a", "energy_j": {"known": 3.5}}]}
    assert Run(Path("x"), known).energy["energy_absent"] == [None]


def test_each_reason_of_the_schema_has_words() -> None:
    reasons = columns.Schema("metrics").at("Absent")["oneOf"]
    fields = {row["properties"]["reason"]["const"]: row["properties"].keys() for row in reasons}
    assert fields.keys() == REASONS.keys()
    for reason, text in REASONS.items():
        assert set(re.findall(r"\{(\w+)\}", text)) <= fields[reason], reason
    stages = sample("regions").stages
    assert "_" not in "".join(text.partition("(")[0] for text in stages["floor_absent"] if text)


def test_a_run_and_its_tables_stay_as_they_were_read() -> None:
    run = sample("vllm_sorting")
    with pytest.raises(TypeError, match=r"^the report of a run is read-only: `copy\.deepcopy"):
        run.metrics["stages"] = []
    with pytest.raises(AttributeError, match=r"read-only: `list\(run\.stages\)` is a copy"):
        run.stages = []  # type: ignore[misc]
    assert run.stages and pickle.loads(pickle.dumps(run)) == run
    changed = copy.deepcopy(run.metrics)
    changed["stages"] = []
    assert not Run(Path("x"), changed).stages
    wrong: list[Callable[[Any], Any]] = [lambda t: t * 2, lambda t: 2 * t, lambda t: [1] + t]  # noqa: RUF005
    for of in wrong:
        with pytest.raises(TypeError, match=r"^(the table 'stages' is read-|only another table)"):
            of(run.stages)


def test_a_value_that_no_row_has_is_named() -> None:
    stages = sample("vllm_sorting").stages
    some = stages.where(stage=["decode", "mixd"])
    said = "no row has stage='mixd'; did you mean 'mixed'?"
    assert len(some) == 1 and said in str(some) and escape(said) in some._repr_html_()
    assert "no row has" not in str(stages.where(stage=["decode", "mixed"]))


def test_late_ranks_are_those_that_are_late() -> None:
    run = sample("vllm_two_gpus")
    late = [(row["stage"], row["who"]) for row in run.late_ranks]
    assert late == [("decode", "rank 0"), ("mixed", "rank 1"), ("(outside ranges)", "rank 0")]
    assert None not in run.late_ranks["delays.mean_ns"]
    given = [{**row, "delays": None} for row in run.metrics["ranks"]["late"]]
    noise = Run(Path("x"), {"ranks": {**run.metrics["ranks"], "late": given}})
    assert not noise.late_ranks and "by more than noise" in (noise.late_ranks.absent or "")


def test_a_screen_has_what_each_table_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run = sample("vllm_two_gpus")
    head, decode, _, outside, size, _ = str(run.late_ranks).splitlines()
    assert head.split()[:5] == ["stage", "who", "steps.late", "steps.of", "steps.median"], head
    assert decode.split()[:6] == ["decode", "rank", "0", "190", "191", "1.64"], decode
    # It has no steps: so many collectives were late.
    assert head.split()[5] == "delays.collectives" and outside.split()[-1] == "4", outside
    assert size.endswith("headings omit `_ns` and `delays.`"), size
    # What a program was started with can be empty.
    assert re.search(r"^argv +VLLM::EngineCore$", str(run.coverage[0]), re.MULTILINE)
    with pytest.raises(KeyError, match=r"did you mean 'delays\.steps\.median_ns'"):
        run.late_ranks["median"]
    # Two rows of one operation have different communicators.
    rows = [line.split()[:3] for line in str(run.collectives).splitlines()[1:10]]
    assert len({tuple(row) for row in rows}) == 9, rows
    assert ["prefill", "all_reduce", "-"] in rows
    # The time is first, and the ranks are in one order.
    assert str(run.ranks).splitlines()[0].split()[2] == "warm_idle"
    by_stage = {
        stage: [r["rank"] for r in run.ranks.where(stage=stage)] for stage in ("decode", "mixed")
    }
    assert by_stage == {"decode": [0, 1], "mixed": [0, 1]}
    given = [row["rank"] for row in run.metrics["ranks"]["stages"] if row["stage"] == "mixed"]
    assert given == [1, 0], "the report has another order"


def test_operators_do_not_hide_the_stages() -> None:
    stages = sample("runner").stages
    shown = str(stages)
    where = 'stages.where(apart="operator")'
    said = "stages: 3 rows without operators that lie in no stage (25 in all), "
    assert "aten::" not in shown and said in shown and f"others: {where}" in shown
    assert "aten::" not in stages._repr_html_() and said in stages._repr_html_()
    assert len(stages) == 25 and "aten::" in str(stages.where(apart="operator"))
    assert "aten::" in str(stages.where(lambda row: True))
    assert stages.where(stage="no")._repr_html_().startswith("<p>stages: no rows: no row has")
    assert "without" not in str(sample("vllm_sorting").stages)


def test_what_is_no_attribute_or_key_leads_to_what_is_meant() -> None:
    run: Any = sample("vllm_sorting")
    for key, way in (
        ("stages", "`run.stages`"),
        ("x", "`run.stages`"),
        ("kernels", "`run.kernels`"),
    ):
        with pytest.raises(TypeError, match=way):
            run[key]
    with pytest.raises(AttributeError, match=r"`\['p50_ns'\]` gives the list of the col"):
        print(run.stages.p50_ns)
    with pytest.raises(AttributeError, match="did you mean 'columns'"):
        print(run.stages.colums)
    for use in (lambda: run.decode, lambda: run["decode"]):
        with pytest.raises(
            (AttributeError, TypeError), match=r"`run\.stages\.row\(stage='decode'\)`"
        ):
            use()
    with pytest.raises(AttributeError, match=r"no attribute 'summary'; its tables are attributes"):
        print(run.summary)
    with pytest.raises(TypeError, match="not the table 'stages' itself"):
        run.to_pandas(run.stages)
    lines = [{"label": "noise", "text": "none"}]
    change: Any = stage2.Diff({"lines": lines, "verdict": "Changed", "stages": []})
    with pytest.raises(AttributeError, match=r"a Diff has no attribute 'noise'; use `lines\['noi"):
        print(change.noise)
    with pytest.raises(AttributeError, match="'verdic'; did you mean 'verdict'"):
        print(change.verdic)
    with pytest.raises(AttributeError, match="use `metrics`, `work` or `write_html`"):
        print(change.to_pandas)
    assert copy.copy(change).lines == change.lines
    assert not hasattr(run.stages, "__array__")
    assert run.stages._ipython_key_completions_() == run.stages.columns
    assert "sort_by" in dir(run.stages) and not {"append", "sort"} & set(dir(run.stages))


@pytest.mark.parametrize("width", [40, 80, 132])
def test_a_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for path in SAMPLES:
        run = stage2.load(path)
        for name in run.tables:
            table = run.table(name)
            lines = str(table).splitlines()
            assert max(map(len, lines)) <= width, (path, name)
            if not table:
                continue
            end = next(at for at, line in enumerate(lines) if line.startswith(f"{name}: "))
            size, _, left_out = " ".join(lines[end:]).partition("not shown: ")
            shown = int(re.findall(r"(\d+) of \d+ columns", " ".join(size.split()))[0])
            assert shown >= (1 if width == 40 else 2), (path, name)
            if not left_out and width == 40:
                continue
            listed, _, more = left_out.partition(" and ")
            named = listed.split(", ") if listed else []
            assert set(named) <= set(table.columns)
            others = len(named) + int(more.split(" ")[0] if more else 0)
            assert shown + others == len(table.columns), (path, name)


def test_a_wider_terminal_shows_more(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = sample("vllm_sorting").stages
    heads = []
    for width in ("60", "80", "200"):
        monkeypatch.setenv("COLUMNS", width)
        heads.append(str(stages).splitlines()[0].split())
    assert heads[0] == heads[1][: len(heads[0])] and heads[1] == heads[2][: len(heads[1])]
    assert len(heads[0]) < len(heads[1]) < len(heads[2])
    monkeypatch.setenv("COLUMNS", "80")
    kernels = sample("vllm_sorting").kernels
    assert len(str(kernels).splitlines()) == 23 and "20 of 386 rows" in str(kernels)


def test_a_place_that_is_the_same_in_all_rows_is_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    one, two = (sample(name).kernels for name in ("vllm_sorting", "vllm_two_gpus"))
    for shown in (str(one), one._repr_html_()):
        assert "H100" not in shown and "launch.grid" in shown
    for shown in (str(two), two._repr_html_()):
        assert "1 NVIDIA H100" in shown
    # It identifies the rows of this table.
    assert "0 NVIDIA H100" in str(sample("vllm_sorting").devices)


def test_sentences_wrap_and_are_whole_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    advice = sample("vllm_sorting").recommendations
    first = advice[0]["text"]
    assert first.endswith("another process.") and first in advice._repr_html_()
    assert "or move it to another process." in str(advice)
    # In a notebook as on a terminal, the reasons stand below: two columns would not fit.
    why = f"{first}<br><i>why:</i> {advice[0]['why'][:20]}"
    assert why in advice._repr_html_() and ">why</th>" not in advice._repr_html_()
    part = advice[["stage", "why"]]
    assert ">why</th>" in part._repr_html_() and "2 of 2 columns" in str(part)
    assert "  0 NVIDIA H100 80GB HBM3  " in str(sample("vllm_sorting").processes)
    cells = re.findall("<td style='([^']*)'", sample("vllm_sorting").kernels._repr_html_())
    assert cells and all("white-space:nowrap" in style for style in cells)


def test_findings_and_takeaways_show_their_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for path in SAMPLES:
        run = stage2.load(path)
        shown = {
            "findings": ["what", "why", "remedy"],
            "takeaways": ["text", "recommendation"],
            "recommendations": ["text", "why"],
        }
        for name, columns_of in shown.items():
            for first in range(0, 20, 3):
                table = run.table(name)[first : first + 3]
                head, *lines = str(table).splitlines()
                at = head.find(columns_of[0])
                following = head[at:].split()[1:]
                end = head.index(following[0]) if following else None
                # Without the spaces, because words are split where a line has no room for them.
                text = "".join("".join(line[at:end].split()) for line in lines)
                for row in table:
                    for column in columns_of:
                        assert "".join((row[column] or "").split()) in text, (path, name, column)
    # All recommendations fit a screen; the reasons of the first ones are shown if asked for.
    advice = sample("vllm_sorting").recommendations
    assert len(advice) == 4 and len(str(advice).splitlines()) <= 24
    assert "recommendations[:3] also shows why" in str(advice)
    assert "not shown: why, " in str(advice) and "why:" in str(advice[:3])


@pytest.mark.parametrize("width", [40, 48, 80])
def test_lines_break_between_words(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for path in SAMPLES:
        run = stage2.load(path)
        head, *lines = str(run.host_causes).partition("host_causes:")[0].splitlines() or [""]
        causes = "\n".join(line[head.find("cause") :] for line in lines)
        words = re.compile(r"[A-Z]+[a-z]*|[a-z]+")
        assert set(words.findall(causes)) <= set(words.findall(" ".join(run.host_causes["cause"])))
        for shown in (str(run), str(run.takeaways), str(run.findings)):
            assert not re.search(r"\d\n *(%|[mun]?s\b)", shown), shown


def test_numbers_have_the_digits_that_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run = sample("vllm_sorting")
    lines = str(run.host_causes).splitlines()
    causes = [line.split() for line in lines if line.startswith("decode")]
    # Less than it shows, exact, and not known.
    assert causes[7][:4] == ["decode", "0.09", "<0.01", "blocked"]
    assert causes[9][:4] == ["decode", "<0.01", "0.00", "blocked"]
    assert causes[11] == ["decode", "7.44", "-", "unknown"]
    assert run.host_causes[-1]["error_percent"] is None
    assert str(run.recommendations).splitlines()[1].split()[:2] == ["decode", "1.30x"]
    assert str(run.engine_batches).splitlines()[2].split()[1:4] == ["16", "16", "16"]
    row = {"stage": "a", "before": {"ns": 0.2}, "after": {"ns": 1.7}, "change_ns": 1.5}
    _, shown, *_ = str(stage2.Table("work", [row])).splitlines()
    assert shown.split()[1:] == ["<1", "ns", "2", "ns", "+2", "ns"]


def test_names_are_cut_where_they_stay_different(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = sample("vllm_sorting").kernels
    for width in (80, 100, 160):
        monkeypatch.setenv("COLUMNS", str(width))
        head, *lines = str(kernels).splitlines()[:21]
        # Names keep room before the grid, which comes before the mean because two rows are alike.
        assert (
            "launch.grid" in head and "(8, 12, 1)" in str(kernels) and "(8, 8, 1)" in str(kernels)
        )
        assert ("mean" in head) == (width > 100)
        shown = [re.split(" {2,}", line)[1] for line in lines]
        assert any(text.startswith("nvjet_sm90_tst_128x16") and "TNT" in text for text in shown)
        assert len(set(shown)) == len(set(kernels["short"][:20])) == 18
        cut = [text for text in shown if "\N{HORIZONTAL ELLIPSIS}" in text]
        assert min(map(len, cut)) >= (26 if width == 80 else 32)
        assert "\N{HORIZONTAL ELLIPSIS}" * 2 not in str(kernels)
    # In a notebook, a cut name has the whole one as a tooltip, and what is not shown is named.
    html, whole = kernels._repr_html_(), max(kernels["short"][:20], key=len)
    assert f"title='{escape(whole)}'>" in html and html.count(escape(whole)) == 1
    assert re.search("<p>not shown: [^<]*, device and [^<]* more</p>", html)
    # A part has the columns in the order of the whole, also where the grid tells no rows apart.
    monkeypatch.setenv("COLUMNS", "160")
    order = ["stage", "short", "launch.grid", "calls", "total", "mean", "class"]
    attention = kernels.where(**{"class": "attention", "stage": "decode"})[:2]
    for part in (kernels, attention, kernels.sort_by("calls")[:5], kernels[:0] + kernels[:1]):
        assert str(part).splitlines()[0].split()[:7] == order


def test_what_was_asked_for_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    run = sample("vllm_sorting")

    def heads(table: stage2.Table) -> list[str]:
        return str(table).splitlines()[0].split()

    for width in (80, 100):
        monkeypatch.setenv("COLUMNS", str(width))
        asked = run.kernels.sort_by("p99_ns", descending=True)[:3]
        assert heads(asked)[:5] == ["stage", "short", "p99", "calls", "total"]
        assert heads(run.stages.sort_by("idle_percent"))[:4] == ["stage", "per", "idle", "%"]
        assert "calls" in heads(run.kernels.where(calls=[192, 384]))
        assert "cold_calls" in heads(run.kernels.where(calls=192).sort_by("cold_calls"))
    # Rows that look the same otherwise have their grid, also on 80 columns.
    monkeypatch.setenv("COLUMNS", "80")
    decode = run.kernels.where(stage="decode").sort_by("total_ns", descending=True)
    assert heads(decode.head(5)) == ["stage", "short", "calls", "total", "launch.grid"]
    assert "mean" in heads(decode.head(3))


def test_a_row_shows_what_is_known_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run = sample("vllm_sorting")
    row = run.stages.row(stage="decode")
    first, *_, note = lines = str(row).splitlines()
    assert repr(row) == str(row) and len(lines) == 21 and first.split() == ["stage", "decode"]
    shown = {line.split()[0]: line.split(None, 1)[1] for line in lines[:-1]}
    assert shown["p50"] == "4.62 ms" and shown["idle_percent"] == "66.75 %"
    assert shown["tokens_per_s"] == "3,432" and [*shown][:18] == [
        name[:-3] if name.endswith("_ns") else name for name in run.stages.columns[:18]
    ]
    none = sum(value is None for value in row.values())
    size = f"row of stages: 20 of 86 values, {none} None"
    assert note == f"{size}; names omit `_ns`; `dict(row)` has all"
    html = row._repr_html_()  # type: ignore[attr-defined]
    assert "4.62 ms" in html and "20 of 86 values" in html
    # No two names become one.
    both = stage2.Table("stages", [{"outliers": {"of": 1, "of_ns": 2_000}}])[0]
    assert str(both).splitlines()[:2] == ["outliers.of     1", "outliers.of_ns  2.00 us"]
    for name in run.tables:
        for row in run.table(name)[:3]:
            assert max(map(len, str(row).splitlines())) <= 80, row
            assert not re.search(r"  (None|-)$", str(row), re.MULTILINE), row
    cause = str(run.host_causes[0]).splitlines()
    assert cause[1].split() == ["percent", "28.89", "%"]
    # What is in a row, and copies, are dictionaries as before.
    devices = run.stages[0]["devices"]
    assert repr(devices).startswith("({'device': ") and devices[0]._repr_html_() is None
    assert repr(dict(row)).startswith("{'") and json.loads(json.dumps(row)) is not None
    for same in (copy.deepcopy(row), pickle.loads(pickle.dumps(row))):
        assert same == row == dict(row) and str(same) == str(row)


def test_numbers_are_aligned_on_the_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    stages = sample("vllm_sorting").stages
    head, first, second, *_ = repr(stages).splitlines()
    end = head.index("steps") + len("steps")
    assert first[:end].endswith(" 744") and second[:end].endswith("  11")
    html = stages._repr_html_()
    assert re.search("<td style='text-align:right;[^']*'>744</td>", html)
    assert re.search("<td style='text-align:left;[^']*'>decode</td>", html)


def test_a_comparison_is_sorted_by_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    changes = [(-5e6, -54.5, "shorter"), (-9e6, -58.5, "not comparable"), (2e6, 30.0, "longer")]
    work = stage2.Table(
        "work",
        [
            {
                "stage": "decode",
                "name": f"kernel_with_a_long_name_{at}_of_the_library_and_its_template_arguments",
                "before.ns": 10e6,
                "after.ns": 10e6 + change,
                "change_ns": change,
                "change_percent": percent,
                "word": word,
                "verdict": "increased",
                "per": "step",
            }
            for at, (change, percent, word) in enumerate(changes)
        ],
    )
    # What cannot be compared has no change that is shown, and comes last.
    for down, first in ((False, "-5.00 ms"), (True, "+2.00 ms")):
        by_change = work.sort_by("change_ns", descending=down)
        head, row, *_ = str(by_change).splitlines()
        assert " change " in head and first in row
        assert by_change[-1]["word"] == "not comparable"
        assert by_change.sort_by("change_percent")[-1]["word"] == "not comparable"
    assert " change " in str(work.where(verdict="increased").sort_by("change_ns")).splitlines()[0]
    # A share changes by points.
    metrics = stage2.Table(
        "metrics",
        [
            {
                "metric": "idle_percent",
                "unit": "percent",
                "change": 0.4,
                "change_percent": 37_000.0,
            },
            {"metric": "step_ms", "unit": "ms", "change": 1.0, "change_percent": 20.0},
        ],
    )
    by_percent = metrics.sort_by("change_percent", descending=True)
    assert by_percent["metric"] == ["step_ms", "idle_percent"]


def test_a_table_is_sorted_by_columns() -> None:
    kernels = sample("vllm_sorting").kernels
    before = list(kernels)
    by_calls = kernels.sort_by("calls", "total_ns", descending=True)
    assert by_calls.name == "kernels" and by_calls.shape == kernels.shape
    pairs = [(row["calls"], row["total_ns"]) for row in by_calls]
    assert (
        pairs == sorted(pairs, reverse=True) != [(row["calls"], row["total_ns"]) for row in before]
    )
    # What is not known comes last in both directions.
    p99s = [kernels.sort_by("p99_ns", descending=down)["p99_ns"] for down in (False, True)]
    for values in p99s:
        known = [value for value in values if value is not None]
        assert 0 < len(known) < len(values) and values[: len(known)] == known
    assert p99s[0][0] < p99s[1][0]
    with pytest.raises(KeyError, match="did you mean 'total_ns'"):
        kernels.sort_by("total")
    with pytest.raises(KeyError, match=r"by `sort_by\('total_ns', descending=True\)`"):
        kernels.sort_by("-total_ns")
    assert kernels.sort_by(["stage", "total_ns"]) == kernels.sort_by("stage", "total_ns")
    with pytest.raises(TypeError, match="needs the name of a column"):
        kernels.sort_by()
    with pytest.raises(TypeError, match="needs the name of a column"):
        kernels.sort_by([])
    assert kernels == before
    # As frames take it.
    unlike: Any = kernels.sort_by
    for call in (
        lambda: unlike("total_ns", True),
        lambda: unlike("total_ns", ascending=False),
        lambda: unlike("total_ns", reverse=True),
        lambda: unlike("total_ns", kernels["calls"]),
    ):
        with pytest.raises(TypeError, match=r"use `sort_by\('total_ns', descending=True\)`"):
            call()
    with pytest.raises(TypeError, match=r"not <function .*: use `sort_by"):
        unlike(lambda row: row["calls"])
    with pytest.raises(TypeError, match="one value for all columns"):
        unlike("stage", "calls", descending=[True, False])
    with pytest.raises(TypeError, match=r"^descending must be True or False, not 'yes'$"):
        unlike("calls", descending="yes")


def test_rows_are_chosen_by_a_function() -> None:
    kernels: Any = sample("vllm_sorting").kernels
    frequent = kernels.where(lambda row: row["calls"] > 5_000, stage="decode")
    assert {row["stage"] for row in frequent} == {"decode"} and min(frequent["calls"]) > 5_000
    expected = [row for row in kernels if row["stage"] == "decode" and row["calls"] > 5_000]
    assert list(frequent) == expected != list(kernels)
    with pytest.raises(TypeError, match=r"None \(not known\) in some row; write `where\(lambda r"):
        kernels.where(lambda row: row["p99_ns"] > 5)
    assert kernels.where(lambda row: row["p99_ns"] is not None and row["p99_ns"] > 5)
    with pytest.raises(TypeError, match=r"\(stage=\.\.\.\) and functions of a row"):
        kernels.where("decode")
    for table in (kernels, kernels.head(0)):
        with pytest.raises(TypeError, match=r"`where\(lambda row: row\['calls'\] \.\.\.\)`"):
            table.where(calls=lambda calls: calls > 100)


def test_a_heading_leads_to_its_column() -> None:
    stages: Any = sample("vllm_sorting").stages
    with pytest.raises(AttributeError, match=r"`\['p50_ns'\]` gives the list"):
        stages.p50  # noqa: B018
    with pytest.raises(KeyError, match="did you mean 'p50_ns'"):
        stages["p50"]
    causes = sample("vllm_sorting").host_causes
    assert str(causes).split()[:5] == ["stage", "idle", "%", "error", "%"]
    for heading in ("%", "idle %"):
        with pytest.raises(KeyError, match="did you mean 'percent'"):
            causes[heading]


def test_a_table_is_read_only() -> None:
    stages: Any = sample("vllm_sorting").stages
    before = list(stages)

    def add() -> None:
        table = stages
        table += before

    def delete() -> None:
        del stages[0]

    changes: list[Callable[[], Any]] = [
        lambda: stages.sort(key=len),
        lambda: stages.append({}),
        lambda: stages.extend([{}]),
        lambda: stages.insert(0, {}),
        lambda: stages.remove(before[0]),
        stages.clear,
        stages.pop,
        stages.reverse,
        lambda: stages.__setitem__(0, {}),
        add,
        delete,
    ]
    for change in changes:
        with pytest.raises(TypeError, match=r"'stages' is read-only: `sort_by\('stage'\)` returns"):
            change()
    evidence = sample("vllm_sorting").takeaways[0]["evidence"][0]
    for row in (stages[0], stages[:1][0], stages.copy()[0], copy.deepcopy(stages)[0], evidence):
        for change in (
            lambda row=row: row.__setitem__("stage", "x"),
            lambda row=row: row.update(stage="x"),
            lambda row=row: row.pop("stage"),
        ):
            with pytest.raises(TypeError, match=r"rows of a table are read-only: `dict\(row\)` is"):
                change()
    mine = dict(stages[0])
    mine["p50_ns"] = 1
    assert type(mine) is type(stages[0].copy()) is dict and stages[0]["p50_ns"] > 1
    assert json.loads(json.dumps(stages[0]))["stage"] == "decode"
    with pytest.raises(TypeError, match=r"`sort_by\('p50_ns'\)` returns"):
        stages.sort("p50_ns")
    assert stages == before
    for same in (copy.copy(stages), copy.deepcopy(stages), pickle.loads(pickle.dumps(stages))):
        assert (same, same.name, same.columns) == (stages, "stages", stages.columns)
    with pytest.raises(IndexError, match="the table 'stages' has 4 rows, and no row 99"):
        stages[99]


def test_columns_have_groups() -> None:
    kernels = stage2.load(SAMPLES[0]).kernels
    groups = kernels.groups
    assert groups["launch"][0] == "launch.grid" and "counters.flops.fp16" not in groups[""]
    assert sorted(name for names in groups.values() for name in names) == sorted(kernels.columns)
