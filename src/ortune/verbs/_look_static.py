"""What a file says of itself: its parameters, their types, its operators, and the work of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
import onnx_ir as ir

from ortune.analysis import cost
from ortune.inputs import workload
from ortune.model.graphs import attribute_tensors, graphs
from ortune.model.open import OpenModel
from ortune.records import Case, LookResult, ModelCost, Workload

MOST_UNKNOWN = 3


def static_part(model: OpenModel) -> LookResult:
    """Everything that is known without running the model and without input shapes."""
    sizes: Counter[str] = Counter()
    parameters = 0
    for tensor in weights(model.ir):
        parameters += tensor.size
        sizes[type_name(tensor.dtype)] += stored_bytes(tensor)
    return LookResult(
        model=model.info,
        parameters=parameters,
        parameter_bytes=sizes.total(),
        weight_types=dict(sizes.most_common()),
        operators=dict(sorted(model.op_counts.items(), key=lambda item: (-item[1], item[0]))),
    )


def weights(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    """Every initializer and every tensor of a Constant node, bodies and functions included."""
    for graph in graphs(model):
        if isinstance(graph, ir.Graph):
            for value in graph.initializers.values():
                if value.const_value is not None:
                    yield value.const_value
        for node in graph:
            if node.op_type == "Constant":
                for attribute in node.attributes.values():
                    yield from attribute_tensors(attribute)


def stored_bytes(tensor: ir.TensorProtocol) -> int:
    """Bytes of a tensor by its element type; 0 for text, whose length is not known without reading it."""
    if tensor.dtype == ir.DataType.STRING:
        return 0
    return (tensor.size * tensor.dtype.bitwidth + 7) // 8


def type_name(dtype: ir.DataType) -> str:
    """An element type as people write it: "float32", "int8", "float64"."""
    name = str(dtype.name).lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


def with_work(result: LookResult, model: OpenModel, work: Workload) -> LookResult:
    """The result with the inputs in words and the floating-point operations of one run (weighted over the shapes)."""
    inputs = workload.describe(work)
    if not work.cases:
        return msgspec.structs.replace(result, inputs=inputs)
    known = zip(work.cases, workload.whole_numbers(model.ir, work), strict=True)
    found = [(case.weight, cost.costs(model.ir, _shapes(case), values)) for case, values in known]
    total = sum(weight * each.flops for weight, each in found) / sum(weight for weight, _ in found)
    unknown, rests_on = _unknown(found[0][1]), found[0][1].notes
    notes = [f"not counted: {unknown}"] if unknown else []
    notes += rests_on[:1]
    notes += [f"and {len(rests_on) - 1} more such"] if len(rests_on) > 1 else []
    return msgspec.structs.replace(
        result,
        inputs=inputs,
        flops=float(total) if total or not unknown else None,
        flops_complete=not unknown,
        flops_note="; ".join(notes),
    )


def _shapes(case: Case) -> dict[str, tuple[int, ...]]:
    """Of the tensors among the inputs; a sequence has a length and no shape."""
    return {choice.name: choice.shape for choice in case.inputs if "(" not in choice.dtype}


def _unknown(found: ModelCost) -> str:
    """Operators without a known cost, as "3 NonMaxSuppression, 1 Loop"."""
    counts = Counter(node.op_type for node in found.nodes if node.times and not node.known)
    said = [f"{n} {op}" for op, n in counts.most_common(MOST_UNKNOWN)]
    rest = counts.total() - sum(n for _, n in counts.most_common(MOST_UNKNOWN))
    return ", ".join(said) + (f" and {rest} other nodes" if rest else "")
