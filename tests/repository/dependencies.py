"""Check the licences and the sources of all packages that are built, by the list in deny.toml.

    python3 tests/repository/dependencies.py            exit status 1 if a package is not allowed

Every package counts that cargo resolves for Linux, those of build scripts and tests as well. The
check needs no network once the packages are there. It says nothing of advisories: their database
is elsewhere.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"


def allowed_licences(text: str) -> set[str]:
    """Return the licences that deny.toml allows; Python 3.10 has no TOML reader."""
    listed = re.search(r"^allow = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
    if listed is None:
        raise ValueError("deny.toml has no list `allow`")
    return set(re.findall(r'"([^"]+)"', listed[1]))


def acceptable(expression: str, allowed: set[str]) -> bool:
    """Say whether an SPDX expression can be met with allowed licences.

    `A/B` is the older form of `A OR B`. A licence `WITH` an exception grants more than the licence.
    """
    words = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))

    def one_of(word: str, part: Callable[[], bool]) -> list[bool]:
        found = [part()]
        while words[:1] == [word]:
            words.pop(0)
            found.append(part())
        return found

    def either() -> bool:
        return any(one_of("OR", both))

    def both() -> bool:
        return all(one_of("AND", single))

    def single() -> bool:
        if not words:
            raise ValueError(f"cannot read the licence `{expression}`")
        word = words.pop(0)
        if word == "(":
            met = either()
            if words[:1] != [")"]:
                raise ValueError(f"cannot read the licence `{expression}`")
            words.pop(0)
            return met
        if words[:1] == ["WITH"]:
            del words[:2]
        return word in allowed

    met = either()
    if words:
        raise ValueError(f"cannot read the licence `{expression}`")
    return met


def problems(packages: list[dict[str, str | None]], allowed: set[str]) -> list[str]:
    """Describe each package whose licence or source is not allowed."""
    found = []
    for package in packages:
        name = f"{package['name']} {package['version']}"
        licence, source = package["license"], package["source"]
        if source not in (None, CRATES_IO):
            found.append(f"{name} comes from {source}; only crates.io is allowed")
        if not licence:
            found.append(f"{name} states no licence; read its licence file, then decide")
        elif not acceptable(licence, allowed):
            found.append(f"{name} has the licence `{licence}`, which deny.toml does not allow")
    return found


def main() -> int:
    """Check all packages; return the exit status."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    command += ["--filter-platform", "x86_64-unknown-linux-gnu"]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    packages = json.loads(done.stdout)["packages"]
    allowed = allowed_licences((ROOT / "deny.toml").read_text(encoding="utf-8"))
    found = problems(packages, allowed)
    for problem in found:
        print(problem)
    if not found:
        print(f"{len(packages)} packages: licences and sources are allowed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
