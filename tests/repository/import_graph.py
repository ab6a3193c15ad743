"""Find import cycles between the modules of a crate, and between the crates of the workspace.

    python3 tests/repository/import_graph.py            the cycles; status 1 if there are any
    python3 tests/repository/import_graph.py --edges    also every import between two modules

Rust allows modules to import each other in a circle, and cargo allows it to crates through
dev-dependencies. Such modules cannot be read, tested or moved one at a time, so this project has
none. A module counts together with its children: what `report` and `report::html` import from each
other is one module's own business. So the children of one parent are compared with each other, at
every depth.

The modules come from the source, not from the compiler: paths in `use` and in code are resolved
through `crate`, `self`, `super`, child modules, `use` and re-exports. Code under `#[cfg(test)]` is
left out, because a test may look at everything. A path that a macro puts together is not seen.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

# A module, as the names on its path; the root of a crate is the empty path.
Module = tuple[str, ...]

TOKEN = re.compile(
    r"""
    (?P<skip> \s+ | //[^\n]* | /\*.*?\*/ )
  | (?P<raw> [bc]?r(?P<hashes>\#*)".*?"(?P=hashes) )
  | (?P<text> [bc]?"(?:\\.|[^"\\])*" | b?'(?:\\[^']+|\\'|[^'\\])' )
  | (?P<word> '?\$?(?:r\#)?\w+ )
  | (?P<mark> :: | . )
    """,
    re.VERBOSE | re.DOTALL,
)
OPENING, CLOSING = set("([{"), set(")]}")
# What an attribute can stand before, where commas do not end it.
DEFINING = {"fn", "struct", "enum", "trait", "type", "const", "static", "union"}
ITEMS = DEFINING | {"pub", "use", "mod", "impl", "unsafe", "async", "extern"}


@dataclass(frozen=True)
class Token:
    """A word, a string or a punctuation mark of Rust, and its line."""

    text: str
    line: int


@dataclass(frozen=True, order=True)
class Import:
    """A path that one module names, and where."""

    file: str
    line: int
    path: str


@dataclass
class Source:
    """What one module declares and names, not yet resolved."""

    file: str
    children: set[str] = field(default_factory=set)
    defined: set[str] = field(default_factory=set)
    # What `use` brings in: the name in this module, and the path that it stands for.
    names: dict[str, list[str]] = field(default_factory=dict)
    globs: list[list[str]] = field(default_factory=list)
    paths: list[tuple[list[str], int]] = field(default_factory=list)
    words: dict[str, int] = field(default_factory=dict)


Crate = dict[Module, Source]
Edges = dict[tuple[Module, Module], set[Import]]
# Of one family of siblings: who imports whom, and where.
Graph = dict[str, dict[str, set[Import]]]


def tokens(text: str) -> list[Token]:
    """Split Rust source into tokens; comments are left out."""
    found, line = [], 1
    for match in TOKEN.finditer(text):
        if not match["skip"]:
            found.append(Token(match[0], line))
        line += match[0].count("\n")
    return found


def balanced(stream: list[Token], start: int) -> int:
    """Return the place after the bracket that closes the one at `start`."""
    depth = 0
    for place in range(start, len(stream)):
        depth += (stream[place].text in OPENING) - (stream[place].text in CLOSING)
        if depth == 0:
            return place + 1
    return len(stream)


def end_of_item(stream: list[Token], start: int) -> int:
    """Return the place after the item, field or statement at `start`."""
    item = stream[start].text in ITEMS if start < len(stream) else False
    in_use = any(token.text == "use" for token in stream[start : start + 5])
    place = start
    while place < len(stream):
        text = stream[place].text
        if text in CLOSING:
            return place
        if text == ";" or (text == "," and not item):
            return place + 1
        if text in OPENING:
            place = balanced(stream, place)
            if text == "{" and not in_use:
                return place
        else:
            place += 1
    return place


def only_in_tests(attribute: list[str]) -> bool:
    """Say whether an attribute such as `cfg(test)` or `cfg(all(test, unix))` leaves only tests."""
    return attribute[:1] == ["cfg"] and "test" in attribute and not {"not", "any"} & set(attribute)


def use_tree(stream: list[Token], place: int, prefix: list[str]) -> Iterator[tuple[list[str], str]]:
    """Yield each path of a `use` declaration from `place` on, and the name that it gets here."""
    path = list(prefix)
    while place < len(stream):
        text = stream[place].text
        if text == "{":
            end, start = balanced(stream, place), place + 1
            depth = 0
            for at in range(place + 1, end):
                here = stream[at].text
                if depth == 0 and (here == "," or at == end - 1):
                    if at > start:
                        yield from use_tree(stream[start:at], 0, path)
                    start = at + 1
                depth += (here in OPENING) - (here in CLOSING)
            return
        if text == "as":
            yield path, stream[place + 1].text
            return
        if text not in ("::", ";"):
            path.append(text.removeprefix("r#"))
        place += 1
    if path and path[-1] == "self":
        path.pop()
    if path:
        yield path, path[-1]


class Reader:
    """Reads the modules of one crate, from its root file on."""

    def __init__(self, base: Path) -> None:
        """Files are named as seen from `base`."""
        self.base = base
        self.crate: Crate = {}

    def file(self, module: Module, path: Path, folder: Path) -> None:
        """Read the file of a module; `folder` holds the files of its children."""
        name = str(path.relative_to(self.base)) if path.is_relative_to(self.base) else str(path)
        self.body(module, tokens(path.read_text(encoding="utf-8")), name, path, folder)

    def body(
        self, module: Module, stream: list[Token], name: str, path: Path, folder: Path
    ) -> None:
        """Read the body of a module, which is a file or stands between braces."""
        source = self.crate.setdefault(module, Source(name))
        place, named_path = 0, ""
        while place < len(stream):
            text = stream[place].text
            after = [token.text for token in stream[place + 1 : place + 3]]
            if text == "#" and after[:1] in (["["], ["!"]):
                end = balanced(stream, place + 1 + (after[0] == "!"))
                inside = [token.text for token in stream[place + 2 : end - 1]]
                if after[0] == "[" and only_in_tests(inside):
                    while end + 1 < len(stream) and stream[end].text == "#":
                        end = balanced(stream, end + 1)
                    end = end_of_item(stream, end)
                elif inside[:2] == ["path", "="]:
                    named_path = inside[2].strip('"')
                place = end
            elif text == "mod" and after[1:] == [";"]:
                self.child(module, after[0], path, folder, named_path)
                place, named_path = place + 3, ""
            elif text == "mod" and after[1:] == ["{"]:
                end = balanced(stream, place + 2)
                source.children.add(after[0])
                inner = stream[place + 3 : end - 1]
                self.body((*module, after[0]), inner, name, path, folder / after[0])
                place = end
            elif text == "use" and after and after[0] not in ("<", ","):
                place = self.use(source, stream, place + 1)
            else:
                place = self.code(source, stream, place)

    def child(self, module: Module, name: str, path: Path, folder: Path, named: str) -> None:
        """Read the file that `mod name;` stands for."""
        self.crate[module].children.add(name)
        places = [path.parent / named] if named else []
        places += [folder / f"{name}.rs", folder / name / "mod.rs"]
        file = next((place for place in places if place.is_file()), None)
        if file is None:
            raise FileNotFoundError(f"{path}: no file for `mod {name};`")
        inner = file.parent if named or file.name == "mod.rs" else folder / name
        self.file((*module, name), file, inner)

    def use(self, source: Source, stream: list[Token], place: int) -> int:
        """Note what a `use` declaration brings in; return the place after it."""
        end = place
        while end < len(stream) and stream[end].text != ";":
            end += 1
        for path, name in use_tree(stream[place:end], 0, []):
            source.paths.append((path, stream[place].line))
            if name == "*":
                source.globs.append(path[:-1])
            elif name != "_":
                source.names[name] = path
        return end + 1

    def code(self, source: Source, stream: list[Token], place: int) -> int:
        """Note the path or the word at a place in code; return the place after it."""
        first = stream[place]
        if not re.match(r"\$?\w", first.text) or '"' in first.text:
            return place + 1
        path = [first.text.removeprefix("r#")]
        place += 1
        while (
            place + 1 < len(stream)
            and stream[place].text == "::"
            and re.match(r"\w", stream[place + 1].text)
        ):
            path.append(stream[place + 1].text.removeprefix("r#"))
            place += 2
        source.words.setdefault(path[0], first.line)
        if len(path) > 1:
            source.paths.append((path, first.line))
        elif first.text in DEFINING and place < len(stream):
            source.defined.add(stream[place].text)
        return place


def read_crate(root: Path, base: Path = ROOT) -> Crate:
    """Read all modules of the crate whose root file (`lib.rs`, `main.rs`) is given."""
    reader = Reader(base)
    reader.file((), root, root.parent)
    return reader.crate


class Resolver:
    """Says which modules of a crate a path leads to."""

    def __init__(self, crate: Crate) -> None:
        """Resolve within this crate."""
        self.crate = crate

    def resolve(self, module: Module, path: list[str]) -> set[Module]:
        """Return each module on the way of a path: re-exporting ones, and the one that defines."""
        found: set[Module] = set()
        self._start(module, path, found, set())
        return found

    def _start(
        self, module: Module, path: list[str], found: set[Module], seen: set[tuple[Module, str]]
    ) -> None:
        at, first = module, 0
        if path[0] in ("crate", "$crate"):
            at, first = (), 1
        else:
            while first < len(path) and path[first] in ("self", "super"):
                at = at[: len(at) - (path[first] == "super")]
                first += 1
        self._walk(at, path[first:], found, seen, anchored=first > 0)

    def _walk(
        self,
        at: Module,
        path: list[str],
        found: set[Module],
        seen: set[tuple[Module, str]],
        anchored: bool,
    ) -> None:
        for number, name in enumerate(path):
            source = self.crate[at]
            if name in source.children and (*at, name) in self.crate:
                at, anchored = (*at, name), True
                continue
            if anchored:
                found.add(at)
            if (at, name) not in seen:
                seen.add((at, name))
                rest = path[number + 1 :]
                if name in source.names:
                    self._start(at, source.names[name] + rest, found, seen)
                elif name not in source.defined:
                    for glob in source.globs:
                        self._start(at, [*glob, name, *rest], found, seen)
            return
        if anchored:
            found.add(at)


def edges(crate: Crate) -> Edges:
    """Return every import between two modules of a crate."""
    result: Edges = {}
    resolver = Resolver(crate)
    for module, source in crate.items():
        named = list(source.paths)
        # `use super::*` brings in what the parent imports itself: what of it is said here counts.
        for glob in source.globs:
            for target in resolver.resolve(module, glob):
                if target in crate and target != module:
                    names = crate[target].names.keys() & source.words.keys()
                    named += [([*glob, name], source.words[name]) for name in names]
        for path, line in named:
            for target in resolver.resolve(module, path):
                if target != module:
                    where = Import(source.file, line, "::".join(path))
                    result.setdefault((module, target), set()).add(where)
    return result


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
