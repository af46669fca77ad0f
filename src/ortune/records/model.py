"""What is known of a model, its work, and how it is used."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record


class ModelInfo(Record, frozen=True, kw_only=True):
    """What a model is, without its weights in memory.

    ``sha256`` is over the graph and the weights, external files included. "source" is a framework's own model.
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
    """The work of one execution of a node at known input shapes. ``model.cost`` states what counts as what.

    Attributes:
        name: The node's name; "" where it has none.
        called: What findings call it: its name, else that of its first output; "" in older documents.
        domain: "" is ONNX's own.
        inside: Names of the If, Loop and Scan nodes around it, outermost first, joined by "/"; "" in the main graph.
        times: How often one run of the model executes it, as far as totals go: a loop's trip count, 0 in the branch
            of an If that is not counted and for what constants alone decide.
        flops: Operations; a multiply-add is two. Integer arithmetic counts alike.
        macs: Multiply-adds among them; None for operators that are not made of these.
        bytes_read, bytes_written: Each tensor once, by its stored type.
        weight_bytes: The part of ``bytes_read`` that is constants.
        weight_shape: Of a convolution its weight's, () for all else.
        known: Whether it could be counted. If not, the numbers are 0 and ``note`` says why.
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
    """The work of one run of a model at known input shapes.

    Attributes:
        flops, macs, bytes_read, bytes_written: Sums over ``nodes``, each times its ``times``.
        parameters: Elements of initializers and Constant tensors; ``parameter_bytes`` by their stored types.
        nodes: Every node of every graph, functions inlined.
        unknown: Reason to number of nodes that could not be counted; empty when the totals are complete.
        notes: What the totals rest on: a loop of unknown length, an If of which the more expensive branch was counted.
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
    """What was chosen for one input, and how sure that is.

    Attributes:
        dtype: ONNX element type in lower case ("float", "int64", "string", "float16", ...), or
            "seq(...)"/"optional(...)" around one.
        shape: The dimensions chosen (the first feed's length for a sequence is ``len``).
        role: What the input was taken for ("image", "token-ids", "mask", "past", "data", ...).
        origin: Where shape and values come from: "model", "constraint", "name", "trial", "user".
        guessed: Whether a dimension or the values are a guess.
        note: One short phrase for people, "" when nothing need be said.
        guessed_axes: The axes whose size is a guess; a trial that fails may change these and no others.
        low, high: Smallest and largest value fed (inclusive); None where the role decides.
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


class Case(Record, frozen=True, kw_only=True):
    """One input shape of the workload, with its weight in the mix (weights sum to 1)."""

    name: str
    weight: float = 1.0
    inputs: tuple[InputChoice, ...]
    dims: dict[str, int] = {}


class Workload(Record, frozen=True, kw_only=True):
    """How the model will be used. Feeds are made from it and the seed, the same for every trial.

    Attributes:
        cases: The input shapes with weights.
        seed: Seed of the feeds, and the first one of ONNX Runtime's random operators, which draw anew in every block.
        inputs_path: The user's own feeds (npz, npy, ``test_data_set_*`` folder), or "".
        gap_ns: Pause between calls; 0 is back to back.
        sessions, callers: Sessions in one process, and threads that call each.
        custom_ops: Shared libraries with custom operators.
        notes: What people should know, e.g. "decoder: one step at past=128; prefill not measured".
        tries: How many first runs failed before these inputs; 0 is the first proposal.
    """

    cases: tuple[Case, ...]
    seed: int = 0
    inputs_path: str = ""
    gap_ns: int = 0
    sessions: int = 1
    callers: int = 1
    custom_ops: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tries: int = 0
