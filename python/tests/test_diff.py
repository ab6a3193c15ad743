"""`stage2.diff`: comparisons of a real `stage2-launch`, and what one that fails says."""

from __future__ import annotations

import inspect
import json
import pickle
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import stage2
from stage2 import _install

REPOSITORY = Path(__file__).parents[2]
REPORTS = REPOSITORY / "tests/fixtures/reports"
SAMPLES = REPOSITORY / "docs/sample"


def has_launcher() -> bool:
    try:
        return bool(stage2.launcher_path())
    except stage2.InstallError:
        return False


needs_launcher = pytest.mark.skipif(not has_launcher(), reason="no stage2-launch is on PATH")


def _flat(shown: object) -> str:
    return " ".join(str(shown).split())


@needs_launcher
def test_runs_are_compared_as_the_command_line_does() -> None:
    before = stage2.load(REPORTS / "llama_1b.json")
    conditions = ["run.kernels<-5%", "decode.step_ms>+5%"]
    change = stage2.diff(before, str(REPORTS / "moe_small.json"), fail_if=conditions)
    assert next(iter(change.lines)) == "verdict"
    assert {"time", "window", "kernels"} <= set(change.lines)
    assert change.failed
    with pytest.raises(ValueError, match=r"^a Diff is neither true nor false; `not ch"):
        bool(change)
    assert inspect.signature(stage2.Diff.__bool__).return_annotation == "bool"
    assert [row["outcome"] for row in change.conditions] == ["failed", "passed"]
    assert {"decode", "run"} <= {row["stage"] for row in change.metrics}
    step = next(row for row in change.metrics if row["metric"] == "step_ms")
    assert step["after"] - step["before"] == pytest.approx(step["change"])
    assert {row["word"] for row in change.metrics if row["verdict"] == "none"} == {
        "not comparable",
        "equal",
    }
    words = {row["word"] for row in change.work}
    assert words <= {"not comparable", "equal", "new", "gone"} and "not comparable" in words
    assert change.lines["noise"] == "not compared" and "noise:" not in str(change)
    assert {"kernel"} <= {row["kind"] for row in change.work}
    assert {row["per"] for row in change.work} == {"token", "call", "run"}
    assert "failed: " in str(change)
    assert "\n" not in repr(change) and repr(change).endswith("; a condition failed>")
    assert repr(change).startswith(f"<stage2.Diff {REPORTS / 'llama_1b.json'} -> {REPORTS}")
    assert "step_ms" in change._repr_html_()


@needs_launcher
def test_what_changed_most_is_named() -> None:
    before, after = (stage2.load(SAMPLES / name) for name in ("vllm_sorting", "vllm_server"))
    change = stage2.diff(before, after)
    assert change.lines["changed"].startswith(
        "decode, per step: -0.89 ms idle: priority (sorting_scheduler.py)"
    )
    assert "-0.89 ms idle: priority" in " ".join(str(change).split())
    # The folder of a run, which is what its command takes as well.
    assert [run["label"] for run in change.comparison["before"]] == [str(SAMPLES / "vllm_sorting")]


def test_only_options_of_diff_are_named_as_arguments() -> None:
    said = "compare step_p99_ms (--full), or keep `--strict --full-graph`"
    lines = [{"label": "next", "text": said}]
    comparison = {"verdict": "Changed", "lines": lines, "conditions": [], "stages": []}
    assert stage2.Diff(comparison).lines["next"] == said.replace("(--full)", "(in `metrics`)")


def test_parts_without_samples_of_the_host_are_gaps_and_other_idle_time() -> None:
    changed = {"verdict": "decreased", "noise": {"threshold": 0.5}}
    stage = {
        "stage": "decode",
        "presence": "both",
        "per": "token",
        "metrics": [
            {"metric": "idle_ms", "change": -10.06, **changed},
            {"metric": "launch_gaps_ms", "change": -9.19, **changed},
            {"metric": "class_gemm_ms", "change": 0.041, "verdict": "increased"},
            {"metric": "class_copy_ms", "change": 0.2, "verdict": "none"},
        ],
    }
    other = {**stage, "stage": "prefill", "other_work": "512 vs 811 prompt tokens per step"}
    comparison = {"verdict": "Changed", "lines": [], "conditions": [], "stages": [other, stage]}
    assert stage2.Diff(comparison).lines["changed"] == (
        "decode, per token: -9.19 ms idle: launch gaps; -0.87 ms idle: not launch gaps; "
        "+41.0 us gemm"
    )
    stage["metrics"] = []
    assert stage2.Diff(comparison).lines["changed"] == "no part of a step changed beyond noise"
    comparison["stages"] = [other]
    assert stage2.Diff(comparison).lines["changed"] == (
        "not compared: no stage does the same work on both sides"
    )


