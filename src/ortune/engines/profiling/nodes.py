"""Joins the nodes of a profile with the model: origins, work, floors, layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ortune import targets
from ortune.catalogue.levels import level_of
from ortune.catalogue.providers import short_name
from ortune.engines.profiling.kernels import node_times
from ortune.engines.profiling.memory import Lifetimes, lifetimes
from ortune.errors import ModelError, OrtuneError
from ortune.graph.cost import costs
from ortune.graph.cost.call import Executions
from ortune.graph.mapping import (
    as_logged,
    counterparts,
    inherited,
    originals,
    own_shapes,
    placed,
    remarks,
    weights,
)
from ortune.graph.model.graphs import op_set, own_name
from ortune.graph.model.open import open_model
from ortune.inputs import workload
from ortune.records import Plan, ProfiledNode, Workload
from ortune.targets.task import Limits
from ortune.targets.tool import ToolProcess
from ortune.trace.attribution import Attribution, mean
from ortune.trace.layers import layer_of
from ortune.trace.naming import NodeSurroundings, assigned, numbered_kinds, stem
from ortune.trace.table import NO_PARENT, Trace, numbers_of
from ortune.trace.tensors import all_bytes, tensors

if TYPE_CHECKING:
    import onnx_ir as ir

    from ortune.measuring.sides import ResolvedSide

_LIMIT_S = 300.0
IN_WASM = "extended"
_MOST_SHAPES = 64
"""Maximum number of shapes over which a node's work is averaged, evenly spaced over all its shapes."""
_LEADS = 0.9
"""Least fraction of a fused node's operations that its leading origin must have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOrigins:
    """Facts about the optimised graph that the trace does not contain.

    Attributes:
        originals: Names of the user's nodes that became a node of the optimised graph, by its name.
        leading: Name of the origin with nearly all of a fused node's work, by name of the fused node.
        purpose: Purpose of each node that the optimiser inserted, by name.
        work: Operations and bytes of the mean execution, by node of the optimised graph.
        remarks: Remarks for users about the computed work.
        weights: Bytes of the constants that one execution reads, by node of the optimised graph.
        weights_bytes: Bytes of all constants.
        reads: Maps each node of the optimised graph to the nodes that produce its inputs.
        lifetimes: Lifetimes of the values of the main graph.
        places: Surroundings of the nodes whose names differ from process to process.
        unmapped: Names of nodes that ran and have no known origin.
        trouble: Reason that the origins are unknown; "" if they are known.
    """

    originals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    leading: Mapping[str, str] = field(default_factory=dict)
    purpose: Mapping[str, str] = field(default_factory=dict)
    work: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)
    weights_bytes: int | None = None
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    places: tuple[NodeSurroundings, ...] = ()
    unmapped: tuple[str, ...] = ()
    trouble: str = ""


def find_origins(
    side: ResolvedSide, work: Workload, scratch: Path, trace: Trace, graph: Path | None = None
) -> NodeOrigins:
    """Find each node's origin and work in the optimised graph, which ONNX Runtime saves if necessary.

    Args:
        side: The profiled side.
        work: The side's inputs, of which the first shape was profiled, and its custom operators.
        scratch: Folder for the graph.
        trace: The profile, which also names the nodes that are unnamed in the graph.
        graph: File of the graph that ran, if the profiled process saved it; None to create the graph.
    """
    try:
        if side.model.in_ort_format:
            # The file contains the optimised graph, and the original model is unknown.
            return _node_origins(side.model.ir, side.model.ir, work, trace)
        ran = open_model(graph).ir if graph is not None else optimised(side, work.custom_ops, scratch)
        return _node_origins(side.model.ir, ran, work, trace)
    except OrtuneError as error:
        if "compiled nodes" in error.what:
            provider = short_name(side.plan.provider_names[0])
            return NodeOrigins(
                trouble=f"{provider} compiles its subgraph into one node, so its operators are not timed individually"
            )
        return NodeOrigins(trouble=f"optimised nodes could not be mapped to your nodes: {error.what}")


def counterparts_of(a: ResolvedSide, b: ResolvedSide) -> dict[str, str] | None:
    """Return a mapping of B's node names to A's; None if the models are identical, or one is in ORT format."""
    if a.model.sha256 == b.model.sha256 or a.model.in_ort_format or b.model.in_ort_format:
        return None
    return counterparts(a.model.ir, b.model.ir)


def optimised(side: ResolvedSide, custom_ops: tuple[str, ...], scratch: Path) -> ir.Model:
    """Return the optimised graph of a side's model, made by ONNX Runtime.

    Raises:
        OrtuneError: The graph cannot be made or read.
    """
    plan, level = side.plan, level_of(side.plan)
    target = targets.target_of(plan)
    if not target.of_runtime:
        if not target.provider.cpu_kernels:
            raise ModelError("the browser did not return the graph that runs on the GPU")
        # In WebAssembly the CPU's optimiser makes the same graph, except for layouts of a processor's own code.
        plan, level = Plan(), IN_WASM
    folder = scratch / f"optimised-{side.plan.id}-{side.model.info.sha256[:8]}"
    folder.mkdir(exist_ok=True)
    tool = ToolProcess(
        runtime=side.runtime,
        folder=scratch,
        plan=plan,
        custom_ops=custom_ops,
        limits=Limits(load_s=_LIMIT_S),
    )
    tool("levels", side.runs, folder, {"levels": level, "placement": level})
    return open_model(folder / f"{level}.onnx").ir


def _node_origins(original: ir.Model, optimised: ir.Model, work: Workload, trace: Trace) -> NodeOrigins:
    # A profile does not contain the input shape of a run, so only the first shape was profiled.
    case, values = work.cases[0], workload.whole_numbers(original, work)[0]
    shapes = {choice.name: choice.shape for choice in case.inputs}
    places = _as_in_trace(optimised.graph, trace) if optimised is not original else ()
    logged = list(zip(trace.name.texts, trace.nodes.op_type, strict=True))
    mapping = as_logged(originals(original, optimised), logged)
    ran = executions(optimised.graph, mapping.keys, trace)
    if original is optimised:
        before = counted = costs(optimised, shapes, values, ran=ran)
    else:
        # Each graph adds sizes to the other: executed nodes have the shapes of the original's values, and the
        # original's nodes have those of the optimised nodes that replace them.
        before = costs(original, shapes, values, sizes=_executed_shapes(ran))
        own = own_shapes(mapping, optimised.graph, before.nodes)
        counted = costs(optimised, shapes, values, ran=ran, sizes=own)
    return NodeOrigins(
        originals=mapping.originals,
        leading=_leading(mapping.originals, {n.name: n.flops or 0.0 for n in before.nodes if n.name}),
        purpose=mapping.inserted,
        work=inherited(mapping, counted.nodes, before.nodes),
        remarks=remarks(mapping, counted.nodes),
        weights=weights(mapping, counted.nodes),
        weights_bytes=counted.parameter_bytes,
        reads=_reads(optimised.graph, mapping.keys),
        lifetimes=lifetimes(optimised.graph, case, mapping.keys, trace),
        places=places,
        # From the executed nodes, since a provider's fused subgraph is in the profile but in no saved graph.
        unmapped=tuple(
            n
            for n in dict.fromkeys(trace.name.texts)
            if n not in mapping.originals and n not in mapping.inserted
        ),
    )


def executions(
    graph: ir.Graph, keys: Mapping[str, str], trace: Trace
) -> dict[ir.Node, tuple[Executions, ...]]:
    """Return each node's executions, one entry per combination of shapes in the profile, without ambiguous nodes."""
    nodes = [(keys.get(place, place), node) for place, node in placed(graph)]
    shared, numbers = Counter(name for name, _ in nodes), numbers_of(trace.name)
    executions_of = {}
    for name, node in nodes:
        rows = numbers.get(name, [])
        if shared[name] > 1 or len(rows) != 1 or trace.nodes.op_type[rows[0]] != node.op_type:
            continue
        runs = [
            Executions(inputs=inputs, outputs=outputs, times=times)
            for (before, after), times in _executions(trace, rows[0])
            if (inputs := _shapes(before)) is not None and (outputs := _shapes(after)) is not None
        ]
        if runs:
            executions_of[node] = tuple(runs)
    return executions_of


