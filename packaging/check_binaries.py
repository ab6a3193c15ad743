"""Checks that the built programs and libraries run on every Linux that a wheel promises.

    check_binaries.py FOLDER [PRIVATE_FOLDER]...

No symbol may be newer than glibc 2.17, no library may be needed that is not part of the C library,
no symbol may be open that no such library has, and no path of this machine may stand in a file:
nothing that lies below a PRIVATE_FOLDER, and nothing of a cargo home.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

NEWEST = (2, 17)
"""The glibc of manylinux2014."""

MAY_NEED = {"libc.so.6", "libpthread.so.0", "libdl.so.2"}
"""For a library that is preloaded: musl's loader knows these names, too, and has them in one."""

PROGRAMS_MAY_NEED = MAY_NEED | {"libm.so.6", "librt.so.1", "libutil.so.1", "ld-linux-x86-64.so.2"}

UNVERSIONED = {"__tls_get_addr"}
"""Found in every process, in its loader; a version would name the loader's file."""

MOST_BYTES = {
    # It is copied into containers and read by every process of a job.
    "libstage2.so": 2_700_000,
    "stage2-launch": 14_000_000,
}

CARGO_HOME = b"/.cargo/"


def paths_below(folder: Path, content: bytes) -> Iterator[bytes]:
    """Yield each place of the content that names something that lies in the folder now.

    The name of the folder alone is no path of this machine: `/root` is also the end of
    `/proc/PID/root`, and texts in a program have no end of their own.
    """
    names = [f"{folder}/{name}".encode() for name in os.listdir(folder)] if folder.is_dir() else []
    for found in re.finditer(re.escape(f"{folder}/".encode()), content):
        if any(content.startswith(name, found.start()) for name in names):
            yield content[found.start() : found.start() + 120]


def problems_of(path: Path, private: list[Path]) -> Iterator[str]:
    """Yield what is wrong with one file."""
    with path.open("rb") as file:
        elf: Any = ELFFile(file)
        dynamic = elf.get_section_by_name(".dynamic")
        needed = {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}
        allowed = MAY_NEED if ".so" in path.name else PROGRAMS_MAY_NEED
        for name in sorted(needed - allowed):
            yield f"it needs {name}"
        for kind in ("DT_RPATH", "DT_RUNPATH"):
            if any(dynamic.iter_tags(kind)):
                yield f"it has a {kind}"
        yield from _problems_of_symbols(elf)
        if elf.get_section_by_name(".symtab") or elf.get_section_by_name(".debug_info"):
            yield "it is not stripped"
    content = path.read_bytes()
    for folder in private:
        for found in paths_below(folder, content):
            yield f"it holds a path of this machine: {found!r}"
    if CARGO_HOME in content:
        at = content.index(CARGO_HOME)
        yield f"it holds a path of a cargo home: {content[max(0, at - 60) : at + 60]!r}"
    most = MOST_BYTES.get(path.name)
    if most is not None and len(content) >= most:
        yield f"it has {len(content)} bytes, which is not below {most}"


def _problems_of_symbols(elf: Any) -> Iterator[str]:
    versions = elf.get_section_by_name(".gnu.version")
    names = {}
    for version, auxiliaries in elf.get_section_by_name(".gnu.version_r").iter_versions():
        for auxiliary in auxiliaries:
            names[auxiliary["vna_other"]] = (version.name, auxiliary.name)
    for index, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
        if index == 0 or symbol["st_shndx"] != "SHN_UNDEF":
            continue
        number = versions.get_symbol(index)["ndx"]
        library, version = names.get(number, ("", ""))
        found = re.fullmatch(r"GLIBC_([0-9.]+)", version)
        if found and tuple(map(int, found[1].split("."))) > NEWEST:
            yield f"{symbol.name} has version {version} of {library}"
        # A linker lets a shared library have open symbols, and the loader then ends the program.
        is_weak = symbol["st_info"]["bind"] == "STB_WEAK"
        if not version and not is_weak and symbol.name not in UNVERSIONED:
            yield f"{symbol.name} is in no library of glibc {NEWEST[0]}.{NEWEST[1]}"


def main() -> int:
    """Print every problem; the status is 1 if there is one."""
    folder, *private = map(Path, sys.argv[1:])
    files = sorted(folder.iterdir())
    found = [(path, problem) for path in files for problem in problems_of(path, private)]
    for path, problem in found:
        print(f"{path.name}: {problem}", file=sys.stderr)
    if not found:
        newest = ".".join(map(str, NEWEST))
        print(f"{len(files)} files: glibc {newest} at most, no path of this machine")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