@needs_launcher
def test_a_printed_comparison_has_its_caution_and_the_names_of_its_conditions() -> None:
    conditions = ["mixed.step_ms<-5%", "run.kernels<-5%", "decode.step_ms>+5%"]
    change = stage2.diff(SAMPLES / "runner", SAMPLES / "vllm_server", fail_if=conditions)
    said = "Not comparable: different GPUs, different models. Times not comparable"
    sides = f"{SAMPLES / 'runner'} → {SAMPLES / 'vllm_server'}"
    assert str(change).startswith("runs: ") and sides in " ".join(str(change).split())
    assert sides in change._repr_html_()
    for shown in (str(change), repr(change), change._repr_html_()):
        assert said in " ".join(shown.split())
    assert "not evaluated: decode.step_ms>+5%: `decode` is timed" in str(change)
    assert change.lines["changed"] == "not compared: no stage does the same work on both sides"
    change = stage2.diff(SAMPLES / "vllm_sorting", SAMPLES / "vllm_server", fail_if=conditions)
    assert "Not comparable" not in str(change)
    assert "not decided: mixed.step_ms<-5%: 21.503 → 18.324 ms per step" in str(change)
    assert "passed:      run.kernels<-5%: 170,643" in str(change)
    # In the words of Python.
    said = (
        "record 4 runs per side (before=[...], after=[...]) to decide, or use strict=True to fail"
    )
    assert said in " ".join(str(change).split())
    command = f"then: stage2.diff(before=['{SAMPLES / 'vllm_sorting'}', 'before-2', 'before-3', "
    assert command in change.lines["next"] and "--" not in str(change)
    # In a notebook, right below the verdict.
    labels = re.findall("<th style='([^']*)'>(.*?)</th>", change._repr_html_())
    assert [label for _, label in labels][:5] == [
        "runs",
        "verdict",
        "not decided",
        "passed",
        "passed",
    ]
    change = stage2.diff(
        SAMPLES / "vllm_sorting", SAMPLES / "vllm_server", fail_if="decode.step_ms<-5%"
    )
    (style, label), *_ = re.findall("<th style='([^']*)'>(.*?)</th>", change._repr_html_())[2:]
    assert label == "failed" and "bold" in style


@needs_launcher
def test_an_expected_change_must_have_happened() -> None:
    before, after = SAMPLES / "vllm_sorting", SAMPLES / "vllm_server"
    change = stage2.diff(before, after, expect=["decode.step_ms<-20%", "decode.step_ms<-40%"])
    assert change.failed and change.conditions["outcome"] == ["passed", "failed"]
    assert change.conditions["expected"] == [True, True]
    assert "failed: expect decode.step_ms<-40%: " in _flat(change)
    assert "expect" not in str(stage2.diff(before, after, fail_if="decode.step_ms>+5%"))
    assert not stage2.diff(before, after, expect="decode.step_ms<-20%").failed
    for condition in ("decode.nothing>5", "decode.step_ms=5"):
        with pytest.raises(stage2.DiffError, match=f"^expect '{condition}': "):
            stage2.diff(before, after, expect=condition)


