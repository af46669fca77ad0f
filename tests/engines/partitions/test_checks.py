"""What NNAPI and CoreML demand of a node: each demand on a model that meets it, and on one that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortune.engines.partitions import support
from ortune.engines.partitions.partition import partition
from partition_models import parsed

X4 = "float[1,4,8,8] x"
GRAPHS = {
    "conv": f"g ({X4}) => (float[1,2,8,8] y) <float[2,4,1,1] w = {{1,2,3,4,5,6,7,8}}> {{ y = Conv (x, w) }}",
    "conv-weight-fed": f"g ({X4}, float[2,4,1,1] w) => (float[1,2,8,8] y) {{ y = Conv (x, w) }}",
    "conv-1d": "g (float[1,4,8] x) => (float[1,1,8] y) <float[1,4,1] w = {1,2,3,4}> { y = Conv (x, w) }",
    "conv-batch-open": "g (float[n,4,8,8] x) => (float[n,1,8,8] y) <float[1,4,1,1] w = {1,2,3,4}> { y = Conv (x, w) }",
    "pool-ceil": f"g ({X4}) => (float[1,4,4,4] y) "
    "{ y = MaxPool <kernel_shape = [2,2], strides = [2,2], ceil_mode = 1> (x) }",
    "pad-reflect": f"g ({X4}) => (float[1,4,10,10] y) <int64[8] p = {{0,0,1,1,0,0,1,1}}> "
    '{ y = Pad <mode = "reflect"> (x, p) }',
    "pad-negative": f"g ({X4}) => (float[1,4,6,6] y) <int64[8] p = {{0,0,-1,-1,0,0,-1,-1}}, float v = {{0}}> "
    "{ y = Pad (x, p, v) }",
    "pad-channels": f"g ({X4}) => (float[1,6,8,8] y) <int64[8] p = {{0,1,0,0,0,1,0,0}}, float v = {{0}}> "
    "{ y = Pad (x, p, v) }",
    "resize-half-pixel": f"g ({X4}) => (float[1,4,16,16] y) <float[4] s = {{1,1,2,2}}> "
    '{ y = Resize <mode = "linear"> (x, , s) }',
    "resize-nearest": f"g ({X4}) => (float[1,4,16,16] y) <float[4] s = {{1,1,2,2}}> "
    '{ y = Resize <coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (x, , s) }',
    "resize-cubic": f"g ({X4}) => (float[1,4,16,16] y) <float[4] s = {{1,1,2,2}}> "
    '{ y = Resize <mode = "cubic"> (x, , s) }',
    "relu6": f"g ({X4}) => (float[1,4,8,8] y) <float a = {{0}}, float b = {{6}}> {{ y = Clip (x, a, b) }}",
    "clip": f"g ({X4}) => (float[1,4,8,8] y) <float a = {{0}}, float b = {{5}}> {{ y = Clip (x, a, b) }}",
    "gemm-trans-a": "g (float[4,2] x) => (float[2,3] y) <float[4,3] w = {1,2,3,4,5,6,7,8,9,1,2,3}> "
    "{ y = Gemm <transA = 1> (x, w) }",
    "matmul-two-inputs": "g (float[2,4] x, float[4,3] w) => (float[2,3] y) { y = MatMul (x, w) }",
    "matmul-batch": "g (float[2,3,4] x, float[2,4,5] w) => (float[2,3,5] y) { y = MatMul (x, w) }",
    "integers": "g (int64[4] x) => (int64[4] y) { y = Add (x, x) }",
    "halves": "g (float16[4,4,4,4] x) => (float16[4,4,4,4] y) { y = Relu (x) }",
    "concat-three": "g (float[2,3,4] x) => (float[4,3,4] y) { y = Concat <axis = 0> (x, x) }",
    "five-dimensions": "g (float[1,2,2,2,2] x) => (float[1,2,2,2,2] y) { y = Transpose <perm = [0,1,2,3,4]> (x) }",
    "six-dimensions": "g (float[1,1,2,2,2,2] x) => (float[1,1,2,2,2,2] y) { y = Relu (x) }",
    "large": "g (float[1,20000] x) => (float[1,20000] y) { y = Sigmoid (x) }",
    "reshape-fed": "g (float[2,3] x, int64[1] s) => (float[k] y) { y = Reshape (x, s) }",
    "split-uneven": "g (float[1,5] x) => (float[1,2] y, float[1,3] z) <int64[2] s = {2,3}> "
    "{ y, z = Split <axis = 1> (x, s) }",
    "softmax-three": "g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax (x) }",
    "depth-crd": 'g (float[1,4,8,8] x) => (float[1,1,16,16] y) { y = DepthToSpace <blocksize = 2, mode = "CRD"> (x) }',
    "where": "g (bool[4] c, float[4] x) => (float[4] y) { y = Where (c, x, x) }",
    "shape-start": "g (float[2,3] x) => (int64[1] y) { y = Shape <start = 1> (x) }",
    "cast-int64": "g (float[4] x) => (int64[4] y) { a = Relu (x) y = Cast <to = 7> (a) }",
    "fused": "g (float[1,4,8,8] x) => (float[1,1,8,8] y) <float[1,4,1,1] w = {1,2,3,4}> "
    '{ y = com.microsoft.FusedConv <activation = "Relu"> (x, w) }',
    "if": "g (bool c, float[4] x) => (float[4] y) "
    "{ y = If (c) <then_branch = t () => (float[4] a) { a = Relu (x) }, "
    "else_branch = e () => (float[4] b) { b = Neg (x) }> }",
}
REASONS = {
    "conv": ("", "", ""),
    "conv-weight-fed": ("not-constant", "", "not-constant"),
    "conv-1d": ("rank", "", ""),
    "conv-batch-open": ("dynamic-shape", "", ""),
    "pool-ceil": ("attribute", "", "attribute"),
    "pad-reflect": ("attribute", "not-listed", "attribute"),
    "pad-negative": ("constant-value", "not-listed", "constant-value"),
    "pad-channels": ("", "not-listed", "constant-value"),
    "resize-half-pixel": ("", "", "attribute"),
    "resize-nearest": ("", "", ""),
    "resize-cubic": ("attribute", "attribute", "attribute"),
    "relu6": ("", "", ""),
    "clip": ("constant-value", "", ""),
    "gemm-trans-a": ("attribute", "attribute", "attribute"),
    "matmul-two-inputs": ("not-constant", "", "not-constant"),
    "matmul-batch": ("", "", "not-constant"),
    "integers": ("element-type", "element-type", "element-type"),
    "halves": ("element-type", "", "element-type"),
    "concat-three": ("", "", "rank"),
    "five-dimensions": ("rank", "", ""),
    "six-dimensions": ("", "rank", "rank"),
    "large": ("", "large-dimension", "large-dimension"),
    "reshape-fed": ("not-constant", "not-constant", "not-constant"),
    "split-uneven": ("constant-value", "", ""),
    "softmax-three": ("rank", "", ""),
    "depth-crd": ("attribute", "", "attribute"),
    "where": ("not-listed", "", "not-listed"),
    "shape-start": ("not-listed", "attribute", "attribute"),
    "cast-int64": ("attribute", "", ""),
    "fused": ("fused-operator", "", "fused-operator"),
    "if": ("not-listed", "not-listed", "not-listed"),
}
"""By NNAPI, CoreML's MLProgram and its NeuralNetwork, why the last node is left; "" where it is taken."""


