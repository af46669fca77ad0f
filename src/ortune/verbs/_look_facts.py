"""What stands out in a model: only what is cheap to find and certain, the weightiest first."""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import onnx_ir as ir

from ortune import rewrites
from ortune.analysis import outputs
from ortune.model.graphs import graphs, nodes, op_set
from ortune.model.open import OpenModel
from ortune.records import Finding, LookFact, NodeTime, OperatorProfile, Workload
from ortune.report.numbers import shorten
from ortune.verbs._look_static import stored_bytes, type_name, weights

OLD_OPSET = 13
DOMINANT_SHARE = 0.3
TRUSTED_SLOWDOWN = 1.3  # a profiled run longer than that is largely the profiler's own time
MOVING_SHARE = 0.1
DUPLICATE_SHARE = 0.01
DUPLICATE_LEAST_BYTES = 64 << 10
DUPLICATE_MOST_READ_BYTES = 1 << 30
_HEAD_ELEMENTS = 256
_WIDENED_LEAST = 1024
_KINDS = 3
_NAMES = 2
_NAME_LENGTH = 32

_CONTROL_FLOW = op_set("If Loop Scan SequenceMap")
_EIGHT_BIT = op_set(
    "QuantizeLinear DequantizeLinear DynamicQuantizeLinear QLinearConv QLinearMatMul ConvInteger MatMulInteger "
    "QGemm QAttention QLinearAdd QLinearMul DynamicQuantizeMatMul MatMulIntegerToFloat DynamicQuantizeLSTM"
)
# Operators that compute nothing: they move, copy or convert.
_MOVES = op_set(
    "Transpose Cast Reshape Concat Split Slice Gather Expand Tile Pad Squeeze Unsqueeze Flatten Identity "
    "ReorderInput ReorderOutput MemcpyToHost MemcpyFromHost"
)


def facts(
    model: OpenModel,
    work: Workload | None,
    profile: OperatorProfile | None,
    machine: Sequence[Finding],
    again: Sequence[str],
) -> tuple[LookFact, ...]:
    """Everything that stands out.

    Args:
        model: The model.
        work: Its inputs, None where none were found.
        profile: Where the time goes, None where it did not run.
        machine: What doctor says of this machine and bears on this model.
        again: Words that name the model with the same inputs and plan on a command line.
    """
    return tuple(_facts(model, work, profile, machine, again))


def _facts(
    model: OpenModel,
    work: Workload | None,
    profile: OperatorProfile | None,
    machine: Sequence[Finding],
    again: Sequence[str],
) -> Iterator[LookFact]:
    if profile and (profile.slowdown_ratio is None or profile.slowdown_ratio < TRUSTED_SLOWDOWN):
        yield from _from_profile(profile)
    yield from _overridable(model, work, again)
    if work:
        yield from _guesses(model.ir, work)
    yield from _values(model.ir, work)
    yield from _kinds_of_node(model.ir)
    yield from _eight_bit(model, machine)
    yield from _widened(model.ir)
    yield from _double(model.ir)
    yield from _duplicates(model.ir)
    yield from _file(model)
    for finding in machine:
        if finding.code == "THR001":
            yield LookFact(name="too-many-threads", what=finding.what.split(":")[0], do=finding.fix)


def _from_profile(profile: OperatorProfile) -> Iterator[LookFact]:
    top = profile.nodes[0] if profile.nodes else None
    if top and top.share_ratio >= DOMINANT_SHARE and len(profile.nodes) > 1:
        yield LookFact(
            name="dominant-node",
            what=f"one node takes {_percent(top.share_ratio)} of the time: {_node(top)}",
            where=top.originals or (top.name,),
        )
    moving = [o for o in profile.operators if o.op_type in _MOVES]
    share = sum(o.share_ratio for o in moving)
    if share >= MOVING_SHARE:
        each = ", ".join(f"{o.op_type} {_percent(o.share_ratio)}" for o in moving[:3])
        yield LookFact(
            name="data-movement",
            what=f"{_percent(share)} of the time moves or converts data and computes nothing ({each})",
        )


def _node(node: NodeTime) -> str:
    name = node.originals[0] if node.originals else node.name
    more = f" +{len(node.originals) - 1}" if len(node.originals) > 1 else ""
    purpose = f", inserted: {node.purpose}" if node.purpose else ""
    return f"{shorten(name)}{more} ({node.op_type}{purpose})" if name else node.op_type