@needs_launcher
def test_tables_show_the_change_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    before, after = (stage2.load(SAMPLES / name) for name in ("vllm_sorting", "vllm_server"))
    change = stage2.diff(before, after)
    head, first, *_ = str(change.metrics).splitlines()
    assert head.split() == ["stage", "metric", "before", "after", "change", "%", "word"]
    step = change.metrics.row(stage="decode", metric="step_ms")
    assert first.split()[-3:] == [f"{step['change_percent']:.2f}", "%", step["word"]]
    # What changed is shown, of all stages; the rest is counted, and shown if asked for.
    lines = str(change.metrics).splitlines()
    (size,) = (at for at, line in enumerate(lines) if line.startswith("metrics: "))
    changed = change.metrics.where(verdict=["increased", "decreased"])
    pairs = list(zip(changed["stage"], changed["metric"]))
    assert [tuple(line.split()[:2]) for line in lines[1:size]] == pairs
    said = f"metrics: {len(pairs)} rows that changed beyond noise ({len(change.metrics)} in all), "
    others = 'others: metrics.where(verdict=["none", "unknown"])'
    for shown in (_flat(change.metrics), change.metrics._repr_html_()):
        assert said in shown and others in shown.replace("&quot;", '"')
    # A part has the rows that someone asked for.
    for table in (change.metrics, change.work):
        for part in (table.head(3), table.where(stage="mixed")[:3], table[["stage"]].head(3)):
            assert str(part).splitlines()[4].startswith(f"{table.name}: 3 rows, ")
            assert "beyond noise" not in part._repr_html_()
    mixed = change.metrics.where(stage="mixed")
    assert [line.split()[1] for line in str(mixed).splitlines()[1:3]] == mixed["metric"][:2]
    for same in (change.work.copy(), pickle.loads(pickle.dumps(change.work))):
        assert str(same) == str(change.work)
    none = change.metrics.where(verdict="none")
    # A share changes by points; in the frame, by percent of itself.
    listed = [*lines[1:size], *str(none.where(stage="decode")).splitlines()[1:21]]
    shown = {line.split()[1]: line.split()[2:] for line in listed}
    assert shown["gpu_busy_percent"][:6] == ["29.92", "%", "40.14", "%", "+10.22", "points"]
    assert shown["step_ms"][:4] == ["4.62", "ms", "3.32", "ms"]
    assert shown["mfu_percent"][:2] == ["0.75", "%"]
    # The heading `change` is of the difference alone, which has its unit.
    some = change.metrics[["metric", "change_percent", "change", "unit", "noise.threshold"]]
    head, first, *_ = str(some).splitlines()
    assert re.split(" {2,}", head)[:3] == ["metric", "change %", "change"]
    assert re.split(" {2,}", first)[:3] == ["step_ms", "-28.16 %", "-1.30 ms"]
    row = change.metrics.row(stage="decode", metric="step_ms")
    assert "change -1.30 ms" in _flat(repr(row)) and "threshold 231.13 us" in _flat(repr(row))
    assert "noise.threshold 1.13 us" in _flat(repr(change.work[0]))
    assert change.metrics.row(stage="decode", metric="gpu_busy_percent")["change_percent"] > 34
    # Where nothing changed, what is 0 on both sides takes no room, unless it is looked for.
    same = stage2.diff(before, before).metrics
    zero = same.where(before=0, after=0)
    left_out = f"20 of the {len(same) - len(zero)} rows that are not 0 on both sides ("
    assert left_out in _flat(same) and left_out in same._repr_html_()
    assert "others: metrics.where(before=0, after=0)" in str(same)
    of_decode = set(zero.where(stage="decode")["metric"])
    shown_of_same = {line.split()[1] for line in str(same).splitlines()[1:21]}
    assert "window_transfer_percent" in of_decode and not of_decode & shown_of_same
    one = zero.where(metric="window_transfer_percent")
    one = one[["metric", "change", "unit", "change_percent", "word"]]
    assert str(one).splitlines()[1].split()[-3:] == ["0.00", "points", "equal"]
    part = change.metrics[["metric", "change_percent"]]
    busy = next(line for line in str(part).splitlines() if "gpu_busy_percent" in line)
    assert busy.split() == ["gpu_busy_percent", "+34.16"]
    assert len(str(change.work.where(verdict="none")).splitlines()) > 20
    for column in change.metrics.columns:
        some = change.metrics[["metric", "unit", column]].head(3)
        assert str(some) and some._repr_html_()
    assert shown["kernels"] == ["211", "211", "0.00", "%", "equal"]
    assert shown["tokens_per_s"][1:] == ["4,623/s", "+34.70", "%", "higher"]
    head, first, *_ = str(change.work).splitlines()
    assert "word" in head.split() and "shorter" in first.split() and "new" in str(change.work)
    assert f" rows that changed beyond noise ({len(change.work)} in all)" in str(change.work)
    assert set(change.work.where(verdict="none")["word"]) == {
        "equal",
        "new",
        "not comparable",
        "inconclusive",
        "too small",
        "within noise",
    }
    with pytest.raises(KeyError, match="did you mean 'change_percent'"):
        change.metrics["change %"]
    assert str(change.work).splitlines()[0].split()[:4] == ["stage", "name", "before", "after"]
    named = change.work["name"]
    assert all(named) and named == [row["before.name"] or row["after.name"] for row in change.work]
    assert None in change.work["before.name"]
    for row in change.work:
        ns = row["before.ns"]
        percent = pytest.approx(100 * row["change_ns"] / ns) if ns else None
        assert row["change_percent"] == percent
    # A heading says what column it is of.
    heading = "<abbr title='change_percent'>change %</abbr></th>"
    assert "<th" in change.work._repr_html_() and heading in change.work._repr_html_()
    assert "headings" in str(change.work) and "headings" not in change.work._repr_html_()


