"""`stage2.env`, `stage2.library_path`, and the pytest plug-in with a `stage2-launch` of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import stage2
from stage2 import _install


def test_the_collector_comes_first_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "libstage2.so"
    library.touch()
    monkeypatch.setenv("STAGE2_COLLECTOR", str(library))
    assert stage2.library_path() == library
    once = stage2.env({"LD_PRELOAD": "/a.so /b.so", "X": "1"})
    assert once == {"LD_PRELOAD": f"{library}:/a.so:/b.so", "X": "1"}
    assert stage2.env(once) == once


def test_what_cannot_work_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="base must be a mapping of variables or None, not 3"):
        stage2.env(3)  # type: ignore[arg-type]
    missing = tmp_path / "no.so"
    monkeypatch.setenv("STAGE2_COLLECTOR", str(missing))
    with pytest.raises(stage2.InstallError, match=r"no\.so: STAGE2_COLLECTOR names it"):
        stage2.library_path()
    folder = tmp_path / "my files"
    folder.mkdir()
    (folder / "libstage2.so").touch()
    monkeypatch.setenv("STAGE2_COLLECTOR", str(folder / "libstage2.so"))
    with pytest.raises(stage2.InstallError, match="cannot hold the path"):
        stage2.env()
    # Without a name, the one that the launcher loads.
    monkeypatch.delenv("STAGE2_COLLECTOR")
    launcher = tmp_path / "bin/stage2-launch"
    library = tmp_path / "lib/libstage2.so"
    for file in (launcher, library):
        file.parent.mkdir()
        file.touch(0o755)
    monkeypatch.setattr(_install, "_launchers", lambda: iter([launcher]))
    assert stage2.library_path() in (Path(_install.__file__).with_name("libstage2.so"), library)
    monkeypatch.setattr(_install, "_launchers", lambda: iter([tmp_path / "stage2-launch"]))
    with pytest.raises(
        stage2.InstallError, match=r"neither on PATH nor in .*stage2-launch.*pip install"
    ):
        stage2.launcher_path()


@pytest.mark.parametrize(
    ("status", "fails_if", "said"),
    [
        (0, "'decode.step_ms>+5%'", None),
        (1, "'decode.step_ms>+5%'", "does not meet its conditions against"),
        (2, "'decode.step_ms>+5%'", "were not compared"),
        (0, "", "has no condition"),
    ],
)
def test_a_gate_fails_with_the_comparison(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    fails_if: str,
    said: str | None,
) -> None:
    launcher = pytester.path / "stage2-launch"
    more = "echo '      more: --full (next, noise)'"
    launcher.write_text(f'#!/bin/sh\necho "told: $*"\n{more}\nexit {status}\n')
    launcher.chmod(0o755)
    monkeypatch.setattr(_install, "_launchers", lambda: iter([launcher]))
    words = f"baseline='old', fail_if=[{fails_if}], expect=[{fails_if}]"
    words += ", run=['new-1', 'new-2'], strict=True"
    pytester.makepyfile(f"def test_it(stage2_gate): stage2_gate({words})")
    options = ["--stage2-fail-if", "prefill.busy>1"] if fails_if else []
    result = pytester.runpytest_inprocess("-p", "stage2.pytest_plugin", *options)
    if said is None:
        result.assert_outcomes(passed=1)
        return
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*{said}*"])
    if fails_if:
        given = "--fail-if=decode.step_ms>+5% --expect=decode.step_ms>+5%"
        told = f"told: diff {given} --fail-if=prefill.busy>1 --strict old --against new-1 new-2"
        result.stdout.fnmatch_lines([f"*{told}*"])
    if status == 1:
        whole = "more: stage2-launch diff --full old --against new-1 new-2"
        result.stdout.fnmatch_lines([f"*{whole}"])
