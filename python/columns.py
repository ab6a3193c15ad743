"""Writes `stage2/_columns.json`: the columns of all tables, with their types, from the schemas.

python3 python/columns.py

A frame has the same columns and types whatever a run holds, so the package has to know them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple, Union

REPOSITORY = Path(__file__).parents[1]
OUTPUT = Path(__file__).with_name("stage2") / "_columns.json"

Node = Dict[str, Any]
Type = Union[str, List[Any], Dict[str, Any]]
Columns = Dict[str, Tuple[Type, str]]

_PRIMITIVES = {"integer": "int", "number": "float", "string": "str", "boolean": "bool"}
_LINKS = {
    "stage2_contract::text::KernelName::short": "Readable name of the kernel",
    "stage2_contract::text::KernelName::id": "Short name of the kernel that no other kernel has",
    "LAUNCH_GAP_US": "50 us",
    "StageRow::stage": "The stage, as in the table `stages`",
    "PathRow::path": "The path of the range, as in the table `paths`",
    "DeviceRow::device": "The GPU, as in the table `devices`",
    "ProcessRow::file": "The trace file of the process, as in the table `processes`",
}
"""What the descriptions of the report's types refer to by the names of these types."""


class Schema:
    """A schema file. Types: `int`, `float`, `str`, `bool`, `any`, `[inner]`, `{name: inner}`."""

    def __init__(self, name: str) -> None:
        """Read it."""
        path = REPOSITORY / f"schemas/{name}.schema.json"
        self.root: Node = json.loads(path.read_text(encoding="utf-8"))

    def at(self, definition: str) -> Node:
        """Return a definition."""
        node: Node = self.root["$defs"][definition]
        return node

    def columns(self, node: Node, prefix: str = "") -> Columns:
        """Return the columns of rows of this type: objects become columns with dots."""
        found: Columns = {}
        for variant in self._variants(node):
            for name in self._names(variant):
                inner = variant["properties"][name]
                for column, what in self._cells(inner, prefix + name).items():
                    found.setdefault(column, what)
        return found

    def _names(self, node: Node) -> list[str]:
        """Return the names of an object's properties, in the order of the report."""
        required: list[str] = node.get("required", [])
        return [*required, *(name for name in node["properties"] if name not in required)]

    def _cells(self, node: Node, name: str) -> Columns:
        variants = self._variants(node)
        objects = [variant for variant in variants if "properties" in variant]
        is_figure = any(set(variant["properties"]) == {"absent"} for variant in objects)
        if is_figure:
            found: Columns = {}
            for variant in objects:
                if "known" in variant["properties"]:
                    found.update(self._cells(variant["properties"]["known"], name))
                elif "absent" not in variant["properties"]:
                    found.update(self.columns(variant, f"{name}."))
            text = self._text(node, variants)
            return {
                column: (kind, text if column == name else f"{text} {own}")
                for column, (kind, own) in found.items()
            }
        if objects and len(objects) == len(variants):
            return self.columns({"oneOf": objects}, f"{name}.")
        return {name: (self._type(node), self._text(node, variants))}

    def _type(self, node: Node) -> Type:
        variants = self._variants(node)
        objects = [variant for variant in variants if "properties" in variant]
        if objects and len(objects) == len(variants):
            merged: dict[str, Type] = {}
            for variant in objects:
                for name in self._names(variant):
                    kind = self._type(variant["properties"][name])
                    merged[name] = kind if merged.get(name, kind) == kind else "any"
            return merged
        kinds = [self._plain(variant) for variant in variants]
        if all(kind == kinds[0] for kind in kinds):
            return kinds[0]
        return "float" if all(kind in ("int", "float") for kind in kinds) else "any"

    def _plain(self, node: Node) -> Type:
        if "prefixItems" in node:
            kinds = [self._type(item) for item in node["prefixItems"]]
            return [kinds[0] if all(kind == kinds[0] for kind in kinds) else "any"]
        if "items" in node:
            return [self._type(node["items"])]
        if "const" in node:
            return "str"
        return _PRIMITIVES.get(node.get("type", ""), "any")

    def _variants(self, node: Node) -> list[Node]:
        """Return the alternatives of a type, without null."""
        if "$ref" in node:
            return self._variants(self.at(node["$ref"].rsplit("/", 1)[1]))
        for key in ("oneOf", "anyOf"):
            if key in node:
                return [found for inner in node[key] for found in self._variants(inner)]
        kinds = node.get("type")
        if isinstance(kinds, list):
            return [{**node, "type": kind} for kind in kinds if kind != "null"]
        return [] if kinds == "null" else [node]

    def _text(self, node: Node, variants: list[Node]) -> str:
        text = node.get("description", "")
        consts = [str(variant["const"]) for variant in variants if "const" in variant]
        return _clean(text) + (f" One of: {', '.join(consts)}." if consts and text else "")


