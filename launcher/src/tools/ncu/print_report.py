"""A report of Nsight Compute -> its raw page as `ncu --import FILE --page raw --csv` prints it.

For machines without ncu: NVIDIA's package ncu-report reads the file. It does not say which process
launched what, so that every launch has the process 0. Messages go to standard error.
"""

from __future__ import annotations

import csv
import sys
from typing import Any

FIXED = [
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
    "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
    "Kernel Name",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
]


def metric(action: Any, name: str) -> Any:
    """Return the value of a metric; None where the action lacks it."""
    found = action.metric_by_name(name)
    return None if found is None else found.value()


def cell(value: Any) -> str:
    """Write a value of the raw page; a number without separators."""
    return "" if value is None else str(value)


def whole(value: float | None) -> str:
    """Write a number that is an identifier."""
    return "" if value is None else str(int(value))


def size(action: Any, what: str) -> str:
    """Write a grid or block, `(16, 1, 1)`."""
    parts = [metric(action, f"launch__{what}_dim_{axis}") for axis in "xyz"]
    return "" if None in parts else "({}, {}, {})".format(*(int(part) for part in parts))


def ranges(action: Any, kind: str) -> str:
    """Write the open ranges of a kind, outermost first, in the form of the raw page."""
    state = action.nvtx_state()
    found: list[str] = []
    for number in state.domains() if state else ():
        domain = state.domain_by_id(number)
        tail = "none:none:none:none:none:none"
        found += [f'"{domain.name()}:{name}:{tail}"' for name in getattr(domain, kind)()]
    return "0  " + " ".join(found) if found else ""


def kernel(action: Any) -> str:
    """Return the mangled name; of a replayed range: `range`."""
    if action.workload_type() == getattr(type(action), "WorkloadType_RANGE", None):
        return "range"
    return str(action.name(action.NameBase_MANGLED))


def fixed(number: int, action: Any) -> list[Any]:
    """Return the columns before the metrics."""
    of_device = "device__attribute_"
    parts = [metric(action, f"{of_device}compute_capability_{part}") for part in ("major", "minor")]
    return [
        number,
        0,
        "",
        "",
        ranges(action, "push_pop_ranges"),
        ranges(action, "start_end_ranges"),
        kernel(action),
        whole(metric(action, "launch__context_id")),
        whole(metric(action, "launch__stream_id")),
        size(action, "block"),
        size(action, "grid"),
        whole(metric(action, of_device + "device_index")),
        "" if None in parts else "{}.{}".format(*(int(part) for part in parts)),
    ]


def main() -> None:
    """Print the page of the report that the first argument names."""
    # Only an installed package: nothing from the folder that this runs in.
    sys.path[:] = [path for path in sys.path if path]
    import ncu_report

    context = ncu_report.load_report(sys.argv[1])
    count = context.num_ranges() if context else 0
    every = [context.range_by_idx(number) for number in range(count)]
    actions = [one.action_by_idx(at) for one in every for at in range(one.num_actions())]
    if not actions:
        sys.exit(f"{sys.argv[1]} is no report of Nsight Compute, or holds no result")
    units: dict[str, str] = {}
    for action in actions:
        # Groups and breakdowns name other metrics and have no value.
        for name in action.metric_names():
            if ":" not in name and name not in units:
                units[name] = action.metric_by_name(name).unit()
    names = sorted(units)
    table = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL, lineterminator="\n")
    table.writerow(FIXED + names)
    table.writerow([""] * len(FIXED) + [units[name] for name in names])
    for number, action in enumerate(actions):
        table.writerow(fixed(number, action) + [cell(metric(action, name)) for name in names])


main()
