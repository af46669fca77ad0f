"""Events as ONNX Runtime writes them, and a profile of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnx_text import assemble, dims

HOSTILE = 'q"uo\\te\nline [red]'


def nested_model() -> bytes:
    """An If around a Loop of three turns around a MatMul, beside a node with a hostile name."""
    square = [16, 16]
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["s", "w"], ["s2"], name="product"),
            helper.make_node("Identity", ["c"], ["c2"], name="go on"),
        ],
        "body",
        [
            info("i", TensorProto.INT64, []),
            info("c", TensorProto.BOOL, []),
            info("s", TensorProto.FLOAT, square),
        ],
        [info("c2", TensorProto.BOOL, []), info("s2", TensorProto.FLOAT, square)],
    )
    loop = helper.make_node("Loop", ["turns", "yes", "x"], ["a"], body=body, name="loop")
    then = helper.make_graph([loop], "then", [], [info("a", TensorProto.FLOAT, square)])
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["b"], name="other")],
        "else",
        [],
        [info("b", TensorProto.FLOAT, square)],
    )
    model = assemble(
        [
            helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0, name="sum"),
            helper.make_node("Greater", ["sum", "zero"], ["positive"], name="greater"),
            helper.make_node("If", ["positive"], ["z"], then_branch=then, else_branch=other, name="if"),
            helper.make_node("Sin", ["z"], ["y"], name=HOSTILE),
        ],
        f"float[{dims(square)}] x",
        f"float[{dims(square)}] y",
        {
            "w": np.eye(16, dtype=np.float32),
            "turns": np.array(3, dtype=np.int64),
            "yes": np.array(True),
            "zero": np.array(0, dtype=np.float32),
        },
        name="nested",
    )
    onnx.checker.check_model(model)
    return model.SerializeToString()


def event(
    name: str, start: int, took: int, *, op: str = "", thread: int = 1, cat: str = "Node"
) -> dict[str, Any]:
    """One event as ONNX Runtime writes it."""
    args = {"op_name": op, "provider": "CPUExecutionProvider", "node_index": "0"} if op else {}
    return {
        "cat": cat,
        "pid": 1,
        "tid": thread,
        "dur": took,
        "ts": start,
        "ph": "X",
        "name": name,
        "args": args,
    }


def node(name: str, op: str, start: int, took: int, thread: int = 1) -> dict[str, Any]:
    return event(f"{name}_kernel_time", start, took, op=op, thread=thread)


def run(start: int, took: int, thread: int = 1) -> dict[str, Any]:
    return event("model_run", start, took, thread=thread, cat="Session")


def profile(path: Path, *events: dict[str, Any]) -> Path:
    lines = ",\n".join(json.dumps(each) for each in events)
    path.write_text(f"[\n{lines}\n]\n")
    return path
