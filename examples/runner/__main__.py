"""`python -m runner` becomes one call of the Hydra app."""

import sys

NEEDED = {"hydra": "hydra-core", "omegaconf": "hydra-core", "numpy": "numpy"}
"""Top module of each package that the app cannot start without, and its name for pip."""


def main() -> None:
    """Start the app, or say what has to be installed first."""
    try:
        from runner import app
    except ModuleNotFoundError as error:
        package = NEEDED.get((error.name or "").partition(".")[0])
        if package is None:
            raise
        print(
            f"runner: error: the package {package} is not installed for {sys.executable}; "
            "run: python -m pip install -r runner/requirements.txt",
            file=sys.stderr,
        )
        sys.exit(2)
    app.main()


if __name__ == "__main__":
    main()
