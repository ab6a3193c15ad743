"""What head.sh counts as failed; needs no GPU: `python -m unittest` in this folder."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).parent


class Checked(unittest.TestCase):
    def checked(self, check: str) -> tuple[int, str]:
        """Run `checked` on a script; return the exit status of `finish`, and the results."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "check.py").write_text(check)
            results = Path(folder, "results.txt")
            steps = f"""
                . {HERE}/head.sh
                here={folder} out={folder} python={sys.executable} results={results}
                : >"$results"
                echo "PASS before: something" >>"$results"
                checked name check.py
                finish
            """
            status = subprocess.run(["bash", "-c", steps], capture_output=True, check=False)
            return status.returncode, results.read_text()

    def test_lines_of_a_check_are_counted(self) -> None:
        status, text = self.checked("print('PASS equal')")
        self.assertEqual(status, 0, text)
        self.assertIn("PASS name: equal", text)
        status, text = self.checked("print('FAIL other')\nraise SystemExit(1)")
        self.assertEqual((status, text.count("FAIL name")), (1, 1), text)

    def test_a_check_that_ends_by_an_exception_has_failed(self) -> None:
        crash = "print('PASS equal')\nraise IndexError('nothing there')"
        for check in (crash, "raise SystemExit(2)"):
            with self.subTest(check):
                status, text = self.checked(check)
                self.assertEqual((status, text.count("FAIL name: check.py")), (1, 1), text)


if __name__ == "__main__":
    unittest.main()
