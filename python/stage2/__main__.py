"""`python -m stage2 ...` is `stage2-launch ...` of this installation."""

import os
import sys

from ._install import InstallError, launcher_path


def main() -> None:
    """Become `stage2-launch`; exit with status 70 if it cannot be started."""
    try:
        launcher = str(launcher_path())
        os.execv(launcher, [launcher, *sys.argv[1:]])
    except (InstallError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(70)


if __name__ == "__main__":
    main()
