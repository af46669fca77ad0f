"""Findings, with their evidence and fixes."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.comparison import Comparison
from ortune.records.plan import Plan

Severity = Literal["error", "warning", "note"]
"""error: something is broken. warning: it costs speed, or makes measurements misleading. note: for information."""

FixSafety = Literal["exact", "numerics", "behaviour", "advice"]
"""Safety of a fix. exact: outputs are bit-identical, or sums are reassociated. numerics: outputs stay within the
tolerance. behaviour: it changes more than time. advice: it needs manual work."""


class Brought(Record, frozen=True, kw_only=True):
    """A measured gain of the same fix on another model, used for an estimate.

    Attributes:
        model: Name of a real model, or description of a synthetic one.
        made: Whether the model is synthetic.
        ratio: Time with the fix over time without; below 1 is faster.
        ratio_low, ratio_high: Interval of ``ratio``.
        proven: Whether the gain was confirmed; otherwise ``ratio`` is a median and its interval the quartiles.
        others: Rewrites that were measured together with it.
    """

    model: str
    made: bool = False
    ratio: float
    ratio_low: float
    ratio_high: float
    proven: bool = False
    others: tuple[str, ...] = ()


FUNCTIONAL_ONLY = "MSR006"
"""Code of the most important finding: the GPU is emulated in software, so times are meaningless."""

DEFAULT_WRONG, NOT_FINITE, REFUTED = "MSR012", "MSR013", "MSR016"
"""Codes of the findings that come before all others.

Outputs are wrong at an optimisation level, not finite, or wrong compared with an evaluation in float64.
"""

DEFAULT_BROKEN = "MSR014"
"""Code of the finding that the model fails at the requested optimisation level and runs at a lower level."""


class InBlocks(Record, frozen=True, kw_only=True):
    """Repeated blocks that a finding is about: equal layers, or the steps of an unrolled loop.

    Attributes:
        blocks: Number of blocks with nodes of the finding.
        copies: Number of equal blocks.
        nodes: Nodes of the finding in the first block.
    """

    blocks: int
    copies: int
    nodes: tuple[str, ...]


class Finding(Record, frozen=True, kw_only=True):
    """A rule's statement about a model, a machine or a run.

    Attributes:
        code: The rule's code; its meaning never changes.
        name: The rule's name, after the pattern that it finds.
        what: The finding in one sentence.
        where: Names of nodes, inputs, tensors or files.
        blocks: The repeated blocks among these nodes; () if there are none.
        evidence: The observation that proves the finding, if ``what`` does not contain it.
        share_ratio: The affected fraction of the run, an upper bound of the gain; None if unknown.
        share_from: Basis of ``share_ratio``: "profile" (a measured run) or "cost" (estimated from operations and
            bytes).
        least_ratio: Lower bound of the time with the fix over the time without; None if there is no bound.
        fix: The remedy, in words or as a command; "" if none is needed.
        plan: The change as settings and rewrites that can be measured; None if it needs manual work.
        safety: Safety class of the fix.
        brought: Measured gains of the same fix on similar models, the most reliable first.
        verified: The fix compared with the unchanged model; None until it is measured.
    """

    code: str
    what: str
    where: tuple[str, ...] = ()
    blocks: tuple[InBlocks, ...] = ()
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

    def sentence(self, *, evidence: bool = True) -> str:
        """Return the code, the finding, its evidence (unless ``evidence`` is False), and the fix as one text."""
        observed = self.evidence if evidence and self.evidence not in self.what else ""
        return "".join(
            [
                f"{self.code} {self.what}".lstrip(),
                f" ({observed})" if observed else "",
                f" -> {self.fix}" if self.fix else "",
            ]
        )
