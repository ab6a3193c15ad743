#!/usr/bin/env python3
"""Build the book of the documentation, and check its links.

    docs/build.py LAUNCHER OUT     LAUNCHER: stage2-launch; OUT: a folder that is not there yet

It needs mdBook (https://rust-lang.github.io/mdBook/) on PATH. The chapters are those that
docs/README.md lists. Pages stay where they are useful in the repository, so some lie outside of
docs/. The script puts all that the chapters link to into one tree of the same shape, adds the page
of settings, and runs mdBook. Exit status 1: mdBook is missing, a link leads nowhere, or a
preset is not in its list.
"""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
SUMMARY = Path("docs/README.md")
SETTINGS = Path("docs/settings.md")
# The chapter that the generated page of settings follows.
PRESETS = "(../conf/README.md)\n"
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def main(argv: list[str]) -> int:
    """Build the book; return the exit status."""
    if len(argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    if not shutil.which("mdbook"):
        raise SystemExit("error: mdbook is not on PATH\nhint: run `cargo install --locked mdbook`")
    launcher, out = Path(argv[1]), Path(argv[2])
    pages = out / "pages"
    pages.mkdir(parents=True)
    shutil.copy(ROOT / "docs/book.toml", out)
    copied = collect(pages, {SETTINGS: settings(launcher)})
    (pages / "SUMMARY.md").write_text(summary(copied), encoding="utf-8")
    subprocess.run(["mdbook", "build", str(out)], check=True)
    faults = other_titles() + unnamed_presets() + broken_links(out / "book")
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{out}/book/index.html: {len(copied)} files, {len(faults)} faults")
    return 1 if faults else 0


def links(page: Path, text: str) -> set[Path]:
    """Return the files of the repository that a page links to, from its root."""
    found = set()
    for target in LINK.findall(without_code(text)):
        parts = urlsplit(target)
        if parts.scheme or not parts.path:
            continue
        path = (ROOT / page.parent / unquote(parts.path)).resolve()
        if path.is_relative_to(ROOT):
            found.add(path.relative_to(ROOT))
    return found


def without_code(text: str) -> str:
    """Return a page without its code, in which brackets are no links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))


def collect(pages: Path, generated: dict[Path, str]) -> list[Path]:
    """Copy the chapters and all that they link to, by whatever way; return what was copied."""
    waiting, seen = [SUMMARY, *generated], set()
    while waiting:
        page = waiting.pop()
        if page in seen:
            continue
        seen.add(page)
        source, copy = ROOT / page, pages / page
        copy.parent.mkdir(parents=True, exist_ok=True)
        if page.suffix == ".md":
            text = generated.get(page) or source.read_text(encoding="utf-8")
            copy.write_text(text, encoding="utf-8")
            found = links(page, text)
            waiting += [path for path in found if (ROOT / path).is_file() or path in generated]
        else:
            shutil.copy(source, copy)
    return sorted(seen)


def summary(copied: list[Path]) -> str:
    """List the chapters, and behind them the pages that mdBook would not render otherwise."""
    # The table by symptom, and what follows a link on its line, are for readers of the index:
    # mdBook takes each page once.
    text = (ROOT / SUMMARY).read_text("utf-8")
    text = re.sub(r"^# By symptom\n.*?(?=^# )", "", text, flags=re.M | re.S)
    text = re.sub(r"^(- \[.*?\)).*$", r"\1", text, flags=re.M)
    if PRESETS not in text:
        raise SystemExit(f"{SUMMARY} has no row {PRESETS.strip()}, which the settings follow")
    text = text.replace(PRESETS, f"{PRESETS}- [Every setting]({SETTINGS.name})\n")
    chapters = links(SUMMARY, text)
    # mdBook reads the summary at the root of the tree.
    text = LINK.sub(lambda link: link[0].replace(link[1], from_root(link[1])), text)
    others = {page for page in copied if page.suffix == ".md"} - chapters
    rows = [f"- [{title(page)}]({page})\n" for page in sorted(others)]
    return text + "\n# Raw pages\n" + "".join(rows)


def other_titles() -> list[str]:
    """Return the pages that an index calls by another title than their own."""
    readme = (ROOT / "README.md").read_text("utf-8").partition("## Documentation")[2]
    rows = {SUMMARY: (ROOT / SUMMARY).read_text("utf-8"), Path("README.md"): readme}
    faults = []
    for index, text in rows.items():
        for label, target in re.findall(r"\[([^\]]+)\]\(([^)#]+\.md)\)", text):
            page = (ROOT / index.parent / target).resolve()
            heading = page.read_text("utf-8").lstrip().split("\n", 1)[0].lstrip("# ")
            if label not in (heading, page.name) and page != ROOT / SUMMARY:
                faults.append(f"{index}: {target} is called {label!r}, and {heading!r} on its page")
    return faults


def unnamed_presets() -> list[str]:
    """Return the presets of GPUs and models that the page for their owners does not name."""
    page = ROOT / "docs/model-and-tokens.md"
    text = page.read_text("utf-8")
    files = [*(ROOT / "conf/hardware").iterdir(), *(ROOT / "conf/model/llm").iterdir()]
    names = sorted({file.stem for file in files} - {"auto", "none"})
    return [f"{page.name} does not name `{name}`" for name in names if f"`{name}`" not in text]


def from_root(target: str) -> str:
    """Return the path from the repository's root of what the summary links to."""
    return str((ROOT / SUMMARY.parent / target).resolve().relative_to(ROOT))


def title(page: Path) -> str:
    """Return the heading of a page, with its folder."""
    first = (ROOT / page).read_text(encoding="utf-8").lstrip().split("\n", 1)[0]
    words = first.lstrip("# ").replace("[", "").replace("]", "")
    return f"{words} ({page.parent})"


def settings(launcher: Path) -> str:
    """Describe every key of the default configuration: its value and its preset's comment."""
    rows: list[tuple[str, str, str]] = []
    path: list[tuple[int, str]] = []
    for line in output_of(launcher, "config").splitlines():
        match = re.match(r"( *)([^:#\s-][^:]*):(.*?)(?:\s{2,}# (conf/\S+):(\d+))?$", line)
        if not match:
            continue
        indent, key, value, file, number = match.groups()
        while path and path[-1][0] >= len(indent):
            path.pop()
        path.append((len(indent), key))
        if file:
            name = ".".join(key for _, key in path)
            shown = value.strip() or "(see below it)"
            rows.append((name, shown, explained(ROOT / file, int(number))))
    if not rows:
        raise SystemExit(f"{launcher} config printed no setting; is it of this version?")
    head = (
        "# Every setting\n"
        "Generated from `stage2-launch config` and the comments of the presets in `conf/`. "
        "[Presets and overrides](../conf/README.md) explains how to change them.\n\n"
        "| key | default | preset's comment |\n| --- | --- | --- |\n"
    )
    table = "".join(f"| `{key}` | `{value}` | {cell(text)} |\n" for key, value, text in rows)
    return head + table + presets() + options(launcher)


def presets() -> str:
    """List the presets of each group, with the first line of the comment of each."""
    out = "\n## Presets\nEach is chosen with `GROUP=PRESET`.\n\n"
    out += "| group | preset | its comment |\n| --- | --- | --- |\n"
    for file in sorted((ROOT / "conf").rglob("*.yaml")):
        group = file.parent.relative_to(ROOT / "conf")
        if group == Path():
            continue
        lines = file.read_text(encoding="utf-8").splitlines()
        comments = [line[2:] for line in lines if re.match("# [^@]", line)]
        out += f"| `{group}` | `{file.stem}` | {cell(comments[0] if comments else '')} |\n"
    return out


def options(launcher: Path) -> str:
    """Return what `--help` prints, for the program and each subcommand."""
    whole = output_of(launcher, "--help")
    # The subcommands stand in groups, in front of the arguments.
    names = re.findall(r"^  ([a-z]+)  ", whole.partition("\nArguments:")[0], flags=re.M)
    if not names:
        raise SystemExit(f"{launcher} --help lists no subcommand; did its form change?")
    out = f"\n## Options\n```text\n{whole}```\n"
    for name in names:
        out += f"\n### {name}\n```text\n{output_of(launcher, name, '--help')}```\n"
    return out


def output_of(launcher: Path, *words: str) -> str:
    """Return what a command prints."""
    command = [str(launcher), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def cell(text: str) -> str:
    """Escape what a cell of a table cannot hold."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def explained(file: Path, number: int) -> str:
    """Return the comment of a line, or the comment lines right above it."""
    lines = file.read_text(encoding="utf-8").splitlines()
    own = re.search(r"\s# (.*)$", lines[number - 1])
    if own:
        further = []
        for line in lines[number:]:
            more = re.fullmatch(r" +# (.*)", line)
            # A comment of the next key begins where keys do.
            if not more or more.start(1) < own.start(1):
                break
            further.append(more.group(1))
        return " ".join([own.group(1), *further])
    above: list[str] = []
    for line in reversed(lines[: number - 1]):
        if not line.strip().startswith("# "):
            break
        above.insert(0, line.strip()[2:])
    return " ".join(above)


class Targets(HTMLParser):
    """What a page links to, and the anchors that it has."""

    def __init__(self) -> None:
        """Start with nothing found."""
        super().__init__()
        self.hrefs: set[str] = set()
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the links and the anchor of a tag."""
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif (tag, name) in (("a", "href"), ("img", "src")) and value:
                self.hrefs.add(value)


def broken_links(book: Path) -> list[str]:
    """Return what is wrong with the links of a built book, a line each."""
    parsed = {}
    for page in sorted(book.rglob("*.html")):
        parsed[page.resolve()] = targets = Targets()
        targets.feed(page.read_text(encoding="utf-8"))
    faults = []
    for page, targets in parsed.items():
        if page.name in ("print.html", "404.html", "toc.html"):
            continue
        for href in sorted(targets.hrefs):
            parts = urlsplit(href)
            if parts.scheme:
                continue
            there = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if there.is_dir():
                there = there / "index.html"
            known = parsed.get(there)
            if not there.exists():
                faults.append(f"{page.relative_to(book.resolve())}: {href} is not there")
            elif parts.fragment and known and unquote(parts.fragment) not in known.anchors:
                faults.append(f"{page.relative_to(book.resolve())}: {href} names no anchor")
    return faults


if __name__ == "__main__":
    sys.exit(main(sys.argv))
