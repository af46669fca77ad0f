"""What outputs are for, as graphs and names tell it: which metric fits them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_text import assemble
from ortune.graph.tasks import output_tasks

Shape = list[int | str]


def model(
    nodes: list[tuple[str, str]], output: tuple[str, Shape], *, inputs: dict[str, tuple[int, Shape]] | None = None,
    table: int = 0,
) -> ir.Model:  # fmt: skip
    """A chain of operators to one output, from the first input."""
    inputs = inputs or {"x": (TensorProto.FLOAT, [1, 3, 8, 8])}
    value, made = next(iter(inputs)), []
    weights = []
    if table:
        weights = [numpy_helper.from_array(np.zeros((table, 4), np.float32), "table")]
        made.append(helper.make_node("Gather", ["table", value], ["looked_up"]))
        value = "looked_up"
    for number, (kind, second) in enumerate(nodes):
        name = output[0] if number == len(nodes) - 1 else f"v{number}"
        made.append(helper.make_node(kind, [value, second] if second else [value], [name]))
        value = name
    info = helper.make_tensor_value_info
    return ir.from_proto(
        assemble(
            made,
            [info(n, kind, shape) for n, (kind, shape) in inputs.items()],
            [info(output[0], TensorProto.FLOAT, output[1])],
            weights,
        )
    )


TOKENS = {"input_ids": (TensorProto.INT64, ["n", "s"])}


@pytest.mark.parametrize(
    ("graph", "metric", "why"),
    [
        (model([("Flatten", ""), ("Softmax", "")], ("y", ["n", 10])), "accuracy", "ends in Softmax"),
        (model([("Flatten", "")], ("logits", ["n", 10])), "accuracy", "named as scores of classes"),
        (model([("Softmax", "")], ("y", ["n", "t", 97])), "ctc", "symbols at each step"),
        (model([("Sigmoid", "")], ("y", ["n", 1, "h", "w"])), "boxes", "map of scores"),
        (model([("Relu", "")], ("pred_boxes", ["n", 100, 4])), "boxes", "rows of 4"),
        (model([("Identity", "")], ("logits", ["n", "s", 50]), inputs=TOKENS, table=50), "perplexity", "50 tokens"),
        (model([("Identity", "")], ("last_hidden_state", ["n", "s", 384]), inputs=TOKENS), "ranks", "embedding"),
        (model([("Flatten", ""), ("LpNormalization", "")], ("y", ["n", 192])), "ranks", "unit norm"),
    ],
)  # fmt: skip
def test_the_metric_that_fits_comes_first_with_its_reason(graph: ir.Model, metric: str, why: str) -> None:
    first, *_ = output_tasks(graph)
    assert (first.metric, first.output) == (metric, graph.graph.outputs[0].name)
    assert why in first.why


@pytest.mark.parametrize(
    "graph",
    [
        model([("Flatten", ""), ("Relu", "")], ("y", ["n", 10])),
        model([("Flatten", ""), ("Sigmoid", "")], ("score", ["n", 1])),
        model([("Relu", "")], ("y", [1, 3, 8, 8])),
    ],
)
def test_nothing_is_guessed_where_nothing_tells(graph: ir.Model) -> None:
    assert output_tasks(graph) == []
