"""Counting a graph in topological order: shapes, types, small contents, and the work of each node."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import int_of
from ortune.graph.constants import is_overridable, stored
from ortune.graph.cost import control
from ortune.graph.cost.call import MOST_WORK, Call, Count, Executions, Uncounted
from ortune.graph.cost.known import Counter
from ortune.graph.cost.registry import formula_of
from ortune.graph.evaluation import Array, evaluate
from ortune.graph.model.graphs import name_of, op_set, own_name, subgraphs, type_text
from ortune.graph.model.operators import dotted
from ortune.graph.randomness import is_random
from ortune.graph.shapes import single_nodes as shapes
from ortune.graph.shapes import types
from ortune.graph.shapes.operators import visit
from ortune.graph.shapes.single_nodes import Dims
from ortune.records import NodeCost

FOLDED = "depends on constants only, so it is computed once and not counted"
_WORTH_TELLING = 1.1
"""Minimum ratio of padded to original channels that is reported for a convolution."""
_MOST_CONTENT_BYTES = 1 << 15
"""Maximum size in bytes of contents that are tracked; larger tensors do not determine shapes."""
_LOOSE = "bytes of strings, sequences and values of unknown type are not counted"

# Operators that read the stored numbers: a constant int8 weight counts as int8 after them.
_KEEP_STORAGE = op_set("Cast DequantizeLinear Transpose Reshape Identity Squeeze Unsqueeze Flatten")
_NO_TENSOR = op_set(
    "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SplitToSequence Optional ZipMap CastMap SequenceMap"
)
_ONNX = {"", "ai.onnx", "ai.onnx.ml"}
BLOCKED = "com.microsoft.nchwc"
_CONVOLUTIONS = op_set("Conv FusedConv")
_WALKED = {*_ONNX, "com.microsoft", BLOCKED}


class CountingStopped(Exception):
    """Raised if ``stop`` returns true before counting is complete."""


class GraphCounter(Counter):
    """Counts the work of a graph, node by node.

    Attributes:
        stop: Called at each node; if it returns true, counting ends with ``CountingStopped``.
        blocked: Values in ONNX Runtime's blocked layout; their shapes here exclude the padding channels.
    """

    def __init__(
        self,
        model: ir.Model,
        shapes: Mapping[str, Dims],
        values: Mapping[str, Array] | None = None,
        ran: Mapping[ir.Node, Sequence[Executions]] | None = None,
        sizes: Mapping[str, Dims] | None = None,
    ) -> None:
        super().__init__(model)
        self._ran, self._sizes = ran or {}, sizes or {}
        self._constants: set[ir.Value] = set()
        self._stored: dict[ir.Value, float] = {}
        self.blocked: set[ir.Value] = set()
        self.stop: Callable[[], bool] = lambda: False
        for name in self._sizes.keys() & model.graph.initializers.keys():
            self.bind(model.graph.initializers[name], self._sizes[name])
        for value in model.graph.inputs:
            shape = shapes.get(value.name or "")
            if shape is not None and not isinstance(value.type, ir.SequenceType | ir.OptionalType):
                self.bind(value, shape)
            elif self.dims(value) is None:
                self._why[value] = f"the shape of the input {value.name!r} is not given"
            fed = (values or {}).get(value.name or "")
            if fed is not None and fed.shape == self.dims(value):
                self.keep(value, fed)

    def graph(self, graph: ir.Graph, inside: str) -> list[NodeCost]:
        """Count every node, in graph order."""
        counted: list[NodeCost] = []
        for node in graph:
            if self.stop():
                raise CountingStopped
            if next(subgraphs(node), None) is not None:
                counted += control.count(self, node, inside)
            else:
                counted.append(self._node(node, inside))
            self._bind_executed(node)
        return counted

    # --- one node ------------------------------------------------------------------------------------------

    def _node(self, node: ir.Node, inside: str) -> NodeCost:
        inputs = [self.dims(value) for value in node.inputs]
        if self._sizes and node.domain == BLOCKED and node.op_type == "Conv" and len(node.inputs) > 1:
            self._depthwise(node, inputs)
            inputs = [self.dims(value) for value in node.inputs]
        contents = {i: a for i, v in enumerate(node.inputs) if (a := self.content(v)) is not None}
        dtypes = [self.dtype(value) for value in node.inputs]
        opset = node.version or self.opset(node.domain)
        for value, dtype in zip(node.outputs, types.output_types(node, dtypes, opset), strict=True):
            self._types[value] = dtype
            if node.op_type in _NO_TENSOR or type_text(value).startswith(("seq", "map", "opt")):
                self.no_tensor.add(value)
        self._shape(node, inputs, dtypes, contents)
        if node.domain == BLOCKED or not self.blocked.isdisjoint(node.inputs):
            # Only ReorderOutput converts blocked values back.
            self.blocked.update(node.outputs if node.op_type != "ReorderOutput" else ())
        self._bind_executed(node)
        folded = self._fold(node)
        call = Call(
            node=node,
            inputs=inputs,
            outputs=[self.dims(value) for value in node.outputs],
            input_bits=[self._bits(value) for value in node.inputs],
            output_bits=[types.bits(self._types[value]) for value in node.outputs],
            values=contents,
            reasons={i: r for i, v in enumerate(node.inputs) if inputs[i] is None and (r := self.why(v))},
            out_reasons={i: r for i, v in enumerate(node.outputs) if (r := self.why(v))},
            opset=opset,
        )
        plain = NodeCost(
            name=own_name(node),
            called=name_of(node),
            op_type=node.op_type,
            domain=node.domain,
            inside=inside,
            times=0 if folded else 1,
        )
        note = FOLDED if folded and node.op_type != "Constant" else self._padding(node)
        return _mean([(self._counted(plain, execution, note), n) for execution, n in self._calls(call)])

    def _bind_executed(self, node: ir.Node) -> None:
        """Set a node's output shapes from its first execution; unknown shapes are first set from the given sizes."""
        for value in node.outputs:
            if self.dims(value) is None and (named_dims := self._sizes.get(value.name or "")) is not None:
                self.bind(value, named_dims)
        outputs = [value for value in node.outputs if value.name]
        first = next(iter(self._ran.get(node, ())), None)
        if first is not None and len(first.outputs) == len(outputs):
            for value, dims in zip(outputs, first.outputs, strict=True):
                self.bind(value, self._without_padding(value, dims))

    def _without_padding(self, value: ir.Value, dims: Dims) -> Dims:
        """Return executed dimensions without padding channels."""
        shape = self.dims(value) if value in self.blocked else None
        return dims if shape is None or len(shape) != len(dims) else (dims[0], shape[1], *dims[2:])

    def _padding(self, node: ir.Node) -> str:
        """Return a note on the channels that blocks add to a convolution: "17 output channels are padded to 32"."""
        if node.domain != BLOCKED or node.op_type != "Conv" or len(node.inputs) < 2:
            return ""
        weight = node.inputs[1]
        own, stored = self.dims(weight), weight.const_value if weight is not None else None
        if own is None or stored is None:
            return ""
        return " and ".join(
            f"{n} {side} {'channel is' if n == 1 else 'channels are'} padded to {run}"
            for side, n, run in zip(("output", "input"), own, stored.shape.numpy(), strict=False)
            if run > _WORTH_TELLING * n
        )

    def _depthwise(self, node: ir.Node, inputs: Sequence[Dims | None]) -> None:
        """Set the channel count of a depthwise blocked convolution's weight and bias to that of its input."""
        x, weight = inputs[0], self.dims(node.inputs[1])
        if x is None or weight is None or len(x) < 2:
            return
        if weight[1] == 1 and weight[0] == int_of(node, "group", 1) > x[1]:
            for value, shape in zip(node.inputs[1:3], ((x[1], *weight[1:]), x[1:2]), strict=False):
                if value is not None:
                    self.bind(value, shape)

    def _calls(self, call: Call) -> list[tuple[Call, int]]:
        """Return (call, number of executions) pairs: one per set of shapes in a profile, or one with the graph's."""
        node, calls = call.node, []
        for execution in self._ran.get(node, ()):
            outputs, shapes = list(call.outputs), iter(execution.outputs)
            if len(execution.outputs) == sum(bool(value.name) for value in node.outputs):
                outputs = [self._without_padding(v, next(shapes)) if v.name else None for v in node.outputs]
            inputs = self._inputs(call, execution.inputs)
            calls.append((replace(call, inputs=inputs, outputs=outputs), execution.times))
        return calls or [(call, 1)]

    def _inputs(self, call: Call, executed: Sequence[Dims]) -> Sequence[Dims | None]:
        """Return the shapes of a node's inputs in one execution; a profile lists only tensors that exist.

        Weights that were prepacked at session creation no longer exist.
        """
        there = [(i, value) for i, value in enumerate(call.node.inputs) if value is not None]
        gone = len(there) - len(executed)
        all_gone = gone == sum(self._is_constant(value) for _, value in there)
        rest, shapes = list(executed), list(call.inputs)
        for i, value in there:
            if not self._is_constant(value):
                if not rest:
                    return call.inputs
                shapes[i] = self._without_padding(value, rest.pop(0))
                continue
            # Known constant shapes are kept, since the stored tensor may include padding channels.
            stored = shapes[i] if value.const_value is None else tuple(value.const_value.shape.numpy())
            if gone and (all_gone or not rest or stored != rest[0]):
                gone -= 1
            elif rest:
                del rest[0]
        return call.inputs if gone or rest else shapes

    def _counted(self, plain: NodeCost, call: Call, note: str) -> NodeCost:
        fields = {
            name: getattr(plain, name) for name in ("name", "called", "op_type", "domain", "inside", "times")
        }
        formula = formula_of(plain.domain, plain.op_type)
        try:
            if formula is None:
                raise Uncounted(f"no formula for {dotted(plain.domain, plain.op_type)}")
            count = formula(call)
            read, weights, written, loose = self._bytes(call, count)
            if max(count.flops, read, written) > MOST_WORK:
                raise Uncounted("its operands are implausibly large")
        except Uncounted as reason:
            return NodeCost(**fields, known=False, note=str(reason))
        except IndexError:
            return NodeCost(**fields, known=False, note=f"its operands do not fit {plain.op_type}")
        notes = [text for text in (note, count.note, _LOOSE if loose else "") if text]
        return NodeCost(
            **fields,
            flops=count.flops,
            macs=count.macs,
            bytes_read=read,
            bytes_written=written,
            # A formula with its own read count, such as for the rows of a Gather, may be below the bytes of all
            # weights.
            weight_bytes=min(weights, read),
            weight_shape=call.shape(1) if plain.op_type in _CONVOLUTIONS else (),
            note="; ".join(notes),
        )

    def _bytes(self, call: Call, count: Count) -> tuple[int, int, int, bool]:
        """Return (bytes read, bytes of constants included in them, bytes written, whether any size is unknown)."""
        node, loose = call.node, False
        read = weights = written = 0
        # An operand that a node uses twice is read once.
        first = {value: i for i, value in reversed(list(enumerate(node.inputs))) if value is not None}
        for value, i in first.items():
            if value in self.no_tensor or call.input_bits[i] is None:
                loose = True
                continue
            is_weight = self._is_constant(value)
            if count.read is None or (is_weight and call.inputs[i] is not None):
                size = call.bytes_in(i)
                read += size
                weights += size if is_weight else 0
        for i, value in enumerate(node.outputs if count.written is None else ()):
            if not value.name:
                continue
            if value in self.no_tensor or call.output_bits[i] is None:
                loose = True
                continue
            written += call.bytes_out(i)
        read = read if count.read is None else count.read
        return read, weights, written if count.written is None else count.written, loose

    def _shape(
        self,
        node: ir.Node,
        inputs: Sequence[Dims | None],
        dtypes: Sequence[ir.DataType | None],
        contents: Mapping[int, Array],
    ) -> None:
        """Set the shapes and, if small, the contents of a node's outputs."""
        results = self._evaluated(node, inputs, contents)
        if results is not None:
            for value, result in zip(node.outputs, results, strict=True):
                self.keep(value, result)
            return
        ruled = self._into_blocks(node, inputs, contents) or shapes.by_rule(node, inputs, contents)
        if ruled is not None:
            for value, dims in zip(node.outputs, ruled, strict=False):
                self.bind(value, dims)
        elif node.domain in _WALKED:
            visit(self.walk, node)
        if all(self.is_computed(value) for value in node.outputs if value.name):
            return
        # Declared shapes have the lowest priority: exporters leave sizes that do not match any run.
        inferred = shapes.infer(node, inputs, dtypes, contents, self._opsets)
        for value, dims in zip(node.outputs, inferred or (), strict=False):
            if not self.is_computed(value):
                self.bind(value, dims)
        for value in node.outputs:
            if value.name and self.dims(value) is None:
                self._why[value] = self._reason(node, inputs)

    def _evaluated(
        self, node: ir.Node, inputs: Sequence[Dims | None], contents: Mapping[int, Array]
    ) -> Sequence[Array] | None:
        """Compute a node with known inputs; return None if an input is unknown or the node cannot be evaluated."""
        if node.op_type == "Size" and inputs and inputs[0] is not None:
            return [np.asarray(math.prod(inputs[0]), np.int64)]
        if len(contents) < sum(value is not None for value in node.inputs):
            return None
        arrays = [contents.get(i) for i in range(len(node.inputs))]
        opset = node.version or self.opset(node.domain)
        return evaluate(node, opset, arrays, most_bytes=_MOST_CONTENT_BYTES)

    def _into_blocks(
        self, node: ir.Node, inputs: Sequence[Dims | None], contents: Mapping[int, Array]
    ) -> list[Dims] | None:
        """Return the shape of a Reshape that moves channel blocks to a separate axis, with padding; else None."""
        target = contents.get(1)
        if node.op_type != "Reshape" or node.inputs[0] not in self.blocked or target is None:
            return None
        if inputs[0] is None or len(inputs[0]) != 4 or target.size != 5:
            return None
        n, channels, *spatial = inputs[0]
        block = int(target.ravel()[-1])
        return [(n, -(-channels // block), *spatial, block)] if block > 0 else None

    def _reason(self, node: ir.Node, inputs: Sequence[Dims | None]) -> str:
        for value, dims in zip(node.inputs, inputs, strict=True):
            if dims is None and self.why(value):
                return self.why(value)
        name = f"{node.op_type} {node.name!r}" if node.name else node.op_type
        if node.domain not in _ONNX or formula_of(node.domain, node.op_type) is None:
            return f"the output shape of {name} is unknown"
        return f"the output shape of {name} depends on values"

    # --- constants -----------------------------------------------------------------------------------------

    def _is_constant(self, value: ir.Value) -> bool:
        """Return whether a value is stored or computed only from stored values; an input's default counts as stored."""
        return stored(value) is not None or value in self._constants

    def _bits(self, value: ir.Value | None) -> float | None:
        if value is None:
            return None
        stored = self._stored.get(value)
        return stored if stored is not None else types.bits(self.dtype(value))

    def _fold(self, node: ir.Node) -> bool:
        """Return, and record, whether only constants feed a node, so that its outputs are constants too."""
        fed = [value for value in node.inputs if value is not None]
        if is_random(node) or not all(map(self._is_constant, fed)) or any(map(is_overridable, fed)):
            return False
        if not fed and node.op_type != "Constant":
            return False
        self._constants.update(node.outputs)
        bits = self._bits(fed[0]) if fed and node.op_type in _KEEP_STORAGE else None
        if bits is not None and node.outputs:
            self._stored[node.outputs[0]] = bits
        return True


def _mean(counted: Sequence[tuple[NodeCost, int]]) -> NodeCost:
    """Return the mean cost of a node that ran with several shapes; unknown if the cost for any shape is unknown."""
    first = counted[0][0]
    if len(counted) == 1 or not all(cost.known for cost, _ in counted):
        return next((cost for cost, _ in counted if not cost.known), first)
    n = sum(times for _, times in counted)
    means = {
        name: round(sum(getattr(cost, name) * times for cost, times in counted) / n)
        for name in ("flops", "bytes_read", "bytes_written", "weight_bytes")
    }
    macs = None if first.macs is None else round(sum((cost.macs or 0) * times for cost, times in counted) / n)
    return msgspec.structs.replace(first, macs=macs, **means)