@needs_launcher
@pytest.mark.parametrize("columns", ["40", "60", "80", "120"])
def test_changes_that_do_not_compare_are_not_printed(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    change = stage2.diff(SAMPLES / "runner", SAMPLES / "vllm_server")
    # Names keep their beginnings.
    assert " \N{HORIZONTAL ELLIPSIS}" not in str(change.work)
    # They have room before further columns.
    assert columns != "80" or "1_v_bz_coopA_TNT" in str(change.work.head(6))
    unlike = change.metrics
    unlike = unlike.where(word="not comparable")
    assert {*unlike["stage"]} == {"decode", "prefill", "run"} and max(unlike["change"]) > 1000
    other = stage2.diff(SAMPLES / "vllm_sorting", SAMPLES / "vllm_server").metrics
    other = other.where(word="not comparable")
    for table in (unlike, other, other[["metric", "change_percent", "change", "word"]]):
        head, body = str(table).partition(f"{table.name}: ")[0].split("\n", 1)
        assert "word" in head.split() and "not comparable" in body
        assert ("before" in head) == ("after" in head)
        # Only values before and after have units, such as `0.75 %`.
        body = re.sub(r"(?<=  )[\d.,]+ %", "", body) if "before" in head else body
        assert not re.search(r"[-+]\d|%|points", body)
        assert not re.search(r">[-+]\d", table._repr_html_())


@needs_launcher
def test_a_comparison_is_written_as_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SAMPLES)
    change = stage2.diff("vllm_sorting", "vllm_server", fail_if="decode.step_ms<-5%")
    assert change.verdict == change.lines["verdict"] and change.verdict.startswith("Changed")
    # Also from elsewhere, and with the condition that failed.
    monkeypatch.chdir(tmp_path)
    page = change.write_html("page.html")
    assert page == tmp_path / "page.html" and "decode.step_ms&lt;-5%" in page.read_text()
    missing = tmp_path / "no"
    why = f"^the page was not written: the folder {missing} does not exist; make it, or choose an"
    with pytest.raises(stage2.DiffError, match=why) as caught:
        change.write_html(missing / "page.html")
    assert "--" not in str(caught.value)
    with pytest.raises(ValueError, match=r"^write_html writes a page, named .html or .htm, not 'a"):
        change.write_html("a.pdf")
    with pytest.raises(stage2.DiffError, match=r"^only a comparison that `stage2"):
        stage2.Diff(change.comparison).write_html("page.html")


@needs_launcher
def test_work_has_the_words_of_the_page() -> None:
    sides = (SAMPLES / "vllm_sorting", SAMPLES / "vllm_server")
    words = [str(stage2.launcher_path()), "diff", "--full", str(sides[0]), "--against"]
    page = subprocess.run([*words, str(sides[1])], capture_output=True, text=True, check=True)
    stages = re.findall(r"^## `(.*?)`\n(.*?)(?=^## )", page.stdout, re.MULTILINE | re.DOTALL)
    shown = {
        (stage, name): word
        for stage, text in stages
        for name, word in re.findall(r"^\| `(.*?)` \|.*\| ([\w ]+) \|$", text, re.MULTILINE)
    }
    work = stage2.diff(*sides).work
    known = {(row["stage"], row["name"]): row["word"] for row in work}
    both = {key: word for key, word in shown.items() if key in known}
    assert len(both) == 6 and both == {key: known[key] for key in both}


