"""The notebook of the package runs from the top to the end, and shows what its text says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import stage2

REPOSITORY = Path(__file__).parents[2]
NOTEBOOK = REPOSITORY / "examples/notebook/stage2.ipynb"


def shown(cell: Any, kind: str) -> str:
    """Return what a cell displayed of this MIME type."""
    data = [output["data"] for output in cell.outputs if output.output_type == "execute_result"]
    return "".join(data[0].get(kind, "")) if data else ""


def test_no_outputs_are_stored() -> None:
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None, cell["source"]


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("pandas", "ipykernel"):
        pytest.importorskip(library)
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    try:
        programs = stage2.launcher_path().parent
    except stage2.InstallError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY / "python"))
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("STAGE2_COLLECTOR", raising=False)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, resources=resources).execute()
    cells = {cell.source: cell for cell in notebook.cells if cell.cell_type == "code"}

    def cell(end: str) -> Any:
        return next(cell for source, cell in cells.items() if source.endswith(end))

    run = shown(cell("\nbefore"), "text/html")
    assert "simulated GPU" in run and "decode" in run
    assert "launch.grid" in shown(cell("before.kernels"), "text/html")
    assert "%" in shown(cell('.map("{:.1%}".format)'), "text/plain")
    assert "(" in shown(cell('"p50_ns"]].head(5)'), "text/plain")
    assert "gap" in shown(cell('.agg(["count", "sum"])'), "text/plain")
    assert "--annotate torch-ops" in shown(cell("before.operators"), "text/html")
    change = shown(cell("\nchange"), "text/html")
    assert "noise" in change and "CUDA graphs (none → in decode)" in change
    last = cell("prof.windows")
    assert shown(last, "text/plain") == "[]"
    warned = "".join(output.text for output in last.outputs if output.output_type == "stream")
    assert warned.count("RuntimeWarning") == 1 and "--dormant" in warned
