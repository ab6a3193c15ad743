"""`stage2.load` and its tables: golden and sample reports, and files that are none."""

from __future__ import annotations

import builtins
import copy
import importlib.util
import json
import pickle
import re
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

import stage2

REPOSITORY = Path(__file__).parents[2]
GOLDEN = REPOSITORY / "launcher/tests/golden/metrics.json"
SAMPLES = REPOSITORY / "docs/sample"
REPORTS = REPOSITORY / "tests/fixtures/reports"


def saved(folder: Path, metrics: object) -> stage2.Run:
    path = folder / "metrics.json"
    path.write_text(json.dumps(metrics))
    return stage2.load(path)


def report(**parts: object) -> dict[str, object]:
    return {"schema": "stage2.report", "schema_version": 1, **parts}


def test_the_version_is_that_of_the_programs() -> None:
    manifest = (REPOSITORY / "Cargo.toml").read_text()
    assert f'version = "{stage2.__version__}"' in manifest


def test_no_name_of_the_package_hides_a_builtin() -> None:
    assert not set(stage2.__all__) & set(dir(builtins))


def test_a_report_of_the_launcher_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_bytes(GOLDEN.read_bytes())
    run = stage2.load(tmp_path)
    assert {"prefill", "decode"} <= {row["stage"] for row in run.stages}
    kernels = run.kernels
    assert sum(row["total_ns"] for row in kernels) > 0
    assert any(row["mangled"].startswith("_ZN7cutlass") for row in kernels)
    assert stage2.load(tmp_path / "metrics.json").metrics == run.metrics


def test_tables_agree_with_the_report() -> None:
    run = stage2.load(SAMPLES / "vllm_two_gpus")
    metrics = run.metrics
    grid = run.kernels[0]["launch.grid"]
    assert (grid, type(grid)) == ((8, 1, 1), tuple)
    assert [row["who"] for row in run.ranks][:2] == ["rank 0", "rank 1"]
    assert sum(row["waiting_ns"] for row in run.collectives) == sum(
        row["waiting_ns"] for row in metrics["ranks"]["collectives"]
    )
    decode = [row for row in run.steps if row["stage"] == "decode"]
    # Those that another one followed at once, as the report counts them.
    assert sum(row["steps"] for row in decode) == 188
    cause = run.host_causes[0]
    assert cause["frame.function"] == "CudaGraphManager.run_fullgraph"
    assert len(cause["stack"]) == 8
    assert any(frame.startswith(cause["frame.function"]) for frame in cause["stack"])
    assert cause["idle_ns"] == metrics["host"]["stages"][0]["idle_ns"]
    work = [row for row in run.timelines if row["kind"] == "work"]
    lanes = [lane for timeline in metrics["step_timelines"] for lane in timeline["lanes"]]
    assert len(work) == sum(len(lane["work"]) for lane in lanes)
    assert {"copy, host to device"} <= {row["name"] for row in work}
    assert [row["stage"] for row in run.engine_steps] == ["decode", "prefill", "mixed"]
    assert run.requests[0]["first_token_ns"] == 70781076
    assert len(stage2.load(REPORTS / "moe_small.json").operators) == 78


def test_a_run_of_many_stages_is_named_in_short() -> None:
    shown = repr(stage2.load(REPORTS / "moe_small.json"))
    assert "decode, warmup, prefill, and " in shown and shown.endswith("and 22 more>")


def test_figures_are_numbers_or_none() -> None:
    run = stage2.load(SAMPLES / "vllm_two_gpus")
    assert run.table("energy")[0]["energy_j"] is None
    rate = run.metrics["utilisation"]["stages"][0]["tokens_per_s"]["known"]
    assert run.table("utilisation")[0]["tokens_per_s"] == rate


def test_a_table_without_rows_says_why() -> None:
    run = stage2.load(SAMPLES / "vllm_two_gpus")
    assert run.operators == []
    assert "--annotate torch-ops" in (run.operators.absent or "")
    assert "--annotate torch-ops" in " ".join(repr(run.operators).split())
    assert "--annotate torch-ops" in run.operators._repr_html_()
    assert "not sampled" in (stage2.load(REPORTS / "llama_1b.json").host_causes.absent or "")
    assert run.kernels.absent is None


def test_a_run_shows_its_answer_and_what_is_missing(tmp_path: Path) -> None:
    run = stage2.load(SAMPLES / "vllm_two_gpus")
    html = run._repr_html_()
    assert "is bound by the host" in html and "mean_over_floor" in html
    metrics = copy.deepcopy(run.metrics)
    metrics["coverage"]["verdict"] = {"status": "partial", "text": "PARTIAL: 3 are lost"}
    metrics["simulated"] = True
    marked = saved(tmp_path, metrics)
    for shown in (str(marked), repr(marked), marked._repr_html_()):
        assert "PARTIAL: 3 are lost" in shown and "simulated" in shown


