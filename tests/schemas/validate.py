"""Hold JSON that the programs write against schemas/, and damage it to see it refused.

validate.py                     samples and golden files of the repository
validate.py NAME FILE...        these files against schemas/NAME.schema.json
validate.py --answers LAUNCHER  what ask, next, query, schema and ctl why print of the samples
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema

REPOSITORY = Path(__file__).resolve().parents[2]
SCHEMAS = REPOSITORY / "schemas"
SAMPLES = {
    "metrics": ["docs/sample/*/metrics.json", "launcher/tests/golden/*metrics.json"],
    "timelines": ["docs/sample/*/timelines.json", "launcher/tests/golden/*timelines.json"],
    "run": ["docs/sample/*/run.json"],
}
"""The files of each schema. Those of an older version have none."""


def questions() -> list[str]:
    """Return the questions about one run, as the schema has them."""
    schema = json.loads((SCHEMAS / "ask.schema.json").read_text())
    names = [one["const"] for one in schema["$defs"]["Question"]["oneOf"]]
    return [name for name in names if name != "compare"]


RUN = "docs/sample/vllm_two_gpus"
ANSWERS: dict[str, list[list[str]]] = {
    "ask": [
        *(["ask", "RUN", question] for question in questions()),
        ["ask", "RUN", "time", "--budget", "64"],
        ["ask", "RUN", "kernels-by-loss", "--budget", "1000000"],
        ["ask", "RUN", "compare", RUN],
    ],
    "next": [["next", "RUN"]],
    "query": [
        ["query", "RUN", "SELECT * FROM kernels", "--rows", "3"],
        ["query", "RUN", "SELECT 1.5 AS step_ms, NULL, 'x', x'00'"],
    ],
    "schema": [["schema", "RUN"], ["schema", "RUN", "kernels"], ["schema", "RUN", "steps"]],
    # What watches of two ranks have written, on the simulated GPU; no run has any.
    "why": [["ctl", "why", "--from", *(f"tests/fixtures/why/rank{n}.why.json" for n in (0, 1))]],
}
"""The commands whose output each schema is of; `--json` is added."""

Damage = Callable[[Any], None]


def put(path: str, value: Any) -> Damage:
    """Return what puts a value into the place of another one."""

    def change(document: Any) -> None:
        *outer, last = (int(key) if key.isdigit() else key for key in path.split("/"))
        for key in outer:
            document = document[key]
        if value is None:
            del document[last]
        else:
            document[last] = value

    return change


DAMAGED: dict[str, dict[str, Damage]] = {
    "metrics": {
        "no schema": put("schema", None),
        "no kernels": put("kernels", None),
        "kernels as in version 1": put("kernels", []),
        "a row of text": put("kernels/rows/0/4", "7"),
        "a negative time": put("kernels/rows/0/5", -1),
        "a short row": put("kernels/rows/0", [0, 0]),
        "a column without name": put("kernels/columns", ["name"]),
        "a stage without name": put("stages/0/stage", None),
        "a count of text": put("stages/0/kernels", "many"),
        "an unknown role": put("stages/0/role", "sleep"),
        "a verdict of number": put("coverage/verdict/status", 1),
        "a name without symbol": put("kernel_names/0/mangled", None),
    },
    "timelines": {
        "no version": put("schema_version", None),
        "a lane of text": put("step_timelines/0/lanes", "lane 7"),
        "work without start": put("step_timelines/0/lanes/0/work/0/start_ns", None),
    },
    "ask": {
        "no tables": put("tables", None),
        "a question that does not exist": put("question", "why"),
        "rows of numbers": put("tables/0/rows/0", 7),
        "a column without name": put("tables/0/columns/0/name", None),
        "a source of number": put("tables/0/sources/0", 7),
        "a text of nobody": put("tables/0/columns/0/text", "user"),
    },
    "next": {
        "no kind": put("kind", None),
        "words of one text": put("argv", "stage2-launch run"),
        "an unknown rule": put("rule", "sleep"),
        "evidence without value": put("evidence/0/value", None),
    },
    "query": {
        "no count": put("row_count", None),
        "a column without name": put("columns/0/name", None),
    },
    "schema": {
        "a table without name": put("tables/0/name", None),
        "rows of text": put("tables/0/rows", "many"),
        "columns of numbers": put("tables/0/columns", [1]),
    },
    "why": {
        "no verdict": put("verdict", None),
        "an unknown kind": put("verdict/kind", "sleep"),
        "a process without evidence": put("processes/0/evidence", None),
        "a process of text": put("processes/0/evidence/process/pid", "7"),
        "a negative time": put("processes/0/evidence/process/unix_ms", -1),
        "a frame of number": put("processes/0/evidence/threads/0/native", [7]),
        "a range that is late by number": put("processes/1/evidence/work/open_ranges/0/overdue", 1),
    },
    "job": {
        "no version": put("schema_version", None),
        "files of a number": put("files", 3),
        "a stage without steps": put("stages/0/steps", None),
        "a heat map without cells": put("heat/cells", None),
        "a count of text": put("collectives/samples", "many"),
    },
    "run": {
        "no passes": put("passes", None),
        "a status of number": put("passes/0/status", 3),
        "files of numbers": put("files", [1]),
    },
}


def validator(name: str) -> Any:
    """Return what holds documents against a schema."""
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def is_current(name: str, document: Any) -> bool:
    """Return whether a document is of the version of its schema."""
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    version = document.get("schema_version", document.get("schema"))
    return bool(schema["$id"] == f"urn:stage2:{name}:{version}")


def faults(name: str, files: list[Path]) -> Iterator[str]:
    """Return what does not hold of the files of a schema."""
    valid = validator(name)
    for file in files:
        document = json.loads(file.read_text())
        if not is_current(name, document):
            yield f"{file}: not of the version of the schema"
        for error in list(valid.iter_errors(document))[:3]:
            yield f"{file}: {error.json_path}: {error.message[:200]}"


def accepted(name: str, file: Path) -> Iterator[str]:
    """Return the damage that a schema does not see."""
    valid, whole = validator(name), json.loads(file.read_text())
    for what, damage in DAMAGED[name].items():
        document = copy.deepcopy(whole)
        damage(document)
        if valid.is_valid(document):
            yield f"{name}: {what} is valid"


def answers(launcher: str, folder: Path) -> Iterator[str]:
    """Return what does not hold of the answers about the samples."""
    runs = sorted(path.parent for path in REPOSITORY.glob("docs/sample/*/metrics.json"))
    for name, commands in ANSWERS.items():
        files: list[Path] = []
        for run in runs:
            for command in commands:
                words = [launcher, *(str(run) if word == "RUN" else word for word in command)]
                done = subprocess.run(
                    [*words, "--json"], cwd=REPOSITORY, check=True, capture_output=True, text=True
                )
                files.append(folder / f"{run.name}-{len(files)}.json")
                files[-1].write_text(done.stdout)
        yield from faults(name, files)
        yield from accepted(name, files[0])
        print(f"{name}: {len(files)} answers, {len(DAMAGED[name])} damaged ones")


def main() -> None:
    """Print what does not hold, and end with 1 if there is anything."""
    found: list[str] = []
    if sys.argv[1:2] == ["--answers"]:
        with tempfile.TemporaryDirectory() as folder:
            found.extend(answers(sys.argv[2], Path(folder)))
    elif sys.argv[1:]:
        name, files = sys.argv[1], [Path(word) for word in sys.argv[2:]]
        found.extend(faults(name, files))
        # Of the others, samples are damaged.
        if name in DAMAGED and name not in SAMPLES:
            found.extend(accepted(name, files[0]))
    else:
        for name, patterns in SAMPLES.items():
            found_files = (
                file for pattern in patterns for file in sorted(REPOSITORY.glob(pattern))
            )
            files = [file for file in found_files if is_current(name, json.loads(file.read_text()))]
            found.extend(faults(name, files))
            found.extend(accepted(name, max(files, key=lambda file: file.stat().st_size)))
            print(f"{name}: {len(files)} files, {len(DAMAGED[name])} damaged ones")
    print("\n".join(found) or "all hold")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
