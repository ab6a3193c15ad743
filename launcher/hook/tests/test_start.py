"""How the hook gets into a Python, and that nothing else changes there."""

from __future__ import annotations

import importlib.util
import tempfile
import unittest
from pathlib import Path

from .support import HOOK, needs, run

SHOW = "import sys, sitecustomize; print(sitecustomize.__file__); print(sys.path)"


class Start(unittest.TestCase):
    def in_folder(self, files: dict[str, str]) -> str:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in files.items():
            Path(folder.name, name).write_text(text)
        return folder.name

    def test_the_folder_leaves_the_path(self):
        ran = run(SHOW, "torch-ops")
        self.assertEqual((ran.status, ran.err), (0, ""))
        name, path = ran.out.splitlines()
        # Debian's Python brings one of its own, which goes on under its name.
        own = importlib.util.find_spec("sitecustomize")
        expected = own.origin if own else str(HOOK / "sitecustomize.py")
        self.assertEqual(name, expected)
        self.assertNotIn(str(HOOK), path)

    def test_the_users_sitecustomize_runs_and_keeps_its_name(self):
        folder = self.in_folder({"sitecustomize.py": "print('mine', __name__)"})
        ran = run(SHOW, "torch-ops", path=folder)
        self.assertEqual((ran.status, ran.err), (0, ""))
        self.assertEqual(
            ran.out.splitlines()[:2], ["mine sitecustomize", f"{folder}/sitecustomize.py"]
        )

    def test_errors_of_the_users_sitecustomize_are_what_they_were(self):
        for text in ("import stage2_nothing", "1 / 0", "raise ImportError('mine')"):
            folder = self.in_folder({"sitecustomize.py": text})
            with_hook = run("print('on')", "torch-ops", path=folder)
            without = run("print('on')", env={"PYTHONPATH": folder})
            self.assertEqual(with_hook.out, "on\n")
            self.assertEqual(with_hook[:3], without[:3], text)
            self.assertIn("Error", without.err)

    def test_isolated_pythons_are_left_alone(self):
        for flag in ("-I", "-E", "-S"):
            ran = run("import sys; print('stage2_annotate' in sys.modules)", "torch-ops", flag)
            self.assertEqual((ran.status, ran.out, ran.err), (0, "False\n", ""), flag)

    def test_unknown_annotations_are_told_and_the_others_done(self):
        code = "import sys; print([type(f).__name__ for f in sys.meta_path].count('_Finder'))"
        ran = run(code, " bogus ,torch-ops,,")
        self.assertEqual((ran.status, ran.out), (0, "1\n"))
        self.assertRegex(ran.err, r"\Astage2: STAGE2_ANNOTATE: 'bogus' .*torch-ops.*\n\Z")
        self.assertEqual(run(code, "bogus", env={"STAGE2_LOG": "off"}).err, "")
        self.assertEqual(run(code, "").out, "0\n")

    def test_what_fails_is_one_line_and_the_import_goes_on(self):
        folder = self.in_folder({"torch.py": "__version__ = '0.1\\n'\nanswer = 42"})
        ran = run("import torch; print(torch.answer)", "torch-ops,prefill-decode", path=folder)
        self.assertEqual((ran.status, ran.out), (0, "42\n"))
        lines = ran.err.splitlines()
        self.assertEqual(len(lines), 2, ran.err)
        self.assertTrue(all(line.startswith("stage2: ") and "torch 0.1" in line for line in lines))

    def test_an_import_that_fails_fails_as_before(self):
        folder = self.in_folder({"torch.py": "raise RuntimeError('no driver')"})
        code = "try:\n    import torch\nexcept RuntimeError as error:\n    print(error)"
        ran = run(code, "torch-ops", path=folder)
        self.assertEqual((ran.status, ran.out, ran.err), (0, "no driver\n", ""))
        ran = run("import importlib.util as u; print(u.find_spec('torch.nothing'))", "torch-ops")
        self.assertIn("ModuleNotFoundError" if ran.status else "None", ran.err or ran.out)

    def test_looking_for_a_module_does_not_import_it(self):
        folder = self.in_folder({"torch.py": "print('imported')"})
        code = (
            "import importlib.util as u, sys; spec = u.find_spec('torch'); "
            "print(spec.origin, type(spec.loader).__name__, 'torch' in sys.modules)"
        )
        ran = run(code, "torch-ops", path=folder)
        self.assertEqual(ran.out, f"{folder}/torch.py SourceFileLoader False\n")

    @needs("torch")
    def test_children_get_it_too_and_their_loader_is_as_it_was(self):
        code = (
            "import subprocess, sys; subprocess.run([sys.executable, '-c', "
            "'import torch; print(vars(torch.__loader__).keys())'], check=True)"
        )
        ran = run(code, "torch-ops")
        self.assertEqual((ran.status, ran.err), (0, ""))
        self.assertNotIn("exec_module", ran.out)
        self.assertIn("path", ran.out)
