"""A pytest plug-in that fails a test on a performance regression.

    def test_decode_is_not_slower(stage2_gate):
        stage2_gate(
            run="tmp/stage2/latest", baseline="baseline:main", fail_if=["decode.step_ms>+5%+0.2ms"]
        )

All arguments are keywords. The failure message is the output of `stage2-launch diff`. The option
`--stage2-fail-if CONDITION` adds a condition to every gate of the session.
"""

from __future__ import annotations

import re
import shlex
from typing import Protocol, Sequence

import pytest

from ._diff import FAILED, DiffError, Side, compare, condition_options, named, words_of
from ._install import InstallError

_MORE = re.compile(r"(?<=more: )--full\b.*")
"""What a test cannot add to the command, because nobody typed one."""


class Gate(Protocol):
    """Compares a run (or several) with a baseline, and fails the test if a condition fails."""

    def __call__(
        self,
        *,
        run: Side,
        baseline: Side,
        fail_if: str | Sequence[str] = (),
        expect: str | Sequence[str] = (),
        strict: bool = False,
        timeout_s: float = 600,
    ) -> str:
        """Return the comparison, which may take `timeout_s` seconds."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the option."""
    parser.getgroup("stage2", "performance gates").addoption(
        "--stage2-fail-if",
        metavar="CONDITION",
        action="append",
        default=[],
        help="a condition for every stage2_gate, e.g. 'decode.step_ms>+5%%+0.2ms'; may be repeated",
    )


@pytest.fixture(scope="session")
def stage2_gate(pytestconfig: pytest.Config) -> Gate:
    """Return a function that fails the test if a run regressed against a baseline."""
    of_session = pytestconfig.getoption("--stage2-fail-if")

    def gate(
        *,
        run: Side,
        baseline: Side,
        fail_if: str | Sequence[str] = (),
        expect: str | Sequence[str] = (),
        strict: bool = False,
        timeout_s: float = 600,
    ) -> str:
        options = condition_options(fail_if, expect) + condition_options(of_session, ())
        return _compare(run, baseline, options, strict, timeout_s)

    return gate


def _compare(
    run: Side,
    baseline: Side,
    options: Sequence[str],
    strict: bool,
    timeout_s: float,
) -> str:
    __tracebackhide__ = True
    if not options:
        # A gate that cannot fail would look like one that passed.
        pytest.fail(
            "stage2_gate has no condition: give fail_if=[...], expect=[...] or --stage2-fail-if",
            pytrace=False,
        )
    why = None
    sides = {"baseline": baseline, "run": run}
    try:
        options = [*options, *(["--strict"] if strict else [])]
        done = compare(sides, options, timeout_s)
    except (DiffError, InstallError) as error:
        why = str(error)
    # Outside of the handler: pytest shows the error that is being handled as well.
    if why is not None:
        pytest.fail(why, pytrace=False)
    whole = shlex.join(["stage2-launch", "diff", "--full", *words_of(sides)])
    output = _MORE.sub(lambda _: whole, done.stdout) + done.stderr
    if done.returncode == FAILED:
        # Some condition failed, or could not be evaluated, because a stage or a number is missing.
        pytest.fail(
            f"{named(run)} does not meet its conditions against {named(baseline)}:\n{output}",
            pytrace=False,
        )
    return output
