"""Turns of processes, untraced and with a dormant collector -> what being dormant costs.

    dormant_check.py LINES...

Each file LINES holds the JSON lines of turns.py in one run of dormant.sh: the ways `untraced`,
`again` (the same) and `dormant`, one process of each in a group, and in some runs `watched`:
dormant with STAGE2_WATCH. A quotient is the median of those of two turns in all rounds of all
groups.
Prints a table, and PASS or FAIL for each promise. Exit status: 0, 1 if a promise does not hold,
2 if LINES cannot be used.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from draws import DRAWS, Interval, interval

MOST_COST = 1.01
"""Upper bound of the quotient of step times, dormant over untraced."""

MOST_KIB = 4096
"""Upper bound of the memory that a dormant collector takes, KiB."""

FEWEST_GROUPS = 5
"""With fewer the interval says nothing."""

WAYS = ("untraced", "again", "dormant")
WATCHED = "watched"
PARTS = {"eager": "eager decode", "graph": "graph replay"}

Turns = dict[int, dict[str, float]]
"""By round and way."""


class UnusableError(Exception):
    """The lines are no result."""


class Group:
    """One process of each way, which worked in turn."""

    def __init__(self) -> None:
        """Begin without a turn."""
        self.ms: dict[str, Turns] = {part: {} for part in PARTS}
        self.kib: dict[str, float] = {}

    def add(self, line: str) -> None:
        """Take in a turn."""
        found = json.loads(line)
        ways = (*WAYS, WATCHED)
        way = ways[ways.index(found["way"])]
        self.ms[found["part"]].setdefault(int(found["round"]), {})[way] = float(found["ms"])
        self.kib[way] = float(found["rss_kib"])

    def rounds(self, part: str) -> list[dict[str, float]]:
        """Return the rounds in which every way had its turn."""
        return [turns for turns in self.ms[part].values() if turns.keys() == self.kib.keys()]

    def is_whole(self) -> bool:
        """Tell whether there is such a round of each part."""
        return self.kib.keys() >= set(WAYS) and all(self.rounds(part) for part in PARTS)

    def dormant(self, part: str, way: str = "dormant") -> list[float]:
        """Return, by rounds, what `dormant` takes over what each untraced process takes.

        The mean of both would be a wrong base: turns are delayed, never hurried, so that the mean
        lies above what one turn takes (by 0.6 % in 128 groups), in favour of the third process.
        """
        return [
            turn[way] / turn[base] for turn in self.rounds(part) for base in ("untraced", "again")
        ]

    def watched(self, part: str) -> list[float]:
        """Return, by rounds, what `watched` takes over what `dormant` takes."""
        return [turn[WATCHED] / turn["dormant"] for turn in self.rounds(part)]

    def again(self, part: str) -> list[float]:
        """Return, by rounds, what `again` takes over what `untraced` takes: the noise."""
        return [turn["again"] / turn["untraced"] for turn in self.rounds(part)]


def read(*runs: str) -> list[Group]:
    """Return the groups that are whole; raise `UnusableError` for too few."""
    groups: dict[tuple[int, int], Group] = {}
    for run, text in enumerate(runs):
        for number, line in enumerate(text.splitlines(), 1):
            try:
                group = int(json.loads(line)["group"])
                groups.setdefault((run, group), Group()).add(line)
            except (ValueError, KeyError, TypeError) as error:
                raise UnusableError(f"line {number} is no turn of dormant.py: {error}") from error
    found = [group for group in groups.values() if group.is_whole()]
    if len(found) < FEWEST_GROUPS:
        raise UnusableError(f"{len(found)} whole groups; {FEWEST_GROUPS} are needed at least")
    return found


def over_groups(groups: list[Group], values: Callable[[Group], list[float]]) -> Interval:
    """Return the median over all groups, and where those of other draws of groups lie."""

    def median(drawn: list[list[float]]) -> float:
        return statistics.median(value for of_group in drawn for value in of_group)

    found = interval([[values(group) for group in groups]], median)
    assert found is not None, "a median has a value"
    return found


def verdicts(groups: list[Group]) -> list[str]:
    """Return the table and the lines that say what holds."""
    number = statistics.median(len(group.rounds(part)) for group in groups for part in PARTS)
    lines = [
        f"{len(groups)} groups, {number:.0f} rounds; quotients with the bounds of 95 % of {DRAWS} "
        "draws of the groups",
        "| step | untraced ms | dormant / untraced | untraced again / untraced |",
        "|---|---|---|---|",
    ]
    closing = []
    for part, name in PARTS.items():
        rounds = [turn for group in groups for turn in group.rounds(part)]
        untraced = statistics.median(turn["untraced"] for turn in rounds)
        found = over_groups(groups, partial(Group.dormant, part=part))
        again = over_groups(groups, partial(Group.again, part=part)).text(".4f")
        lines.append(f"| {name} | {untraced:.4f} | {found.text('.4f')} | {again} |")
        holds = found.high <= MOST_COST
        closing.append(
            f"{verdict(holds)} {name}: upper bound {found.high:.4f}, at most {MOST_COST}"
        )
    if all(WATCHED in group.kib for group in groups):
        lines += [
            "",
            "| step | watched / untraced | watched / dormant |",
            "|---|---|---|",
        ]
        for part, name in PARTS.items():
            found = over_groups(groups, partial(Group.dormant, part=part, way=WATCHED))
            more = over_groups(groups, partial(Group.watched, part=part))
            lines.append(f"| {name} | {found.text('.4f')} | {more.text('.4f')} |")
            holds = found.high <= MOST_COST
            closing.append(
                f"{verdict(holds)} {name}, watched: upper bound {found.high:.4f},"
                f" at most {MOST_COST}"
            )
    kib = statistics.median(group.kib["dormant"] - group.kib["untraced"] for group in groups)
    holds = kib <= MOST_KIB
    closing.append(f"{verdict(holds)} memory: {kib:.0f} KiB more (median), at most {MOST_KIB}")
    return lines + closing


def verdict(holds: bool) -> str:
    """Return the word that begins a line."""
    return "PASS" if holds else "FAIL"


def main() -> int:
    """Read the lines and print the verdicts."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        runs = [Path(path).read_text(encoding="utf-8") for path in sys.argv[1:]]
        said = verdicts(read(*runs))
    except (OSError, UnusableError) as error:
        print(f"FAIL {' '.join(sys.argv[1:])}: {error}")
        return 2
    print("\n".join(said))
    return 1 if any(line.startswith("FAIL") for line in said) else 0


if __name__ == "__main__":
    sys.exit(main())
