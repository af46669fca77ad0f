"""What a comparison of outputs has found so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ortune.graph.grids import Grid
from ortune.outputs.figures import nonfinite
from ortune.outputs.files import Array
from ortune.records import AcceptedBy, AcceptedChange, NonFiniteOutput, OutputError

FEWEST_TO_JUDGE = 4  # values that all differ, of which it is said: one label that flipped is still an answer


@dataclass(slots=True, kw_only=True)
class Findings:
    """What the comparison has found so far.

    Attributes:
        what: The failure that is farthest beyond its limit, which is ``times`` as much; the first without a limit.
        wrong: The first output that is no answer to the same question.
        unlike: The first output whose values are equal or not, if all of them differ; if there are no floating-point
            outputs next to it, it counts as wrong.
        inexact: Every failure is one that some tolerance accepts.
        floats: Floating-point outputs so far.
        as_moments: The reference differs from itself, so that outputs are compared by their moments.
        may_be_nonfinite: The user accepts outputs without a finite element.
        grids: Of the reference's outputs that come from QuantizeLinear, by name.
        labels: Classes of outputs that are maps on one side, in the order of the other's columns, by name.
        tolerance: The user's number, for outputs of kind "values".
        accepted: Elements and rows that differ and are no fault, and outputs without elements.
        elements: Elements of both sides so far.
    """

    relative_l2: float = 0.0
    max_error: float = 0.0
    cosine: float | None = None
    what: str = ""
    times: float = 0.0
    wrong: str = ""
    unlike: str = ""
    inexact: bool = True
    floats: int = 0
    as_moments: bool = False
    may_be_nonfinite: bool = False
    grids: Mapping[str, Grid] = field(default_factory=dict)
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tolerance: float | None = None
    ways: set[str] = field(default_factory=set)
    outputs: list[OutputError] = field(default_factory=list)
    nonfinite: list[NonFiniteOutput] = field(default_factory=list)
    accepted: list[AcceptedChange] = field(default_factory=list)
    elements: int = 0

    def fail(self, what: str, *, wrong: bool = True, times: float = math.inf) -> None:
        """Record a difference.

        Args:
            what: The difference in words.
            wrong: It is no answer to the same question.
            times: How many times its limit it is; infinite if no tolerance accepts it.
        """
        if times > self.times:
            self.what, self.times = what, times
        self.inexact = self.inexact and math.isfinite(times)
        if wrong:
            self.wrong = self.wrong or what

    def differ(self, what: str, differing: int, count: int) -> None:
        """Note how many of the values that are equal or not differ."""
        self.fail(what, wrong=False)
        if count >= FEWEST_TO_JUDGE and differing == count:
            self.unlike = self.unlike or what

    def accept(self, label: str, reason: AcceptedBy, differing: int, count: int, noun: str) -> None:
        """Notes elements that differ where rounding alone may decide."""
        self.accepted.append(
            AcceptedChange(output=label, reason=reason, n_differing=differing, n_elements=count, what=noun)
        )

    def count_nonfinite(self, label: str, arrays: tuple[Array, Array], types: tuple[str, str]) -> None:
        """Note what is no finite number; where the reference has nothing else, there is nothing to compare."""
        (all_old, unusable_old), (all_new, unusable_new) = map(nonfinite, arrays, types)
        if not (all_old or all_new) or not (arrays[0].size and arrays[1].size):
            return
        self.nonfinite.append(
            NonFiniteOutput(
                name=label,
                n_elements=arrays[0].size,
                nonfinite_reference=all_old,
                nonfinite_candidate=all_new,
                unusable_reference=unusable_old,
                unusable_candidate=unusable_new,
            )
        )
        # On both sides: where one alone has no finite element, the values differ, and comparing them says so.
        if min(all_old / arrays[0].size, all_new / arrays[1].size) >= 1.0 and not self.may_be_nonfinite:
            what = f"output {label!r} has no finite element on either side, so nothing was compared"
            self.fail(what, wrong=False)