def _clean(text: str) -> str:
    """Return a description without the names of Rust types."""
    text = " ".join(text.split())
    for link, meaning in _LINKS.items():
        text = re.sub(rf"`(super::)?{link}`", meaning, text)
    text = re.sub(r" ?\(`\w+`\([\w:]+\)\)", "", text)
    text = re.sub(r"`\w+::(\w+)`", r"`\1`", text)
    return re.sub(r"\b[Nn]ull\b", "None", text)


def _kernels(metrics: Schema, timelines: Schema) -> Columns:
    """Return the columns of kernels, whose table has lists of values and indexes into them."""
    table = metrics.at("KernelTable")["properties"]
    cells = {cell["title"]: cell for cell in table["rows"]["items"]["prefixItems"]}
    found: Columns = {}
    for values in ("names", "ranges", "devices"):
        found.update(metrics.columns(table[values]["items"]))
    found.update(metrics.columns(table["launches"]["items"], "launch."))
    found.update(metrics.columns(table["sources"]["items"], "sources."))
    for name in ("first_start", "last_end"):
        text = cells[f"{name}_ns"]["description"].replace(
            "after `begin_gpu_ns`", "of the GPU clock"
        )
        found[f"{name}_gpu_ns"] = ("int", text)
    for name, cell in cells.items():
        is_own = name not in ("name", "range", "device", "launch", "sources")
        if is_own and not name.startswith(("first_", "last_")):
            found.update(metrics._cells(cell, name))
    found["kernel_sum_percent"] = ("float", "Share of the durations of all kernels, percent.")
    for definition in ("StageKernelRow", "MemoryRow"):
        for column, (kind, text) in metrics.columns(metrics.at(definition)).items():
            if column in found and not found[column][1]:
                found[column] = (kind, text)
    found["class"] = ("str", "Kind of kernel, by its name.")
    samples = timelines.columns(timelines.at("KernelSamples"), "sampled.")
    samples.pop("sampled.kernel_rows", None)
    return {**_names(), **found, **samples, **_kernel()}


def _kernel() -> Columns:
    return {"kernel": ("str", "The same as `short`: its name in metrics.json.")}


def _names() -> Columns:
    return {
        "short": ("str", "Readable name of the kernel."),
        "mangled": ("str", "Symbol of the kernel."),
    }


def _timelines(timelines: Schema) -> Columns:
    work = timelines.columns(timelines.at("TimelineWork"))
    return {
        "stage": ("str", "The stage, as in the table `stages`."),
        "file": ("str", "The trace file of the process, as in the table `processes`."),
        "step": ("int", "Number of the step, from 0."),
        "kind": ("str", "`range` of the host, `work` of the GPU, or `gap` without GPU work."),
        "lane": ("str", "`host`, or the GPU and the stream."),
        "name": ("str", "Name of the range or of the work."),
        "class": work["class"],
        "depth": ("int", "Ranges of the step around it."),
        "start_ns": ("int", "Start of it, ns from the beginning of the step."),
        "length_ns": ("int", "Length of the range, work or gap, ns."),
        "launch": ("bool", "Of a gap: it is as short as between launches right behind each other."),
    }