def test_a_run_prints_a_fact_in_each_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    in_full = [{"label": "verdict", "text": "decode takes 2.15 ms per token"}]
    in_short = [
        {"label": "verdict", "text": "simulated GPU: decode is bound by launches: 1.70 of 2.15 ms"},
        {"label": "first", "text": "use CUDA graphs"},
    ]
    answer = {"lines": in_full, "short": in_short}
    run = saved(tmp_path, report(simulated=True, answer=answer))
    assert str(run).splitlines() == [
        "verdict: simulated GPU: decode is bound by",
        "         launches: 1.70 of 2.15 ms",
        "first:   use CUDA graphs",
    ]
    # What an older version wrote, and what has no steps.
    older = saved(tmp_path, report(simulated=True, answer={"lines": in_full}))
    shown = ["verdict: decode takes 2.15 ms per token", "note:    simulated GPU"]
    assert str(older).splitlines() == shown


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>\n\x1b[31m" + "x" * 5000
    stage = {"stage": name, name: 1, "gpu_busy_ns": 10**30}
    line = {"label": name, "text": name}
    run = saved(tmp_path, report(stages=[stage], answer={"lines": [line]}))
    for html in (run._repr_html_(), run.stages._repr_html_()):
        assert "<script" not in html and "\x1b" not in html
    html = run.stages._repr_html_()
    assert max(map(len, re.findall(">([^<]*)", html))) < 100
    # The tooltip has more of it.
    assert 1000 < max(map(len, re.findall("<([^>]*)", html))) < 2500
    assert "\x1b" not in repr(run) + str(run) + repr(run.stages)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", r"metrics\.json is empty; .*stage2-launch report /"),
        (
            GOLDEN.read_bytes()[:5000],
            r"metrics\.json is truncated; write it again: stage2-launch re",
        ),
        (b'{"schema": "st', "is truncated"),
        (b'{"schema_version": 1.', "is truncated"),
        (b'{"schema": tr', "is truncated"),
        (b'{"schema": "\xc3', "is truncated"),
        (b'{\n"schema": x}', r"metrics\.json is not valid JSON \(line 2\); write it again"),
        (b"\xff\xfe", "is not valid JSON; "),
        (b"[" * 200_000, "is not valid JSON; "),
        (b"[]", "not a report of stage2"),
        (b'{"schema": "other"}', "not a report of stage2"),
        (b'{"schema": "stage2.report", "schema_version": 99}', "version 99"),
    ],
)
def test_what_is_no_report_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "metrics.json"
    path.write_bytes(content)
    with pytest.raises(stage2.RunError, match=said) as caught:
        stage2.load(tmp_path)
    assert str(path) in str(caught.value)


def test_absent_tables_and_files_say_so(tmp_path: Path) -> None:
    assert repr(stage2.RunError) == "<class 'stage2.RunError'>"
    with pytest.raises(stage2.RunError, match=r"has no metrics\.json: name the folder of a run"):
        stage2.load(tmp_path)
    (tmp_path / "a run").mkdir()
    (tmp_path / "a run/run.json").touch()
    with pytest.raises(
        stage2.RunError, match=r"without a report .*`stage2-launch report '/.*a run'"
    ):
        stage2.load(tmp_path / "a run")
    with pytest.raises(stage2.RunError, match=r"baseline:main is a baseline, and only diff"):
        stage2.load("baseline:main")
    with pytest.raises(stage2.RunError, match=r"holds runs: .*, .*runner, .* and 3 more$"):
        stage2.load(SAMPLES)
    window = tmp_path / "windows/w1"
    window.mkdir(parents=True)
    (window / "metrics.json").write_text("{}")
    with pytest.raises(stage2.RunError, match=r"a folder for each window: .*w1"):
        stage2.load(tmp_path)
    run = saved(tmp_path, report(stages=[]))
    with pytest.raises(stage2.RunError, match=r"vllm_serve does not exist; did you mean 'vllm_ser"):
        stage2.load(SAMPLES / "vllm_serve")
    for part in ("collector", "kernels.csv"):
        with pytest.raises(stage2.RunError, match=r"is a part of a run: name .*/vllm_sorting$"):
            stage2.load(SAMPLES / "vllm_sorting" / part)
    assert run.answer == {}
    assert set(run.tables.values()) == {0}
    with pytest.raises(stage2.RunError, match="no table 'kernel'; did you mean 'kernels'"):
        run.to_pandas("kernel")
    with pytest.raises(stage2.RunError, match="no table 'qqq'; the tables are: stages"):
        run.table("qqq")
    wrong: Any
    for wrong in (3, None, []):
        with pytest.raises(TypeError, match="name of a table must be a string"):
            run.table(wrong)


