"""The package as it is in the repository, without an installation."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

pytest_plugins = ["pytester"]
