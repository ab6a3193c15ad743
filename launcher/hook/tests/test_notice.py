"""What is told on stderr."""

from __future__ import annotations

import unittest

from .support import HOOK, run

CODE = """
import sys
sys.path.insert(0, {hook!r})
from stage2_annotate.notice import Notices
notices = Notices({{}})
for number in range(1_000):
    notices.warn("always")
    notices.warn(f"step {{number}}")
print(len(notices._said))
"""


class Notice(unittest.TestCase):
    def test_errors_whose_text_always_differs_flood_nothing_and_keep_no_memory(self):
        ran = run(CODE.format(hook=str(HOOK)))
        lines = ran.err.splitlines()
        self.assertEqual((ran.status, ran.out), (0, "32\n"), ran.err)
        self.assertEqual((len(lines), lines.count("stage2: always")), (32, 1))


if __name__ == "__main__":
    unittest.main()
