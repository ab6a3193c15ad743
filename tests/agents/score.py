#!/usr/bin/env python3
"""Ask about bundles whose right answers are known, and score what comes back.

Usage:
  score.py LAUNCHER [BUNDLE]...        with `stage2-launch ask --json`: no model is involved
  score.py --answers FILE [BUNDLE]...  answers of an agent, in the form that README.md states
  score.py --bundles LAUNCHER FOLDER   only makes the bundles, for an agent

Prints a table of questions and bundles. Exit status 1: an answer is wrong or missing, one has more
than 2,000 tokens, or their median exceeds 500 (4 bytes each).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import bundles

HERE = Path(__file__).parent
SAMPLES = HERE.parents[1] / "docs" / "sample"
TRUTH: dict[str, Any] = json.loads((HERE / "truth.json").read_text())
TOKEN_BYTES, MOST_TOKENS, MEDIAN_TOKENS = 4, 2_000, 500
UNKNOWN = "unknown"
Json = Any


class Answer(NamedTuple):
    """What `ask` printed."""

    parsed: Json
    size: int

    def rows(self, table: str) -> Iterator[dict[str, Json]]:
        """Give the rows of a table, by the names of its columns; one that is not there is null."""
        for found in self.parsed["tables"]:
            if found["name"] == table:
                names = [column["name"] for column in found["columns"]]
                for row in found["rows"]:
                    yield defaultdict(lambda: None, zip(names, row, strict=True))

    def first(self, table: str, **values: Json) -> dict[str, Json] | None:
        """Give the first row with these values."""
        rows = self.rows(table)
        return next((row for row in rows if values.items() <= row.items()), None)

    def says_unknown(self) -> bool:
        """Whether it says that something is not known."""
        return bool(self.parsed.get("unknown"))


# From an answer to the form of truth.json. `want` says only which stage is asked about.


def time_of(answer: Answer, want: Json) -> Json:
    """Give the time of the median step of each stage."""
    del want
    found = {row["stage"]: row["p50_ms"] for row in answer.rows("steps")}
    return found or UNKNOWN


def bound_of(answer: Answer, want: Json) -> Json:
    """Give what each stage is bound by: the first of its parts."""
    del want
    found: dict[str, str] = {}
    for row in answer.rows("parts"):
        found.setdefault(row["stage"], row["spent_on"])
    return found or UNKNOWN


def first_of(answer: Answer, want: Json) -> Json:
    """Give the rule of the first advice."""
    del want
    row = answer.first("first")
    # Where nothing is advised, the row says why.
    return (row and row["rule"]) or UNKNOWN


def kernel_of(answer: Answer, want: Json) -> Json:
    """Give the kernel with the largest loss; where that is not known, the longest that computes."""
    row = answer.first("kernels", stage=want["stage"])
    return {"name": row["kernel"], "percent": row["percent"]} if row else UNKNOWN


def late_of(answer: Answer, want: Json) -> Json:
    """Give the rank that is late by more than noise."""
    del want
    late = (row for row in answer.rows("late_ranks") if row["late_on"] != "noise")
    row = next(late, None)
    if row is None:
        return UNKNOWN if answer.says_unknown() else None
    rank = int(re.sub(r"\D", "", row["rank"]))
    found = {"rank": rank, "on": row["late_on"], "late": row["late"], "of": row["steps"]}
    return {**found, "median_ms": row["median_ms"], "every": row["every"]}


def host_of(answer: Answer, want: Json) -> Json:
    """Give the code, or the state, that most idle time goes into."""
    stage = want["stage"] if isinstance(want, dict) else None
    rows = answer.rows("causes")
    row = next((row for row in rows if stage in (None, row["stage"])), None)
    if row is None:
        return UNKNOWN
    line = re.search(r":(\d+)", row["where"])
    found = {"where": row["where"], "state": row["state"], "percent": row["percent"]}
    fault = answer.first("faults", stage=row["stage"])
    outlier = answer.first("outlier_causes", stage=row["stage"])
    rank = re.search(r"\d+", str(row.get("mostly_in")))
    return {
        **found,
        "line": int(line[1]) if line else None,
        "fault": fault["fault"] if fault else None,
        "rank": int(rank[0]) if rank else None,
        "outlier": outlier["where"] if outlier else None,
    }


def trust_of(answer: Answer, want: Json) -> Json:
    """Give whether everything was recorded, and what share is missing."""
    del want
    row = answer.first("verdict")
    if row is None:
        return UNKNOWN
    complete = row["status"] == "complete"
    return {"complete": complete, "missing_percent": row["missing_percent"]}


class Question(NamedTuple):
    """A question of the evaluation."""

    asks: str
    read: Callable[[Answer, Json], Json]


QUESTIONS = {
    "time": Question("time", time_of),
    "bound": Question("time", bound_of),
    "first": Question("summary", first_of),
    "kernel": Question("kernels-by-loss", kernel_of),
    "late": Question("late-ranks", late_of),
    "host": Question("host", host_of),
    "trust": Question("coverage", trust_of),
}


# Truth against an answer.


def is_near(value: Json, truth: Json, *, percent: bool) -> bool:
    """Whether a number is within a tolerance, in percent or in its own unit."""
    if not isinstance(value, int | float):
        return False
    right, tolerance = truth
    return bool(abs(value - right) <= (right * tolerance / 100 if percent else tolerance))


def line_number(text: str) -> int:
    """Give the number of the line of workload.py that a text is in."""
    lines = (HERE / "workload.py").read_text().splitlines()
    return next(at for at, line in enumerate(lines, 1) if text in line)


def mismatch(question: str, truth: Json, found: Json) -> str | None:
    """Say what is wrong with an answer; None: it is right."""
    if truth is None:
        # Where there is one rank only, nothing can be late.
        return None if found in (None, UNKNOWN) else f"{found} instead of nothing"
    if truth == UNKNOWN:
        return None if found == UNKNOWN else f"{found}, which nobody can know"
    if found == UNKNOWN:
        return UNKNOWN
    if question == "first":
        return None if found in truth else f"{found} instead of {' or '.join(truth)}"
    if not isinstance(found, dict):
        return f"{found} instead of {truth}"
    for field, right in truth.items():
        value = found.get(field)
        if field == "stage" or right is None:
            continue
        if field == "line":
            is_right = value == (right if isinstance(right, int) else line_number(right))
        elif isinstance(right, list):
            # Shares and counts have tolerances in their own unit, times in percent.
            of_time = question == "time" or field.endswith("_ms")
            is_right = is_near(value, right, percent=of_time)
        elif field in ("where", "name", "outlier"):
            is_right = right in str(value)
        else:
            is_right = value == right
        if not is_right:
            return f"{field} is {value} instead of {right}"
    return None


class Score(NamedTuple):
    """How an answer compares."""

    bundle: str
    question: str
    wrong: str | None
    size: int

    @property
    def mark(self) -> str:
        """One word for the table."""
        truth = TRUTH[self.bundle][self.question]
        if self.wrong is None:
            return "unknown, right" if truth == UNKNOWN else "right"
        return "missing" if self.wrong == UNKNOWN else "WRONG"


def bundle_of(launcher: Path, folder: Path, name: str) -> Path:
    """Make a bundle, or take the sample of that name, which must not be written to."""
    if name in bundles.NAMES:
        return bundles.make(launcher, folder, name)
    return Path(shutil.copytree(SAMPLES / name, folder / name))


def ask(launcher: Path, bundle: Path, question: str) -> Answer:
    """Ask as an agent does."""
    command = [str(launcher), "ask", str(bundle), question, "--json"]
    run = subprocess.run(command, check=True, capture_output=True, timeout=60)
    return Answer(json.loads(run.stdout), len(run.stdout))


def of_launcher(launcher: Path, names: list[str]) -> list[Score]:
    """Score what `ask` says."""
    scores = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            bundle = bundle_of(launcher, Path(folder), name)
            calls = {question.asks for question in QUESTIONS.values()}
            answers = {call: ask(launcher, bundle, call) for call in calls}
            for question, (call, read) in QUESTIONS.items():
                truth, answer = TRUTH[name][question], answers[call]
                wrong = mismatch(question, truth, read(answer, truth))
                scores.append(Score(name, question, wrong, answer.size))
    return scores


def of_agent(answers: Json, names: list[str]) -> list[Score]:
    """Score what an agent wrote."""
    scores = []
    for name in names:
        for question in QUESTIONS:
            found = answers.get(name, {}).get(question, UNKNOWN)
            wrong = mismatch(question, TRUTH[name][question], found)
            scores.append(Score(name, question, wrong, 0))
    return scores


def table(scores: list[Score]) -> str:
    """Print a line for each bundle."""
    width = max(len(score.bundle) for score in scores) + 2
    lines = ["".ljust(width) + "".join(question.ljust(22) for question in QUESTIONS)]
    for name in dict.fromkeys(score.bundle for score in scores):
        cells = [
            f"{score.mark} {score.size or ''}".ljust(22) for score in scores if score.bundle == name
        ]
        lines.append(name.ljust(width) + "".join(cells))
    return "\n".join(line.rstrip() for line in lines)


def complaints(scores: list[Score]) -> Iterator[str]:
    """Say what must not be."""
    for score in scores:
        where = f"{score.bundle}, {score.question}"
        if score.wrong == UNKNOWN:
            yield f"{where}: no answer, though it was recorded: {TRUTH[score.bundle]['seed']}"
        elif score.wrong:
            yield f"{where}: {score.wrong}"
        if score.size > MOST_TOKENS * TOKEN_BYTES:
            yield f"{where}: {score.size} bytes, more than {MOST_TOKENS} tokens"
    middle = median(score.size for score in scores) / TOKEN_BYTES
    if middle > MEDIAN_TOKENS:
        yield f"the median answer has {middle:.0f} tokens, more than {MEDIAN_TOKENS}"


def main(words: list[str]) -> int:
    """Do what the command line says."""
    if len(words) == 3 and words[0] == "--bundles":
        for name in TRUTH:
            if name != "about":
                print(bundle_of(Path(words[1]).resolve(), Path(words[2]), name))
        return 0
    is_agent = words[:1] == ["--answers"]
    words = words[is_agent:]
    names = words[1:] or [name for name in TRUTH if name != "about"]
    if not words or not set(names) <= TRUTH.keys():
        sys.exit(__doc__)
    if is_agent:
        scores = of_agent(json.loads(Path(words[0]).read_text()), names)
    else:
        scores = of_launcher(Path(words[0]).resolve(), names)
    print(table(scores))
    found = list(complaints(scores))
    right = sum(score.wrong is None for score in scores)
    middle = median(score.size for score in scores)
    print(f"\n{right} of {len(scores)} right; median {middle:.0f} bytes, ", end="")
    print(f"longest {max(score.size for score in scores)}")
    print("".join(f"  {text}\n" for text in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
