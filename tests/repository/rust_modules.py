"""Read the modules of a crate from its Rust source, and which of them imports which.

The modules come from the source, not from the compiler: paths in `use` and in code are resolved
through `crate`, `self`, `super`, child modules, `use` and re-exports. Code under `#[cfg(test)]` is
left out, because a test may look at everything. A path that a macro puts together is not seen.
"""

import re
from collections.abc import Iterator
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
