"""The package as it is in the repository, without an installation."""

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

pytest_plugins = ["pytester"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    """Fail a test that skips itself where STAGE2_REQUIRE_TOOLS is set."""
    report = yield
    if report.skipped and os.environ.get("STAGE2_REQUIRE_TOOLS"):
        report.outcome, report.longrepr = "failed", f"skipped: {report.longrepr}"
    return report
