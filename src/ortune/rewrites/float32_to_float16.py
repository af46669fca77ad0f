"""Computes in float16 what was computed in float32; callers feed and get what they did.

What it is: ONNX Runtime's own converter (``onnxruntime.transformers.float16``): weights, constants and what is passed
    between operators become float16, with a Cast behind each input of the model and before each output. Operators
    that have no float16, or are too coarse in it, stay in float32 between Casts.
Why it costs: a GPU reads and computes in float16 at twice the rate of float32 or more, and half the bytes are to be
    fetched, uploaded and held.
Evidence: megabytes of float32 weights in products, on a GPU that computes in float16; of WebGPU its adapter says so
    (``shader-f16``), and ONNX Runtime refuses the model where it does not. The outputs' error, size and time of the
    model, side by side.
Fix and its safety: numerics: outputs change by about a thousandth, and what is beyond 65504 between two operators is
    infinite: outputs are compared, and a model whose outputs are too far away is refused. Never proposed for the CPU
    or WebAssembly, which have few kernels for float16.
Example: ``--rewrite float32-to-float16``
References: ONNX Runtime documentation, "Float16 and mixed precision models"; WebGPU, ``shader-f16``; IEEE 754.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from ortune import providers
from ortune.model.graphs import attribute_tensors, graphs
from ortune.records import Workload
from ortune.rewrites._base import SHADERS_OF_FLOAT16, Proposed, Rewrite
from ortune.rewrites._marks import mend
from ortune.rewrites._quantized import (
    FAMILY,
    LEAST_BYTES,
    LEAVE,
    PRODUCTS,
    RECURRENT,
    holds_quantised,
    megabytes,
    weight_bytes,
)

_HALF, _SINGLE = ir.DataType.FLOAT16, ir.DataType.FLOAT


def _constants(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    """Yields the weights and the tensors of Constant nodes."""
    for graph in graphs(model):
        for value in graph.initializers.values() if isinstance(graph, ir.Graph) else ():
            if value.const_value is not None:
                yield value.const_value
        for node in graph:
            for attribute in node.attributes.values():
                yield from attribute_tensors(attribute)


def _refuses(model: ir.Model) -> tuple[str, ...]:
    if holds_quantised(model):
        return ("the model holds quantised operators already",)
    bytes_of = {
        dtype: sum(t.nbytes for t in _constants(model) if t.dtype == dtype) for dtype in (_HALF, _SINGLE)
    }
    if bytes_of[_HALF] > bytes_of[_SINGLE]:
        return ("the weights are float16 already",)
    return () if bytes_of[_SINGLE] else ("no float32 weights",)


def _mend(original: ir.Model, output: ir.Model) -> None:
    """Sorts the graph topologically, since the converter appends its Casts at the end."""
    mend(original, output)
    output.graph.sort()


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    n_bytes = weight_bytes(model, *PRODUCTS, *RECURRENT)
    if n_bytes < LEAST_BYTES or _refuses(model):
        return []
    return [({}, f"{megabytes(n_bytes)} in products: 16 bits for weights and activations, on a GPU")]


REWRITE = Rewrite(
    name="float32-to-float16",
    summary="weights and activations in float16, for GPUs; inputs and outputs keep their types",
    safety="numerics",
    targets=providers.targets(lambda p: p.float16),
    adapter_feature=SHADERS_OF_FLOAT16,
    stage=8,
    family=FAMILY,
    params=(LEAVE,),
    task="float16",
    refuses=_refuses,
    mends=_mend,
    proposes=_proposes,
)
