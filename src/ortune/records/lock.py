"""A snapshot of a model's optimised graphs, and the changes that a check finds."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.plan import Plan


class GraphSnapshot(Record, frozen=True, kw_only=True):
    """The optimised graph at one level. Bytes are for the shapes in the snapshot.

    Attributes:
        nodes: Number of nodes of all graphs, subgraphs included.
        operators: Number of nodes by "domain:Operator", or "Operator" for the ONNX domain.
        fused: Operators that occur more often than at level ``disable``, with the number of additional nodes.
        inserted: Casts, copies and layout changes in addition to those of the exported model.
        structure: Digest of connections and attributes, without names and weights.
        weights_bytes: Bytes of the weights that the session holds.
        peak_activation_bytes: Peak of the values live at once, inputs and outputs included.
        unknown_values: Number of values of unknown size. If there are any, the peak is a lower bound.
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
    """One output for the seeded inputs, rounded to be independent of summation order.

    Attributes:
        shape: -1 for a random or unknown dimension.
        finite: Number of finite values; None if values are not recorded (random models, text, maps).
        mean, l2: Mean and norm of the finite values, to six significant digits of their root mean square and norm.
        sketch: Sum of the finite values with fixed pseudo-random weights; it detects reordered values.
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
    """The exported model, before ONNX Runtime optimises it.

    Attributes:
        weights: Digest of the weights' values, independent of their names and uses.
        tensors: Digest of each weight's values, by name; {} in locks of older versions.
        contents: Digest of the whole graph without names; "" in locks of older versions.
        weights_bytes: Bytes of the weights by element type. Small int64 tensors are shapes and axes, and count as
            structure.
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
    """The run that produced the outputs.

    Attributes:
        shapes: Shapes of the inputs, by name.
        feeds: Digest of the input values; outputs are compared only if it is equal.
        inputs: File or folder of the input values; "" if they were generated from the seed.
        random: Operators that make the outputs random.
        given: For a bundle: options in addition to its own plan. ``plan`` then has thread counts as in the bundle,
            ``min(4, cpus)``. None for a model.
        placement: Nodes by execution provider. With a provider other than the CPU's, the nodes that ran, which are
            compared only if machine and instruction sets are equal.
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
    """The part of a snapshot that depends on the processor; compared only if machine and instruction sets are equal."""

    machine: str
    features: tuple[str, ...] = ()
    levels: dict[str, GraphSnapshot] = {}


class Snapshot(Record, frozen=True, kw_only=True):
    """A lock file: ONNX Runtime's optimised graphs of a model, without any timing.

    Attributes:
        schema: "ortune/snapshot/1".
        levels: The graph by optimisation level, for levels that do not depend on the processor.
        ort_web: Version of onnxruntime-web, if the model ran in a browser; otherwise "".
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
        part: The kind of the difference, e.g. "operator", "nodes", "peak-memory", "output".
        name: Name of the operator, input, setting ...; "" if there is only one.
        was, now: Text or numbers; None if missing.
        fails: Whether it fails ``--check``; other changes are only reported.
    """

    part: str
    name: str = ""
    was: int | float | str | None = None
    now: int | float | str | None = None
    fails: bool = True


class Uncompared(Record, frozen=True, kw_only=True):
    """A part of two snapshots that was not compared, or only partly.

    Attributes:
        part: "level all", "placement" or "outputs"; "" if everything comparable was compared.
        why: The reason: another processor or architecture; a placement that the lock or the run did not profile; other
            or random input values; or outputs that were compared by rounded statistics only.
    """

    part: str = ""
    why: Literal["processor", "architecture", "untold-then", "untold-now", "feeds", "random", "rounded"]