def test_an_interval_is_also_relative() -> None:
    metric = {"metric": "step_ms", "before": 12.48, "after": 4.6, "change": -7.88}
    side = {"name": "a", "ns": 200.0}
    kernel = {"before": side, "after": {**side, "ns": 150.0}, "change_ns": -50.0}
    stage = {
        "stage": "decode",
        "per": "token",
        "metrics": [{**metric, "interval": [-8.96, -6.89]}, metric],
        "work": [
            {**kernel, "interval": [-60.0, -40.0]},
            {**kernel, "before": None, "word": "new"},
            {**kernel, "after": None, "change_ns": -200.0, "word": "gone"},
        ],
    }
    change = stage2.Diff({"stages": [stage], "run": []})
    percent = change.metrics["interval_percent"]
    assert percent[0] == pytest.approx((-71.8, -55.2), abs=0.05) and percent[1] is None
    assert change.work["interval_percent"] == [(-30.0, -20.0), None, None]
    assert change.work["word"][1:] == ["new", "gone"]
    # `gone` says it all, as `new` does.
    assert change.work["change_percent"][2] == -100.0 and "100.00" not in str(change.work)
    # Of a share, both are points, also in a row.
    share = {"before": 14.36, "after": 50.28, "change": 35.92, "change_percent": 250.12}
    share = {"metric": "gpu_busy_percent", "unit": "percent", **share}
    points = {**stage, "metrics": [{**share, "interval": [17.36, 38.24]}]}
    table = stage2.Diff({"stages": [points], "run": []}).metrics
    row = table[0]
    assert "change % +35.92 points change +35.92 points" in _flat(repr(row)) and "266" not in repr(
        row
    )
    assert "interval (+17.36, +38.24) points" in _flat(repr(row))
    names = ["change_percent", "interval_percent", "unit", "change", "interval"]
    for shown in (str(table[names]), table[names]._repr_html_()):
        assert "+35.92 points" in shown and "(+17.36, +38.24) points" in shown
    # In frames, the ends are columns that compare and sort.
    for library in ("pandas", "polars"):
        pytest.importorskip(library)
        for table in (change.metrics, change.work, stage2.Table("work"), stage2.Table("metrics")):
            frame: Any = getattr(table, f"to_{library}")()
            ends = [name for name in frame.columns if name.startswith("interval")]
            assert ends == [
                f"interval{of}.{end}" for of in ("_percent", "") for end in ("low", "high")
            ]
            assert {str(frame[name].dtype).lower() for name in ends} == {"float64"}
        frame = getattr(change.metrics, f"to_{library}")(["interval"])
        assert list(frame.columns) == ["interval.low", "interval.high"]
        assert frame["interval.low"][0] == -8.96 and frame["interval.high"].max() == -6.89
    shown = change.metrics[["interval", "interval_percent"]]
    assert str(shown).splitlines()[1] == "(-8.96, -6.89)  (-71.79, -55.21)"


@needs_launcher
def test_sides_may_have_several_runs(tmp_path: Path) -> None:
    report = json.loads((REPORTS / "llama_1b.json").read_text())
    runs = []
    for number in range(8):
        # A run is known by the time when it began.
        report["run"]["started"] = f"2026-11-01T10:0{number}:00Z"
        runs.append(tmp_path / f"{number}.json")
        runs[-1].write_text(json.dumps(report))
    change = stage2.diff(runs[:4], runs[4:], fail_if="decode.step_ms>+1%")
    assert not change.failed
    assert f"{runs[0]} \N{HORIZONTAL ELLIPSIS} {runs[3]} -> {runs[4]}" in repr(change)
    change = stage2.diff(runs[:2], runs[2:4])
    assert f"{runs[0]}, {runs[1]} -> {runs[2]}, {runs[3]}: " in repr(change)
    change = stage2.diff(runs[:4], runs[4:])
    assert len(change.comparison["before"]) == len(change.comparison["after"]) == 4
    with pytest.raises(stage2.DiffError, match=r"^the runs were not compared: .*is named twice"):
        stage2.diff(runs[:1] * 4, runs[4:])


@needs_launcher
def test_what_cannot_be_compared_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = REPORTS / "llama_1b.json"
    with pytest.raises(stage2.DiffError, match=r"^the runs were not compared: .*nothing-here"):
        stage2.diff(run, tmp_path / "nothing-here")
    with pytest.raises(
        stage2.DiffError, match=r"^fail_if 'decode\.nothing>5': [^;]*metric"
    ) as caught:
        stage2.diff(run, run, fail_if="decode.nothing>5")
    assert "--help" not in str(caught.value)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(stage2.DiffError, match=r"COMMAND` makes a run$"):
        stage2.diff(run, "/nope")
    with pytest.raises(stage2.DiffError, match=r"^the runs were not compared: \. is "):
        stage2.diff(run, "")
    # A run without GPU work is there, and is no alternative.
    empty = tmp_path / "tmp/stage2/demo1"
    empty.mkdir(parents=True)
    record = json.loads((SAMPLES / "vllm_sorting/run.json").read_text())
    record["coverage"]["verdict"]["status"] = "empty"
    (empty / "run.json").write_text(json.dumps(record))
    with pytest.raises(stage2.DiffError, match=r"^the runs were not compared: x does not exist$"):
        stage2.diff(run, "x")
    with pytest.raises(stage2.DiffError, match=r"^after has no runs"):
        stage2.diff(run, [])
    # The command line wraps its errors, and names commands that are none here.
    for width in ("40", "200"):
        monkeypatch.setenv("COLUMNS", width)
        for condition, why in (
            ("decode.step>+5%", "there is no metric `step`; did you mean `step_ms`"),
            ("decode.step_ms", "it has neither > nor <: write 'STAGE"),
        ):
            with pytest.raises(stage2.DiffError) as caught:
                stage2.diff(run, run, fail_if=condition)
            assert str(caught.value).startswith(f"fail_if {condition!r}: {why}")
            assert "--" not in str(caught.value)


