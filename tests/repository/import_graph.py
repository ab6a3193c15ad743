"""Find import cycles between the modules of a crate, and between the crates of the workspace.

    python3 tests/repository/import_graph.py            the cycles; status 1 if there are any
    python3 tests/repository/import_graph.py --edges    also every import between two modules

Rust allows modules to import each other in a circle, and cargo allows it to crates through
dev-dependencies. Such modules cannot be read, tested or moved one at a time, so this project has
none. A module counts together with its children: what `report` and `report::html` import from each
other is one module's own business. So the children of one parent are compared with each other, at
every depth. `rust_modules.py` says what counts as an import.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from rust_modules import ROOT, Edges, Import, Module, edges, read_crate

# Of one family of siblings: who imports whom, and where.
Graph = dict[str, dict[str, set[Import]]]


def families(found: Edges) -> dict[Module, Graph]:
    """Return, for each parent, who among its children imports whom."""
    result: dict[Module, Graph] = {}
    for (one, other), imports in found.items():
        pairs = enumerate(zip(one, other, strict=False))
        depth = next((at for at, (mine, theirs) in pairs if mine != theirs), None)
        if depth is None:
            continue  # A module and one of its own ancestors.
        graph = result.setdefault(one[:depth], {})
        graph.setdefault(one[depth], {}).setdefault(other[depth], set()).update(imports)
    return result


def cycles(graph: dict[str, dict[str, set[Import]]]) -> list[list[str]]:
    """Return the groups of nodes that reach each other (strongly connected components)."""

    def reachable(start: str) -> set[str]:
        found, todo = set(), [start]
        while todo:
            for node in graph.get(todo.pop(), {}):
                if node not in found:
                    found.add(node)
                    todo.append(node)
        return found

    reach = {node: reachable(node) for node in graph}
    groups, done = [], set()
    for node in sorted(graph):
        if node not in done and node in reach[node]:
            group = sorted(other for other in reach[node] if node in reach.get(other, ()))
            done.update(group)
            groups.append(group)
    return groups


def edges_to_remove(graph: Graph, group: Iterable[str]) -> list[tuple[str, str]]:
    """Return few and light edges whose removal leaves a group without a cycle."""
    members = set(group)
    left: Graph = {
        one: {other: found for other, found in others.items() if other in members}
        for one, others in graph.items()
        if one in members
    }
    removed: list[tuple[str, str]] = []
    while remaining := cycles(left):
        inside = [
            (len(imports), one, other)
            for one, others in left.items()
            for other, imports in others.items()
            if any(one in nodes and other in nodes for nodes in remaining)
        ]
        _, one, other = min(inside)
        del left[one][other]
        removed.append((one, other))
    # The heaviest first: what closes no cycle any more may stay.
    for one, other in reversed(removed.copy()):
        left[one][other] = graph[one][other]
        if cycles(left):
            del left[one][other]
        else:
            removed.remove((one, other))
    return sorted(removed)


def report(title: str, graph: Graph) -> list[str]:
    """Describe each cycle of a graph: its modules, and the imports to remove."""
    lines = []
    for group in cycles(graph):
        lines.append(f"{title}: {len(group)} import each other: {', '.join(group)}")
        for one, other in edges_to_remove(graph, group):
            found = sorted(graph[one][other])
            lines.append(f"  remove {one} -> {other} ({len(found)} imports):")
            lines += [f"    {each.file}:{each.line}: {each.path}" for each in found[:5]]
    return lines


def metadata(root: Path) -> list[dict[str, object]]:
    """Return the packages of the workspace, as cargo knows them."""
    command = ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"]
    done = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE)
    packages: list[dict[str, object]] = json.loads(done.stdout)["packages"]
    return packages


def crate_graph(packages: list[dict[str, object]], root: Path) -> Graph:
    """Return which package depends on which other one of the workspace; for tests, too."""
    names = {str(package["name"]) for package in packages}
    graph: Graph = {}
    for package in packages:
        one = str(package["name"])
        manifest = Path(str(package["manifest_path"])).relative_to(root)
        dependencies = package["dependencies"]
        assert isinstance(dependencies, list)
        for dependency in dependencies:
            other = dependency["name"]
            if other in names:
                where = Import(str(manifest), 1, f"{dependency['kind'] or 'normal'} dependency")
                graph.setdefault(one, {}).setdefault(other, set()).add(where)
    return graph


def roots(packages: list[dict[str, object]]) -> Iterator[tuple[str, Path]]:
    """Yield the name and the root file of every library and program of the workspace."""
    for package in packages:
        targets = package["targets"]
        assert isinstance(targets, list)
        for target in targets:
            if {"lib", "rlib", "cdylib", "bin", "proc-macro"} & set(target["kind"]):
                kind = "program" if "bin" in target["kind"] else "library"
                yield f"{package['name']} ({kind})", Path(target["src_path"])


def main() -> int:
    """Check the whole workspace; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--edges", action="store_true", help="print every import between modules")
    chosen = parser.parse_args()
    packages = metadata(ROOT)
    problems = report("crates", crate_graph(packages, ROOT))
    modules = 0
    for name, root in roots(packages):
        crate = read_crate(root)
        modules += len(crate)
        found = edges(crate)
        if chosen.edges:
            for (one, other), imports in sorted(found.items()):
                names = ["::".join(("crate", *module)) for module in (one, other)]
                print(f"{name}: {' -> '.join(names)} ({len(imports)})")
        for parent, graph in sorted(families(found).items()):
            inside = f"{name}, in {'::'.join(('crate', *parent))}"
            problems += report(inside, graph)
    for line in problems:
        print(line)
    if not problems:
        print(f"{modules} modules of {len(packages)} packages: no import cycle")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
