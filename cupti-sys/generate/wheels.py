"""Requirements such as `nvidia-nvtx==13.0.85` -> files of NVIDIA's wheels, unpacked in a folder."""

import subprocess
import sys
import zipfile
from pathlib import Path


class Unavailable(Exception):
    """A wheel that cannot be had; the text says why and what to do."""


def download(requirements: list[str], folder: Path) -> list[Path]:
    """Downloads one wheel per requirement, without dependencies, and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
    command += ["--only-binary=:all:", "--dest", str(folder), *requirements]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Unavailable(
            f"pip could not download {' '.join(requirements)}:\n{done.stdout.strip()}\n"
            "Check the network and that this Python has pip (Debian: python3-pip)."
        )
    return sorted(folder.glob("*.whl"))


def unpack(wheel: Path, folder: Path, wanted) -> list[Path]:
    """Unpacks the members of a wheel for which `wanted(name)` holds and returns their paths."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if wanted(name)]
            return [Path(archive.extract(name, folder)) for name in names]
    except (OSError, zipfile.BadZipFile) as error:
        raise Unavailable(f"{wheel.name} is no readable wheel: {error}; try again") from error
