"""Result of ``ortune rewrite``: steps of the applied rewrites, and rewrites that apply."""

from __future__ import annotations

from typing import Literal

from ortune.records import (
    OutputDifference,
    RewriteSpec,
    Side,
    Value,
)
from ortune.records.base import Record

RewriteSafety = Literal["exact", "numerics", "behaviour"]


class RewriteStep(Record, frozen=True, kw_only=True):
    """The result of one rewrite.

    Attributes:
        modified: Whether it changed the model.
        what: One sentence on the changes, or that there are none.
        reasons: Why it, or a part of it, could not be applied.
    """

    rewrite: RewriteSpec
    safety: RewriteSafety
    modified: bool
    what: str
    reasons: tuple[str, ...] = ()


class CalledFor(Record, frozen=True, kw_only=True):
    """A rewrite that applies to a model.

    Attributes:
        reason: One sentence.
        in_row: Whether it is one of the exact rewrites that can be applied in the listed order.
    """

    rewrite: RewriteSpec
    safety: RewriteSafety
    reason: str
    in_row: bool = False


class NearMiss(Record, frozen=True, kw_only=True):
    """A rewrite that does not apply to a model, with the reasons."""

    name: str
    reasons: tuple[str, ...]


class RewritingResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune rewrite --json``.

    Attributes:
        path: The written file; "" if none was written.
        steps: The requested rewrites, in order.
        called_for: Without a request: the rewrites that apply, exact ones first.
        near_misses: Without a request: the rewrites that do not apply, with the reasons.
        settings: Settings that the new model needs.
        hardware_bound: Whether it may be useful only on this kind of CPU.
        nodes_before, nodes_after: Number of nodes in all graphs.
        operators: Change of the number of nodes, by operator.
        bytes_before, bytes_after: Size of the files, external data included.
        outputs: Difference of the outputs for the inputs of the workload; None if nothing was run.
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
