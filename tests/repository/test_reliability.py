"""docs/reliability.md names tests and patches that exist, and counts its rows."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "reliability.md"
CODE = re.compile(r"`([^`]+)`")
LEAST_HAZARDS = 80


def rows(third: str = "test") -> list[list[str]]:
    """Give the cells of each row of each table whose third column has this head."""
    found, wanted = [], False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if cells[0] == "hazard":
            wanted = cells[2] == third
        elif wanted and line.startswith("| "):
            found.append(cells)
    return found


class Reliability(unittest.TestCase):
    def test_every_test_exists(self) -> None:
        for hazard, promise, test, _ in rows():
            self.assertTrue(hazard and promise, test)
            file, name = CODE.findall(test)
            text = (ROOT / file).read_text(encoding="utf-8")
            self.assertRegex(text, rf"\b(fn|def) {re.escape(name)}\(", f"{hazard}: {test}")

    def test_every_patch_exists(self) -> None:
        for hazard, _, _, patches in rows():
            for patch in CODE.findall(patches):
                path = ROOT / "tests" / "mutations" / f"{patch}.patch"
                self.assertTrue(path.is_file(), f"{hazard}: {path.name} is not there")

    def test_every_script_for_a_gpu_exists(self) -> None:
        self.assertTrue(rows("script"))
        for hazard, _, script, result in rows("script"):
            for name in CODE.findall(script):
                path = ROOT / "tests" / "gpu" / name
                self.assertTrue(path.is_file() and result, f"{hazard}: {name} is not there")

    def test_the_page_counts_its_rows(self) -> None:
        hazards = rows()
        broken = sum(bool(CODE.findall(patches)) for *_, patches in hazards)
        counted = f"**{len(hazards)} hazards, {broken} of them with a patch"
        self.assertTrue(counted in PAGE.read_text(encoding="utf-8"), counted)
        self.assertGreaterEqual(len(hazards), LEAST_HAZARDS)


if __name__ == "__main__":
    unittest.main()
