"""Run the commands of the documentation, page by page.

    page_commands.py PROGRAMS [PAGE...]    PROGRAMS: the folder with stage2-launch

Without pages it takes all chapters of the book. A page's blocks of ```sh run one after the other
with bash in an empty folder of their own. A comment on the line above a block, which readers of the
page do not see, tells what to expect of it:

    <!-- needs: a GPU, and a workload infer.py -->    it does not run here
    <!-- needs: a checkout -->                        it runs next to a copy of docs/sample
    <!-- may exit: 1 -->                              its last command may also end with this status

Exit status 1: a command failed, or a page has a command outside of such a block, or a comment that
belongs to none.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
NOTE = r"<!-- (needs|may exit): ([^\n]*) -->\n"
BLOCK = re.compile(rf"^(?:{NOTE})?```sh\n(.*?)^```", flags=re.S | re.M)
FENCED = re.compile(r"^```.*?^```", flags=re.S | re.M)
INDENTED = re.compile(
    r"^ {4}(?:\(?cd |stage2-launch |cargo |pip |python |LD_PRELOAD=|\./target).*$", flags=re.M
)
# Seconds; the longest block is a few demos.
LIMIT = 300
# What a block needs that needs the files of this repository, and nothing else.
CHECKOUT = "a checkout"
SAMPLES = Path("docs/sample")


def main(argv: list[str]) -> int:
    """Run the blocks; return the exit status."""
    if len(argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    programs = Path(argv[1]).resolve()
    pages = [Path(page) for page in argv[2:]] or chapters()
    faults, ran, marked = [], 0, 0
    for page in pages:
        text = (ROOT / page).read_text(encoding="utf-8")
        faults += [f"{page}: {fault}" for fault in misplaced(text)]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for kind, value, block in BLOCK.findall(text):
                if kind == "needs" and value != CHECKOUT:
                    marked += 1
                    continue
                ran += 1
                if kind == "needs":
                    shutil.copytree(ROOT / SAMPLES, folder / SAMPLES, dirs_exist_ok=True)
                script = allowing(block, int(value)) if kind == "may exit" else block
                fault = run(script, programs, folder)
                if fault:
                    faults.append(f"{page}: {fault}")
                    break
    for fault in faults:
        print(fault, file=sys.stderr)
    blocks = f"{ran} blocks ran, {marked} need what is not here"
    print(f"{len(pages)} pages: {blocks}, {len(faults)} faults")
    return 1 if faults or not ran else 0


def misplaced(text: str) -> list[str]:
    """Return what a page has outside of its blocks and should have in or right above one."""
    faults = [
        f"a command outside of a ```sh block: {line.strip()}"
        for line in INDENTED.findall(FENCED.sub("", text))
    ]
    notes = re.findall(NOTE, BLOCK.sub("", text))
    return faults + [f"no ```sh block below the comment: {kind}: {of}" for kind, of in notes]


def allowing(block: str, status: int) -> str:
    """Return a block whose last line may end with a status; the lines before it may not."""
    *before, last = block.splitlines()
    return "\n".join([*before, f"{{ {last}", f"}} || test $? = {status}", ""])


def chapters() -> list[Path]:
    """Return the pages that the index names."""
    text = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    found = re.findall(r"\]\(([^)]+\.md)\)", text)
    return [(ROOT / "docs" / target).resolve().relative_to(ROOT) for target in found]


def run(block: str, programs: Path, folder: Path) -> str:
    """Run a block; return what went wrong, or nothing."""
    environment = dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}")
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        return f"took longer than {LIMIT} s:\n{block}"
    if done.returncode:
        return f"exit status {done.returncode}:\n{block}{done.stdout[-2000:]}"
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv))
