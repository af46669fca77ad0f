"""A snapshot of what ONNX Runtime makes of a model, and the document of a check."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.plan import Plan


class GraphSnapshot(Record, frozen=True, kw_only=True):
    """A graph after ONNX Runtime's optimiser, at one level. Bytes are for the shapes that the snapshot names.

    Attributes:
        nodes: Nodes of all graphs, subgraphs included.
        operators: How many of each, by "domain:Operator", or "Operator" in the domain of ONNX.
        fused: Operators that are there more often than at level ``disable``, and by how many.
        inserted: Casts, copies and changes of layout: how many more (or fewer) than the model came with.
        structure: Digest of what is wired to what, with attributes; names and weights are not in it.
        weights_bytes: The weights that the session holds.
        peak_activation_bytes: Most bytes of values alive at once, inputs and outputs included.
        unknown_values: Values whose size could neither be inferred nor seen in a run; with any, the peak is a
            lower bound.
    """

    nodes: int
    operators: dict[str, int]
    fused: dict[str, int] = {}
    inserted: dict[str, int] = {}
    structure: str
    weights_bytes: int
    peak_activation_bytes: int
    unknown_values: int = 0


class OutputSnapshot(Record, frozen=True, kw_only=True):
    """One output on the seeded inputs, rounded so that the order of sums does not show.

    Attributes:
        shape: -1 where a dimension is random or not known.
        finite: Finite values; None where nothing is kept of the values (random models, text, maps).
        mean, l2: Of the finite values, to six significant digits of their root mean square and norm.
        sketch: Sum of the finite values under fixed pseudo-random weights: moves when values change places.
        exact: Digest of integers, booleans and text; "" for floating point.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    finite: int | None = None
    mean: float | None = None
    l2: float | None = None
    sketch: float | None = None
    exact: str = ""


class LockedModel(Record, frozen=True, kw_only=True):
    """The model as exported.

    Attributes:
        weights: Digest of the weights' values, whatever they are called and wherever they are used.
        tensors: Digest of each named weight's values, by name; {} in a lock of an ortune that did not keep them.
        contents: Digest of the whole graph without its names, the values of each weight in their place; "" in a lock
            of an ortune that did not keep it.
        weights_bytes: By element type; small int64 tensors are shapes and axes, and count as structure.
        inputs, outputs: "name: type[dimensions]", in the model's order.
    """

    sha256: str
    file_bytes: int
    external_bytes: int = 0
    producer: str = ""
    opsets: dict[str, int] = {}
    parameters: int
    weights: str
    contents: str = ""
    weights_bytes: dict[str, int] = {}
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    tensors: dict[str, str] = {}


class LockedRun(Record, frozen=True, kw_only=True):
    """How the model was run for its outputs.

    Attributes:
        shapes: Of the inputs fed, by name.
        feeds: Digest of the values fed; outputs are compared only where it is the same.
        inputs: Name of the file or folder that the values came from; "" where they were made from the seed.
        random: Operators that make the outputs differ from run to run.
        given: Of a bundle, what was asked for on top of its own plan; ``plan`` then holds thread counts as the bundle
            does, ``min(4, cpus)``. None for a model.
        placement: Nodes by execution provider; with a provider beside the CPU's, those that ran, which are compared
            only where machine and features agree.
    """

    plan: Plan
    given: Plan | None = None
    level: str
    seed: int = 0
    shapes: dict[str, tuple[int, ...]] = {}
    feeds: str
    inputs: str = ""
    random: tuple[str, ...] = ()
    placement: dict[str, int] = {}
    outputs: tuple[OutputSnapshot, ...] = ()


class HardwareSnapshot(Record, frozen=True, kw_only=True):
    """What depends on the processor: compared only where machine and features agree."""

    machine: str
    features: tuple[str, ...] = ()
    levels: dict[str, GraphSnapshot] = {}


class Snapshot(Record, frozen=True, kw_only=True):
    """A lock file: what ONNX Runtime makes of a model, with no clock in it.

    Attributes:
        schema: "ortune/snapshot/1".
        levels: The graph by level of optimisation, where that does not depend on the processor.
        ort_web: Version of the onnxruntime-web that the model ran with, in a browser; "" elsewhere.
    """

    schema: str
    ort_version: str
    model: LockedModel
    run: LockedRun
    levels: dict[str, GraphSnapshot]
    hardware: HardwareSnapshot
    ort_web: str = ""


class LockChange(Record, frozen=True, kw_only=True):
    """One difference between a model and its lock.

    Attributes:
        part: What differs, e.g. "operator", "nodes", "peak-memory", "output".
        name: Of the operator, input, setting ...; "" where there is one only.
        was, now: As text or numbers; None where it was, or is, not there.
        fails: Whether ``--check`` fails for it; the others are told.
    """

    part: str
    name: str = ""
    was: int | float | str | None = None
    now: int | float | str | None = None
    fails: bool = True


class Uncompared(Record, frozen=True, kw_only=True):
    """What of two snapshots was not compared, or only in part.

    Attributes:
        part: "level all", "placement" or "outputs"; "" where all was compared that could be.
        why: The processors differ, or the architectures do; no profile told the placement of the lock, or of the run;
            the values fed differ, or are random; outputs were compared by their rounded figures alone.
    """

    part: str = ""
    why: Literal["processor", "architecture", "untold-then", "untold-now", "feeds", "random", "rounded"]


class LockResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune lock --json``.

    Attributes:
        path: The lock file.
        written: Whether it was written; else it was checked.
        changes: Most important first; empty when written.
        headline: The answer in one sentence.
        notes: What could not be compared, or only in part, and why.
        tolerance_ratio: How far figures of floating-point outputs could be apart, as a share of their norm; None where
            it was written. Outputs of less precise types have at least that of their type.
        not_compared: Parts that were not compared ("outputs", "level all", "placement"); with ``--strict`` each is
            among the changes too.
    """

    path: str
    written: bool
    snapshot: Snapshot
    changes: tuple[LockChange, ...] = ()
    headline: str = ""
    notes: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()
    tolerance_ratio: float | None = None
