"""A model's graphs at ONNX Runtime's optimisation levels, and files in ORT format."""

from __future__ import annotations

from ortune.records.base import Record


class LevelGraph(Record, frozen=True, kw_only=True):
    """A model's graph at one optimisation level.

    Attributes:
        level: ``none``, ``basic``, ``extended`` or ``all``.
        n_nodes: Number of nodes in all graphs.
        operators: Number of nodes by operator: "Conv", "com.microsoft.FusedConv".
    """

    level: str
    n_nodes: int
    operators: dict[str, int]


class LevelChange(Record, frozen=True, kw_only=True):
    """Source nodes that are replaced together, with their replacement at each level.

    Attributes:
        operators: Operators of the source nodes, in order.
        nodes: Their names, one tuple per place in the model with the same change.
        at: The replacing operators by level; empty if the nodes are removed.
        why: Why a node without a replacement was removed, by level.
    """

    operators: tuple[str, ...]
    nodes: tuple[tuple[str, ...], ...]
    at: dict[str, tuple[str, ...]]
    why: dict[str, str] = {}


class LevelInsertion(Record, frozen=True, kw_only=True):
    """Nodes that a level adds without a source node, such as layout conversions.

    Attributes:
        level: The optimisation level.
        operator: Operator of the nodes.
        purposes: The purpose of each node.
    """

    level: str
    operator: str
    purposes: tuple[str, ...]


class LevelComparison(Record, frozen=True, kw_only=True):
    """The changes of a model at each optimisation level.

    Attributes:
        graphs: One graph per level, the least optimised first.
        changes: Nodes that are fused, replaced or removed, the most frequent first.
        insertions: Nodes that are added.
        n_unchanged: Number of source nodes that are the same at every level.
    """

    graphs: tuple[LevelGraph, ...]
    changes: tuple[LevelChange, ...]
    insertions: tuple[LevelInsertion, ...] = ()
    n_unchanged: int = 0


class Rejection(Record, frozen=True, kw_only=True):
    """A build, processor or execution provider that does not run a file in ORT format, or only slowly.

    Attributes:
        where: The build, processor or execution provider.
        why: The reason, as a clause.
    """

    where: str
    why: str


class OrtFile(Record, frozen=True, kw_only=True):
    """The intended use of a file in ORT format, as far as the file shows it.

    Attributes:
        version: Version of the format.
        read_by: ONNX Runtime releases that read this version.
        level: The optimisation level: ``basic or none``, ``extended or all``, ``all``, ``all, for x86``.
        style: ``fixed``, or ``runtime`` if it stores optimisations to apply at load time.
        saved_optimisations: Number of these stored optimisations, by resulting operator.
        own_operators: Number of nodes by operator, for ONNX Runtime's own operators, which other execution providers do
            not support.
        rejected_by: Builds, processors and execution providers that reject it.
        kept_for: The execution provider whose nodes ortune kept unfused; "" for none.
    """

    version: str
    read_by: str
    level: str
    style: str
    saved_optimisations: dict[str, int] = {}
    own_operators: dict[str, int] = {}
    rejected_by: tuple[Rejection, ...] = ()
    kept_for: str = ""


class AwareFile(Record, frozen=True, kw_only=True):
    """A provider-aware file: the nodes that it keeps for a provider, and the optimised nodes around them.

    Attributes:
        provider: The provider's target.
        level: Optimisation level of the other nodes.
        n_kept: Number of nodes that the provider supports, kept as plain ONNX.
        n_rest: Number of all other nodes at level basic.
        n_rest_after: Number of these other nodes after optimisation.
        made: Number of nodes with ONNX Runtime's own operators among these, by operator.
        gains_nothing: Why there is no such file, because another one is equivalent; "" if it is written.
    """

    provider: str
    level: str
    n_kept: int
    n_rest: int
    n_rest_after: int
    made: dict[str, int] = {}
    gains_nothing: str = ""


class OrtConversion(Record, frozen=True, kw_only=True):
    """The creation of a file in ORT format, and the changes of the model's nodes.

    Attributes:
        place: The value of ``--for``.
        level: ``basic``, ``extended`` or ``all``.
        style: ``fixed`` or ``runtime``.
        platform: ``any``, ``arm`` or ``amd64``.
        against: Why level and style do not fit the place, if they were forced.
        file: Properties of the written file.
        levels: Changes of the model at each level.
        aware: Properties of the provider-aware file; None if it was not requested.
        needed_path: The operator list for a reduced build; "" if it was not requested.
        needed: Its lines without comments: domain, opset and operators, with types if those are reduced too.
    """

    place: str
    level: str
    style: str
    platform: str
    against: str = ""
    file: OrtFile
    levels: LevelComparison
    aware: AwareFile | None = None
    needed_path: str = ""
    needed: tuple[str, ...] = ()