@pytest.mark.parametrize("name", GRAPHS)
def test_why_a_node_is_left(name: str, tmp_path: Path) -> None:
    model = parsed(GRAPHS[name], tmp_path)
    (*_, last) = model.graph
    names = ("nnapi", "coreml", "coreml-neuralnetwork")
    found = [partition(model, support.find(each)).left.get(last) for each in names]
    assert tuple(each.code if each is not None else "" for each in found) == REASONS[name]


def test_nothing_is_taken_behind_a_stop_of_nnapi(tmp_path: Path) -> None:
    model = parsed(
        """
        g (float[1,6,4] boxes, float[1,1,6] scores) => (float[k,3] y)
        <int64 n = {3}>
        {
            before = Relu (scores)
            kept = NonMaxSuppression (boxes, before, n)
            numbers = Cast <to = 1> (kept)
            y = Relu (numbers)
        }
        """,
        tmp_path,
    )
    first, *_, last = model.graph
    found = partition(model, support.find("nnapi"))
    assert first in found.taken
    assert found.left[last].code in ("behind-stop", "dynamic-shape")


def test_a_region_that_only_copies_is_given_back_to_the_cpu(tmp_path: Path) -> None:
    model = parsed("g (float[2,3] x) => (float[6] y) <int64[1] s = {6}> { y = Reshape (x, s) }", tmp_path)
    (node,) = model.graph
    assert partition(model, support.find("nnapi")).left[node].code == "alone"
    assert partition(model, support.find("coreml")).taken == {node}


QDQ = """
g (float[1,2,4,4] x) => (float[1,3,4,4] y)
<float s = {{0.1}}, {kind} z = {{{zero}}}, {kind} out = {{{zero}}}, int8[3,2,1,1] w = {{1,2,3,4,5,6}},
 float[{scales}] ws = {{{ws}}}, int8[{scales}] wz = {{{wz}}}>
{{
    q = QuantizeLinear (x, s, z)
    d = DequantizeLinear (q, s, z)
    dw = DequantizeLinear <axis = 0> (w, ws, wz)
    c = Conv (d, dw)
    qc = QuantizeLinear (c, s, out)
    y = DequantizeLinear (qc, s, out)
}}
"""


@pytest.mark.parametrize(
    ("kind", "wz", "taken", "why"),
    [
        ("uint8", "0,0,0", 6, ""),
        ("uint8", "0,1,0", 2, "quantized-form"),
        ("int8", "0,0,0", 0, "element-type"),
    ],
    ids=["unsigned activations", "asymmetric weights", "signed activations"],
)
def test_quantized_forms_of_nnapi(kind: str, wz: str, taken: int, why: str, tmp_path: Path) -> None:
    zero = 128 if kind == "uint8" else 0
    text = QDQ.format(kind=kind, zero=zero, scales=3, ws="0.1,0.2,0.3", wz=wz)
    model = parsed(text, tmp_path)
    found = partition(model, support.find("nnapi"))
    assert len(found.taken) == taken
    convolution = next(node for node in model.graph if node.op_type == "Conv")
    assert (found.left[convolution].code if why else "") == why
    assert not partition(model, support.find("coreml")).taken - {convolution}
