"""Notes on the result of a race: why its leader is not shipped, and disturbances of the measurement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ortune.durations import as_option, in_words
from ortune.printable import amount
from ortune.records import WORSENS
from ortune.search.reasons import Reason
from ortune.show.numbers import duration, shorten_end

DEFAULT, CURRENT = "the default", "the current configuration"
IDLE_MACHINE = "on an idle machine"

ONLY_UNDER_LOAD = "is known to be faster under load alone"
LEAST_LEFT = 0.05
"""Minimum fraction of a budget whose remaining unused is explained."""
LONGEST_NEXT = 60
"""Maximum length of a plan that would be tested next."""


def subject(plan: str) -> str:
    """Return a plan as the subject of a sentence: several changes are "the combination a=1, b=2"."""
    return f"the combination {plan}" if ", " in plan else plan


def bundle_later(resume: str) -> str:
    """Return the sentence with the command that writes a bundle from stored measurements."""
    return f"the measurements are stored; to write the bundle: {resume} --output FOLDER"


def fell_alone(plan: str, kept: str, reason: str) -> str:
    """Return a sentence that says that the leader failed when it ran without other processes."""
    return f"{plan} failed when run alone ({reason}): {kept} is kept"


def not_shipped(
    plan: str,
    kept: str,
    why: Literal["slower-alone", "not-confirmed", "small-lossy-gain", "small-gain", "under-load"],
    worth: float,
) -> str:
    """Return a sentence that says why the leader is not shipped.

    Args:
        plan: The leader.
        kept: The plan that is kept instead.
        why: The reason.
        worth: Minimum gain that justifies a change, as a fraction.
    """
    said = {
        "slower-alone": f"{plan} is faster next to other processes and slower alone: {kept} is kept",
        "not-confirmed": f"{plan} was not confirmed to be faster: {kept} is kept",
        "small-lossy-gain": f"{plan} changes outputs beyond rounding and is not confirmed to gain "
        f"{100 * worth:g} %: {kept} is kept",
        "small-gain": f"{plan} gains less than the required {100 * worth:g} % (--worth): {kept} is kept",
        "under-load": f"{plan} {ONLY_UNDER_LOAD}: {kept} is kept (--allow busy)",
    }
    return said[why]


def not_adopted(plan: str, kept: str, worth_adopting: float) -> str:
    """Return a sentence that says that the leader gains too little to justify another package."""
    least = f"{100 * worth_adopting:g} %"
    return (
        f"{plan} gains less than the {least} that justify another package (--worth-adopting): {kept} is kept"
    )


def worsens(plan: str, kept: str, figures: Sequence[str]) -> str:
    """Return a sentence that says which metrics the leader worsens, with the options that allow this."""
    allow = " ".join(f"--allow {figure}" for figure in figures)
    return f"{plan} is better but worsens {', '.join(figures)}: {kept} is kept ({allow})"


def over_memory(plan: str, kept: str, peak: str) -> str:
    """Return a sentence that says that the leader exceeds the memory limit."""
    return f"{plan} is faster but needs too much memory ({peak}): {kept} is kept"


def faster_under_load(plan: str) -> str:
    """Return a note on a plan that is faster than the winner, but only under load."""
    return f"{plan} {ONLY_UNDER_LOAD}: those settings are left out (--allow busy)"


def drifted(low_ns: float, high_ns: float) -> str:
    """Return a warning that the default's latency changed during the session."""
    return (
        f"warning: the default's own latency drifted between {duration(low_ns)} and {duration(high_ns)} in this "
        "session; measure again before relying on the result"
    )


def rejected(plan: str, base: str, change_percent: float, n_blocks: int, why: str) -> str:
    """Return a sentence on a faster plan that a guard rejected."""
    ahead = f"{change_percent:+.0f} % in {n_blocks} blocks"
    return f"{plan} was faster than {base} ({ahead}) but was rejected: {why}"


def weak_default(cores: int, usable: int) -> str:
    """Return a caution that the default starts more threads than there are CPUs."""
    available = amount(usable, "CPU is usable", "CPUs are usable")
    return (
        f"the default starts {cores} threads but only {available}, so it is a weak baseline "
        "(pass what you run today with --current)"
    )


def unspent(
    left_s: float, budget_s: float, next_s: float, next_plan: str, *, confirmed: bool, enough_s: float
) -> str:
    """Return a sentence on why the rest of the budget was not used, and what would be next; "" if little was left.

    Args:
        left_s: Seconds left of the budget.
        budget_s: Seconds of the whole budget.
        next_s: Seconds to test one more plan; 0 if all were tested.
        next_plan: The next plan.
        confirmed: Whether a confirmation ran.
        enough_s: Budget in seconds that is enough for all plans; 0 if unknown.
    """
    if left_s < LEAST_LEFT * budget_s:
        return ""
    left = f"{in_words(left_s)} of the {in_words(budget_s)} were not used"
    if not next_s:
        return f"{left}: every configuration was tested"
    why = ""
    if next_s <= left_s:
        why = " reserved for the confirmation, which took less;" if confirmed else " the search had ended;"
    which = (
        f"the next one, {shorten_end(next_plan, LONGEST_NEXT)}," if next_plan else "one more configuration"
    )
    more = f" (--budget {as_option(enough_s)} is enough)" if enough_s else ""
    return f"{left}:{why} {which} takes {in_words(next_s)}{more}"


def throttled(share_ratio: float) -> str:
    """Return a note that a CPU quota throttled the measurement."""
    return f"CPU quota throttled in {100 * share_ratio:.0f} % of its periods during the measurement"


def reason(why: Reason) -> str:
    """Return a phrase on why a plan is not the winner."""
    said = {
        "budget": "the budget ran out first",
        "budget-before-it-ran": "not tested: the budget ran out",
        "budget-after-one-block": "observed but not confirmed: the budget ran out after 1 block",
        "too-many-neighbours": "the leader has more neighbours than fit in one block",
        "part-of-a-failure": f"{why.text} fails",
        "not-rewritten": f"the model could not be rewritten: {why.text}",
        "failed-while-confirmed": f"failed {why.n} times during confirmation: {why.text}",
        "slower-at-once": f"slower than the default by {100 * why.share_ratio:.0f} %",
        "slower": f"slower than the default in {why.n} blocks",
        "no-better": f"no better than the default in {why.n} blocks",
        "slower-half": f"in the slower half after {why.n} blocks",
        "below-worth": f"not better than the default by {100 * why.share_ratio:g} % or more",
        "worsens": f"{WORSENS}: {why.text}",
        "over-memory": f"{why.text}, more than --max-memory",
        "pruned": "some of its settings have no gain",
        "small-lossy-gain": f"not faster by the {100 * why.share_ratio:g} % that justify outputs beyond rounding",
        "slower-than-complete": "slower than the complete winner",
        "not-confirmed": "observed but not confirmed",
        "another-led": "another configuration led the search",
        "not-adopted": f"not confirmed to gain the {100 * why.share_ratio:g} % that justify another package",
    }
    return said.get(why.code, why.text)
