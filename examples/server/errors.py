"""What can go wrong for a user becomes one line that says what happened and what to do next."""


class ServerError(Exception):
    """A problem that the user can fix: reported without a traceback, exit status 2."""

    def __init__(self, problem: str, remedy: str) -> None:
        """Join what happened, to what (`problem`), and what to do next (`remedy`)."""
        super().__init__(f"{problem}; {remedy}")
