"""Small models for a first look, and ``ortune look`` on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from graphs import filled
from onnx_text import assemble
from within import program

INFO = helper.make_tensor_value_info
FLOAT = TensorProto.FLOAT


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    weights: list[onnx.TensorProto] = [],  # noqa: B006 -- read only
    *,
    inputs: list[onnx.ValueInfoProto] | None = None,
    outputs: list[onnx.ValueInfoProto] | None = None,
    opset: int = 17,
    ir_version: int = 8,
) -> Path:
    """A model from x (8x96, unless said) to y."""
    onnx.save(
        assemble(
            nodes,
            inputs or [INFO("x", FLOAT, [8, 96])],
            outputs or [INFO("y", FLOAT, None)],
            weights,
            opset=opset,
            ir_version=ir_version,
            opsets={"my.own": 1},
        ),
        path,
    )
    return path


def dense(path: Path, **options: Any) -> Path:
    """One product."""
    return save(path, [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")], [filled()], **options)


def ortune(folder: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, document and stderr of ortune's program, within this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORTUNE_LOCK", str(folder / "lock"))
        code, out, err = program((*words, "--json", "--store", str(folder / "store")))
    return code, json.loads(out), err
