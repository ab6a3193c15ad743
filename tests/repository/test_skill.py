"""SKILL.md and llms.txt: short enough to be read always, and whole."""

import re
import unittest
from pathlib import Path

AGENTS = Path(__file__).parents[2] / "packaging/agents"
BYTES_PER_TOKEN = 4
MOST_TOKENS = 1500


class Skill(unittest.TestCase):
    """What an agent loads before it does anything."""

    def test_it_is_short(self) -> None:
        for name in ("SKILL.md", "llms.txt"):
            size = len((AGENTS / name).read_bytes())
            self.assertLess(size, MOST_TOKENS * BYTES_PER_TOKEN, name)

    def test_it_has_the_front_matter_that_agents_look_for(self) -> None:
        text = (AGENTS / "SKILL.md").read_text()
        found = re.match(r"---\nname: ([a-z0-9-]+)\ndescription: ([^\n]+)\n---\n", text)
        assert found is not None
        self.assertLess(len(found[2]), 1024)

    def test_each_verb_has_an_example(self) -> None:
        text = (AGENTS / "SKILL.md").read_text()
        for verb in ("run", "demo", "ask", "next", "diff", "schema", "query", "ctl"):
            self.assertRegex(text, rf"(?m)^stage2-launch {verb} ")


if __name__ == "__main__":
    unittest.main()