def _stages(metrics: Schema) -> Columns:
    """Return the columns of stages: those of the report's first tables, and of its rows."""
    row = metrics.columns(metrics.at("StageRow"))
    answer = metrics.columns(metrics.at("StageAnswer"))
    kinds = metrics.at("WindowKind")["oneOf"]
    time = "{} time of a step, call or token (see `per`), ns."
    found: Columns = {
        "stage": row.pop("stage"),
        "per": ("str", "What the times from `p50_ns` to `std_ns` are of: step, call or token."),
        "p50_ns": ("int", time.format("Median")),
        "p99_ns": (
            "int",
            time.format("99th percentile of the") + " None: fewer than 100 are timed.",
        ),
        "max_ns": ("int", time.format("Longest")),
        "mean_ns": ("int", time.format("Mean")),
        "std_ns": ("int", time.format("Sample standard deviation of the")),
        "steps": (
            "int",
            "Number of the timed steps or calls, without the cold first ones. Of an engine: "
            "`timed_steps` of `engine_steps`.",
        ),
        "tokens_per_s": (
            "float",
            f"{answer['tokens_per_s'][1]} `gpu_work_ns` of `engine_steps` is that GPU work.",
        ),
        "tokens_counted": ("str", answer["tokens_counted"][1]),
        "floor_ns": (
            "int",
            "The least time that the GPU needs for it, ns: the larger of `floor_memory_ns` and "
            "`floor_compute_ns`.",
        ),
        "floor_memory_ns": ("int", "Time of weights and KV cache at peak bandwidth, ns."),
        "floor_compute_ns": ("int", "Time of the FLOPs at the dense peak, ns."),
        "mean_over_floor": (
            "float",
            "Mean GPU window of a step, call or token, divided by `floor_ns` (the median, if the "
            "mean is not known).",
        ),
        "floor_absent": ("str", "Why there is no floor; None: there is a floor."),
        "idle_percent": ("float", "Share of the windows of warm calls without GPU work, percent."),
        "tokens_per_step": ("int", "Tokens of one sequence in a step, by which times are divided."),
        "step_path": ("str", "Path of the range that is the step; None: another kind of step."),
        "is_cold": ("bool", "The times are of the first, cold call, because there is no other."),
    }
    for kind in kinds:
        text = f"Share of the windows of warm calls, percent. {_clean(kind['description'])}"
        found[f"window.{kind['const']}_percent"] = ("float", text)
    kind, text = row["gpu_idle_ns"]
    others = "It contains the time in which the GPU worked for another stage"
    left_out = "(`window.other_work_percent`), which `idle_percent` leaves out."
    row["gpu_idle_ns"] = (kind, f"{text} {others} {left_out}")
    for name in ("gpu_window_ns", "gpu_busy_ns", "gpu_idle_ns"):
        text = row[name][1].replace("(recorded) ", "")
        sampled = "Only the recorded instances; None: all were recorded."
        row[f"recorded_{name}"] = ("int", f"{text} {sampled}")
    counts = ("kernels", "kernel_sum_ns", "copies", "fills", "graph_launches")
    for name, (kind, text) in row.items():
        if name in counts or name.startswith("gpu_"):
            scaled = "" if name.endswith("_percent") else " In a sampled run, scaled to all."
            text = text.replace("(recorded) ", "")
            row[name] = (kind, f"{text} All instances, including cold ones.{scaled}")
    return {**found, **row}


def _recommendations(metrics: Schema) -> Columns:
    takeaway = metrics.columns(metrics.at("Takeaway"))
    return {
        "text": ("str", "What to do."),
        "stage": takeaway["stage"],
        "rule": takeaway["rule"],
        "gain": ("str", "What it gives at best: `faster` or `tokens_per_s_factor` in words."),
        "faster": ("float", "How many times faster the stage becomes at best; None: not known."),
        "saves_ns": ("int", "The most that it can save of `window_mean_ns`, ns."),
        "saves_error_ns": ("int", "Standard error of `saves_ns`, ns; None: it is a bound."),
        "window_mean_ns": (
            "int",
            "Mean GPU window of a step, call or token (see `per`), ns: from its start on the host "
            "to its end (in an engine, to the start of the next step) or to the end of its last "
            "GPU work. So it can exceed `mean_ns` and `max_ns` of `stages`.",
        ),
        "per": ("str", "What `window_mean_ns` is of: step, call or token."),
        "saves_percent": (
            "float",
            "The most that it can save of the windows of the stage, percent.",
        ),
        "tokens_per_s_factor": ("float", "The most by which it can multiply `tokens_per_s`."),
        "concerns_percent": (
            "float",
            "Share of the windows of all stages that it affects, percent.",
        ),
        "why": ("str", "The takeaway that it follows from."),
        "takeaway": ("str", "Its `id` in the table `takeaways`."),
        "further_takeaways": ("int", "Number of other takeaways with the same recommendation."),
    }


