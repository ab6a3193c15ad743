"""Tests of docs/phrases.py."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import phrases  # noqa: E402


class Phrases(unittest.TestCase):
    def found(self, prose: str) -> list[str]:
        known = phrases.read_phrases(phrases.PHRASES.read_text(encoding="utf-8"))
        return [match[0] for pattern, _, _ in known for match in pattern.finditer(prose)]

    def test_what_is_banned_is_found_and_plain_english_is_not(self) -> None:
        for bad in [
            "the value is held against the median",
            "`x` is no KEY=VALUE",
            "nobody knows why",
            "one line\nsays so",
            "a thread of its own",
            "50 µs",
            "NCCL 2.26 has it from 2.26 on.",
        ]:
            self.assertTrue(self.found(bad), bad)
        for good in [
            "there is no such file, and it is no longer needed",
            "the two cannot be told apart",
            "50 us, besides others",
            "it is missing from here on.",
            "The function itself says hello",
        ]:
            self.assertEqual(self.found(good), [], good)

    def test_code_of_pages_and_words_between_literals_do_not_count(self) -> None:
        self.assertEqual(self.found(phrases.page("`beside` and\n```sh\n# beside\n```\n")), [])
        source = (
            'f("a report", "says nothing"); // beside it\nlet x = \'"\'; g("it is \\\n   told");'
        )
        self.assertEqual(self.found(phrases.messages(source)), ["says nothing", "is \ntold"])
        self.assertEqual(phrases.messages(source).count("\n"), source.count("\n"))
        source = "/// Looks beside it.\n/// `beside` is code.\nfn f() {} // beside it\n"
        self.assertEqual(self.found(phrases.messages(source)), ["beside"])
        self.assertEqual(self.found(phrases.messages(source, docs=False)), [])

    def test_texts_of_python_are_found_on_their_lines(self) -> None:
        source = 'def f():\n  """Look beside it."""\n  x = "beside"\n  return f"{x} says nothing"\n'
        prose = phrases.python_messages(source)
        self.assertEqual(self.found(prose), ["beside", "says nothing"])
        self.assertEqual(prose[: prose.index("says")].count("\n"), 3)


if __name__ == "__main__":
    unittest.main()
