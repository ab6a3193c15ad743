#!/usr/bin/env python3
"""Find the phrases of docs/phrases.txt in the documentation and in the messages of the programs.

    docs/phrases.py [FILE]...    FILE: without one, all pages and sources below

Code in pages does not count. Of sources, string literals with a space and doc comments count;
tests do not. A phrase that begins with `~` may be in doc comments that are neither help texts nor
descriptions in schemas/.
Exit status 1: a phrase was found.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PHRASES = ROOT / "docs/phrases.txt"
# Raw measurements, notes of tests and examples, and pages that quote the original documents.
FOREIGN = ("benches/runs/", "CHANGELOG.md", "tests/", "lab/", "examples/", "docs/seeds.md")
# From the texts of the programs, or from comments of tests.
GENERATED = re.compile(r"docs/sample/\w+/|/golden/|docs/reliability\.md")
# Fuzz targets and the simulator are for tests.
SOURCES = re.compile(r"(?:launcher/|cupti-sys/|crates/(?!fuzz/|sim/)[\w-]+/)?src/")
# Where doc comments are help texts.
HELP = re.compile(r"launcher/src/cli/|crates/export/src/parquet/main")
TESTS = re.compile(r"/tests/|(?:tests|models|testing)\.rs$")
# Doc comments on successive lines, another comment, a raw string, a character, or a string.
LITERAL = re.compile(
    r"(?P<doc>//[/!][^\n]*(?:\n[ \t]*//[/!][^\n]*)*)"
    r"|(?://[^\n]*)"
    r'|(?:b?r#"(?P<raw>.*?)"#)'
    r"|(?:'(?:\\.|[^'\\])')"
    r'|(?:"(?P<text>(?:\\.|[^"\\])*)")',
    re.S,
)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)|<[^>\n]*>", re.S | re.M)
# Stands between two literals, so that no phrase goes across.
BETWEEN = "¦"


def main(argv: list[str]) -> int:
    """Print what was found; return the exit status."""
    phrases = read_phrases(PHRASES.read_text(encoding="utf-8"))
    files = [Path(name) for name in argv[1:]] or default_files()
    found = [line for path in files for line in search(path, phrases)]
    for line in found:
        print(line, file=sys.stderr)
    print(f"{len(files)} files, {len(phrases)} phrases: {len(found)} found")
    return 1 if found else 0


def read_phrases(text: str) -> list[tuple[re.Pattern[str], str, bool]]:
    """Return each phrase, its replacement, and whether doc comments may have it.

    A space in a phrase is any white space.
    """
    rows = [line for line in text.splitlines() if line and not line.startswith("#")]
    pairs = [line.split(" -> ", 1) for line in rows]
    return [
        (re.compile(old.lstrip("~").replace(" ", r"\s+"), re.IGNORECASE), new, old.startswith("~"))
        for old, new in pairs
    ]


def default_files() -> list[Path]:
    """Return the pages and the sources of the repository that are checked."""
    command = ["git", "ls-files", "*.md", "*.rs", "*.py", "schemas/*.json"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [
        Path(name) for name in names.splitlines() if is_checked(name) and (ROOT / name).exists()
    ]


def is_checked(name: str) -> bool:
    """Tell whether a file of the repository is a page or a source with messages."""
    if name.endswith(".md"):
        return not name.startswith(FOREIGN) and not GENERATED.search(name)
    if name.endswith(".rs"):
        return bool(SOURCES.match(name)) and not TESTS.search(name)
    return name.startswith(("python/stage2/", "launcher/hook/stage2_annotate/", "schemas/"))


def search(path: Path, phrases: list[tuple[re.Pattern[str], str, bool]]) -> list[str]:
    """Return a line for each phrase in a file."""
    text = (ROOT / path).read_text(encoding="utf-8")
    all_prose = {".rs": messages, ".py": python_messages}.get(path.suffix, page)(text)
    has_code_docs = path.suffix == ".rs" and not HELP.match(str(path))
    shown = messages(text, docs=False) if has_code_docs else all_prose
    found = []
    for pattern, instead, is_fine_in_docs in phrases:
        prose = shown if is_fine_in_docs else all_prose
        for match in pattern.finditer(prose):
            number = prose.count("\n", 0, match.start()) + 1
            around = prose[max(match.start() - 40, 0) : match.end() + 30]
            phrase, around = (re.sub(rf"[{BETWEEN}\s]+", " ", part) for part in (match[0], around))
            found.append(f"{path}:{number}: `{phrase}` (write: {instead}): {around}")
    return found


def page(text: str) -> str:
    """Return a page with its code replaced by a sign, on the same lines."""
    return CODE.sub(lambda match: "`" + "\n" * match[0].count("\n"), text)


def python_messages(text: str) -> str:
    """Return the string literals of a Python source that hold a space, each from its line on."""
    kept = ""
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    for node in sorted(nodes, key=lambda node: node.lineno):
        if isinstance(node.value, str) and " " in node.value:
            kept += BETWEEN + "\n" * (node.lineno - 1 - kept.count("\n")) + page(node.value)
    return kept


def messages(text: str, docs: bool = True) -> str:
    """Return doc comments and string literals with a space, on their lines, without tests."""
    text = re.split(r"\n#\[cfg\(test\)\]\nmod \w+ \{", text)[0]
    kept, at = [], 0
    for match in LITERAL.finditer(text):
        kept.append("\n" * text.count("\n", at, match.start()))
        doc = page(re.sub(r"//[/!]", "", (docs and match["doc"]) or ""))
        literal = doc or match["raw"] or match["text"] or ""
        lines = "\n" * match[0].count("\n")
        # A backslash at the end of a line joins it to the next one.
        kept.append(re.sub(r"\\\n\s*", "\n", literal) if " " in literal else lines)
        at = match.end()
    return BETWEEN.join(kept)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
