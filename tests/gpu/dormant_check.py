"""Pairs of untraced processes and processes with a dormant collector -> what being dormant costs.

    dormant_check.py LINES...

Each file LINES holds the JSON lines of dormant.py in one run of dormant.sh, each with `way`
("untraced" or "dormant") and `pair`.
Prints a table, and PASS or FAIL for each promise. Exit status: 0, 1 if a promise does not hold,
2 if LINES cannot be used.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

from draws import DRAWS, Interval, interval

MOST_COST = 1.01
"""Upper bound of the quotient of step times, dormant over untraced."""

MOST_KIB = 4096
"""Upper bound of the memory that a dormant collector takes, KiB."""

FEWEST_PAIRS = 5
"""With fewer the interval says nothing."""

Pair = tuple[dict[str, float], dict[str, float]]


class UnusableError(Exception):
    """The lines are no result."""


def read(*runs: str) -> list[Pair]:
    """Return the pairs (untraced, dormant) that are whole; raise `UnusableError` for too few."""
    ways: dict[tuple[int, int], dict[str, dict[str, float]]] = {}
    for run, text in enumerate(runs):
        for number, line in enumerate(text.splitlines(), 1):
            try:
                found = json.loads(line)
                ways.setdefault((run, int(found["pair"])), {})[found["way"]] = {
                    key: float(found[key]) for key in ("eager_ms", "graph_ms", "rss_kib")
                }
            except (ValueError, KeyError, TypeError) as error:
                raise UnusableError(f"line {number} is no result of dormant.py: {error}") from error
    pairs = [(way["untraced"], way["dormant"]) for way in ways.values() if len(way) == 2]
    if len(pairs) < FEWEST_PAIRS:
        raise UnusableError(f"{len(pairs)} whole pairs; {FEWEST_PAIRS} are needed at least")
    return pairs


def cost(pairs: list[Pair], key: str) -> Interval:
    """Return the median quotient of the pairs, and where those of other draws of pairs lie."""
    quotients = [dormant[key] / untraced[key] for untraced, dormant in pairs]
    found = interval([quotients], statistics.median)
    assert found is not None, "a median has a value"
    return found


def noise(pairs: list[Pair], key: str) -> float:
    """Return by how much untraced processes differ: (largest - least) / median."""
    values = [untraced[key] for untraced, _ in pairs]
    return (max(values) - min(values)) / statistics.median(values)


def verdicts(pairs: list[Pair]) -> list[str]:
    """Return the table and the lines that say what holds."""
    lines = [
        f"{len(pairs)} pairs; quotients with the bounds of 95 % of {DRAWS} draws of the pairs",
        "| step | untraced ms | dormant / untraced | spread of untraced |",
        "|---|---|---|---|",
    ]
    closing = []
    for key, name in (("eager_ms", "eager decode"), ("graph_ms", "graph replay")):
        found = cost(pairs, key)
        untraced = statistics.median(untraced[key] for untraced, _ in pairs)
        lines.append(f"| {name} | {untraced:.4f} | {found.text('.4f')} | {noise(pairs, key):.1%} |")
        holds = found.high <= MOST_COST
        closing.append(
            f"{verdict(holds)} {name}: upper bound {found.high:.4f}, at most {MOST_COST}"
        )
    kib = statistics.median(dormant["rss_kib"] - untraced["rss_kib"] for untraced, dormant in pairs)
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
