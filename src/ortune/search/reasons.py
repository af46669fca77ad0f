"""Reasons that a plan was not tried or left the race, as codes with numbers for the verbs' sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Code = Literal[
    "budget", "budget-before-it-ran", "budget-after-one-block", "too-many-neighbours", "part-of-a-failure",
    "not-rewritten", "error", "failed-while-confirmed", "wrong-outputs", "slower-at-once", "slower", "no-better",
    "slower-half", "below-worth", "worsens", "over-memory", "pruned", "slower-than-complete", "not-confirmed",
    "small-lossy-gain", "another-led", "refused", "not-adopted",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """The reason that a plan is not the winner.

    Attributes:
        code: The reason.
        n: Number of blocks in which the plan was compared, or of its failures.
        share_ratio: Fraction by which the plan is slower, or the smallest gain that justifies a change.
        text: Text of an error, an output difference, a guard, or another plan.
    """

    code: Code
    n: int = 0
    share_ratio: float = 0.0
    text: str = ""


ENDED = Reason(code="budget")
