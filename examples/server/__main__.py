"""`python -m server` becomes one server."""

import importlib.util
import logging
import sys

from server import app, options
from server.errors import ServerError

NEEDED = {"omegaconf": "hydra-core", "numpy": "numpy"}
"""Top module of each package that the engine cannot start without, and its name for pip."""


def main() -> int:
    """Serve; return 0 after an end in order, 2 for what the user can fix, 1 for a failure."""
    logging.basicConfig(format="server: %(levelname)s: %(message)s", level=logging.WARNING)
    try:
        chosen = options.parse()
        for module, package in NEEDED.items():
            # Found, not imported: this process stays as it is until it has forked.
            if importlib.util.find_spec(module) is None:
                raise ServerError(
                    f"the package {package} is not installed for {sys.executable}",
                    "run: python -m pip install -r runner/requirements.txt",
                )
        return app.serve(chosen)
    except ServerError as error:
        logging.getLogger("server").error("%s", error)
        return 2


if __name__ == "__main__":
    sys.exit(main())
