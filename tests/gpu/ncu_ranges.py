"""Ranges of every shape, each with a kernel of its own -> which expressions ncu profiles them for.

    ncu_ranges.py workload               opens the ranges (needs torch and a GPU)
    ncu_ranges.py settings KIND          the override of stage2-launch with the forms of KIND
    ncu_ranges.py flags KIND             the flags of ncu with the forms of KIND, one a line
    ncu_ranges.py refused                the forms that ncu has to refuse, one a line
    ncu_ranges.py check KIND CSV JSON    PASS and FAIL lines for KIND, and JSON

KIND is plain or globs (settings of stage2-launch), literal or regex (flags of ncu).

Each form has ranges that nothing else names, so that one run of ncu tries many. Of forms with and
without `regex:` in one run ncu 2025.3 matched some for nothing: those have a run each.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from contextlib import ExitStack
from pathlib import Path

Case = tuple[str, list[str], list[str]]
"""A form, the ranges that it has to find, and those that it must not find.

`outer>inner`; `name@domain` for another domain, `~name` for a start/end range.
"""

PLAIN: list[Case] = [
    ("aa/", ["aa", "aa>in"], ["aab"]),
    ("dd/in", ["dd>in"], ["dd"]),
    ("ee/*/in/", ["ee>in", "ee>mid>in"], ["ee>mid"]),
    ("ff/+/in/", ["ff>mid>in"], ["ff>in"]),
    ("[gg", ["gg"], ["out>gg"]),
    ("hh]", ["hh"], ["hh>in"]),
    ("ii;jj/", ["ii", "jj"], ["iijj"]),
    (r"ll\[0\]\/x", ["ll[0]/x"], ["ll[0]"]),
    ("LLM@oo/", ["oo@LLM"], ["oo"]),
]
"""Forms of `pipeline.ncu.ncu_cli.nvtx.include` with literal names."""

GLOBS: list[Case] = [
    ("ra/", ["ra", "ra>in"], ["rab"]),
    ("bb*/", ["bb", "bbc", "bb>in"], ["abb"]),
    ("cc?", ["cc1"], ["cc", "cc12"]),
    ("regex:^kk[0-9]$/", ["kk7"], ["kk", "kk77"]),
    ("mm.*(x)", ["mm.1(x)"], ["mm01(x)"]),
    (r"nn\p", [r"nn\p"], ["nnp"]),
    ("LL*@pp*", ["pp1@LLM"], ["pp1"]),
    ("re*/*/in/", ["re1>in", "re1>mid>in"], ["re1>mid"]),
]
"""The same with globs and regular expressions, of which one may be nested."""

NATIVE: list[Case] = [
    ("na/", ["na", "na>in"], []),
    ("nb*/", [], ["nb", "nbc"]),
    ("nc*", [], ["nc", "ncd"]),
    ("regex:nd.*/", ["nd", "ndd", "xnd"], []),
    ("ne/in/", ["ne>in"], ["ne"]),
    ("nf/*/in/", ["nf>in", "nf>mid>in"], ["nf"]),
    ("ni", ["~ni"], ["ni"]),
    ("nj/", ["nj"], ["~nj"]),
    (r"regex:^nl\x5b1\x5d$/", ["nl[1]"], []),
    ("nm[1]/", [], ["nm[1]"]),
    ("regex:^LLM$@^no$/", ["no@LLM"], ["no"]),
    # The last one: what stands behind a nested regular expression finds nothing.
    ("regex:^nk$/*/^in$/", ["nk>in", "nk>mid>in"], ["nk"]),
]
"""Forms of `--nvtx-include`, handed to ncu as they are. `A/;B/` is not here: with it a run of ncu
2025.3 found nothing for any form."""

REFUSED = ["*/attn/", "a@b@c/", "@a/", "regex:^(/"]


def main() -> int:
    """Do what the first argument says."""
    match sys.argv[1:]:
        case ["workload"]:
            workload()
        case ["settings", ("plain" | "globs") as kind]:
            quoted = ",".join(f"'{form}'" for form, _, _ in cases(kind))
            print(f"pipeline.ncu.ncu_cli.nvtx.include=[{quoted}]")
        case ["flags", ("literal" | "regex") as kind]:
            print("\n".join(f"--nvtx-include\n{form}" for form, _, _ in cases(kind)))
        case ["refused"]:
            print("\n".join(REFUSED))
        case ["check", ("plain" | "globs" | "literal" | "regex") as kind, page, result]:
            return check(kind, Path(page), Path(result))
        case _:
            sys.exit(__doc__)
    return 0


def cases(kind: str) -> list[Case]:
    """Return the forms of a run."""
    if kind in ("plain", "globs"):
        return PLAIN if kind == "plain" else GLOBS
    return [case for case in NATIVE if case[0].startswith("regex:") == (kind == "regex")]


def places() -> list[str]:
    """Every range, once."""
    every = [place for _, hits, misses in PLAIN + GLOBS + NATIVE for place in hits + misses]
    return list(dict.fromkeys(every))


def workload() -> None:
    """Launch one kernel in each range."""
    import torch

    try:
        import nvtx
    except ImportError:
        nvtx = None
    x = torch.zeros(256, device="cuda")
    x.add_(1)
    torch.cuda.synchronize()
    for place in places():
        name, _, domain = place.partition("@")
        if place.startswith("~"):
            handle = torch.cuda.nvtx.range_start(place[1:])
            x.add_(1)
            torch.cuda.nvtx.range_end(handle)
        elif domain:
            if nvtx:
                with nvtx.annotate(name, domain=domain):
                    x.add_(1)
        else:
            with ExitStack() as stack:
                for part in place.split(">"):
                    torch.cuda.nvtx.range_push(part)
                    stack.callback(torch.cuda.nvtx.range_pop)
                x.add_(1)
    torch.cuda.synchronize()


def profiled(page: Path) -> set[str]:
    """Return the ranges of every launch of a raw page."""
    found = set()
    lines = page.read_text(encoding="utf-8", errors="replace").splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    for row in csv.DictReader(lines[start:]):
        if not row["ID"].isdigit():
            continue
        column = {
            kind: next((v or "" for k, v in row.items() if k and f":{kind}_Range:" in k), "")
            for kind in ("Push/Pop", "Start/Stop")
        }
        # Domain and name; none of the names here holds a colon.
        stack = re.findall(r'"([^":]*):([^":]*):[^"]*"', column["Push/Pop"])
        if stack:
            domain = stack[-1][0]
            suffix = "" if domain == "<default domain>" else f"@{domain}"
            found.add(">".join(name for _, name in stack) + suffix)
        open_ones = [place for place in places() if place.startswith("~")]
        found |= {place for place in open_ones if f":{place[1:]}:" in column["Start/Stop"]}
    return found


def check(kind: str, page: Path, result: Path) -> int:
    """Print a line for each form and write them as JSON; 1 where one is wrong."""
    found = profiled(page)
    try:
        import nvtx  # noqa: F401
    except ImportError:
        domains = False
    else:
        domains = True
    rows = []
    for form, hits, misses in cases(kind):
        row = {
            "form": form,
            "missing": [place for place in hits if place not in found],
            "unwanted": [place for place in misses if place in found],
        }
        skipped = "@" in form and not domains
        passed = not row["missing"] and not row["unwanted"]
        row["verdict"] = "SKIP" if skipped else "PASS" if passed else "FAIL"
        rows.append(row)
        more = "; the Python package nvtx is missing" if skipped else ""
        wrong = "" if passed else f": missing {row['missing']}, unwanted {row['unwanted']}"
        found_text = ", ".join(hits) or "nothing"
        print(f"{row['verdict']} {form} finds {found_text}{'' if skipped else wrong}{more}")
    result.write_text(json.dumps({"kind": kind, "forms": rows}, indent=1) + "\n", encoding="utf-8")
    return int(any(row["verdict"] == "FAIL" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
