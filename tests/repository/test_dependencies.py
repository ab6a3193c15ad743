"""Licence expressions as packages state them, and what is refused."""

import unittest

from dependencies import CRATES_IO, acceptable, allowed_licences, problems

ALLOWED = {"MIT", "Apache-2.0", "BSD-3-Clause"}


class Expressions(unittest.TestCase):
    def test_one_of_several_is_enough(self) -> None:
        for expression in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "Unlicense / MIT",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
            "(Apache-2.0 OR GPL-3.0) AND BSD-3-Clause",
        ]:
            self.assertTrue(acceptable(expression, ALLOWED), expression)

    def test_all_of_several_are_needed(self) -> None:
        for expression in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND ISC", "mit"]:
            self.assertFalse(acceptable(expression, ALLOWED), expression)

    def test_and_binds_more_tightly_than_or(self) -> None:
        self.assertTrue(acceptable("MIT OR Apache-2.0 AND GPL-3.0", ALLOWED))
        self.assertFalse(acceptable("(MIT OR Apache-2.0) AND GPL-3.0", ALLOWED))

    def test_what_cannot_be_read_is_an_error(self) -> None:
        for expression in ["", "MIT OR", "(MIT", "MIT)", "MIT Apache-2.0"]:
            with self.assertRaises(ValueError, msg=expression):
                acceptable(expression, ALLOWED)


class Packages(unittest.TestCase):
    def package(self, **changed: str | None) -> dict[str, str | None]:
        found = {"name": "one", "version": "1.0.0", "license": "MIT", "source": CRATES_IO}
        return found | changed

    def test_packages_of_the_workspace_and_of_crates_io_are_allowed(self) -> None:
        self.assertEqual(problems([self.package(), self.package(source=None)], ALLOWED), [])

    def test_each_problem_names_its_package(self) -> None:
        found = problems([self.package(license="GPL-3.0")], ALLOWED)
        self.assertEqual(
            found, ["one 1.0.0 has the licence `GPL-3.0`, which deny.toml does not allow"]
        )
        self.assertIn("states no licence", problems([self.package(license=None)], ALLOWED)[0])
        source = "git+https://example.org/one"
        self.assertIn(source, problems([self.package(source=source)], ALLOWED)[0])

    def test_the_list_is_read_from_deny_toml(self) -> None:
        text = '[licenses]\nallow = [\n    "MIT",\n    "ISC",\n]\n[bans]\nskip = ["x"]\n'
        self.assertEqual(allowed_licences(text), {"MIT", "ISC"})
        with self.assertRaises(ValueError):
            allowed_licences("[licenses]\n")


if __name__ == "__main__":
    unittest.main()