def test_every_table_is_an_attribute() -> None:
    run = stage2.load(SAMPLES / "vllm_sorting")
    for name in run.tables:
        assert getattr(run, name) is run.table(name)
        assert getattr(type(run), name).__doc__, name


def test_a_wrong_attribute_leads_to_the_right_one() -> None:
    run: Any = stage2.load(SAMPLES / "vllm_sorting")
    with pytest.raises(AttributeError, match="no attribute 'kernel'; did you mean 'kernels'") as e:
        print(run.kernel)
    # The interpreter has nothing to add.
    shown = "".join(traceback.format_exception(e.value))
    assert "Did you mean" not in shown
    assert not hasattr(run, "qqq")
    assert copy.copy(run).stages == pickle.loads(pickle.dumps(run)).stages == run.stages


def test_what_is_no_path_is_named() -> None:
    run = stage2.load(GOLDEN)
    for wrong, said in ((None, "not None"), (3, "not 3"), (run, "not a Run, which is loaded")):
        with pytest.raises(TypeError, match=f"run must be a path .*, {said}"):
            stage2.load(wrong)  # type: ignore[arg-type]


WRONG: list[dict[str, object]] = [
    {"kernels": 7},
    {"kernels": ["text"]},
    {"kernel_names": {}, "kernels": [{"name_index": 0}]},
    {"step_timelines": [{"lanes": 1}]},
    {"step_timelines": [{"step": 3, "names": 7, "ranges": [{"name": 0}]}]},
    {"ranks": [], "operators": 3, "engine": "x", "host": {"stages": [{"causes": {}}]}},
    {"coverage": 3, "answer": [], "stages": [{"stage": {"known": 1}}, {"stage": [[], {}]}]},
    {"answer": {"lines": [1, {}]}, "stages": [{"": {"": {}}}]},
    {"stages": [{}], "paths": [{"path": None}], "kernels": [{"launch": {"grid": [1]}}, {}]},
    {"paths": [{"path": [1, [2, "x"]]}, {"path": 3}, {"path": {"known": "y"}}, {"path": True}]},
    {"paths": [{"depth": 2**70}, {"depth": None}, {"depth": 0.5}, {"depth": "9"}]},
    {"stages": [{"a": json.loads("[" * 900 + "]" * 900)}]},
    {"stages": [{"known": {"known": json.loads("[" * 900 + "]" * 900)}}]},
    {"stages": 7, "paths": [{"rows": [{"x": json.loads('{"x":' * 300 + "1" + "}" * 300)}]}]},
]


@pytest.mark.parametrize("parts", WRONG)
def test_a_report_with_something_else_in_it_is_no_crash(
    tmp_path: Path, parts: dict[str, object]
) -> None:
    run = saved(tmp_path, report(**parts))
    for name in stage2._sources.SOURCES:
        try:
            table = run.table(name)
        except stage2.RunError as error:
            assert str(run.path) in str(error)
        else:
            assert repr(table) and table._repr_html_()
            for library in ("pandas", "polars"):
                if importlib.util.find_spec(library):
                    assert len(getattr(table, f"to_{library}")()) == (
                        len(table.columns) and len(table)
                    )
    assert repr(run) and str(run) and run._repr_html_()


def test_the_table_of_kernels_becomes_rows(tmp_path: Path) -> None:
    metrics = json.loads(GOLDEN.read_text())
    table = metrics["kernels"]
    run = saved(tmp_path, metrics)
    assert len(run.kernels) == len(table["rows"]) > 1
    first = run.kernels[0]
    assert first["total_ns"] == table["rows"][0][table["columns"].index("total_ns")]
    at = table["columns"].index("first_start_ns")
    assert first["first_start_gpu_ns"] == table["begin_gpu_ns"] + table["rows"][0][at]
    assert first["stage"] in {row["stage"] for row in run.stages}
    assert run.kernels.columns[:4] == ["stage", "short", "calls", "total_ns"]
    assert sum(row["kernel_sum_percent"] or 0 for row in run.kernels) == pytest.approx(100)


