"""Rewrites applied by hand: what each did, what the model calls for, and how far the outputs moved."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record, Value
from ortune.records.machine import Side
from ortune.records.measure import OutputDifference
from ortune.records.plan import RewriteSpec

RewriteSafety = Literal["exact", "numerics", "behaviour"]


class RewriteStep(Record, frozen=True, kw_only=True):
    """One rewrite and what became of it.

    Attributes:
        modified: Whether the model is another one for it.
        what: One sentence: what was changed, or that nothing was.
        reasons: Why it, or a part of it, could not be applied.
    """

    rewrite: RewriteSpec
    safety: RewriteSafety
    modified: bool
    what: str
    reasons: tuple[str, ...] = ()


class CalledFor(Record, frozen=True, kw_only=True):
    """A rewrite that fits a model.

    Attributes:
        reason: One sentence.
        in_row: It is one of the exact ones that can be applied one after another as they are listed.
    """

    rewrite: RewriteSpec
    safety: RewriteSafety
    reason: str
    in_row: bool = False


class NearMiss(Record, frozen=True, kw_only=True):
    """A rewrite that does nothing for a model, and why."""

    name: str
    reasons: tuple[str, ...]


class RewritingResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune rewrite --json``.

    Attributes:
        path: The file that was written; "" where none was.
        steps: Every rewrite that was asked for, in order.
        called_for: Where none was asked for: those that fit, the row of exact ones first.
        near_misses: Then too: those that look for something in this model and find a reason not to.
        settings: What must be set to run the new model.
        hardware_bound: It may be of use on this kind of CPU only.
        nodes_before, nodes_after: Of all graphs.
        operators: How many more, or fewer, there are of each operator that came or went.
        bytes_before, bytes_after: Of the files, weights beside them included.
        outputs: How far the outputs moved on the inputs of the workload; None where nothing was run.
        headline: The answer in one sentence.
    """

    base: Side
    path: str = ""
    dry_run: bool = False
    steps: tuple[RewriteStep, ...] = ()
    called_for: tuple[CalledFor, ...] = ()
    near_misses: tuple[NearMiss, ...] = ()
    settings: dict[str, Value] = {}
    hardware_bound: bool = False
    nodes_before: int = 0
    nodes_after: int = 0
    operators: dict[str, int] = {}
    bytes_before: int = 0
    bytes_after: int = 0
    outputs: OutputDifference | None = None
    headline: str = ""
    notes: tuple[str, ...] = ()
