"""Why a plan was not tried, or left the race: a code with its figures, which a verb puts into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Code = Literal[
    "budget", "budget-before-it-ran", "budget-after-one-block", "too-many-neighbours", "part-of-a-failure",
    "not-rewritten", "error", "failed-while-confirmed", "wrong-outputs", "slower-at-once", "slower", "no-better",
    "slower-half", "below-worth", "worsens", "over-memory", "pruned", "slower-than-complete", "not-confirmed",
    "another-faster", "refused", "not-adopted",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a plan is not the winner.

    Attributes:
        code: The reason.
        n: Blocks in which it was compared, or times that it failed.
        share_ratio: How much slower it is, or the smallest gain that justifies a change.
        text: What another part of the package reported: an error, different outputs, a guard, another plan.
    """

    code: Code
    n: int = 0
    share_ratio: float = 0.0
    text: str = ""


ENDED = Reason(code="budget")
