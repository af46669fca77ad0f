"""What stands out, with its evidence and what to do."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.comparison import Comparison
from ortune.records.plan import Plan

Severity = Literal["error", "warning", "note"]
"""error: something is broken. warning: it costs speed, or figures do not mean what they seem to. note: good to know."""

FixSafety = Literal["exact", "numerics", "behaviour", "advice"]
"""Of a fix: bit-equal or reassociated sums; within the tolerance; more changes than the time; the user's hands."""


class Brought(Record, frozen=True, kw_only=True):
    """What the same fix brought elsewhere: the ground of an estimate.

    Attributes:
        model: A real model by its name; one that was made to show the defect in words.
        made: Whether it was made for that.
        ratio: Time with the fix over time without, below 1 is faster.
        ratio_low, ratio_high: Its interval.
        proven: Whether that was a verdict; else a median of what was seen, and its quartiles.
        others: Rewrites that it was measured together with.
    """

    model: str
    made: bool = False
    ratio: float
    ratio_low: float
    ratio_high: float
    proven: bool = False
    others: tuple[str, ...] = ()


FUNCTIONAL_ONLY = "MSR006"
"""Code of the finding that is read before all others: a GPU is software, and what they say of time is nobody's."""

DEFAULT_WRONG, NOT_FINITE = "MSR012", "MSR013"
"""Codes of the two findings that are said before all else: the outputs are wrong, or no numbers."""


class Finding(Record, frozen=True, kw_only=True):
    """A rule's claim about a model, a machine or a run.

    Attributes:
        code: The rule's, which never changes its meaning.
        name: The rule's, for the pattern that it finds.
        what: One sentence.
        where: Nodes, inputs, tensors or files by name.
        evidence: What was seen, where ``what`` does not say it.
        share_ratio: Of the run that it is about, and so the most that a fix can win; None where that is not known.
        share_from: Where that is from: "profile" (a run that was measured) or "cost" (an estimate from the operations
            and bytes of the nodes).
        least_ratio: The least that a run with the fix takes, over one without: what the fix does not change stays.
            None where nothing bounds it.
        fix: What to do, in words or as a command; "" where nothing need be done.
        plan: What to change, as settings and rewrites that can be measured; None where it needs the user's hands.
        safety: Of the fix.
        brought: What the same fix brought on models alike in kind and size, the surest first.
        verified: The fix against what was without it; None until it was measured.
    """

    code: str
    what: str
    where: tuple[str, ...] = ()
    evidence: str = ""
    fix: str = ""
    name: str = ""
    severity: Severity = "warning"
    share_ratio: float | None = None
    share_from: Literal["profile", "cost"] = "profile"
    least_ratio: float | None = None
    plan: Plan | None = None
    safety: FixSafety = "advice"
    brought: tuple[Brought, ...] = ()
    verified: Comparison | None = None
