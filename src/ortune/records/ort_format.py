"""What ONNX Runtime's optimisation levels make of a model, and what files in ORT format hold."""

from __future__ import annotations

from ortune.records.base import Record


class LevelGraph(Record, frozen=True, kw_only=True):
    """A model's graph at one optimisation level.

    Attributes:
        level: ``none``, ``basic``, ``extended`` or ``all``.
        n_nodes: Of all graphs.
        operators: How often each occurs: "Conv", "com.microsoft.FusedConv".
    """

    level: str
    n_nodes: int
    operators: dict[str, int]


class LevelChange(Record, frozen=True, kw_only=True):
    """Source nodes that share a fate at some level, with what stands for them at each.

    Attributes:
        operators: Of the source nodes, in order.
        nodes: Their names, one tuple for each place in the model where the same happens.
        at: Operators that stand for them by level; none where they are gone.
        why: By level, what became of a node that nothing stands for.
    """

    operators: tuple[str, ...]
    nodes: tuple[tuple[str, ...], ...]
    at: dict[str, tuple[str, ...]]
    why: dict[str, str] = {}


class LevelInsertion(Record, frozen=True, kw_only=True):
    """Nodes that a level adds without a source node: conversions of layout, say.

    Attributes:
        level: Where they are.
        operator: Of the nodes.
        purposes: What each is for.
    """

    level: str
    operator: str
    purposes: tuple[str, ...]


class LevelComparison(Record, frozen=True, kw_only=True):
    """What each optimisation level does to a model, side by side.

    Attributes:
        graphs: One a level, the least optimised first.
        changes: What is fused, replaced or removed, the most frequent first.
        insertions: What is added.
        n_unchanged: Source nodes that are as they were at every level.
    """

    graphs: tuple[LevelGraph, ...]
    changes: tuple[LevelChange, ...]
    insertions: tuple[LevelInsertion, ...] = ()
    n_unchanged: int = 0


class Rejection(Record, frozen=True, kw_only=True):
    """Who does not run a file in ORT format, or not as it could.

    Attributes:
        where: The build, processor or execution provider.
        why: The reason: a clause.
    """

    where: str
    why: str


class OrtFile(Record, frozen=True, kw_only=True):
    """What a file in ORT format was made for, as far as it shows.

    Attributes:
        version: Of the format.
        read_by: The releases of ONNX Runtime that read this version.
        level: The optimisation level: ``basic or none``, ``extended or all``, ``all``, ``all, for x86``.
        style: ``fixed``, or ``runtime`` where it stores optimisations to be made when it is loaded.
        saved_optimisations: How many such optimisations it stores, by the operators that they make.
        own_operators: Nodes of ONNX Runtime's own operators: a provider that knows the standard ones alone has none.
        rejected_by: Who rejects it.
        kept_for: The provider for which ortune kept nodes plain in it; "" for none.
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
    """What a provider-aware file keeps, and what is optimised outside of that.

    Attributes:
        provider: Its target.
        level: Of the optimisation outside of what is kept.
        n_kept: Nodes that the provider takes, plain ONNX all of them.
        n_rest: All others at the level basic.
        n_rest_after: What they were optimised to.
        made: Operators of ONNX Runtime's own among these.
        gains_nothing: Why there is no such file: another one is as good; "" where it is written.
    """

    provider: str
    level: str
    n_kept: int
    n_rest: int
    n_rest_after: int
    made: dict[str, int] = {}
    gains_nothing: str = ""


class OrtConversion(Record, frozen=True, kw_only=True):
    """How a file in ORT format was made, and what became of the model's nodes.

    Attributes:
        place: Where it is to run, as ``--for`` has it.
        level: ``basic``, ``extended`` or ``all``.
        style: ``fixed`` or ``runtime``.
        platform: ``any``, ``arm`` or ``amd64``.
        against: Why level and style do not fit the place, where they were forced.
        file: What the written file is.
        levels: What each level does to the model, side by side.
        aware: What a provider-aware file keeps; None where none was asked for.
        needed_path: The list of operators for a reduced build; "" where none was asked for.
        needed: Its lines but for comments: domain, opset and operators, with types where those are reduced.
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
