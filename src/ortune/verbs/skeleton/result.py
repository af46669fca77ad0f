"""Result of ``ortune skeleton``: the skeleton, and its profile next to the original's."""

from __future__ import annotations

from ortune.records import Finding, Runtime
from ortune.records.base import Record


class SameOperator(Record, frozen=True, kw_only=True):
    """An operator on a provider in the profiles of original and skeleton, which are single observations.

    Attributes:
        before, after: Number of the operator's nodes that ran.
        before_share, again_share, after_share: Share of the undisturbed time of all operators (``fast_ns`` of a
            profile): in the original, in a second process of the original, and in the skeleton.
    """

    op_type: str
    provider: str
    before: int
    after: int
    before_share: float
    again_share: float
    after_share: float


class SkeletonProfile(Record, frozen=True, kw_only=True):
    """Profiles of the original, the original again, and the skeleton, taken in turns.

    Attributes:
        operators: The most expensive first.
        moved_ratio: Share of the time that is in other operators than in the original.
        again_ratio: The same share for a second process of the original, which is the noise.
        time_ratio: Time of a run of the skeleton divided by the time of a run of the original; a single observation.
        alike: Whether ``moved_ratio`` is small, or not much larger than ``again_ratio``; False if that is too large for
            a conclusion.
        placed: Whether the same operators ran equally often on the same providers.
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
        path: The written file.
        bytes_before: Size of the model, external data included.
        n_nodes: Number of nodes in all graphs.
        n_rebuilt: Tensors and lists of numbers or texts that now have seeded random values.
        n_kept: Small tensors and lists that are unchanged.
        own_operators: Number of nodes with operators of private domains, by their new names.
        inputs: The inputs of the original's run in the form of ``--shape``, by the new names.
        by_values: Number of nodes with operators whose work depends on values, and so on the weights.
        places_before, places_after: Number of findings by code.
        findings: Findings in the skeleton, by the new names.
        profile: None if it could not be taken.
        not_profiled: Why there is no profile; "" if there is one.
        same: Whether findings and profile match the original's.
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
