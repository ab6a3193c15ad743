"""docs/python.md: what it prints is what the package prints, and its examples run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import stage2

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs/python.md").read_text(encoding="utf-8")
SORTING, SERVER = "docs/sample/vllm_sorting", "docs/sample/vllm_server"


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def in_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.usefixtures("in_repository")
def test_what_is_shown_of_a_run_is_what_it_prints() -> None:
    run = stage2.load(SORTING)
    printed = [str(run), str(run.stages), str(run.host_causes)]
    shown = blocks(section("Load a run"), "text")
    assert len(shown) == len(printed)
    for text, whole in zip(shown, printed):
        begun = text.rpartition("...\n")[0] or text
        assert whole.startswith(begun.strip()), whole


@pytest.mark.usefixtures("in_repository")
def test_what_is_shown_of_a_comparison_is_what_it_prints() -> None:
    try:
        stage2.launcher_path()
    except stage2.InstallError as error:
        pytest.skip(str(error))
    change = stage2.diff(SORTING, SERVER, fail_if="decode.step_ms>+5%")
    (shown,) = blocks(section("Compare runs"), "text")
    begin, end = shown.split("...\n")
    assert str(change).startswith(begin) and str(change).endswith(end.rstrip("\n"))


@pytest.mark.usefixtures("in_repository")
def test_the_examples_of_tables_run() -> None:
    pytest.importorskip("pandas")
    names: dict[str, Any] = {"stage2": stage2}
    for code in blocks(section("Load a run"), "python"):
        exec(code, names)
    names["other"] = stage2.load(SERVER)
    rows = re.findall(r"^\| (`run\..*?) \|", section("Load a run"), re.MULTILINE)
    expressions = [code for row in rows for code in re.findall("`(.*?)`", row)]
    assert len(expressions) == 16
    for code in expressions:
        assert eval(code, names), code


def test_the_tables_and_columns_that_are_named_exist() -> None:
    run = stage2.load(REPOSITORY / SORTING)
    listed = section("Tables").partition("|---|---|---|\n")[2].partition("\n\n")[0].splitlines()
    named = []
    for line in listed:
        table, row, columns = (cell.strip() for cell in line.strip("|").split("|"))
        if table == "others":
            named += re.findall("`(.*?)`", row)
            continue
        named.append(table.strip("`"))
        for column in re.findall("`(.*?)`", columns):
            assert column in run.table(named[-1]).columns, (table, column)
    assert sorted(named) == sorted(run.tables)
    listed = re.findall(
        r"^\| `change\.(\w+)` \| .* \| (.*) \|$", section("Compare runs"), re.MULTILINE
    )
    assert [table for table, _ in listed] == ["metrics", "work", "conditions"]
    for table, columns in listed:
        assert set(re.findall("`(.*?)`", columns)) <= set(stage2.Table(table).columns)
