"""The nodes of a profile with what the model tells of them: origins, work, floors, layers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ortune.errors import OrtuneError
from ortune.model.cost import costs
from ortune.model.mapping import as_logged, inherited, originals
from ortune.model.open import open_model
from ortune.records import Case, ProfiledNode
from ortune.trace.attribution import Attribution
from ortune.trace.layers import layer_of
from ortune.trace.table import NO_PARENT, Trace
from ortune.trials import requests
from ortune.trials.launch import Limits
from ortune.trials.tool import ToolFailed, ToolProcess

if TYPE_CHECKING:
    from ortune.flows.sides import Resolved

_LEVEL = "graph_optimization_level"
_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Origins:
    """What is known of the optimised graph beside the trace.

    Attributes:
        of: Nodes of the user's model by node of the optimised graph.
        work: Operations and bytes of one execution, by node of the optimised graph.
        weights: Bytes of the constants that one execution reads, by node of the optimised graph.
        unmapped: Optimised nodes whose origin is not known.
        trouble: Why nothing is known, "" where it is.
    """

    of: dict[str, tuple[str, ...]] = field(default_factory=dict)
    work: dict[str, tuple[float, float]] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)
    unmapped: tuple[str, ...] = ()
    trouble: str = ""


def origins(side: Resolved, case: Case, custom_ops: tuple[str, ...], scratch: Path, trace: Trace) -> Origins:
    """Has ONNX Runtime save the graph that it runs, and finds each node's origin and work.

    Args:
        side: What was profiled.
        case: Its shapes.
        custom_ops: Libraries that it needs.
        scratch: Where the graph may lie.
        trace: The profile, whose names for nodes without one are to be met.
    """
    if side.model.info.format == "ort":
        return Origins(trouble="a model in ORT format holds optimised nodes alone: these are named")
    shapes = {choice.name: choice.shape for choice in case.inputs}
    level = str(side.plan.settings.get(_LEVEL, "all"))
    folder = scratch / f"optimised-{side.plan.id}-{side.model.info.sha256[:8]}"
    folder.mkdir(exist_ok=True)
    try:
        tool = ToolProcess(
            runtime=side.runtime,
            folder=scratch,
            applied=requests.applied(side.plan, side.runtime),
            providers=side.plan.providers,
            custom_ops=custom_ops,
            limits=Limits(load_s=_LIMIT_S),
        )
        tool("levels", side.runs, folder, {"levels": level, "placement": level})
        optimised = open_model(folder / f"{level}.onnx").ir
        original = side.model.ir
        logged = list(zip(trace.name.texts, trace.nodes.op_type, strict=True))
        mapping = as_logged(originals(original, optimised), logged)
        counted = costs(optimised, shapes).nodes
        work = inherited(mapping, counted, costs(original, shapes).nodes)
    except (requests.CannotApply, ToolFailed, OrtuneError) as error:
        return Origins(trouble=f"where nodes come from is not known: {getattr(error, 'what', error)}")
    return Origins(
        of=dict(mapping.of),
        work=work,
        weights={mapping.keys.get(n.name, n.name): n.weight_bytes for n in counted},
        unmapped=tuple(mapping.unmapped),
    )


def profiled_nodes(trace: Trace, found: Attribution, known: Origins) -> tuple[ProfiledNode, ...]:
    """Every node of the trace in the mean steady run, the dearest first."""
    times, waits = found.by_node.mean(axis=1), found.wait.mean(axis=1)
    total = float(times.sum())
    inside = _inside(trace)
    made = []
    for number, name in enumerate(trace.name.texts):
        calls = float(found.calls[number])
        if not calls:
            continue  # ran in runs alone that do not count
        origin = known.of.get(name, ())
        work = known.work.get(name)
        made.append(
            ProfiledNode(
                name=name,
                op_type=trace.nodes.op_type[number],
                provider=trace.nodes.provider[number],
                layer=layer_of(origin or (name,)),
                inside=inside.get(number, ""),
                category=found.category[number],
                time_ns=float(times[number]),
                wait_ns=float(waits[number]),
                share_ratio=float(times[number]) / total if total else 0.0,
                calls=calls,
                originals=origin,
                flops=work[0] * calls if work else None,
                bytes=work[1] * calls if work else None,
                output_bytes=_bytes(trace.nodes.outputs[number]),
            )
        )
    return tuple(sorted(made, key=lambda node: (-node.time_ns, node.name)))


def whole_numbers(trace: Trace) -> frozenset[str]:
    """Nodes that multiply int8: their inputs are."""
    small = ("int8", "uint8")
    found = []
    for name, inputs in zip(trace.name.texts, trace.nodes.inputs, strict=True):
        if sum(f'"{dtype}"' in inputs for dtype in small) and not inputs.startswith('[{"float"'):
            found.append(name)
    return frozenset(found)


def _inside(trace: Trace) -> dict[int, str]:
    """The control-flow node around each node that has one, by number of the node."""
    rows = (trace.parent != NO_PARENT).nonzero()[0]
    return {int(trace.name.codes[row]): trace.name[int(trace.parent[row])] for row in rows}


_SIZES = {
    "float": 4, "double": 8, "float16": 2, "bfloat16": 2, "int64": 8, "uint64": 8, "int32": 4, "uint32": 4,
    "int16": 2, "uint16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip


def _bytes(text: str) -> int | None:
    """Bytes of the tensors that a trace names; None where it names none, or one of another kind."""
    try:
        tensors = json.loads(text) if text else None
    except ValueError:
        return None
    if not isinstance(tensors, list):
        return None
    total = 0
    for tensor in tensors:
        for dtype, shape in tensor.items() if isinstance(tensor, dict) else ():
            if dtype not in _SIZES or not isinstance(shape, list):
                return None
            elements = 1
            for size in shape:
                elements *= size
            total += elements * _SIZES[dtype]
    return total
