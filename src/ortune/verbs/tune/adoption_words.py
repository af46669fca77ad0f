"""Sentences about the cost of adopting another execution provider: packages, device, load time, memory."""

from __future__ import annotations

from ortune.catalogue.providers import short_name
from ortune.printable import amount
from ortune.records import Candidate, ProviderCost
from ortune.show.numbers import change, duration, memory, significant
from ortune.show.transfer_words import included
from ortune.verbs._shared.adoption_words import adopting
from ortune.verbs._shared.tune_headline import not_adopted
from ortune.verbs.tune.result import TuneResult

AS_MUCH = 1.05
"""Ratio to the default's value up to which a value counts as equal."""


def rows(result: TuneResult) -> list[tuple[str, str]]:
    """Return (label, text) rows on the cost and drawbacks of the winner's execution provider; [] for the default's."""
    cost = next((cost for cost in result.costs if cost.shipped), None)
    adopted = [("adopting it", adopting(result.adoption))] if result.adoption else []
    other = result.other_package
    if not_adopted(result) and other is not None and other.adoption is not None:
        return [("adopting it", adopting(other.adoption))]
    if cost is None:
        return adopted
    slower = [f"{case.case} {change(case.ratio)}" for case in result.cases if case.ratio_low > 1]
    lost = [*_lost(cost), *([f"time at {', '.join(slower)}"] if slower else [])]
    return [
        *adopted,
        ("runs on", f"{cost.device}; {_figures(cost)}"),
        ("drawbacks", ", ".join(lost) or "none measured"),
    ]


def other_providers(result: TuneResult) -> list[tuple[str, str]]:
    """Return (provider, text) rows for raced providers that did not win: the best plan's result, and drawbacks.

    A provider with a confirmed plan is omitted, since it has its own sentence.
    """
    own = result.winner.provider_names
    confirmed = result.other_package.plan.provider_names[0] if result.other_package else None
    raced: dict[str, Candidate] = {}
    for candidate in result.candidates:
        name = candidate.plan.provider_names[0]
        if (
            name in own
            or name == confirmed
            or name == result.default.provider_names[0]
            or candidate.ratio is None
        ):
            continue
        best = raced.setdefault(name, candidate)
        if candidate.ratio < (best.ratio or candidate.ratio):
            raced[name] = candidate
    costs = {cost.provider: cost for cost in result.costs}
    winners = (c.ratio for c in result.candidates if c.plan.id == result.winner.id and c.ratio is not None)
    winner = next(winners, None)
    beside = f", the winner {change(winner)}" if winner is not None else ""
    lines = []
    for name, best in raced.items():
        assert best.ratio is not None
        blocks = amount(best.n_blocks, "block")
        text = f"not chosen: its best configuration measured {change(best.ratio)}{beside} ({blocks}, exploratory)"
        lost = _lost(costs[name]) if name in costs else []
        lines.append((short_name(name), "; ".join(filter(None, (text, best.why, ", ".join(lost))))))
    return lines


def _figures(cost: ProviderCost) -> str:
    """Return text with the session creation time and peak memory of a provider and of the default's."""
    first = f" ({duration(cost.first_load_ns)} for the first, which compiles)" if cost.first_load_ns else ""
    text = f"session creation {duration(cost.load_ns)}{first}, default {duration(cost.default_load_ns)}"
    if cost.peak_bytes is None or cost.default_peak_bytes is None:
        return text
    return f"{text}; peak memory {memory(cost.peak_bytes)}, default {memory(cost.default_peak_bytes)}"


def _lost(cost: ProviderCost) -> list[str]:
    """Return text for each value that exceeds the default's, as a factor."""
    pairs = (
        ("session creation", cost.load_ns, cost.default_load_ns),
        ("peak memory", cost.peak_bytes, cost.default_peak_bytes),
    )
    return [
        f"{name} {significant(new / base)}x the default's"
        for name, new, base in pairs
        if new and base and new > AS_MUCH * base
    ]


def transfer(result: TuneResult) -> list[tuple[str, str]]:
    """Return (label, text) rows with transfer times, if the default or the winner runs on a device."""
    splits = {cost.provider: cost.gpu_run for cost in result.costs if cost.gpu_run is not None}
    if result.default_profile is not None and result.default_profile.gpu_run is not None:
        splits[result.default.provider_names[0]] = result.default_profile.gpu_run
    return included((result.default, result.winner), splits)
