"""Small models that reach the peak rates of ONNX Runtime's kernels: MatMul and Conv."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LIST = "models.json"
PIXELS = 56


def write(folder: Path, side: int) -> None:
    """Write the models to a folder, with their number types and operations per run in ``LIST``.

    Weights are constant, because ONNX Runtime packs constants once for its fastest kernels. Whether signed or unsigned
    integers are faster depends on the processor, so there is a model for each.
    """
    rng = np.random.default_rng(0)
    channels = side // 2
    square, filters = (side, side), (channels, channels, 3, 3)
    image = [1, channels, PIXELS, PIXELS]
    models: tuple[tuple[Any, ...], ...] = (
        ("float32", "MatMul", "MatMul", TensorProto.FLOAT, [side, side], np.float32, square, {}),
        ("float32", "Conv", "Conv", TensorProto.FLOAT, image, np.float32, filters, {"pads": [1, 1, 1, 1]}),
        ("int8", "u8s8", "MatMulInteger", TensorProto.UINT8, [side, side], np.int8, square, {}),
        ("int8", "s8s8", "MatMulInteger", TensorProto.INT8, [side, side], np.int8, square, {}),
    )
    listed: dict[str, dict[str, Any]] = {}
    for kind, name, operator, dtype, shape, stored, weights, attributes in models:
        # Integers everywhere: exact in each type, and none so small that it is slow.
        values = rng.integers(-100, 100, weights).astype(stored)
        result = TensorProto.INT32 if kind == "int8" else dtype
        graph = helper.make_graph(
            [helper.make_node(operator, ["x", "w"], ["y"], **attributes)],
            name,
            [helper.make_tensor_value_info("x", dtype, shape)],
            [helper.make_tensor_value_info("y", result, shape)],
            [numpy_helper.from_array(values, "w")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
        onnx.save(model, folder / f"{name}.onnx")
        # The output has as many elements as the input: each needs a column of the matrix, or one channel's filters.
        products = int(np.prod(shape)) * int(np.prod(weights)) // weights[0]
        listed[name] = {"kind": kind, "flops": 2 * products}
    (folder / LIST).write_text(json.dumps(listed), encoding="utf-8")