def _reads(graph: ir.Graph, keys: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the names of the nodes that each node, bodies included, reads from; all names are those of the profile."""
    names = {node: keys.get(place, place) for place, node in placed(graph)}
    return {
        name: tuple(
            dict.fromkeys(names[predecessor] for predecessor in node.predecessors() if predecessor in names)
        )
        for node, name in names.items()
    }


def _executions(trace: Trace, number: int) -> Iterable[tuple[tuple[str, str], int]]:
    nodes = trace.nodes
    first = {(nodes.inputs[number], nodes.outputs[number]): 1}
    shapes = list((nodes.executions[number] if nodes.executions else first).items())
    # Of very many shapes an even selection, each from the middle of its part, since the ends are not typical.
    n, most = len(shapes), min(len(shapes), _MOST_SHAPES)
    return [shapes[(2 * i + 1) * n // (2 * most)] for i in range(most)]


def _shapes(text: str) -> tuple[tuple[int, ...], ...] | None:
    described = tensors(text)
    return None if described is None else tuple(shape for _, shape in described)


def _executed_shapes(ran: Mapping[ir.Node, Sequence[Executions]]) -> dict[str, tuple[int, ...]]:
    """Return the output shapes of the executed nodes by value name, for values with a single shape."""
    shapes_of: dict[str, tuple[int, ...]] = {}
    for node, runs in ran.items():
        names = [value.name for value in node.outputs if value.name]
        if len({run.outputs for run in runs}) == 1 and len(names) == len(runs[0].outputs):
            shapes_of.update(zip(names, runs[0].outputs, strict=True))
    return shapes_of


def _leading(of: Mapping[str, tuple[str, ...]], flops: Mapping[str, float]) -> dict[str, str]:
    """Map fused nodes to the origin with nearly all of their work, such as the convolution of a fused activation."""
    leading = {}
    for name, names in of.items():
        most = max(names, key=lambda origin: flops.get(origin, 0.0), default="")
        total = sum(flops.get(origin, 0.0) for origin in names)
        if total and flops.get(most, 0.0) >= _LEADS * total:
            leading[name] = most
    return leading


def _as_in_trace(graph: ir.Graph, trace: Trace) -> tuple[NodeSurroundings, ...]:
    """Rename inserted and copied nodes of the saved graph to their names in the profile.

    Returns:
        The surroundings of these nodes, which identify them in the profiles of other processes.
    """
    nodes = list(graph)
    kinds = numbered_kinds([(own_name(node), node.op_type) for node in nodes])
    kinds |= numbered_kinds(list(zip(trace.name.texts, trace.nodes.op_type, strict=True)))
    moving = [node for node in nodes if (stem(own_name(node)), node.op_type) in kinds]
    stable = {node for node in nodes if own_name(node)} - set(moving)
    places = tuple(_place(node, stable) for node in moving)
    names = {number: name for name, number in assigned(trace, places).items()}
    for number, node in enumerate(moving):
        # An unknown node must not be mistaken for another one of the profile.
        node.name = names.get(number, f"{node.name} (not in the profile)")
    return places


def _place(node: ir.Node, stable: set[ir.Node]) -> NodeSurroundings:
    reads = [
        producer for value in node.inputs if value is not None and (producer := value.producer()) is not None
    ]
    feeds = [use.node for value in node.outputs for use in value.uses()]
    return NodeSurroundings(
        kind=(stem(own_name(node)), node.op_type),
        before=_nearest(reads, stable, lambda near: near.predecessors()),
        after=_nearest(feeds, stable, lambda near: near.successors()),
        reads=tuple(producer.name or "" for producer in reads if producer in stable),
        feeds=tuple(reader.name or "" for reader in feeds if reader in stable),
    )


def _nearest(
    nodes: Iterable[ir.Node], stable: set[ir.Node], beyond: Callable[[ir.Node], Iterable[ir.Node]]
) -> tuple[str, ...]:
    """Return the names of the first stable nodes on every path that begins at these nodes."""
    names: dict[str, None] = {}
    waiting, visited = list(nodes), set(nodes)
    while waiting:
        node = waiting.pop()
        if node in stable:
            names[node.name or ""] = None
            continue
        more = [node_beyond for node_beyond in beyond(node) if node_beyond not in visited]
        visited.update(more)
        waiting += more
    return tuple(names)


def profiled_nodes(trace: Trace, attribution: Attribution, origins: NodeOrigins) -> tuple[ProfiledNode, ...]:
    """Return the record of every node in the mean steady run, sorted by decreasing time."""
    times, waits, late = mean(attribution.by_node), mean(attribution.wait), mean(attribution.imbalance)
    total = float(times.sum())
    on_device = node_times(trace, attribution)
    inside, shared = _inside(trace), Counter(trace.name.texts)
    nodes = []
    for number, name in enumerate(trace.name.texts):
        calls = float(attribution.calls[number])
        if not calls:
            continue  # ran only in runs that do not count
        origin = origins.originals.get(name, ())
        lead = origins.leading.get(name)
        # Work cannot be assigned to nodes that share a name.
        work = origins.work.get(name) if shared[name] == 1 else None
        nodes.append(
            ProfiledNode(
                name=name,
                op_type=trace.nodes.op_type[number],
                provider=trace.nodes.provider[number],
                layer=layer_of((lead,) if lead else origin or (name,)),
                inside=inside.get(number, ""),
                category=attribution.category[number],
                time_ns=float(times[number]),
                wait_ns=float(waits[number]),
                imbalance_ns=float(late[number]),
                fast_ns=float(attribution.fast[number]),
                fast_wait_ns=float(attribution.fast_wait[number]),
                share_ratio=float(times[number]) / total if total else 0.0,
                calls=calls,
                originals=origin,
                purpose=origins.purpose.get(name, ""),
                flops=work[0] * calls if work else None,
                bytes=work[1] * calls if work else None,
                remark=origins.remarks.get(name, "") if work else "",
                precision=_computed_in(trace.nodes.op_type[number], trace.nodes.inputs[number]),
                output_bytes=all_bytes(trace.nodes.outputs[number]),
                device_ns=float(on_device[number]) if on_device is not None else None,
                reads=origins.reads.get(name, ()) if shared[name] == 1 else (),
            )
        )
    return tuple(sorted(nodes, key=lambda node: (-node.time_ns, node.name)))


_TYPES = {"float": "float32", "double": "float64", "uint8": "int8", "int4": "int8", "uint4": "int8"}
_INSIDE = op_set("DynamicQuantizeMatMul DynamicQuantizeLSTM")
"""Operators that quantize their first input themselves."""
_UNKNOWN = op_set("MatMulNBits GatherBlockQuantized")
"""Operators with low-bit weights, whose number type of computation depends on an attribute."""


def _computed_in(op_type: str, inputs: str) -> str:
    """Return the number type in which a node computes, from its first input in the profile; "" if unknown."""
    types = tensors(inputs)
    if not types or op_type in _UNKNOWN:
        return ""
    first = types[0][0]
    return "int8" if op_type in _INSIDE else _TYPES.get(first, first)


def whole_numbers(trace: Trace) -> frozenset[str]:
    """Return the names of nodes with an int8 or uint8 input whose first input is not float32."""
    whole = []
    for name, text in zip(trace.name.texts, trace.nodes.inputs, strict=True):
        types = [dtype for dtype, _ in tensors(text) or ()]
        if types and types[0] != "float" and {"int8", "uint8"}.intersection(types):
            whole.append(name)
    return frozenset(whole)


def _inside(trace: Trace) -> dict[int, str]:
    """Map the index of each node in a body to the name of the enclosing control-flow node."""
    rows = np.flatnonzero(trace.parent != NO_PARENT)
    codes, first = np.unique(trace.name.codes[rows], return_index=True)
    return {
        code: trace.name[int(trace.parent[row])]
        for code, row in zip(codes.tolist(), rows[first].tolist(), strict=True)
    }
