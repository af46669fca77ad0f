"""Converts a float32 model to float16; inputs and outputs keep their types.

What it is: ONNX Runtime's own converter (``onnxruntime.transformers.float16``): weights, constants and intermediate
    values become float16, with a Cast after each input and before each output. Operators without a float16 kernel, or
    with too little precision in float16, stay in float32 between Casts.
Why it costs: a GPU computes in float16 at twice the rate of float32 or more, and reads, uploads and stores half the
    bytes.
Evidence: float32 weights in matrix multiplications and convolutions, on a GPU that supports float16 (on WebGPU the
    adapter feature ``shader-f16``). The output error, size and time of the model.
Fix and its safety: numerics: outputs change by about 0.1 %, and intermediate values beyond 65504 become infinite.
    Outputs are compared, and a model with too large an error is rejected. Never proposed for the CPU or WebAssembly,
    which have few float16 kernels.
Example: ``--rewrite float32-to-float16``
References: ONNX Runtime documentation, "Float16 and mixed precision models"; WebGPU, ``shader-f16``; IEEE 754.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from ortune.catalogue import providers
from ortune.graph.model.graphs import attribute_tensors, graphs
from ortune.records import Workload
from ortune.rewrites._affine import PRODUCTS
from ortune.rewrites._base import SHADERS_OF_FLOAT16, Proposed, Rewrite
from ortune.rewrites._marks import repair_saved
from ortune.rewrites._quantized import (
    FAMILY,
    LEAST_BYTES,
    LEAVE,
    RECURRENT,
    holds_quantised,
    megabytes,
    weight_bytes,
)

_HALF, _SINGLE = ir.DataType.FLOAT16, ir.DataType.FLOAT


def _constants(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    """Yield the initializers of a model and the tensors in attributes."""
    for graph in graphs(model):
        for value in graph.initializers.values() if isinstance(graph, ir.Graph) else ():
            if value.const_value is not None:
                yield value.const_value
        for node in graph:
            for attribute in node.attributes.values():
                yield from attribute_tensors(attribute)


def _refuses(model: ir.Model) -> tuple[str, ...]:
    if holds_quantised(model):
        return ("the model already has quantized operators",)
    bytes_of = {
        dtype: sum(t.nbytes for t in _constants(model) if t.dtype == dtype) for dtype in (_HALF, _SINGLE)
    }
    if bytes_of[_HALF] > bytes_of[_SINGLE]:
        return ("the weights are already float16",)
    return () if bytes_of[_SINGLE] else ("the model has no float32 weights",)


def _mend(original: ir.Model, output: ir.Model) -> None:
    """Repair the converter's output: initializers that were inputs, and Casts appended out of topological order."""
    repair_saved(original, output)
    output.graph.sort()


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    n_bytes = weight_bytes(model, *PRODUCTS, *RECURRENT)
    if n_bytes < LEAST_BYTES or _refuses(model):
        return []
    return [({}, f"{megabytes(n_bytes)} could be float16 on a GPU, activations included")]


REWRITE = Rewrite(
    name="float32-to-float16",
    summary="converts weights and activations to float16, for GPUs; inputs and outputs keep their types",
    safety="numerics",
    targets=providers.target_names(lambda p: p.float16),
    adapter_feature=SHADERS_OF_FLOAT16,
    stage=8,
    family=FAMILY,
    params=(LEAVE,),
    task="float16",
    refuses=_refuses,
    mends=_mend,
    proposes=_proposes,
)