def _overridable(model: OpenModel, work: Workload | None, again: Sequence[str]) -> Iterator[LookFact]:
    """Weights among the inputs, in the words of the rewrite that takes them out."""
    name = "initializers-out-of-inputs"
    for params, reason in rewrites.find(name).proposes(model.ir, work):
        keep = ",".join(f"{key}={value}" for key, value in params.items())
        rewrite = f"{name}:{keep}" if keep else name
        do = shlex.join(["ortune", "compare", *again, "--b-rewrite", rewrite])
        yield LookFact(name="initializers-in-inputs", what=reason, do=do)


def _guesses(model: ir.Model, work: Workload) -> Iterator[LookFact]:
    declared = {value.name: value.shape for value in model.graph.inputs}
    sizes: dict[str, int] = {}
    unnamed: dict[str, str] = {}
    for choice in work.cases[0].inputs if work.cases else ():
        shape = declared.get(choice.name)
        for axis in choice.guessed_axes:
            symbol = getattr(shape[axis], "value", None) if shape is not None and axis < len(shape) else None
            if axis >= len(choice.shape):
                continue
            place = symbol or f"{choice.name}[{axis}]"
            sizes.setdefault(place, choice.shape[axis])
            if not symbol:
                dims = ["N" if i == axis else str(size) for i, size in enumerate(choice.shape)]
                unnamed[place] = f"{choice.name}:{'x'.join(dims)}"
    if sizes:
        said = _listed(f"{name}={size}" for name, size in sizes.items())
        first = next(iter(sizes))
        do = f"--dim {first}=N" if first not in unnamed else f"--shape {unnamed[first]}"
        yield LookFact(
            name="guessed-sizes",
            what=f"guessed sizes: {said}",
            where=tuple(sizes),
            do=do,
        )


def _values(model: ir.Model, work: Workload | None) -> Iterator[LookFact]:
    found = outputs.value_dependent_ops(model)
    if found and not (work and work.inputs_path):
        yield LookFact(
            name="depends-on-values",
            what=f"may depend on the values fed, which were invented: {_counted(found)}",
            where=tuple(name for name, _ in found),
            do="--inputs PATH",
        )
    random = outputs.random_ops(model)
    if random:
        yield LookFact(
            name="random",
            what=f"outputs differ from run to run: {_counted(random)}",
            where=tuple(name for name, _ in random),
        )


def _kinds_of_node(model: ir.Model) -> Iterator[LookFact]:
    found = [_named(n) for n in nodes(model) if n.op_type in _CONTROL_FLOW and not n.domain]
    if found:
        yield LookFact(
            name="control-flow",
            what=f"control flow, not optimised across: {_counted(found)}",
            where=tuple(name for name, _ in found),
        )


def _eight_bit(model: OpenModel, machine: Sequence[Finding]) -> Iterator[LookFact]:
    counts = Counter(n.op_type for n in nodes(model.ir) if n.op_type in _EIGHT_BIT)
    if not counts:
        return
    what = f"quantized: {', '.join(f'{n} {op}' for op, n in counts.most_common(_KINDS))}"
    slow = any(finding.code == "ENV004" for finding in machine)
    if slow:
        what += "; this processor has no 8-bit dot product (VNNI, AMX, dotprod)"
    yield LookFact(name="quantized", what=what, do="compare with the float model" if slow else "")


