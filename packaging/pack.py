"""Packs the built files into a wheel and a tar file, the same bytes each time.

    pack.py REPOSITORY BUILT OUT

BUILT holds the programs and libraries, OUT gets the two files. SOURCE_DATE_EPOCH dates their
members.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

TAG = "py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64"
LIBRARIES = ("libstage2.so", "libstage2_sim.so")
PROGRAMS = ("stage2-launch", "stage2-demo", "stage2-mcp", "stage2-parquet")
COMPLETIONS = {
    "bash": "share/bash-completion/completions/stage2-launch",
    "zsh": "share/zsh/site-functions/_stage2-launch",
    "fish": "share/fish/vendor_completions.d/stage2-launch.fish",
}
AGENTS = ("SKILL.md", "llms.txt")
"""Of packaging/agents: what teaches an agent the programs."""
LICENSES = ("LICENSE-APACHE", "LICENSE-MIT")
PYTHON_SOURCES = ("*.py", "_columns.json", "py.typed")
SCHEMAS = "share/stage2/schemas"
"""JSON Schemas of what the programs write, in the wheel and in the tar file."""

Files = dict[str, tuple[bytes, int]]
"""Content and mode of each file, by its path."""


def shared_files(repository: Path, launcher: Path) -> Files:
    """Return completions and manual pages of the launcher, texts for agents, and schemas."""
    agents = repository / "packaging/agents"
    files: Files = {
        f"share/stage2/{name}": ((agents / name).read_bytes(), 0o644) for name in AGENTS
    }
    for shell, path in COMPLETIONS.items():
        text = subprocess.run([launcher, "completions", shell], check=True, capture_output=True)
        files[path] = (text.stdout, 0o644)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([launcher, "man", folder], check=True)
        for page in Path(folder).iterdir():
            files[f"share/man/man1/{page.name}"] = (page.read_bytes(), 0o644)
    for schema in (repository / "schemas").glob("*.schema.json"):
        files[f"{SCHEMAS}/{schema.name}"] = (schema.read_bytes(), 0o644)
    return files


def wheel_files(repository: Path, built: Path, version: str, shared: Files, tag: str) -> Files:
    """Return what is in the wheel, without its RECORD."""
    files: Files = {}
    sources = repository / "python/stage2"
    for pattern in PYTHON_SOURCES:
        for path in sources.glob(pattern):
            files[f"stage2/{path.name}"] = (path.read_bytes(), 0o644)
    for name in LIBRARIES:
        files[f"stage2/{name}"] = ((built / name).read_bytes(), 0o755)
    launcher, *others = PROGRAMS
    for name in others:
        files[f"stage2/{name}"] = ((built / name).read_bytes(), 0o755)
    data = f"stage2-{version}.data"
    files[f"{data}/scripts/{launcher}"] = ((built / launcher).read_bytes(), 0o755)
    files |= {f"{data}/data/{path}": content for path, content in shared.items()}
    info = f"stage2-{version}.dist-info"
    for name in LICENSES:
        files[f"{info}/licenses/{name}"] = ((repository / name).read_bytes(), 0o644)
    wheel = "Wheel-Version: 1.0\nGenerator: stage2 (packaging/pack.py)\nRoot-Is-Purelib: false\n"
    python, abi, platforms = tag.split("-")
    wheel += "".join(f"Tag: {python}-{abi}-{one}\n" for one in platforms.split("."))
    files[f"{info}/WHEEL"] = (wheel.encode(), 0o644)
    files[f"{info}/METADATA"] = (metadata(repository, version).encode(), 0o644)
    files[f"{info}/entry_points.txt"] = (b"[pytest11]\nstage2 = stage2.pytest_plugin\n", 0o644)
    return files


def metadata(repository: Path, version: str) -> str:
    """Return the METADATA of the wheel."""
    license_files = "".join(f"License-File: {name}\n" for name in LICENSES)
    return (
        "Metadata-Version: 2.4\n"
        "Name: stage2\n"
        f"Version: {version}\n"
        "Summary: A GPU profiler for LLM inference: every kernel, attributed to its NVTX range\n"
        "License-Expression: MIT OR Apache-2.0\n"
        f"{license_files}"
        "Classifier: Environment :: GPU :: NVIDIA CUDA\n"
        "Classifier: Operating System :: POSIX :: Linux\n"
        "Classifier: Framework :: Pytest\n"
        "Classifier: Topic :: Software Development :: Debuggers\n"
        "Requires-Python: >=3.8\n"
        "Provides-Extra: cupti\n"
        'Requires-Dist: nvidia-cuda-cupti; extra == "cupti"\n'
        "Provides-Extra: pandas\n"
        'Requires-Dist: pandas; extra == "pandas"\n'
        "Provides-Extra: polars\n"
        'Requires-Dist: polars; extra == "polars"\n'
        "Description-Content-Type: text/markdown\n"
        "\n" + (repository / "docs/install.md").read_text()
    )


def record(files: Files, info: str) -> bytes:
    """Return the RECORD: a hash and the size of every other file."""
    lines = []
    for path, (content, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}")
    return "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()


def write_wheel(path: Path, files: Files, date: int) -> None:
    """Write the members in the order of their names, the metadata last, as wheels should."""
    when = time.gmtime(max(date, 315532800))[:6]
    order = sorted(files, key=lambda name: (".dist-info/" in name, name))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in order:
            content, mode = files[name]
            member = zipfile.ZipInfo(name, when)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = 3
            member.external_attr = (0o100000 | mode) << 16
            archive.writestr(member, content)


def write_tar(path: Path, root: str, files: Files, date: int) -> None:
    """Write the files below the folder `root`."""
    folders = {str(parent) for name in files for parent in Path(name).parents} - {"."}
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted({"", *folders, *files}):
            member = tarfile.TarInfo(f"{root}/{name}".rstrip("/"))
            member.mtime = date
            content, member.mode = files.get(name, (b"", 0o755))
            member.type = tarfile.REGTYPE if name in files else tarfile.DIRTYPE
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    # Neither a name nor a time in the header.
    path.write_bytes(gzip.compress(raw.getvalue(), 9, mtime=0))


def version_of(launcher: Path) -> str:
    """Return the version, as the launcher prints it."""
    printed = subprocess.run([launcher, "--version"], check=True, capture_output=True)
    return printed.stdout.decode().split()[1]


def pack_wheel(repository: Path, built: Path, out: Path, tag: str, date: int) -> Path:
    """Write the wheel into a folder, and return its path."""
    launcher = built / PROGRAMS[0]
    version = version_of(launcher)
    files = wheel_files(repository, built, version, shared_files(repository, launcher), tag)
    info = f"stage2-{version}.dist-info"
    files[f"{info}/RECORD"] = (record(files, info), 0o644)
    wheel = out / f"stage2-{version}-{tag}.whl"
    write_wheel(wheel, files, date)
    return wheel


def main() -> None:
    """Write both, and print their hashes."""
    repository, built, out = map(Path, sys.argv[1:])
    date = int(os.environ["SOURCE_DATE_EPOCH"])
    wheel = pack_wheel(repository, built, out, TAG, date)
    launcher = built / PROGRAMS[0]
    version, shared = version_of(launcher), shared_files(repository, launcher)

    unpacked: Files = dict(shared)
    unpacked |= {f"bin/{name}": ((built / name).read_bytes(), 0o755) for name in PROGRAMS}
    unpacked |= {f"lib/{name}": ((built / name).read_bytes(), 0o755) for name in LIBRARIES}
    unpacked |= {name: ((repository / name).read_bytes(), 0o644) for name in LICENSES}
    unpacked["README"] = (
        f"stage2 {version}: run bin/stage2-launch demo, from wherever this folder is; "
        "man share/man/man1/stage2-launch.1; for agents: share/stage2/SKILL.md\n".encode(),
        0o644,
    )
    root = f"stage2-{version}-x86_64-linux"
    tar = out / f"{root}.tar.gz"
    write_tar(tar, root, unpacked, date)

    for path in (wheel, tar):
        content = path.read_bytes()
        print(f"{hashlib.sha256(content).hexdigest()}  {path.name}  {len(content)} bytes")


if __name__ == "__main__":
    main()
