"""Code shared by rules on memory over time: the experiments of a soak."""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding, Plan, SoakChange, SoakExperiment
from ortune.rules._words import percent
from ortune.rules.facts import Facts

_NAMES: dict[SoakChange, str] = {
    "same-values": "the same input values in each call",
    "one-size": "one input size",
    "kept-sessions": "sessions that are kept between calls",
    "no-arena": "no arena",
    "exact-arena": "an arena that grows as requested",
    "arena-shrinkage": "an arena that shrinks after each run",
    "no-kleidiai": "no KleidiAI",
    "no-pattern": "no memory pattern",
    "no-prepacking": "no prepacked weights",
    "one-thread": "one thread",
    "trim": "malloc_trim",
    "allocator": "another allocator",
}


def flattening_experiments(facts: Facts, *changes: SoakChange) -> list[SoakExperiment]:
    """Return the experiments with one of `changes` that remove most of the rise, lowest latency first."""
    found = [
        each for each in facts.soak if each.change in changes and each.flattens and not _has(facts, each.plan)
    ]
    return sorted(found, key=lambda each: each.latency_ratio or 1.0)


def _has(facts: Facts, plan: Plan | None) -> bool:
    """Return whether the model already runs with the settings of a plan."""
    return plan is not None and plan.settings.items() <= facts.plan.settings.items()


def cause_finding(code: str, what: str, found: SoakExperiment, fix: str) -> Finding:
    """Return a finding that a change removes a rise; the fix is the experiment's plan, or text without a plan.

    Args:
        code: Code of the rule.
        what: The cause of the rise as one sentence.
        found: The experiment that shows the cause.
        fix: Fix in words, used if the experiment has no plan.
    """
    return Finding(
        code=code,
        what=what,
        evidence=evidence(found),
        fix="" if found.plan is not None else fix,
        plan=found.plan,
        safety="exact" if found.plan is not None else "advice",
    )


def evidence(found: SoakExperiment) -> str:
    """Format the result of an experiment: "with no arena, 94 % of the rise (12.3 MiB in 3,000 calls) is gone"."""
    latency = ""
    if found.latency_ratio is not None:
        interval = f"{found.latency_low:.2f}-{found.latency_high:.2f}, one process"
        latency = f"; latency {found.latency_ratio:.2f}x ({interval})"
    rise = found.as_is_rise_bytes / 2**20
    share = percent(min(1.0, found.explained))
    amount = f"{rise:.3g} MiB in {found.calls:,} calls"
    return f"with {_NAMES[found.change]}, {share} of the rise ({amount}) is gone{latency}"


def first_cause(code: str, what: str, fix: str, found: list[SoakExperiment]) -> Iterator[Finding]:
    """Yield a finding for the first experiment, if there is one."""
    if found:
        yield cause_finding(code, what, found[0], fix)
