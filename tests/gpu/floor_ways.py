"""The modes of floor.sh -> which processes each of them runs, and in which environment."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

UNTRACED, AGAIN = "untraced", "untraced again"
FLOOR_V1 = "floor v1, all fields"
"""What every other cost is divided by."""
NEVER_ON = "never on"
"""A process in which records are never on: it tells how much a process drifts."""

MIN = ["kind", "start", "end", "correlation_id"]
GROUPS = {
    "times": ["start", "end"],
    "min": MIN[1:],
    "min + name": [*MIN[1:], "name"],
    "min + graph node": [*MIN[1:], "graph_node_id"],
    "min + device, context, stream": [*MIN[1:], "device_id", "context_id", "stream_id"],
    "min + grid, block": [
        *MIN[1:],
        *(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"),
    ],
    "min + memory, registers": [
        *MIN[1:],
        *("static_shared_memory", "dynamic_shared_memory"),
        *("registers_per_thread", "local_memory_per_thread"),
    ],
}


@dataclass(frozen=True)
class Way:
    """One kind of process."""

    name: str
    variables: dict[str, str] = field(default_factory=dict)
    """OUT at the beginning of a value stands for a folder of the process's own."""
    switch: tuple[str, str] | None = None
    """The floor, and how it stops: records are off, on and off again in one process."""


@dataclass(frozen=True)
class Place:
    """The files that the ways are made of."""

    floor: Path
    collector: Path
    cupti: Path
    old_cupti: Path | None = None


def ways(mode: str, place: Place) -> list[Way]:
    """Return the processes of a mode, in their order."""
    return {"cost": cost, "fields": fields, "off": off}[mode](place)


def bare(place: Place, api: str, chosen: str = "all", cupti: Path | None = None) -> dict[str, str]:
    """Return the variables of bare CUPTI."""
    return {
        "FLOOR_CUPTI": str(cupti or place.cupti),
        "FLOOR_API": api,
        "FLOOR_FIELDS": chosen,
        "FLOOR_OUT": "OUT/floor.json",
    }


def injected(place: Place, variables: dict[str, str]) -> dict[str, str]:
    """Return them for a process that the floor is injected into."""
    return {"CUDA_INJECTION64_PATH": str(place.floor), **variables}


def collected(place: Place, cupti: Path, api: str | None) -> dict[str, str]:
    """Return the variables of the collector."""
    variables = {
        "LD_PRELOAD": str(place.collector),
        "STAGE2_OUT": "OUT",
        "STAGE2_SUMMARY": "off",
        "STAGE2_LOG": "info",
        "STAGE2_CUPTI": str(cupti),
    }
    return variables if api is None else {**variables, "STAGE2_CUPTI_API": api}


def cost(place: Place) -> list[Way]:
    """Both APIs bare, and the collector with both."""
    found = [
        Way(UNTRACED),
        Way(AGAIN),
        Way(FLOOR_V1, injected(place, bare(place, "v1"))),
        Way("floor v2, all fields", injected(place, bare(place, "v2"))),
        Way("floor v2, default fields", injected(place, bare(place, "v2", "default"))),
        Way("floor v2, min fields", injected(place, bare(place, "v2", "min"))),
        Way("collector v1", collected(place, place.cupti, "v1")),
        Way("collector v2", collected(place, place.cupti, "v2")),
    ]
    if place.old_cupti is not None:
        old = place.old_cupti
        found += [
            Way("floor v1, OLD_CUPTI", injected(place, bare(place, "v1", cupti=old))),
            Way("collector, OLD_CUPTI", collected(place, old, None)),
        ]
    return found


def fields(place: Place) -> list[Way]:
    """Each field alone, which comes with the kind of the record, and groups."""

    def chosen(name: str, list_: str) -> Way:
        return Way(name, injected(place, bare(place, "v2", list_)))

    found = [Way(UNTRACED), Way(AGAIN), Way(FLOOR_V1, injected(place, bare(place, "v1")))]
    found += [chosen("all", "all"), chosen("default", "default"), chosen("kind", "kind")]
    found.append(chosen("kind again", "kind"))
    found += [chosen(name, ",".join(["kind", *list_])) for name, list_ in GROUPS.items()]
    default = default_fields()
    for name, prefixes in (
        ("default without name", ("name",)),
        ("default without grid, block", ("grid_", "block_")),
        ("default without graph node", ("graph_node_id",)),
    ):
        found.append(chosen(name, ",".join(f for f in default if not f.startswith(prefixes))))
    return found + [chosen(name, f"kind,{name}") for name in field_names() if name != "kind"]


def off(place: Place) -> list[Way]:
    """Stop in each way, to see what stays once records are off."""
    floor = str(place.floor)
    found = [Way(NEVER_ON, bare(place, "v1"), (floor, "none"))]
    for name, api, chosen, hows in (
        ("v1", "v1", "all", ("disable", "finalize")),
        ("v2", "v2", "all", ("disable", "unsubscribe", "finalize")),
        ("v2 min", "v2", "min", ("disable", "unsubscribe", "finalize")),
    ):
        found += [Way(f"{name}, {how}", bare(place, api, chosen), (floor, how)) for how in hows]
    return found


def header() -> str:
    """Return floor_fields.h, which is the one list of the fields."""
    return (Path(__file__).parent / "floor_fields.h").read_text(encoding="utf-8")


def field_names() -> list[str]:
    """Return the names that floor.cpp knows."""
    return re.findall(r'^    \{"(\w+)", KERNEL_FIELD_', header(), re.MULTILINE)


def default_fields() -> list[str]:
    """Return the fields that the collector takes."""
    text = header().split("kDefault =", 1)[1].split(";", 1)[0]
    return "".join(re.findall(r'"([^"]*)"', text)).split(",")
