"""The table `recommendations`: what to do, in the order of the report, with the gain at best."""

from __future__ import annotations

from typing import Any, Iterator, List, Mapping, NamedTuple

Rows = List[Mapping[str, Any]]
Row = Mapping[str, Any]

_LEAST_PERCENT = 1.0
"""Of the time: what concerns less is left out."""
_CAVEATS = ("simulated", "incomplete", "warm_up")
"""Rules that say how far the other numbers can be trusted."""


class _Advice(NamedTuple):
    text: str
    first: Row
    """The takeaway that calls for it, of several the first."""
    further: int
    """How many more do."""
    concerns_percent: float | None


def recommendations(takeaways: Rows, metrics: Mapping[str, Any]) -> Rows:
    """Return a row for each recommendation.

    First comes what the answer puts first in the run, then what caveats call for, then what it puts
    first in each stage, then what concerns the most time.
    """
    answer = metrics.get("answer")
    answer = answer if isinstance(answer, dict) else {}
    stages = [row for row in answer.get("stages") or [] if isinstance(row, dict)]
    first = answer.get("first")
    of_stages = [row["first"] for row in stages if isinstance(row.get("first"), dict)]
    given = list(_given(takeaways, first))
    for at, advice in enumerate(given):
        if isinstance(first, dict) and _is_of(advice.first, first):
            # The answer may know more of it, for instance who is late.
            given[at] = advice._replace(text=first.get("text") or advice.text)
            break
    means = {row.get("stage"): row.get("bottleneck") for row in reversed(stages)}
    steps = [*([first] if isinstance(first, dict) else []), *of_stages]

    def place(advice: _Advice) -> tuple[bool, bool, float, bool]:
        leads = any(_is_of(advice.first, step) for step in of_stages)
        stage = advice.first.get("stage")
        most = [_weight(other) for other in given if leads and other.first.get("stage") == stage]
        is_caveat = advice.first.get("rule") in _CAVEATS
        is_first = _is_of(advice.first, first)
        return (is_first, is_caveat, max([_weight(advice), *most]), leads)

    def is_kept(advice: _Advice) -> bool:
        # What concerns hardly any time is left out, unless it is known what it gives.
        experiment = advice.first.get("experiment")
        change = experiment if isinstance(experiment, dict) else {}
        is_small = advice.concerns_percent is not None and advice.concerns_percent < _LEAST_PERCENT
        has_gain = change.get("kind") == "change" and change.get("at_best_percent") is not None
        is_first, is_caveat, _, leads = place(advice)
        return not is_small or has_gain or is_first or is_caveat or leads

    kept = [advice for advice in given if is_kept(advice)] or given
    ordered = sorted(kept, key=place, reverse=True)
    return [_row(advice, steps, means) for advice in ordered]


def _given(takeaways: Rows, first: Any) -> Iterator[_Advice]:
    """Give what to do, each text once."""
    given: dict[str, _Advice] = {}
    for takeaway in takeaways:
        text = takeaway.get("recommendation")
        if not isinstance(text, str):
            continue
        concerns = takeaway.get("concerns_percent")
        # To profile is one job for the kernels of all stages.
        rule = takeaway.get("rule")
        key = rule if rule == "top_kernel" else text
        known = given.get(key)
        if known is None:
            given[key] = _Advice(text, takeaway, 0, concerns)
            continue
        parts = [part for part in (known.concerns_percent, concerns) if part is not None]
        is_before = _is_of(takeaway, first) and not _is_of(known.first, first)
        given[key] = known._replace(
            first=takeaway if is_before else known.first,
            further=known.further + 1,
            concerns_percent=min(sum(parts), 100.0) if parts else None,
        )
    yield from given.values()


def _is_of(takeaway: Row, step: Any) -> bool:
    """Tell whether a takeaway calls for what the answer puts first."""
    return isinstance(step, dict) and all(
        takeaway.get(name) == step.get(name) for name in ("rule", "stage")
    )


def _weight(advice: _Advice) -> float:
    return -1.0 if advice.concerns_percent is None else advice.concerns_percent


def _row(advice: _Advice, steps: list[Row], means: Mapping[Any, Any]) -> Row:
    takeaway = advice.first
    mean: Any = means.get(takeaway.get("stage"))
    gain = _gain(takeaway, steps)
    is_of_step = isinstance(mean, dict) and mean.get("of") != "window"
    ns: Any = mean.get("ns") if is_of_step else None

    def part(percent: float | None) -> int | None:
        if percent is None or not isinstance(ns, (int, float)):
            return None
        return round(ns * percent / 100)

    return {
        "text": advice.text,
        "stage": takeaway.get("stage"),
        "rule": takeaway.get("rule"),
        "gain": _said(gain),
        "faster": gain.get("faster"),
        "tokens_per_s_factor": gain.get("tokens_per_s_factor"),
        "saves_ns": part(gain.get("saves_percent")),
        "saves_error_ns": part(gain.get("error_percent")),
        "window_mean_ns": part(100),
        "per": mean.get("of") if is_of_step else None,
        "saves_percent": gain.get("saves_percent"),
        "concerns_percent": advice.concerns_percent,
        "why": takeaway.get("text"),
        "takeaway": takeaway.get("id"),
        "further_takeaways": advice.further,
    }


def _said(gain: Mapping[str, float | None]) -> str | None:
    """Return the gain in the words of the pages."""
    faster, tokens = gain.get("faster"), gain.get("tokens_per_s_factor")
    if faster is not None:
        return f"{faster:.2f}x faster"
    return None if tokens is None else f"{tokens:.2f}x tokens/s"


def _gain(takeaway: Row, steps: list[Row]) -> dict[str, float | None]:
    """Return how much of the mean step the advice saves at best, or by which factor tokens grow."""
    for step in steps:
        factor = step.get("factor")
        if step.get("takeaway") not in (None, takeaway.get("id")) or not _is_of(takeaway, step):
            continue
        if not isinstance(factor, (int, float)) or factor <= 0:
            break
        if step.get("rule") == "host_gaps" and not step.get("removes"):
            return {"tokens_per_s_factor": factor}
        return _saved((1 - 1 / factor) * 100, step.get("error_percent"))
    experiment = takeaway.get("experiment")
    if not isinstance(experiment, dict) or experiment.get("kind") != "change":
        return {}
    percent = experiment.get("at_best_percent")
    if not isinstance(percent, (int, float)):
        return {}
    if experiment.get("grows"):
        return {"tokens_per_s_factor": 1 + percent / 100}
    return _saved(-percent, experiment.get("error_percent")) if -100 <= percent <= 0 else {}


def _saved(percent: float, error: Any) -> dict[str, float | None]:
    return {
        "faster": 100 / (100 - percent) if percent < 100 else None,
        "saves_percent": percent,
        "error_percent": error if isinstance(error, (int, float)) else None,
    }