def _widened(model: ir.Model) -> Iterator[LookFact]:
    """Weights that are stored small and used by a Cast alone."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for graph in graphs(model, functions=False):
        for value in graph.initializers.values() if isinstance(graph, ir.Graph) else ():
            tensor, users = value.const_value, [node for node, _ in value.uses()]
            if tensor is None or tensor.size < _WIDENED_LEAST or not users:
                continue
            # Text has no width.
            if tensor.dtype == ir.DataType.STRING or tensor.dtype.bitwidth >= 32:
                continue
            if all(node.op_type == "Cast" and _to(node) == ir.DataType.FLOAT for node in users):
                names[type_name(tensor.dtype)].append(value.name or "")
    for dtype, found in names.items():
        yield LookFact(
            name="widened-weights",
            what=f"{len(found)} {dtype} {_plural(len(found), 'weight')} only cast to float32: small in the file, "
            "not in the run",
            where=tuple(found),
        )


def _double(model: ir.Model) -> Iterator[LookFact]:
    inputs = [v.name or "" for v in model.graph.inputs if v.dtype == ir.DataType.DOUBLE]
    tensors = [t for t in weights(model) if t.dtype == ir.DataType.DOUBLE and t.size > 1]
    casts = [n for n in nodes(model) if n.op_type == "Cast" and _to(n) == ir.DataType.DOUBLE]
    parts = [f"{len(group)} {_plural(len(group), word)}" for group, word in
             ((inputs, "input"), (tensors, "weight"), (casts, "Cast")) if group]  # fmt: skip
    if parts:
        names = [*inputs, *(t.name or "" for t in tensors), *(_named(n)[0] for n in casts)]
        yield LookFact(
            name="float64",
            what=f"computes in float64 ({', '.join(parts)}): twice the bytes of float32",
            where=tuple(names),
        )


def _to(node: ir.Node) -> int:
    attribute = node.attributes.get("to")
    return attribute.as_int() if attribute is not None and not attribute.is_ref() else 0


def _duplicates(model: ir.Model) -> Iterator[LookFact]:
    """Equal weights stored twice; only those whose type, shape and first values agree are read in full."""
    total = 0
    alike: defaultdict[tuple[object, ...], list[ir.TensorProtocol]] = defaultdict(list)
    for tensor in weights(model):
        size = stored_bytes(tensor)
        total += size
        if size >= 1024 and tensor.dtype.bitwidth >= 8:
            alike[tensor.dtype, tuple(tensor.shape.numpy())].append(tensor)
    groups: defaultdict[tuple[object, ...], list[ir.TensorProtocol]] = defaultdict(list)
    for key, group in alike.items():
        for tensor in group if len(group) > 1 else ():
            groups[*key, tensor.numpy().ravel()[:_HEAD_ELEMENTS].tobytes()].append(tensor)
    names, wasted, read = [], 0, 0
    for group in groups.values():
        seen: set[bytes] = set()
        for tensor in group if len(group) > 1 else ():
            read += stored_bytes(tensor)
            if read > DUPLICATE_MOST_READ_BYTES:
                return
            digest = hashlib.sha256(tensor.numpy().tobytes()).digest()
            if digest in seen:
                wasted += stored_bytes(tensor)
                names.append(tensor.name or "")
            seen.add(digest)
    if wasted >= max(DUPLICATE_LEAST_BYTES, DUPLICATE_SHARE * total):
        yield LookFact(
            name="duplicate-weights",
            what=f"{len(names)} {_plural(len(names), 'weight')} ({_percent(wasted / total)} of the bytes) repeat "
            f"others: {_listed(names)}",
            where=tuple(names),
        )


def _file(model: OpenModel) -> Iterator[LookFact]:
    opset = model.facts.opsets.get("", 0)
    if 0 < opset < OLD_OPSET:
        yield LookFact(
            name="old-opset",
            what=f"opset {opset} is old: exporters write 17 or later today",
            do="export again if you can",
        )
    if model.facts.external_bytes:
        files = sorted({tensor.file.path.name for tensor in model.external})
        yield LookFact(
            name="external-data", what=f"weights lie beside the model: {_listed(files)}", where=tuple(files)
        )
    bound = model.op_counts.keys() & {"com.microsoft.nchwc.Conv", "com.microsoft.nchwc.ReorderInput"}
    if bound:
        yield LookFact(
            name="hardware-bound",
            what="the file is already optimised for the kind of CPU that it was made on (nchwc layout)",
            do="start from the original model",
        )


def _named(node: ir.Node) -> tuple[str, str]:
    return node.name or (node.outputs[0].name if node.outputs else "") or "", node.op_type


def _counted(found: Sequence[tuple[str, str]]) -> str:
    """Operators with how many there are and the first names: "2 If, 1 Loop (/a, /b, ...)"."""
    counts = Counter(op for _, op in found)
    kinds = _listed((f"{n} {op}" for op, n in counts.most_common()), _KINDS)
    return f"{kinds} ({_listed(name for name, _ in found)})"


def _listed(names: Iterable[str], most: int = _NAMES) -> str:
    all_names = [shorten(name, _NAME_LENGTH) for name in names]
    more = len(all_names) - most
    return ", ".join(all_names[:most]) + (f", {more} more" if more > 0 else "")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"
