"""Builds a wheel from the sources for pip (PEP 517): `pip install .` and `pip install git+URL`.

pip calls `build_wheel`. Cargo builds the programs and libraries for this machine; the wheel has the
same contents as that of .ci/dist, and the tag of a plain Linux wheel, because it needs the glibc of
this machine or later. `pip install . -C profile=dev` uses another profile of cargo.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pack

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = ("stage2", "stage2-sim", "stage2-launch", "stage2-ask", "stage2-export")
TAG = "py3-none-linux_x86_64"


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, str] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the wheel into a folder, and return its name."""
    profile = (config_settings or {}).get("profile", "release")
    built = cargo_build(profile)
    date = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    return pack.pack_wheel(REPOSITORY, built, Path(wheel_directory), TAG, date).name


def build_sdist(sdist_directory: str, config_settings: dict[str, str] | None = None) -> str:
    """Refuse: the repository is the source distribution."""
    raise SystemExit(
        "there is no source distribution: use `pip install git+URL` or `pip install .`"
    )


def cargo_build(profile: str) -> Path:
    """Build everything that the wheel contains; return the folder."""
    packages = [word for name in PACKAGES for word in ("--package", name)]
    features = ("--features", "stage2-ask/mcp,stage2-export/parquet")
    command = ["cargo", "build", "--locked", "--profile", profile, *packages, *features]
    try:
        subprocess.run(command, cwd=REPOSITORY, check=True, stdout=sys.stderr)
    except FileNotFoundError:
        raise SystemExit("there is no cargo: install Rust (https://rustup.rs) first") from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"`{' '.join(command)}` failed with status {error.returncode}") from None
    target = Path(os.environ.get("CARGO_TARGET_DIR", "target"))
    return REPOSITORY / target / {"dev": "debug"}.get(profile, profile)
