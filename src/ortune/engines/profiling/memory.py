"""Sizes and lifetimes of the values of the optimised graph, which determine memory use over a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
import onnx_ir as ir

from ortune.graph.kinds import VIEWS
from ortune.graph.model.graphs import op_set, own_name, subgraphs
from ortune.records import Case, MemoryProfile
from ortune.trace.memory import BEFORE, Lifetime, Resident, liveness, memory
from ortune.trace.table import NO_PARENT, Trace
from ortune.trace.tensors import n_bytes, tensors
from ortune.trace.traffic import ExecutedNode

_IN_PLACE = op_set(
    "Add Sub Mul Div Sum Relu LeakyRelu Elu Sigmoid HardSigmoid Tanh Clip Abs Neg Floor Ceil Reciprocal Sqrt Exp Log"
)
"""Operators that overwrite an input of the output's size if no later node reads that input."""
_ADDEND = {"Conv": 3, "FusedConv": 3}
"""Index of the input to which an operator adds its result in place, if that input is present."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """The values of a graph, in the order in which its nodes ran.

    Attributes:
        nodes: Node names in the profile.
        values: Lifetimes of inputs, and of results, which are named after the node that produces them.
        n_unknown: Number of values of unknown size, which are omitted.
        steps: The values that each node reads and writes, in the order of ``nodes``.
    """

    nodes: tuple[str, ...] = ()
    values: tuple[Lifetime, ...] = ()
    n_unknown: int = 0
    steps: tuple[ExecutedNode, ...] = ()


@dataclass(slots=True)
class _Value:
    name: str
    bytes: int | None
    first: int
    last: int


def lifetimes(graph: ir.Graph, case: Case, keys: Mapping[str, str], trace: Trace) -> Lifetimes:
    """Return the lifetime of every value of the main graph; a control-flow node also reads its bodies' values."""
    outputs = dict(
        zip(zip(trace.name.texts, trace.nodes.op_type, strict=True), trace.nodes.outputs, strict=True)
    )
    named = [
        (own_name(node) or keys.get(f"{node.op_type}#{place}", f"{node.op_type}#{place}"), node)
        for place, node in enumerate(graph)
    ]
    ran = _starts(trace)
    if all(name in ran for name, _ in named):
        named.sort(key=lambda item: ran[item[0]])
    input_bytes = {choice.name: n_bytes(choice.dtype, choice.shape) for choice in case.inputs}
    # Weights may be inputs too, and remain inputs if nothing reads them any more.
    values_of: dict[ir.Value, _Value] = {
        value: _Value(f"{value.name} (input)", input_bytes[value.name], BEFORE, BEFORE)
        for value in graph.inputs
        if value.name in input_bytes
    }
    steps = []
    for step, (name, node) in enumerate(named):
        read = [values_of[value] for value in _reads(node) if value in values_of]
        for value_read in read:
            value_read.last = step
        outputs_here = [value for value in node.outputs if value.name]
        source = values_of.get(node.inputs[0]) if node.inputs and node.inputs[0] is not None else None
        if node.op_type in VIEWS and source is not None and outputs_here:
            values_of[outputs_here[0]] = source
            steps.append(ExecutedNode(node=name))
            continue
        sizes = _sizes(outputs.get((name, node.op_type), ""), outputs_here)
        for value, size in zip(outputs_here, sizes, strict=True):
            values_of[value] = _Value(name, size, step, step)
        wrote = [values_of[value] for value in outputs_here]
        steps.append(ExecutedNode(node=name, reads=_sized(read), writes=_sized(wrote)))
    for value in graph.outputs:
        if value in values_of:
            values_of[value].last = len(named)
    # A separate pass, since the last reader of a value is known only after all nodes.
    for step, (_, node) in enumerate(named):
        _hand_over(node, step, values_of)
    values = list({id(value): value for value in values_of.values()}.values())
    return Lifetimes(
        nodes=tuple(name for name, _ in named),
        values=tuple(
            Lifetime(name=v.name, bytes=v.bytes, first=v.first, last=v.last)
            for v in values
            if v.bytes is not None
        ),
        n_unknown=sum(v.bytes is None for v in values),
        steps=tuple(steps),
    )


def _sized(values: Iterable[_Value]) -> dict[int, int]:
    """Return the bytes of each distinct value of known size, keyed by ``id(value)``."""
    return {id(value): value.bytes for value in values if value.bytes is not None}


def _hand_over(node: ir.Node, step: int, values_of: Mapping[ir.Value, _Value]) -> None:
    """End an input's lifetime before the node if the output overwrites the input, so that both are counted once."""
    addend = _ADDEND.get(node.op_type)
    inputs = node.inputs if node.op_type in _IN_PLACE else node.inputs[addend : addend + 1] if addend else ()
    output = values_of.get(node.outputs[0]) if inputs else None
    for value in inputs:
        read = values_of.get(value) if value is not None else None
        if (
            output
            and read
            and read is not output
            and read.first > BEFORE
            and read.last == step
            and read.bytes == output.bytes
        ):
            # It ends when the output begins, so the shared memory is counted once.
            read.last = step - 1
            return


def memory_of(
    trace: Trace, run: int, lifetimes: Lifetimes, weights_bytes: int | None, resident: Resident | None = None
) -> MemoryProfile | None:
    """Return the memory use over a run's nodes, from the allocator or else from value sizes; None without either."""
    profile = memory(trace, run, lifetimes.nodes, lifetimes.values, weights_bytes, resident)
    if profile is None and lifetimes.values:
        profile = liveness(lifetimes.nodes, lifetimes.values, weights_bytes, resident)
        profile = profile and msgspec.structs.replace(profile, n_unknown=lifetimes.n_unknown)
    return profile


def _starts(trace: Trace) -> dict[str, int]:
    """Return the first start of each node of the main graph, in nanoseconds."""
    start_of: dict[str, int] = {}
    rows = (trace.parent == NO_PARENT).nonzero()[0]
    for code, start in zip(trace.name.codes[rows].tolist(), trace.start_ns[rows].tolist(), strict=True):
        name = trace.name.texts[code]
        if start < start_of.get(name, start + 1):
            start_of[name] = start
    return start_of


def _sizes(text: str, outputs: list[ir.Value]) -> list[int | None]:
    """Return the bytes of each output of a node, from the profile or else from the graph's shapes; None if unknown."""
    logged = tensors(text)
    if logged is not None and len(logged) == len(outputs):
        return [n_bytes(dtype, shape) for dtype, shape in logged]
    return [_declared(value) for value in outputs]


def _declared(value: ir.Value) -> int | None:
    dtype, sizes = value.dtype, [size for size in value.shape or () if isinstance(size, int)]
    if value.shape is None or len(sizes) < len(value.shape) or dtype is None or dtype == ir.DataType.STRING:
        return None
    return math.ceil(math.prod(sizes) * dtype.bitwidth / 8)


def _reads(node: ir.Node) -> Iterator[ir.Value]:
    """Yield every value that a node or one of its bodies reads."""
    yield from (value for value in node.inputs if value is not None)
    for graph in subgraphs(node):
        for inner in graph:
            yield from _reads(inner)
        yield from graph.outputs
