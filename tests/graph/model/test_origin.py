"""What a converted model says of where it came from."""

from __future__ import annotations

import onnx_ir as ir
from onnx import parser

from ortune.graph.model.origin import KEY, labelled, source_of
from ortune.records import ConvertedFrom


def test_a_model_says_where_it_came_from() -> None:
    model = ir.from_proto(
        parser.parse_model(
            '<ir_version: 10, opset_import: ["" : 20]> g (float[1] x) => (float[1] y) { y = Relu(x) }'
        )
    )
    assert source_of(model) is None
    source = ConvertedFrom(source="net.pt2", kind="exported program", exporter="dynamo", opset=20)
    copy = labelled(model, source)
    assert source_of(copy) == source and KEY not in model.metadata_props
    copy.metadata_props[KEY] = "{"
    assert source_of(copy) is None
