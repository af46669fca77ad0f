"""A model without weights, names and metadata, and how far it stands for the original."""

from __future__ import annotations

from ortune.records.base import Record
from ortune.records.finding import Finding
from ortune.records.machine import Runtime


class SameOperator(Record, frozen=True, kw_only=True):
    """One operator on one provider, in the profiles of original and skeleton; single observations.

    Attributes:
        before, after: Nodes of it that ran.
        before_share, again_share, after_share: Of the time of all operators where nothing disturbs them (``fast_ns`` of
            a profile): in the original, in a second process of the original, and in the skeleton.
    """

    op_type: str
    provider: str
    before: int
    after: int
    before_share: float
    again_share: float
    after_share: float


class SkeletonProfile(Record, frozen=True, kw_only=True):
    """Original, original again and skeleton, profiled in turns.

    Attributes:
        operators: The dearest first.
        moved_ratio: Share of the time that lies in other operators than in the original.
        again_ratio: The same of a second process of the original: what is nobody's doing.
        time_ratio: A run of the skeleton over one of the original; one observation.
        alike: ``moved_ratio`` is small, or not much more than ``again_ratio``; False where that
            is so large that nothing can be told.
        placed: The same operators ran equally often on the same providers.
    """

    operators: tuple[SameOperator, ...]
    moved_ratio: float
    again_ratio: float
    time_ratio: float
    alike: bool
    placed: bool


class SkeletonResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune skeleton --json``.

    Attributes:
        path: The file that was written.
        bytes_before: Of the model, weights beside it included.
        n_nodes: Of all graphs.
        n_rebuilt: Tensors and lists of numbers or texts whose values are of a seed now.
        n_kept: Small ones that stay as they are.
        own_operators: Operators of domains that are not public, by their new names, and how often each occurs.
        inputs: What the original was run with, as ``--shape`` has it, by the new names.
        by_values: Operators whose work depends on the values fed, and so on the weights, and how often each occurs.
        places_before, places_after: Where each rule finds something, counted: by code.
        findings: What rules find in the skeleton, by the new names.
        profile: None where it could not be made.
        not_profiled: Why.
        same: Findings and profile are the original's.
        headline: The answer in one sentence.
    """

    path: str
    bytes_before: int
    bytes_after: int
    n_nodes: int
    n_rebuilt: int
    n_kept: int
    own_operators: dict[str, int] = {}
    inputs: tuple[str, ...] = ()
    by_values: dict[str, int] = {}
    places_before: dict[str, int] = {}
    places_after: dict[str, int] = {}
    findings: tuple[Finding, ...] = ()
    profile: SkeletonProfile | None = None
    not_profiled: str = ""
    runtime: Runtime
    same: bool
    headline: str = ""
    notes: tuple[str, ...] = ()


class IssueReport(Record, frozen=True, kw_only=True):
    """A bug report in a folder: a text, and a skeleton beside it; no path and no name of the user's is in them.

    Attributes:
        path: Of the text, Markdown.
    """

    path: str
    skeleton: SkeletonResult
