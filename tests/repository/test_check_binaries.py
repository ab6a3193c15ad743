"""packaging/check_binaries.py knows a path of this machine from a text that looks like one."""

import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path
from types import ModuleType
from unittest import mock

SCRIPT = Path(__file__).resolve().parent.parent.parent / "packaging" / "check_binaries.py"


def load() -> ModuleType:
    """Give the module; it reads ELF files with a package that only `.ci/dist` installs."""
    spec = importlib.util.spec_from_file_location("check_binaries", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    elf = mock.MagicMock()
    with mock.patch.dict(
        sys.modules, {"elftools": elf, "elftools.elf": elf, "elftools.elf.elffile": elf}
    ):
        spec.loader.exec_module(module)
    return module


class Paths(unittest.TestCase):
    def test_only_what_lies_in_the_folder_is_a_path_of_this_machine(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            home = Path(name).resolve()
            (home / "src").mkdir()
            for text, leaks in [
                (f"{home}/src/lib.rs", 1),
                (f"a{home}/src/a.rs{home}/src/b.rs", 2),
                (f"/proc/{home}/proc/", 0),
                (f"{home}", 0),
                (f"{home}/", 0),
            ]:
                with self.subTest(text):
                    found = list(load().paths_below(home, f"\0..{text}..\0".encode()))
                    self.assertEqual(len(found), leaks, found)

    def test_a_folder_that_is_not_there_has_no_paths(self) -> None:
        self.assertEqual(
            list(load().paths_below(Path("/nowhere/at/all"), b"/nowhere/at/all/x")), []
        )


if __name__ == "__main__":
    unittest.main()
