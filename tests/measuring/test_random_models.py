"""Models that draw random numbers: no two of their runs give the same, whatever was done to them."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser

import ortune

DRAWN = """<ir_version: 8, opset_import: ["": 17]>
g (float[1,400] x) => (float[1,400] y) { NODES  r = RandomNormalLike (x)  y = Add (r, x) }"""


def test_one_that_draws_elsewhere_is_no_other_model(tmp_path: Path) -> None:
    paths = tmp_path / "a.onnx", tmp_path / "b.onnx"
    for path, nodes in zip(paths, ("", "q = RandomNormalLike (x)  z = Abs (q)"), strict=True):
        onnx.save(onnx.parser.parse_model(DRAWN.replace("NODES", nodes)), path)
    found = ortune.compare(*paths, budget=1.0, no_why=True, store=tmp_path / "store").result
    assert found.outputs is not None
    assert found.outputs.ok, found.outputs.what
    assert found.outputs.compared_as == "moments"
