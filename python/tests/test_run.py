"""`stage2.load`: the golden report of the launcher's tests, and files that are none."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import stage2

GOLDEN = Path(__file__).parents[2] / "launcher/tests/golden/metrics.json"


def test_a_report_of_the_launcher_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_bytes(GOLDEN.read_bytes())
    run = stage2.load(tmp_path)
    assert {"prefill", "decode"} <= {row["stage"] for row in run.stages}
    kernels = run.kernels
    assert sum(row["total_ns"] for row in kernels) > 0
    assert any(row["mangled"].startswith("_ZN7cutlass") for row in kernels)
    assert stage2.load(tmp_path / "metrics.json").metrics == run.metrics


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no whole JSON"),
        (GOLDEN.read_bytes()[:5000], "no whole JSON"),
        (b"\xff\xfe", "no whole JSON"),
        (b"[" * 200_000, "no whole JSON"),
        (b"[]", "no report of stage2"),
        (b'{"schema": "other"}', "no report of stage2"),
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
    with pytest.raises(stage2.RunError, match="name the folder of a run"):
        stage2.load(tmp_path)
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"schema": "stage2.report", "schema_version": 1, "stages": []}))
    run = stage2.load(path)
    assert run.stages == []
    assert run.answer is None
    with pytest.raises(stage2.RunError, match="no table 'kernels'; its tables: stages"):
        run.to_pandas("kernels") if "pandas" in sys.modules else run._rows("kernels")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_have_a_column_for_each_value(library: str) -> None:
    pytest.importorskip(library)
    run = stage2.load(GOLDEN)
    frame: Any = getattr(run, f"to_{library}")("kernels")
    assert len(frame) == len(run.kernels)
    assert int(frame["total_ns"].sum()) == sum(row["total_ns"] for row in run.kernels)
    assert "sources.record" in frame.columns or any("." in name for name in frame.columns)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_is_named(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=f"pip install {library}"):
        getattr(stage2.load(GOLDEN), f"to_{library}")()
