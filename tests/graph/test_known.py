"""Inferred shapes: what is left out where inferring it would take too long."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_text import assemble
from ortune.graph.shapes.known import known_values

LONG = 1 << 19


def chain(n_vectors: int) -> ir.Model:
    """A sum of as many long vectors, and an output whose shape is computed from that of the input."""
    names = [f"w{i}" for i in range(n_vectors)]
    sums = ["x", *(f"s{i}" for i in range(n_vectors))]
    node = onnx.helper.make_node
    nodes = [node("Add", [sums[i], name], [sums[i + 1]]) for i, name in enumerate(names)]
    nodes += [
        node("Shape", [sums[-1]], ["shape"]),
        node("Concat", ["one", "shape"], ["rows"], axis=0),
        node("Reshape", [sums[-1], "rows"], ["y"]),
    ]
    weight = np.broadcast_to(np.float32(1), LONG)
    weights = {**dict.fromkeys(names, weight), "one": np.array([1], np.int64)}
    proto = assemble(nodes, f"float[{LONG}] x", "float[] y", weights)
    return ir.from_proto(proto)


@pytest.mark.parametrize(("n_vectors", "dims"), [(2, (1, LONG)), (12, (None, None))])
def test_contents_are_not_inferred_of_many_long_vectors(n_vectors: int, dims: tuple[int | None, ...]) -> None:
    model = chain(n_vectors)
    values = known_values(model)
    (y,) = model.graph.outputs
    assert values.sizes(y) == dims
    assert values.inferred(y).dtype == ir.DataType.FLOAT
    assert values.sizes(model.graph[n_vectors - 1].outputs[0]) == (LONG,)
