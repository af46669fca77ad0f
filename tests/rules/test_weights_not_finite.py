"""Weights that are NaN or infinite: meant where they mark a place, a fault where they are computed with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper
from rule_facts import opened

from ortune import rules
from ortune.rules import Facts

STORED = """
<ir_version: {version}, opset_import: ["" : 17, "own" : 1]>
stored (float[2,4] x, bool[2,4] c{inputs}) => ({kind}[2,n] y) <float w = {{0.0}}, int64[4] p = {{0,0,0,1}}>
{{
    {nodes}
}}
<domain: "own", opset_import: ["" : 17]>
Imputed (a, b, c) => (y)
{{
    y = Where (a, b, c)
}}
"""


def stored(folder: Path, number: float, nodes: str, **more: object) -> bool:
    """Whether a weight ``w`` of this number is told of in a model of these nodes."""
    text = {"version": 8, "inputs": "", "kind": "float", "nodes": nodes} | more
    model = onnx.parser.parse_model(STORED.format(**text))
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.float32(number), "w"))
    return bool(rules.find_rule("PRC006").findings(Facts(model=opened(model, folder))))


@pytest.mark.parametrize(
    ("nodes", "kind"),
    [
        ("y = Where (c, w, x)", "float"),
        ("y = Pad (x, p, w)", "float"),
        ("y = own.Imputed (c, w, x)", "float"),
        ("y = Equal (x, w)", "bool"),
        (
            "i = NonZero (c)\n t = Transpose (i)\n s = Size (t)\n u = Expand (w, s)\n y = ScatterND (x, t, u)",
            "float",
        ),
    ],
)
def test_nan_that_marks_a_place_is_meant(tmp_path: Path, nodes: str, kind: str) -> None:
    assert not stored(tmp_path, np.nan, nodes, kind=kind)


@pytest.mark.parametrize(
    "nodes", ["y = Add (x, w)", "y = Mul (x, w)", "t = Where (c, w, x)\n y = Sub (t, w)"]
)
def test_nan_that_is_computed_with_is_an_error(tmp_path: Path, nodes: str) -> None:
    assert stored(tmp_path, np.nan, nodes)


SCALED = """<ir_version: 8, opset_import: ["" : 17]> g (float[2,4] x) => (float[2,4] y)
    <float[4] w = {{1,1,1,1}}, float[4] o = {{1,1,1,1}}> {{ y = {node} }}"""


@pytest.mark.parametrize(
    ("node", "multiplies"),
    [
        ("LayerNormalization (x, w)", True),
        ("LayerNormalization (x, o, w)", False),
        ("BatchNormalization (x, w, o, o, o)", True),
        ("BatchNormalization (x, o, o, w, o)", False),
        ("BatchNormalization (x, o, o, o, w)", False),
        ("PRelu (x, w)", True),
    ],
)
def test_an_infinite_scale_of_a_normalisation_is_an_error(
    tmp_path: Path, node: str, multiplies: bool
) -> None:
    model = onnx.parser.parse_model(SCALED.format(node=node))
    weights = np.array([1, np.inf, 1, 1], np.float32)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "w"))
    findings = rules.find_rule("PRC006").findings(Facts(model=opened(model, tmp_path)))
    assert [finding.where for finding in findings] == ([("w",)] if multiplies else [])


@pytest.mark.parametrize(
    ("version", "inputs", "held"), [(8, ", float w", False), (3, ", float w, int64[4] p", True)]
)
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_may_be_fed_are_no_weights(
    tmp_path: Path, version: int, inputs: str, held: bool, number: float
) -> None:
    assert stored(tmp_path, number, "y = Mul (x, w)", version=version, inputs=inputs) is held
