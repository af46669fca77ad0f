"""Kinds of trouble that users reported, each in other spellings than the one that its rule was written for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from rule_facts import findings_in, graph_text

from onnx_text import assemble, dims
from ortune import rewrites, rules
from ortune.graph.model.open import open_model
from ortune.rules import Facts
from ortune.targets.machine import Machine

FLOAT = TensorProto.FLOAT


# --- lists that grow in loops ----------------------------------------------------------------------------------------


def loop(body: list[onnx.NodeProto], grown: str) -> onnx.ModelProto:
    """A Loop that carries a list, and gives back one value of its body in its place."""
    info, listed = helper.make_tensor_value_info, helper.make_tensor_sequence_value_info
    graph = helper.make_graph(
        [*body, helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), listed("list", FLOAT, None)],
        [info("on", TensorProto.BOOL, []), listed(grown, FLOAT, None)],
    )
    nodes = [
        helper.make_node("SequenceEmpty", [], ["first"]),
        helper.make_node("Loop", ["n", "", "first"], ["all"], body=graph, name="loop"),
        helper.make_node("ConcatFromSequence", ["all"], ["y"], axis=0),
    ]
    inputs = [info("x", FLOAT, [2, 4]), info("n", TensorProto.INT64, []), info("keep", TensorProto.BOOL, [])]
    return assemble(nodes, inputs, "float[rows,4] y")


def insert(source: str, output: str) -> onnx.NodeProto:
    return helper.make_node("SequenceInsert", [source, "x"], [output], name=f"insert_{output}")


def branch(node: onnx.NodeProto) -> onnx.GraphProto:
    outputs = [helper.make_tensor_sequence_value_info(node.output[0], FLOAT, None)]
    return helper.make_graph([node], f"of_{node.output[0]}", [], outputs)


GROWN = {
    "behind a copy": ([helper.make_node("Identity", ["list"], ["copy"]), insert("copy", "a")], "a", ["insert_a"]),
    "twice a step": ([insert("list", "a"), insert("a", "b")], "b", ["insert_a", "insert_b"]),
    "on a condition": (
        [helper.make_node("If", ["keep"], ["c"], then_branch=branch(insert("list", "a")),
                          else_branch=branch(helper.make_node("Identity", ["list"], ["same"])))],
        "c", ["insert_a"],
    ),
    "a new list in each step": (
        [helper.make_node("SequenceEmpty", [], ["fresh"]), insert("fresh", "a")], "a", [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("spelling", GROWN)
def test_a_list_that_grows_in_a_loop(spelling: str, tmp_path: Path) -> None:
    body, grown, names = GROWN[spelling]
    where = [name for finding in findings_in(loop(body, grown), "GRA024", tmp_path) for name in finding.where]
    assert where == names


# --- rows scattered by elements --------------------------------------------------------------------------------------

ROWS = "float[8,4] zeros, float[3,4] x"
STORED = "<int64[3,4] index = {1,1,1,1,5,5,5,5,2,2,2,2}>"
MIXED = "<int64[3,4] index = {1,1,1,1,5,5,5,5,2,2,2,3}>"


@pytest.mark.parametrize(
    ("body", "weights", "named"),
    [
        ("y = ScatterElements <axis = 0> (zeros, index, x)", STORED, True),
        ("i = Identity (index) y = ScatterElements <axis = -2> (zeros, i, x)", STORED, True),
        ("y = ScatterElements <axis = 0> (zeros, index, x)", MIXED, False),
        ("y = ScatterElements <axis = 1> (zeros, index, x)", STORED, False),
    ],
)
def test_rows_scattered_by_elements(body: str, weights: str, named: bool, tmp_path: Path) -> None:
    model = graph_text(body.replace(") ", ")\n"), x=ROWS, y="float[8,4] y", weights=weights)
    assert bool(findings_in(model, "GRA023", tmp_path)) == named


@pytest.mark.parametrize(
    ("column", "axis", "shape", "named"),
    [
        ("c = Unsqueeze (i, last)", 0, "{3,4}", True),
        ("r = Unsqueeze (i, last) c = Identity (r)", -2, "{1,4}", True),
        ("k = Cast <to = 7> (i) c = Reshape (k, rows)", 0, "{1,4}", True),
        ("c = Unsqueeze (i, first)", 0, "{3,4}", False),  # one index a column
        ("c = Unsqueeze (i, last)", -1, "{3,4}", False),
    ],
)
def test_rows_scattered_by_a_repeated_column(
    column: str, axis: int, shape: str, named: bool, tmp_path: Path
) -> None:
    length = 4 if "first" in column else 3
    body = f"{column} all = Expand (c, shape) zeros = ConstantOfShape (sizes) "
    body += f"y = ScatterElements <axis = {axis}> (zeros, all, x)"
    weights = f"<int64[1] last = {{-1}}, int64[1] first = {{0}}, int64[2] rows = {{-1,1}}, int64[2] shape = {shape}, "
    weights += "int64[2] sizes = {8,4}>"
    model = graph_text(
        body.replace(") ", ")\n"), x=f"int64[{length}] i, float[3,4] x", weights=weights, y="float[8,4] y"
    )
    assert bool(findings_in(model, "GRA023", tmp_path)) == named


# --- boxes without a threshold ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "threshold", "named"),
    [
        ("s = Sigmoid (l)", [0.0], "a score_threshold below all scores"),
        (
            "a = Softmax (l) t = Transpose <perm = [0,1,2]> (a) g = Sigmoid (l) s = Mul (t, g)",
            [0.0],
            "below all scores",
        ),
        ("s = Identity (l)", [-np.inf], "a score_threshold below all scores"),
        ("s = Sigmoid (l)", None, "no score_threshold"),
        ("s = Identity (l)", [0.0], ""),
        ("s = Sigmoid (l)", [0.25], ""),
    ],
)
def test_boxes_without_a_threshold(
    scores: str, threshold: list[float] | None, named: str, tmp_path: Path
) -> None:
    least = "" if threshold is None else ", least"
    body = f"{scores} y = NonMaxSuppression (boxes, s, most, overlap{least})".replace(") ", ")\n")
    weights = "<int64[1] most = {16}, float[1] overlap = {0.5}>"
    model = onnx.parser.parse_model(
        graph_text(body, x="float[1,16,4] boxes, float[1,2,16] l", y="int64[n,3] y", weights=weights)
    )
    if threshold is not None:
        model.graph.initializer.append(numpy_helper.from_array(np.array(threshold, np.float32), "least"))
    whats = [finding.what for finding in findings_in(model, "GRA026", tmp_path)]
    assert [named in what for what in whats] == ([True] if named else [])


# --- spectra of odd lengths ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "body", "named"),
    [
        (100, "n = Identity (length) y = STFT (x, step, , n)", True),
        (60, "n = Constant <value = int64 {60}> () y = STFT (x, step, , n)", True),
        (128, "n = Identity (length) y = STFT (x, step, , n)", False),
        (80, "w = HannWindow (length) y = STFT (x, step, w)", True),
        (64, "w = HannWindow (length) y = STFT (x, step, w)", False),
        (400, "z = DFT <axis = 1> (x) y = Unsqueeze (z, first)", True),
        (400, "z = DFT <axis = 1> (x, power) y = Unsqueeze (z, first)", False),
    ],
)
def test_spectra_of_odd_lengths(length: int, body: str, named: bool, tmp_path: Path) -> None:
    weights = (
        f"<int64 step = {{50}}, int64 length = {{{length}}}, int64 power = {{512}}, int64[1] first = {{0}}>"
    )
    model = graph_text(body.replace(") ", ")\n"), x="float[1,400,1] x", y="float[1,f,b,2] y", weights=weights)
    (*_,) = findings = findings_in(model, "GRA025", tmp_path)
    assert bool(findings) == named
    assert not named or f"length {length} samples" in findings[0].evidence


# --- convolutions of one dimension -----------------------------------------------------------------------------------


def row(copied: bool, kernel: tuple[int, ...]) -> onnx.ModelProto:
    """Two convolutions whose weights are behind copies, or Constant nodes."""
    weights = numpy_helper.from_array(np.ones((16, 16, *kernel), np.float32), "w")
    first = (
        helper.make_node("Identity", ["w"], ["v"])
        if copied
        else helper.make_node("Constant", [], ["v"], value=weights)
    )
    nodes = [first, helper.make_node("Conv", ["x", "v"], ["h"]), helper.make_node("Conv", ["h", "v"], ["y"])]
    shape = [1, 16, *[64] * len(kernel)]
    return assemble(nodes, f"float[{dims(shape)}] x", "float[] y", [weights] if copied else [])


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("kernel", [(3,), (3, 3)])
def test_convolutions_of_one_dimension(copied: bool, kernel: tuple[int, ...], tmp_path: Path) -> None:
    assert bool(findings_in(row(copied, kernel), "LAY006", tmp_path)) == (len(kernel) == 1)


def grouped(shape: tuple[int, ...], groups: int) -> onnx.ModelProto:
    """Two convolutions of these weights, side by side."""
    weights = numpy_helper.from_array(np.ones(shape, np.float32), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], [y], f"to_{y}", group=groups) for y in ("y", "z")]
    info, sizes = helper.make_tensor_value_info, [1, groups * shape[1], *[8] * (len(shape) - 2)]
    outputs = [info(y, FLOAT, None) for y in ("y", "z")]
    return assemble(nodes, f"float[{dims(sizes)}] x", outputs, [weights])


@pytest.mark.parametrize(
    ("outs", "ins", "groups", "named"),
    [
        (16, 129, 1, False),
        (16, 20, 1, True),
        (16, 3, 1, True),
        (32, 16, 2, True),
        (16, 4, 4, False),
        (24, 8, 2, False),
    ],
)
def test_convolutions_that_two_dimensions_would_not_help(
    outs: int, ins: int, groups: int, named: bool, tmp_path: Path
) -> None:
    assert bool(findings_in(grouped((outs, ins, 3), groups), "LAY006", tmp_path)) == named
    if "avx2" in Machine().host.features:  # elsewhere there is no such layout
        options = ort.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
        options.log_severity_level = 3
        flat = grouped((outs, ins, 1, 3), groups).SerializeToString()
        ort.InferenceSession(flat, options, providers=["CPUExecutionProvider"])
        kinds = {node.domain for node in onnx.load(tmp_path / "optimised.onnx").graph.node}
        assert ("com.microsoft.nchwc" in kinds) == named


# --- behind copies ---------------------------------------------------------------------------------------------------

COPIED = [
    ("MEM002", "i = Identity (shape) z = ConstantOfShape (i) y = Add (x, z)", "float[1] x", "float[4096,2048] y"),
    ("LLM001", "i = Identity (past) c = Concat <axis = 2> (i, x) y = Identity (c)",
     "float[1,2,1,8] x, float[1,2,n,8] past", "float[1,2,m,8] y"),
    ("GRA018", "i = Identity (x) e = Equal (i, rows) f = Identity (e) c = Cast <to = 1> (f) k = Identity (w) "
     "y = MatMul (c, k)", "int32[2,4,1] x", "float[2,4,2] y"),
    ("GRA018", "i = Identity (x) d = Identity (three) c = OneHot (i, d, ends) y = MatMul (c, w)", "int64[2,4] x",
     "float[2,4,2] y"),
    ("WEB006", "i = Identity (x) s = Add (i, one) y = Cast <to = 1> (s)", "int64[2,4] x", "float[2,4] y"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "body", "x", "y"), COPIED)
def test_a_defect_behind_a_copy(code: str, body: str, x: str, y: str, tmp_path: Path) -> None:
    weights = "<int64[2] shape = {4096,2048}, int32[3] rows = {0,1,2}, float[3,2] w = {1,2,3,4,5,6}, "
    weights += "int64[1] one = {1}, int64 three = {3}, float[2] ends = {0,1}>"
    onnx.save(
        onnx.parser.parse_model(graph_text(body.replace(") ", ")\n"), x=x, y=y, weights=weights)),
        tmp_path / "m.onnx",
    )
    rule = rules.find_rule(code)
    (finding,) = rule.findings(Facts(model=open_model(tmp_path / "m.onnx"), target=rule.target))
    for spec in finding.plan.rewrites if finding.plan else ():
        assert rewrites.find(spec.name).apply(open_model(tmp_path / "m.onnx").ir, spec.params).modified


# --- weights that are not finite -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "number", "named"),
    [
        (
            "h = Cast <to = 10> (low)\n x2 = Cast <to = 10> (x)\n m = Mul (x2, h)\n y = Cast <to = 1> (m)",
            -1e9,
            "infinity",
        ),
        (
            "h = Cast <to = 10> (low)\n x2 = Cast <to = 10> (x)\n m = Mul (x2, h)\n y = Cast <to = 1> (m)",
            -1e4,
            "",
        ),
        (
            "h = Cast <to = 10> (low)\n x2 = Cast <to = 10> (x)\n m = Add (x2, h)\n y = Cast <to = 1> (m)",
            -1e9,
            "",
        ),
        ("y = Gemm (x, w, low)", -np.inf, ""),  # forbids a token
        ("y = Gemm (x, low, b)", -np.inf, "infinity"),
        ("y = Gemm (x, w, low)", np.nan, "NaN"),
    ],
)
def test_weights_that_are_not_finite(body: str, number: float, named: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        graph_text(body, weights="<float[2,2] w = {1,2,3,4}, float[2] b = {1,2}>")
    )
    shape = (2, 2) if "low, b" in body else (2,)
    model.graph.initializer.append(numpy_helper.from_array(np.full(shape, number, np.float32), "low"))
    findings = findings_in(model, "PRC006", tmp_path)
    assert [named in finding.what for finding in findings] == ([True] if named else [])
    assert all(finding.where == ("low",) for finding in findings)


# --- declared shapes -------------------------------------------------------------------------------------------------

SQUEEZED = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,N] x, bool c) => (float[DECLARED] y)
    <int64[1] first = {0}, float[2,2] w = {1,2,3,4}, BETWEEN> {
    s = If (c) <then_branch = t () => (float[] a) { a = Squeeze (x, first) },
                else_branch = e () => (float[] b) { b = MatMul (x, w) }>
    y = Relu (s)
}"""


@pytest.mark.parametrize(
    ("columns", "declared", "between"),
    [
        ("2", "2", "float[1,2] s"),  # what the file says of the If is of one branch alone
        ("2", "1,2", "float[2] s"),
        ("n", "2", "float[3] s"),
    ],
)
def test_what_a_file_declares_of_a_branch_contradicts_nothing(
    columns: str, declared: str, between: str, tmp_path: Path
) -> None:
    model = SQUEEZED.replace("N]", f"{columns}]").replace("DECLARED", declared).replace("BETWEEN", between)
    assert findings_in(model, "SHP003", tmp_path) == []