def test_arguments_of_another_type_are_named() -> None:
    wrong: Any
    for wrong in (3, None, [None], {"a"}):
        with pytest.raises(TypeError, match=r"^before must be a run"):
            stage2.diff(wrong, "b")
    with pytest.raises(TypeError, match=r"^timeout_s must be a number of seconds, not '9'"):
        stage2.diff("a", "b", timeout_s="9")  # type: ignore[arg-type]
    for wrong in (5, None, [5]):
        with pytest.raises(TypeError, match=r"^fail_if must be a condition"):
            stage2.diff("a", "b", fail_if=wrong)
        with pytest.raises(TypeError, match=r"^expect must be a condition"):
            stage2.diff("a", "b", expect=wrong)


@needs_launcher
def test_what_does_not_compare_has_no_verdict() -> None:
    change = stage2.diff(SAMPLES / "vllm_sorting", SAMPLES / "vllm_server")
    words = {row["word"] for row in change.metrics if row["stage"] == "prefill"}
    assert "not comparable" in words
    for row in change.metrics:
        assert row["word"] != "not comparable" or row["verdict"] == "none", row
    assert {row["verdict"] for row in change.work if row["stage"] == "prefill"} <= {"none"}


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("", "no JSON"),
        (json.dumps({"schema": "stage2.diff", "schema_version": 9}), "install both from one wheel"),
        ("[]", "install both from one wheel"),
        (json.dumps({"schema": "stage2.diff", "schema_version": 1}), "no comparison"),
    ],
)
def test_a_launcher_that_answers_otherwise_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, said: str
) -> None:
    launcher = tmp_path / "stage2-launch"
    launcher.write_text(f"#!/bin/sh\necho '{printed}'\n")
    launcher.chmod(0o755)
    monkeypatch.setattr(_install, "_launchers", lambda: iter([launcher]))
    with pytest.raises(stage2.DiffError, match=said):
        stage2.diff("a", "b")


def test_the_launcher_does_not_run_under_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = tmp_path / "stage2-launch"
    launcher.write_text('#!/bin/sh\necho "$LD_PRELOAD" "$@" >&2\nexit 2\n')
    launcher.chmod(0o755)
    monkeypatch.setattr(_install, "_launchers", lambda: iter([launcher]))
    monkeypatch.setattr("os.environ", {"LD_PRELOAD": "/no/libstage2.so"})
    with pytest.raises(stage2.DiffError, match=r"ended with 2\): diff --json ./-a --against ./b=c"):
        stage2.diff("-a", "b=c")


@needs_launcher
def test_a_window_that_is_longer_than_its_step_is_explained() -> None:
    change = stage2.diff(SAMPLES / "vllm_sorting", SAMPLES / "vllm_server")
    said = "longer than the step (mixed: 30.59 and 30.05 ms, mean steps 20.29 and 18.99 ms)"
    assert change.lines["window"].endswith(said), change.lines["window"]
    # Those of the mean step; the median may be shorter where few steps are slow.
    for stage in change.comparison["stages"]:
        by_name = {row["metric"]: row for row in stage["metrics"]}
        if "step_mean_ms" in by_name:
            by_name["window_ms"].update(
                {s: by_name["step_mean_ms"][s] for s in ("before", "after")}
            )
            by_name["step_ms"].update(before=0.1, after=0.1)
    assert "longer than" not in change.lines["window"]
    change = stage2.diff(SAMPLES / "runner", SAMPLES / "vllm_server")
    assert change.lines["window"] == "no stage with the same work is on both sides"
    for stage in change.comparison["stages"]:
        stage["metrics"] = [row for row in stage["metrics"] if row["metric"] != "window_ms"]
    assert "longer than" not in change.lines["window"]
