#!/usr/bin/env python3
"""Write the tables of hazards in docs/reliability.md from the lines above the tests.

    docs/reliability.py            writes the tables
    docs/reliability.py --check    exit status 1 if the page holds other ones

A test that guards against a hazard says so in its doc comment, by the two lines
`/// Hazard (Security): what goes wrong.` and `/// Promise: what we promise then.` (in Python, `#`
in front of the `def`). Each may go on in lines that begin with two more spaces. Several hazards may
stand above one test.
"""

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reliability.md"
MUTATIONS = ROOT / "tests" / "mutations.toml"
BEGIN = "<!-- docs/reliability.py writes what follows -->"
END = "<!-- docs/reliability.py wrote what precedes -->"
SECTIONS = (
    "Ends of life",
    "Processes and forks",
    "Threads, stacks and locks",
    "Signals",
    "Dormant processes and windows",
    "Standstill",
    "Traces in pieces",
    "Resources",
    "Versions, libraries and rivals",
    "Wrong data from the GPU",
    "Hostile guests",
    "Hostile files",
    "Hostile environments",
    "Calls that fail",
    "Host samples",
    "Records that make no sense",
    "Watching what runs",
    "Jobs of many ranks",
    "Security",
)
HAZARD = re.compile(r"\s*(?:///|#) Hazard \((.+?)\): (.+)")
PROMISE = re.compile(r"\s*(?:///|#) Promise: (.+)")
MORE = re.compile(r"\s*(?:///|#)  (\S.*)")
# What may stand between the lines and the function.
BETWEEN = re.compile(r"\s*(?:#|@|///|\)?\])")
FUNCTION = re.compile(r"\s*(?:pub |async )*(?:fn|def) (\w+)")
# A script of the table of what only a GPU can show.
SCRIPT = re.compile(r"`(\w+\.sh)`")


@dataclass
class Row:
    """One hazard."""

    section: str
    hazard: str
    promise: str = ""
    test: str = ""


class Faulty(Exception):
    """Lines that make no row; the text says where and why."""


def rows_of(name: str, text: str) -> list[Row]:
    """Return the rows of a file."""
    found: list[Row] = []
    waiting: list[Row] = []
    for number, line in enumerate(text.splitlines(), 1):
        if match := HAZARD.fullmatch(line):
            waiting.append(Row(match[1], match[2]))
            if match[1] not in SECTIONS:
                raise Faulty(f"{name}:{number}: the page has no section `{match[1]}`")
        elif not waiting:
            continue
        elif match := PROMISE.fullmatch(line):
            waiting[-1].promise = match[1]
        elif match := MORE.fullmatch(line):
            row = waiting[-1]
            if row.promise:
                row.promise += f" {match[1]}"
            else:
                row.hazard += f" {match[1]}"
        elif match := FUNCTION.match(line):
            for row in waiting:
                row.test = match[1]
                if not row.promise:
                    raise Faulty(f"{name}:{number}: no promise above `{row.test}`")
            found += waiting
            waiting = []
        elif not BETWEEN.match(line):
            raise Faulty(f"{name}:{number}: a hazard stands above no test")
    return found


def rows() -> list[Row]:
    """Return the rows of all tracked files."""
    listed = subprocess.run(
        ["git", "ls-files", "*.rs", "*.py"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    found: list[Row] = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if " Hazard (" in text:
            found += rows_of(name, text)
    return found


def tables(found: list[Row]) -> str:
    """Return what stands between the two marks of the page."""
    mutations = MUTATIONS.read_text(encoding="utf-8").count("\n[[mutation]]\n")
    text = (
        f"**{len(found)} hazards**, each with a promise and the test that guards it. We break the "
        f"promises on purpose: by `tests/mutations.py` ({mutations} mutations), and by "
        "cargo-mutants on the lines of a change.\n"
    )
    for section in SECTIONS:
        text += f"\n## {section}\n| hazard | promise | test |\n|---|---|---|\n"
        here = [row for row in found if row.section == section]
        for row in sorted(here, key=lambda row: (row.hazard, row.promise, row.test)):
            hazard, promise = row.hazard.removesuffix("."), row.promise.removesuffix(".")
            text += f"| {hazard} | {promise} | `{row.test}` |\n"
    return text


def main() -> int:
    """Write or check the page; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    arguments = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        sys.exit(f"{PAGE} lacks one of the lines `{BEGIN}` and `{END}`")
    try:
        found = rows()
    except Faulty as fault:
        sys.exit(str(fault))
    gone = [name for name in SCRIPT.findall(tail) if not (ROOT / "tests/gpu" / name).is_file()]
    if gone:
        sys.exit(f"{PAGE} names scripts that are not in tests/gpu: {', '.join(gone)}")
    new = f"{head}{BEGIN}\n{tables(found)}\n{END}{tail}"
    if arguments.check:
        if new != page:
            print("docs/reliability.md does not hold the hazards of the tests: to mend it, run")
            print("    python3 docs/reliability.py")
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    print(f"docs/reliability.md: {len(found)} hazards")
    return 0


if __name__ == "__main__":
    sys.exit(main())
