"""A model, its work, and the workload with which it is used."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record


class ModelInfo(Record, frozen=True, kw_only=True):
    """A model's identity and format.

    ``sha256`` is over the graph and the weights, external data included. The format "source" is a framework's own
    model.
    """

    path: str
    format: Literal["onnx", "ort", "source"]
    sha256: str
    size_bytes: int
    external_bytes: int = 0
    producer: str = ""
    ir_version: int = 0
    opsets: dict[str, int] = {}
    n_nodes: int = 0
    n_parameters: int = 0


class NodeCost(Record, frozen=True, kw_only=True):
    """The work of one execution of a node with known input shapes; ``ortune.graph.cost`` defines the counting.

    Attributes:
        name: The node's name; "" if it has none.
        called: Name in findings: the node's own name, or else that of its first output.
        domain: Operator domain; "" is ONNX's own.
        inside: Names of the enclosing If, Loop and Scan nodes, outermost first, joined by "/"; "" in the main graph.
        times: Number of executions per run of the model: a loop's trip count; 0 in a branch of an If that is not
            counted, and for nodes that only depend on constants.
        flops: Number of operations; a multiply-add is two. Integer arithmetic counts alike.
        macs: Number of multiply-adds among them; None for operators that do not consist of these.
        bytes_read, bytes_written: Bytes of all tensors read and written, each once, in its stored type.
        weight_bytes: The constant part of ``bytes_read``.
        weight_shape: Shape of a convolution's weight; () for all other nodes.
        known: Whether the work could be counted. If not, the numbers are 0 and ``note`` gives the reason.
    """

    name: str
    called: str = ""
    op_type: str
    domain: str = ""
    inside: str = ""
    times: int = 1
    flops: int = 0
    macs: int | None = None
    bytes_read: int = 0
    bytes_written: int = 0
    weight_bytes: int = 0
    weight_shape: tuple[int, ...] = ()
    known: bool = True
    note: str = ""


class ModelCost(Record, frozen=True, kw_only=True):
    """The work of one run of a model with known input shapes.

    Attributes:
        flops, macs, bytes_read, bytes_written: Sums over ``nodes``, each times its ``times``.
        parameters: Number of elements of initializers and Constant tensors; ``parameter_bytes`` is their stored size.
        nodes: Every node of every graph, functions inlined.
        unknown: Number of nodes that could not be counted, by reason; empty if the totals are complete.
        notes: Assumptions behind the totals: a loop of unknown length, an If counted by its more expensive branch.
    """

    flops: int
    macs: int
    bytes_read: int
    bytes_written: int
    parameters: int
    parameter_bytes: int
    nodes: tuple[NodeCost, ...] = ()
    unknown: dict[str, int] = {}
    notes: tuple[str, ...] = ()


class InputChoice(Record, frozen=True, kw_only=True):
    """The shape and values chosen for one input, and their origin.

    Attributes:
        dtype: ONNX element type in lower case ("float", "int64", "string", "float16", ...), or
            "seq(...)"/"optional(...)" around one.
        shape: The chosen dimensions (the length of a sequence's first feed is ``len``).
        role: The detected kind of input ("image", "token-ids", "mask", "past", "data", ...).
        origin: Source of shape and values: "model", "constraint", "name", "trial", "user".
        guessed: Whether a dimension or the values are a guess.
        note: A short explanation; "" for none.
        guessed_axes: The axes with a guessed size; only these may change after a failed trial.
        low, high: Smallest and largest value (inclusive); None if the role decides.
        values: The elements in order, for an input that is a shape; () for all others.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: str = "data"
    origin: Literal["model", "constraint", "name", "trial", "user"] = "model"
    guessed: bool = False
    note: str = ""
    guessed_axes: tuple[int, ...] = ()
    low: float | None = None
    high: float | None = None
    values: tuple[int, ...] = ()


class Case(Record, frozen=True, kw_only=True):
    """One input shape of the workload, with its weight in the mix (weights sum to 1)."""

    name: str
    weight: float = 1.0
    inputs: tuple[InputChoice, ...]
    dims: dict[str, int] = {}


class Workload(Record, frozen=True, kw_only=True):
    """The use of a model. Inputs are generated from the workload and its seed, and are the same for every trial.

    Attributes:
        cases: The input shapes with weights.
        seed: Seed of the inputs, and initial seed of ONNX Runtime's random operators, which change in every block.
        inputs_path: The user's own inputs (npz, npy, ``test_data_set_*`` folder, folder of images), those of one
            session of a recording (``FILE#N``), or "".
        image: How images are read, such as "size=224,layout=nchw"; "" if not specified.
        gap_ns: Pause between calls; 0 for none.
        sessions, callers: Number of sessions in one process, and number of threads that call each session.
        custom_ops: Shared libraries with custom operators.
        notes: Remarks for the reader, e.g. "decoder: one step at past=128; prefill not measured".
        tries: Number of first runs that failed before these inputs; 0 for the first proposal.
    """

    cases: tuple[Case, ...]
    seed: int = 0
    inputs_path: str = ""
    image: str = ""
    gap_ns: int = 0
    sessions: int = 1
    callers: int = 1
    custom_ops: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tries: int = 0