def test_timelines_are_put_back_or_do_not_fit(tmp_path: Path) -> None:
    metrics = json.loads(GOLDEN.read_text())
    timelines = json.loads(GOLDEN.with_name("timelines.json").read_text())
    assert saved(tmp_path, metrics).timelines == []
    assert "timelines.json" in (saved(tmp_path, metrics).timelines.absent or "")
    beside = tmp_path / "timelines.json"
    beside.write_text(json.dumps(timelines))
    assert {row["kind"] for row in saved(tmp_path, metrics).timelines} >= {"work", "gap"}
    for change, said in [
        ({"kernel_rows": 1}, "another metrics.json"),
        ({"schema_version": 9}, "its version is not 1"),
        ({"schema": "x"}, "its `schema` is not"),
        ({"sampled_kernels": [{"kernel_rows": [-1]}]}, "cannot be understood"),
    ]:
        beside.write_text(json.dumps({**timelines, **change}))
        with pytest.raises(stage2.RunError, match=said) as caught:
            saved(tmp_path, metrics)
        assert str(beside) in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rows", [[0]]),
        ("rows", [[99] * 18]),
        ("rows", [["x"] * 18]),
        ("rows", 3),
        ("columns", ["name"]),
        ("names", None),
        ("launches", {}),
        ("begin_gpu_ns", "x"),
    ],
)
def test_a_broken_table_of_kernels_is_named(tmp_path: Path, key: str, value: object) -> None:
    metrics = json.loads(GOLDEN.read_text())
    metrics["kernels"][key] = value
    with pytest.raises(stage2.RunError, match=r"not a table of kernels.*write it again"):
        saved(tmp_path, metrics)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_every_table_is_a_frame(library: str) -> None:
    pytest.importorskip(library)
    for sample in sorted(SAMPLES.glob("*/metrics.json")):
        run = stage2.load(sample)
        for name, rows in run.tables.items():
            table = run.table(name)
            frame: Any = getattr(run, f"to_{library}")(name)
            assert frame.shape == (rows, len(table.columns)), (sample, name)
            assert list(frame.columns) == table.columns


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_table_without_rows_still_has_its_columns(tmp_path: Path, library: str) -> None:
    pytest.importorskip(library)
    run = saved(tmp_path, report())
    full = stage2.load(SAMPLES / "vllm_two_gpus")
    names = ["stages", "kernels", "ranks", "late_ranks", "collectives", "steps", "host_causes"]
    for name in [*names, "timelines"]:
        # Only a run with counters has the bound of kernels.
        columns = set(run.table(name).columns) - {"counters.roofline.bound"}
        assert columns <= set(full.table(name).columns), name
        frame = getattr(run.table(name), f"to_{library}")()
        assert frame.shape[0] == 0 and "stage" in frame.columns, name
        assert repr(run.table(name)).startswith(f"{name}: no rows")


def test_the_latest_run_is_loaded_by_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    missing = r"^tmp/stage2/latest does not exist: .*`stage2-launch run` makes one"
    with pytest.raises(stage2.RunError, match=r"^the path of the run is empty: name its folder"):
        stage2.load("")
    for named in ("latest", "tmp/stage2/latest"):
        with pytest.raises(stage2.RunError, match=missing):
            stage2.load(named)
    with pytest.raises(stage2.RunError, match=r"^\. has no metrics\.json: name the folder"):
        stage2.load(".")
    folder = tmp_path / "tmp/stage2/latest"
    folder.mkdir(parents=True)
    (folder / "metrics.json").write_bytes(GOLDEN.read_bytes())
    assert stage2.load("latest").path == stage2.load().path


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_keep_integers_and_tuples(library: str) -> None:
    pytest.importorskip(library)
    exact = 1795727487830275785
    table = stage2.Table("t", [{"start_ns": exact, "grid": [8, 1, 1]}, {"start_ns": None}])
    frame: Any = getattr(table, f"to_{library}")()
    assert int(frame["start_ns"].sum()) == exact
    assert tuple(frame["grid"][0]) == (8, 1, 1)
    assert sum(frame["start_ns"].is_null() if library == "polars" else frame["start_ns"].isna())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_is_named(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=f"pip install {library}"):
        getattr(stage2.load(GOLDEN), f"to_{library}")()


def test_runs_of_the_same_file_and_content_are_equal(tmp_path: Path) -> None:
    first = saved(tmp_path, report(simulated=False))
    assert first == stage2.load(first.path) and hash(first) == hash(stage2.load(first.path))
    changed = saved(tmp_path, report(simulated=True))
    assert changed.path == first.path and changed != first
    assert first != first.metrics


def test_numbers_that_json_does_not_have_are_damage(tmp_path: Path) -> None:
    run = saved(tmp_path, report())
    for number in ("NaN", "-Infinity"):
        run.path.write_text(f'{{"schema": {number}}}', encoding="utf-8")
        with pytest.raises(stage2.RunError, match=r"metrics\.json is not valid JSON; write it"):
            stage2.load(run.path)
