"""Outcomes become JSON lines, and a table of percentiles for each phase.

Latency and time to first token count from the planned arrival, not from the sending: where the load
generator was late itself, a client would have waited that time too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from server.load_client import Outcome

QUANTILES = (50, 90, 99)


@dataclass(frozen=True)
class Ran:
    """A command that was run. Times are seconds after the start of the load."""

    words: str
    phase: str
    start_s: float
    end_s: float
    status: int
    output: str


def percentile(values: list[float], percent: float) -> float | None:
    """Return the smallest value that `percent` of the values do not exceed; None without values."""
    if not values:
        return None
    rank = math.ceil(percent / 100 * len(values))
    return sorted(values)[max(rank, 1) - 1]


def request_line(outcome: Outcome) -> dict[str, Any]:
    """Return the line of a request."""
    planned = outcome.planned
    return {
        "kind": "request",
        "number": planned.number,
        "phase": planned.phase,
        "arrival_s": planned.at_s,
        "sent_s": outcome.sent_s,
        "first_token_s": outcome.first_token_s,
        "end_s": outcome.end_s,
        "status": outcome.status,
        "prompt_tokens": planned.prompt_tokens,
        "max_tokens": planned.max_tokens,
        "tokens": outcome.tokens,
        "error": outcome.error,
    }


def command_line(ran: Ran) -> dict[str, Any]:
    """Return the line of a command."""
    return {"kind": "command", **vars(ran)}


def summary(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """Return a row for each phase in order of their first arrival, then one for all."""
    phases: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        phases.setdefault(outcome.planned.phase, []).append(outcome)
    rows = [_row(phase, group) for phase, group in phases.items()]
    if len(rows) != 1:
        rows.append(_row("all", outcomes))
    return rows


def _row(phase: str, outcomes: list[Outcome]) -> dict[str, Any]:
    """Return the numbers of one phase, in ms where they are times; failures have no latency."""
    served = [outcome for outcome in outcomes if outcome.error is None]
    first = [
        1e3 * (outcome.first_token_s - outcome.planned.at_s)
        for outcome in served
        if outcome.first_token_s is not None
    ]
    whole = [1e3 * (outcome.end_s - outcome.planned.at_s) for outcome in served]
    begin = min((outcome.planned.at_s for outcome in outcomes), default=0.0)
    end = max((outcome.end_s for outcome in outcomes), default=0.0)
    tokens = sum(outcome.tokens for outcome in served)
    row: dict[str, Any] = {
        "kind": "summary",
        "phase": phase,
        "requests": len(outcomes),
        "failures": len(outcomes) - len(served),
    }
    for percent in QUANTILES:
        row[f"ttft_p{percent}_ms"] = percentile(first, percent)
    for percent in QUANTILES:
        row[f"latency_p{percent}_ms"] = percentile(whole, percent)
    # From the first arrival to the last end: of a few requests it is mostly their own latency.
    row["requests_per_s"] = len(served) / (end - begin) if end > begin else None
    row["tokens_per_s"] = tokens / (end - begin) if end > begin else None
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a table for a terminal."""
    heads = [key for key in rows[0] if key != "kind"]
    lines = [heads, *([_cell(row[head]) for head in heads] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
    texts = []
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        texts.append("  ".join(cells).rstrip())
    return "\n".join(texts)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