def _host_causes(causes: Columns) -> Columns:
    """Return the columns of causes, which have the name that the report gives them."""
    causes["percent"] = (
        "float",
        "Share of the idle time, percent. Of a function: of all its lines together.",
    )
    causes["frame.line"] = (
        "int",
        "The line of the function with the most time, from 1; 0: not known. `percent` is of the "
        "whole function, and `lines` has the share of each line.",
    )
    named = {"cause": ("str", "The cause as in the report, with the place in the code.")}
    return {"stage": causes.pop("stage"), **named, **causes}


def tables() -> dict[str, Columns]:
    """Return the columns of each table."""
    metrics, timelines, diff = Schema("metrics"), Schema("timelines"), Schema("diff")

    def rows(definition: str) -> Columns:
        return metrics.columns(metrics.at(definition))

    def kept(outer: str, names: str, inner: str) -> Columns:
        of_outer = rows(outer)
        return {**{name: of_outer[name] for name in names.split()}, **rows(inner)}

    stage: Columns = {"stage": ("str", "The stage; `run` is the whole run.")}
    per: Columns = {"per": ("str", "What the times are of: `step`, `token`, `call` or `run`.")}
    name: Columns = {"name": ("str", "Name of the work before, or the one after, if it is new.")}
    percent: Columns = {
        "change_percent": ("float", "The change relative to the time before, percent.")
    }
    interval: Columns = {
        "interval_percent": (
            ["float"],
            "`interval` relative to the value before, percent, as `change_percent` is.",
        )
    }
    coverage = {
        column: what
        for column, what in rows("ProcessCoverage").items()
        if not column.startswith("meta")
    }
    return {
        "stages": _stages(metrics),
        "recommendations": _recommendations(metrics),
        "kernels": _kernels(metrics, timelines),
        "stage_kernels": {**_names(), **rows("StageKernelRow"), **_kernel()},
        "operators": rows("OperatorRow"),
        "stage_operators": rows("StageOperatorRow"),
        "ranks": rows("RankStageRow"),
        "late_ranks": rows("LateRow"),
        "collectives": rows("CollectiveRow"),
        "steps": kept("StepSeries", "stage path file", "StepBucket"),
        "timelines": _timelines(timelines),
        "host_causes": _host_causes(kept("HostStage", "stage idle_ns", "HostCause")),
        "engine_steps": rows("EngineSteps"),
        "engine_batches": kept("EngineSteps", "stage", "EngineStepRow"),
        "requests": rows("RequestRow"),
        "paths": rows("PathRow"),
        "layers": rows("LayerRow"),
        "copies": rows("MemoryRow"),
        "fills": rows("MemoryRow"),
        "graph_launches": rows("GraphRow"),
        "energy": {
            **rows("StageEnergy"),
            "energy_absent": ("str", "Why the energy is not known; None: it is known."),
        },
        "utilisation": rows("StageUtilisation"),
        "devices": rows("DeviceRow"),
        "processes": rows("ProcessRow"),
        "coverage": coverage,
        "takeaways": {
            **rows("Takeaway"),
            "experiment.kind": ("str", "`change` what is advised, or `measure` what is missing."),
        },
        "findings": rows("Finding"),
        "metrics": {**stage, **diff.columns(diff.at("MetricChange")), **interval},
        "work": {
            **stage,
            **name,
            **diff.columns(diff.at("WorkChange")),
            **percent,
            **per,
            **interval,
        },
        "conditions": diff.columns(diff.at("ConditionResult")),
    }


def _lines(found: dict[str, Columns]) -> Iterator[str]:
    yield "{"
    for table_at, (table, columns) in enumerate(found.items()):
        yield f'"{table}": {{'
        for at, (name, (kind, text)) in enumerate(columns.items()):
            end = "," if at + 1 < len(columns) else ""
            yield f"  {json.dumps(name)}: {json.dumps([kind, text])}{end}"
        yield "}," if table_at + 1 < len(found) else "}"
    yield "}"


def text() -> str:
    """Return the content of the file, a line for each column."""
    return "\n".join(_lines(tables())) + "\n"


if __name__ == "__main__":
    OUTPUT.write_text(text(), encoding="utf-8")
