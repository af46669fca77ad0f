"""What a caller can override is no constant for rules and rewrites, as it is none for ONNX Runtime."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime as ort
import pytest

from ortune import rewrites
from ortune.graph.model.open import open_model
from ortune.graph.randomness import is_random
from ortune.rules import Facts, find_rule

GROWS = """
<ir_version: {version}, opset_import: ["" : 9]>
grows (float[1] x{inputs}) => (float[256,256,128] y) <int64[3] s = {{256,256,128}}>
{{
    z = ConstantOfShape (s)
    y = Add (x, z)
}}
"""
REPEATS = """
<ir_version: 8, opset_import: ["" : 17]>
repeats (float[1] x, int64[2] n) => (float[4096,2048] y) <float[1,2048] row, int64[2] n = {4096,1}>
{
    z = Tile (row, n)
    y = Add (x, z)
}
"""
NORM = """
<ir_version: {version}, opset_import: ["" : {opset}]>
norm (float[2,4] x{inputs}) => (float[2,4] y)
<float e = {{0.00001}}, float two = {{2.0}}, float[4] s = {{1,1,1,1}}, float[4] b = {{0,0,0,0}}>
{{
    m = ReduceMean <axes = [-1]> (x)
    d = Sub (x, m)
    q = Pow (d, two)
    v = ReduceMean <axes = [-1]> (q)
    a = Add (v, e)
    r = Sqrt (a)
    n = Div (d, r)
    t = Mul (n, s)
    y = Add (t, b)
}}
"""
RESHAPED = """
<ir_version: 8, opset_import: ["" : 17]>
reshaped (float[4,8] x{inputs}) => (float[{sizes}] y) <int64[2] s = {{2,16}}>
{{
    y = Reshape (x, s)
}}
"""


def optimised(path: Path) -> Counter[str]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(path.with_suffix(".optimised"))
    ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return Counter(node.op_type for node in onnx.load(path.with_suffix(".optimised")).graph.node)


def saved(text: str, folder: Path, **weights: list[int]) -> Path:
    model = onnx.parser.parse_model(text)
    for name, shape in weights.items():
        count = 1
        for size in shape:
            count *= size
        tensor = onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, shape, [1.0] * count)
        model.graph.initializer.append(tensor)
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def told(code: str, path: Path) -> bool:
    return bool(find_rule(code).findings(Facts(model=open_model(path))))


@pytest.mark.parametrize(
    ("version", "inputs", "folded"),
    [(8, "", True), (8, ", int64[3] s", False), (3, ", int64[3] s", True)],
    ids=["constant", "overridable", "old"],
)
def test_constants_that_grow_are_those_that_are_folded(
    version: int, inputs: str, folded: bool, tmp_path: Path
) -> None:
    path = saved(GROWS.format(version=version, inputs=inputs), tmp_path)
    assert told("MEM002", path) is folded
    assert (optimised(path)["ConstantOfShape"] == 0) is folded


def test_a_tile_whose_counts_may_be_fed_does_not_grow(tmp_path: Path) -> None:
    text = REPEATS.replace("float[1,2048] row, ", "")
    assert not told("MEM002", saved(text, tmp_path, row=[1, 2048]))
    path = saved(text.replace(", int64[2] n)", ")"), tmp_path, row=[1, 2048])
    assert told("MEM002", path) and not optimised(path)["Tile"]


@pytest.mark.parametrize(
    ("version", "opset", "inputs", "fused"),
    [
        (8, 16, "", True),
        (8, 16, ", float e", False),
        (3, 8, ", float e, float two, float[4] s, float[4] b", True),
    ],
    ids=["constant", "overridable", "old"],
)
def test_an_epsilon_that_may_be_fed_keeps_a_normalisation_in_parts(
    version: int, opset: int, inputs: str, fused: bool, tmp_path: Path
) -> None:
    path = saved(NORM.format(version=version, opset=opset, inputs=inputs), tmp_path)
    found = find_rule("GRA011").findings(Facts(model=open_model(path)))
    assert len(found) == (not fused)
    assert all("epsilon" in finding.evidence for finding in found)
    assert (optimised(path)["LayerNormalization"] == 1) is fused


def test_sizes_that_may_be_fed_contradict_nothing(tmp_path: Path) -> None:
    assert told("SHP003", saved(RESHAPED.format(inputs="", sizes="4,8"), tmp_path))
    assert not told("SHP003", saved(RESHAPED.format(inputs=", int64[2] s", sizes="4,8"), tmp_path))


TRAINED = """
<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
trained (float[4] x, float[4] b{inputs}) => (float[4] y, float[4] z)
<bool t = {{{training}}}, float r = {{0.5}}>
{{
    u = {op}
    v = {op}
    y = Relu (u)
    z = Neg (v)
}}
"""
PLAIN = "Dropout (x, r, t)"
BIASED = "com.microsoft.BiasDropout (x, b, , r, t)"
MASKED = "com.microsoft.BitmaskDropout (x, r, t)"


@pytest.mark.parametrize("op", [PLAIN, BIASED, MASKED], ids=["Dropout", "BiasDropout", "BitmaskDropout"])
@pytest.mark.parametrize(
    ("training", "inputs", "random"),
    [(0, "", False), (1, "", True), (0, ", bool t", True)],
    ids=["inference", "training", "overridable"],
)
def test_what_draws_in_training_is_merged_only_where_it_never_does(
    op: str, training: int, inputs: str, random: bool
) -> None:
    text = TRAINED.format(op=op, training=training, inputs=inputs)
    model = ir.from_proto(onnx.parser.parse_model(text))
    drawing = [node for node in model.graph if "Dropout" in node.op_type]
    assert [is_random(node) for node in drawing] == [random] * 2
    rewrites.find("duplicate-nodes").apply(model)
    assert sum("Dropout" in node.op_type for node in model.graph) == 1 + random


@pytest.mark.parametrize(
    "op", ["RandomNormal <shape = [4]> ()", "Bernoulli (x)", "com.microsoft.Sampling (x)"]
)
def test_what_always_draws_is_never_merged(op: str) -> None:
    model = ir.from_proto(onnx.parser.parse_model(TRAINED.format(op=op, training=0, inputs="")))
    rewrites.find("duplicate-nodes").apply(model)
    assert len([node for node in model.graph if is_random(node)]) == 2
