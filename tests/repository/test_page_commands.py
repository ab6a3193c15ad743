"""Tests of tests/repository/page_commands.py."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import page_commands


class PageCommands(unittest.TestCase):
    def faults(self, page: str) -> tuple[int, str]:
        """Return the exit status of a page, and whether its first block left a file."""
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "page.md"
            path.write_text(page.replace("LEFT", f"{name}/left"), encoding="utf-8")
            status = page_commands.main(["", name, str(path)])
            return status, "ran" if (Path(name) / "left").exists() else "did not run"

    def test_a_block_runs_unless_the_comment_above_it_names_a_need(self) -> None:
        other = "\n```sh\ntrue\n```\n"
        block = "```sh\ntouch LEFT\n```\n"
        self.assertEqual(self.faults(block), (0, "ran"))
        self.assertEqual(self.faults("<!-- needs: a GPU -->\n" + block + other), (0, "did not run"))
        samples = "<!-- needs: a checkout -->\n```sh\ntest -d docs/sample && touch LEFT\n```\n"
        self.assertEqual(self.faults(samples), (0, "ran"))

    def test_only_the_last_command_may_end_with_the_status_above_it(self) -> None:
        for page, status in [
            ("```sh\nexit 1   # why\n```\n", 1),
            ("<!-- may exit: 1 -->\n```sh\ntrue\n(exit 1)   # why\n```\n", 0),
            ("<!-- may exit: 1 -->\n```sh\ntrue\n```\n", 0),
            ("<!-- may exit: 1 -->\n```sh\n(exit 2)\n```\n", 1),
            ("<!-- may exit: 1 -->\n```sh\n(exit 1)\ntrue\n```\n", 1),
        ]:
            self.assertEqual(self.faults(page)[0], status, page)

    def test_a_comment_without_its_block_and_a_command_outside_are_faults(self) -> None:
        block = "```sh\ntrue\n```\n"
        for page in [
            "<!-- needs: a GPU -->\n\n" + block,
            "<!-- needs: a GPU -->\n```text\n```\n" + block,
            "    stage2-launch demo\n" + block,
        ]:
            self.assertEqual(self.faults(page)[0], 1, page)


if __name__ == "__main__":
    unittest.main()
