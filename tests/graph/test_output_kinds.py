"""Which outputs a near tie may change, which nodes are random, and which depend on the values fed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, parser

from onnx_text import assemble, model_of, saved
from ortune.graph.model.open import OpenModel, open_model
from ortune.graph.outputs import output_comparisons, random_ops, random_outputs, value_dependent_ops

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
DATASETS = Path(onnxruntime.__file__).parent / "datasets"


def output_kinds(model):
    return {name: comparison.kind for name, comparison in output_comparisons(model).items()}


def opened(tmp_path: Path, text: str, *, opset: int = 17, head: str = "") -> OpenModel:
    """A model from ONNX's textual form, checked by ONNX itself."""
    imports = f'"" : {opset}, "ai.onnx.ml" : 3, "local" : 1'
    model = parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]>\n{text}\n{head}")
    onnx.checker.check_model(model)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return open_model(path)


@pytest.mark.parametrize(
    ("graph", "kinds"),
    [
        pytest.param(
            "g (float[1,8] x, float[8,8] w) => (float[1,8] y) { s = MatMul(x, w)\n y = Softmax(s) }",
            {"y": "values"},
            id="plain",
        ),
        pytest.param(
            "g (float[1,8] x, float[8,8] w) => (int64[1] y) { s = MatMul(x, w)\n "
            "a = ArgMax <axis: int = 1, keepdims: int = 0> (s)\n b = Cast <to: int = 6> (a)\n "
            "c = Cast <to: int = 7> (b)\n y = Identity(c) }",
            {"y": "labels"},
            id="argmax-cast",
        ),
        pytest.param(
            "g (int64[1,8] ids, float[8,4] table) => (float[1,1,4] y, int64[1,1] at) { e = Gather(table, ids)\n "
            "at = ArgMax <axis: int = 1> (ids)\n f = Cast <to: int = 7> (at)\n "
            "y = Gather <axis: int = 0> (table, f) }",
            {"y": "values", "at": "values"},
            id="argmax-of-token-ids-has-no-near-ties",
        ),
        pytest.param(
            "g (float[8] x, int64[1] k) => (float[n] v, int64[n] i) { v, i = TopK(x, k) }",
            {"v": "values", "i": "values"},
            id="topk-of-an-input-is-exact",
        ),
        pytest.param(
            "g (float[1,8] x, float[8,8] w, float[8,4] boxes) => (float[1,n] v, int64[1,n] i, float[1,n,4] b, "
            "float[1,n,4] c) <int64[1] k = {3}, float[1] two = {2.0}> { s = MatMul(x, w)\n v, i = TopK(s, k)\n "
            "b = Gather(boxes, i)\n c = Mul(b, two) }",
            {"v": "values", "i": "indices", "b": "set", "c": "set"},
            id="topk-gather",
        ),
        pytest.param(
            "g (float[1,8] x, float[8,8] w) => (int64[1,n] label, int64[1,n] row) <int64[1] k = {3}, int64 c = {4}> "
            "{ s = MatMul(x, w)\n v, i = TopK(s, k)\n label = Mod(i, c)\n row = Div(i, c) }",
            {"label": "indices", "row": "indices"},
            id="class-and-row-of-flattened-positions",
        ),
        pytest.param(
            "g (float[1,8] x, float[8,8] w) => (float[1,n,2] y) <int64[1] k = {3}, int64[1] two = {2}> "
            "{ s = MatMul(x, w)\n v, i = TopK(s, k)\n f = Cast <to: int = 1> (i)\n a = Unsqueeze(f, two)\n "
            "b = Unsqueeze(v, two)\n y = Concat <axis: int = 2> (a, b) }",
            {"y": "set"},
            id="labels-beside-scores",
        ),
        pytest.param(
            "g (float[1,8] x, float[8,8] w, float[1,8] z) => (float[1,8] y, float[1,8] one, float t) "
            "<int64[1] k = {3}> { s = MatMul(x, w)\n v, i = TopK(s, k)\n "
            "y = ScatterElements <axis: int = 1> (z, i, v)\n t = ReduceSum <keepdims: int = 0> (v)\n one = Relu(y) }",
            {"y": "values", "one": "values", "t": "values"},
            id="scattered-back-or-summed",
        ),
        pytest.param(
            "g (float[1,8] x, float[8,8] w, float[8,5] d) => (int64[2,n] at, float[n,5] y) <int64[1] r = {1}, "
            "int64[1] ax = {0}, float half = {0.5}> { s = MatMul(x, w)\n m = Greater(s, half)\n at = NonZero(m)\n "
            "row = Slice(at, r, r, ax)\n q = Gather <axis: int = 0> (at, r)\n f = Squeeze(q, ax)\n y = Gather(d, f) }",
            {"at": "indices", "y": "set"},
            id="nonzero",
        ),
        pytest.param(
            "g (bool[1,8] mask, float[8] d) => (int64[2,n] at) { at = NonZero(mask) }",
            {"at": "values"},
            id="nonzero-of-a-mask",
        ),
        pytest.param(
            "g (float[1,8,4] boxes, float[1,8,8] w, float[1,2,8] x) => (int64[n,3] y, float[m,4] picked) "
            "<int64 many = {5}, int64 col = {2}, int64[1] ax = {0}> { s = MatMul(x, w)\n "
            "y = NonMaxSuppression(boxes, s, many)\n i = Gather <axis: int = 1> (y, col)\n b = Squeeze(boxes, ax)\n "
            "picked = Gather(b, i) }",
            {"y": "indices", "picked": "set"},
            id="nms",
        ),
        pytest.param(
            "g (float[1,8] x, float[8,8] w, bool c) => (int64[1] y) { s = MatMul(x, w)\n y = If (c) <"
            "then_branch = t () => (int64[1] a) { a = ArgMax <axis: int = 1, keepdims: int = 0> (s) }, "
            "else_branch = e () => (int64[1] b) <int64[1] z = {0}> { b = Identity(z) }> }",
            {"y": "labels"},
            id="inside-a-branch",
        ),
        pytest.param(
            "g (float[1,8] x, float[8,8] w) => (int64[1] y, int64[1] z) { s = MatMul(x, w)\n "
            "y = local.best(s)\n z = local.best(x) }",
            {"y": "labels", "z": "values"},
            id="inside-a-function",
        ),
        pytest.param(
            "g (float[1,8] x, float[8,8] w) => (string[1] y) <string[3] names = {\"a\",\"b\",\"c\"}> "
            "{ s = MatMul(x, w)\n a = ArgMax <axis: int = 1, keepdims: int = 0> (s)\n y = Gather(names, a) }",
            {"y": "labels"},
            id="names-of-classes",
        ),
    ],
)  # fmt: skip
def test_kinds(tmp_path: Path, graph: str, kinds: dict[str, str]) -> None:
    function = (
        '<domain: "local", opset_import: ["" : 17]> best (a) => (b) '
        "{ b = ArgMax <axis: int = 1, keepdims: int = 0> (a) }"
    )
    model = opened(tmp_path, graph, head=function if "local.best" in graph else "")
    assert output_kinds(model.ir) == kinds


def test_carried_around_a_loop(tmp_path: Path) -> None:
    # The second round gathers through what the first one decided.
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Gather", ["table", "at"], ["row"]),
            helper.make_node("MatMul", ["row", "w"], ["s"]),
            helper.make_node("ArgMax", ["s"], ["best"], axis=1, keepdims=0),
            helper.make_node("Identity", ["row"], ["seen"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("round", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("at", TensorProto.INT64, [1]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("best", TensorProto.INT64, [1]),
            helper.make_tensor_value_info("seen", TensorProto.FLOAT, [1, 8]),
        ],
    )
    path = tmp_path / "m.onnx"
    onnx.save(
        assemble(
            [helper.make_node("Loop", ["rounds", "", "start"], ["last", "rows"], body=body, name="loop")],
            "float[8,8] table, float[8,8] w, int64[1] start",
            "int64[1] last, float[n,1,8] rows",
            {"rounds": np.array(4)},
        ),
        path,
    )
    model = open_model(path).ir
    # Which scores decided inside the body cannot be read: each element is compared for itself.
    assert output_kinds(model) == {"last": "labels", "rows": "values"}
    assert all(comparison.labels is None for comparison in output_comparisons(model).values())
    assert value_dependent_ops(model) == []


ROLES = {
    "topk": (
        "g (float[4,8] x, float[8,8] w, float[9,3] t) => (float[4,n] v, int64[4,n] i, float[4,n,3] b, float[m,3] flat) "
        "<int64[1] k = {3}, int64[2] s = {-1, 3}> { h = MatMul(x, w)\n v, i = TopK(h, k)\n b = Gather(t, i)\n "
        "flat = Reshape(b, s) }",
        {"v": ("fixed", "free"), "i": ("fixed", "free"), "b": ("fixed", "free", "joint"), "flat": None},
    ),
    "expanded to gather elements": (
        "g (float[4,8] x, float[8,8] w, float[4,8,3] b) => (float[4,k,3] y) <int64[1] k = {3}, int64[1] m = {-1}, "
        "int64[3] e = {4, 3, 3}> { h = MatMul(x, w)\n v, i = TopK(h, k)\n u = Unsqueeze(i, m)\n a = Expand(u, e)\n "
        "y = GatherElements <axis: int = 1> (b, a) }",
        {"y": ("fixed", "free", "joint")},
    ),
    "topk along the first axis": (
        "g (float[4,8] x, float[8,8] w) => (int64[n,8] i, int64[8,n] t) <int64[1] k = {3}> "
        "{ h = MatMul(x, w)\n v, i = TopK <axis: int = 0> (h, k)\n t = Transpose(i) }",
        {"i": ("free", "fixed"), "t": ("fixed", "free")},
    ),
    "unsorted": (
        "g (float[4,8] x, float[8,8] w) => (float[4,n] v) <int64[1] k = {3}> "
        "{ h = MatMul(x, w)\n v, i = TopK <sorted: int = 0> (h, k) }",
        {"v": ("fixed", "free")},
    ),
    "nonzero": (
        "g (float[1,8] x, float[8,8] w) => (int64[2,n] at, int64[n,2] t) <float half = {0.5}> "
        "{ s = MatMul(x, w)\n m = Greater(s, half)\n at = NonZero(m)\n t = Transpose(at) }",
        {"at": ("joint", "free"), "t": ("free", "joint")},
    ),
    "nms": (
        "g (float[1,8,4] boxes, float[1,8,8] w, float[1,2,8] x) => (int64[n,3] y, float[n,4] picked, float[n,5] table, "
        "float[n,4] shifted, float[n,5] odd) <int64 many = {5}, int64 col = {2}, int64[1] ax = {0}, "
        "int64[1] one = {1}, "
        "float[1,4] by = {1.0, 2.0, 3.0, 4.0}> { s = MatMul(x, w)\n y = NonMaxSuppression(boxes, s, many)\n "
        "i = Gather <axis: int = 1> (y, col)\n b = Squeeze(boxes, ax)\n picked = Gather(b, i)\n "
        "f = Cast <to: int = 1> (i)\n u = Unsqueeze(f, one)\n table = Concat <axis: int = 1> (u, picked)\n "
        "shifted = Mul(picked, by)\n c = Slice(b, ax, one, one)\n odd = Concat <axis: int = 1> (c, picked) }",
        {
            "y": ("free", "joint"),
            "picked": ("free", "joint"),
            "table": ("free", "joint"),
            "shifted": ("free", "joint"),
            "odd": None,
        },
    ),
    "something of an order of its own": (
        "g (float[4,3] x, float[3,8] w, float[9,3] t, float[3,3] of) => (float[4,3,3] y, float[4,3,3] z) "
        "<int64[1] k = {3}, float two = {2.0}> { h = MatMul(x, w)\n v, i = TopK(h, k)\n b = Gather(t, i)\n "
        "y = Add(b, of)\n z = Mul(b, two) }",
        {"y": None, "z": ("fixed", "free", "joint")},
    ),
}


@pytest.mark.parametrize("case", ROLES)
def test_order_is_free_along_the_axis_of_the_selection_alone(tmp_path: Path, case: str) -> None:
    graph, roles = ROLES[case]
    found = output_comparisons(opened(tmp_path, graph).ir)
    assert {name: comparison.roles for name, comparison in found.items()} == roles


SELECTED = (
    "g (float[4,8] x, float[8,8] w, float[8,4] t, float[8] u) => (float[?] a, float[?] b) "
    "<int64[1] k = {3}, int64[1] j = {2}, int64[1] z = {0}, int64[1] o = {1}, int64[1] last = {1}, "
    "float[1] two = {2.0}> { h = MatMul(x, w)\n v, i = TopK(h, k)\n "
)
ORDERS = {
    "gathered by one selection": ("a = Gather(t, i)\n b = Gather(u, i)", True),
    "the scores and what they select": ("a = Mul(v, two)\n b = Gather(u, i)", True),
    "two selections": ("p, q = TopK(h, j)\n a = Gather(u, i)\n b = Gather(u, q)", False),
    "equal parts": ("a = Slice(i, z, j, o)\n c = Gather(u, i)\n b = Slice(c, z, j, last)", True),
    "other parts": ("a = Slice(i, z, j, o)\n c = Gather(u, i)\n b = Slice(c, o, k, o)", False),
    "a part and the whole": ("a = Slice(i, z, j, o)\n b = Gather(u, i)", False),
    "columns of the same rows": (
        "c = Gather(t, i)\n a = Slice(c, z, o, j)\n b = Gather(u, i)",
        True,
    ),
    "joined in the same way": (
        "p, q = TopK(h, j)\n a = Concat <axis: int = 1> (i, q)\n c = Gather(u, i)\n d = Gather(u, q)\n "
        "b = Concat <axis: int = 1> (c, d)",
        True,
    ),
    "joined in another way": (
        "p, q = TopK(h, j)\n a = Concat <axis: int = 1> (i, q)\n c = Gather(u, i)\n d = Gather(u, q)\n "
        "b = Concat <axis: int = 1> (d, c)",
        False,
    ),
    "one mask for two values": (
        "s = ReduceMax <axes: ints = [1], keepdims: int = 0> (h)\n n = Greater(s, two)\n "
        "a = Compress <axis: int = 0> (h, n)\n "
        "b = Compress <axis: int = 0> (s, n)",
        True,
    ),
    "two masks": (
        "s = ReduceMax <axes: ints = [1], keepdims: int = 0> (h)\n n = Greater(s, two)\n "
        "a = Compress <axis: int = 0> (h, n)\n "
        "f = Less(s, two)\n b = Compress <axis: int = 0> (s, f)",
        False,
    ),
    "two calls of a function": ("a = local.best(h)\n c = Mul(h, two)\n b = local.best(c)", False),
    "two outputs of a function": ("a, b = local.both(h)", True),
}
FUNCTIONS = (
    '<domain: "local", opset_import: ["" : 17]> best (a) => (b) { z = Constant <value = float {0.5}> ()\n '
    "m = Greater(a, z)\n b = NonZero(m) }\n"
    '<domain: "local", opset_import: ["" : 17]> both (a) => (v, i) { z = Constant <value = float {0.5}> ()\n '
    "m = Greater(a, z)\n v = NonZero(m)\n i = Transpose(v) }"
)


@pytest.mark.parametrize("case", ORDERS)
def test_rows_that_were_selected_together_have_one_order(tmp_path: Path, case: str) -> None:
    body, together = ORDERS[case]
    found = output_comparisons(opened(tmp_path, f"{SELECTED}{body} }}", head=FUNCTIONS).ir)
    a, b = found["a"].order, found["b"].order
    assert a is not None and b is not None
    assert (a.key == b.key) == together


@pytest.mark.parametrize(("start", "together"), [(0, True), (1, False)])
def test_limits_of_old_opsets_tell_parts_of_rows_apart(tmp_path: Path, start: int, *, together: bool) -> None:
    found = output_comparisons(
        opened(
            tmp_path,
            "g (float[4,8] x, float[8,8] w, float[8] u) => (int64[4,2] a, float[4,2] b) { h = MatMul(x, w)\n "
            "v, i = TopK <k: int = 3> (h)\n c = Gather(u, i)\n "
            "a = Slice <axes: ints = [1], starts: ints = [0], ends: ints = [2]> (i)\n "
            f"b = Slice <axes: ints = [1], starts: ints = [{start}], ends: ints = [{start + 2}]> (c) }}",
            opset=9,
        ).ir
    )
    a, b = found["a"].order, found["b"].order
    assert a is not None and b is not None
    assert (a.key == b.key) == together


LABELS = {
    "argmax": "best = ArgMax <axis: int = 1> (s)\n y = Identity(best)",
    "topk of one": "v, y = TopK(s, one)",
    "names": "best = ArgMax <axis: int = 1> (s)\n y = Gather(numbers, best)",
}


@pytest.mark.parametrize("case", LABELS)
def test_the_scores_that_decided_a_label_are_found(tmp_path: Path, case: str) -> None:
    head = "g (float[4,8] x, float[8,8] w) => (int64[4,1] y, float[4,8] p) <int64[1] one = {1}, "
    values = "int64[8] numbers = {7, 6, 5, 4, 3, 2, 1, 0}> { s = MatMul(x, w)\n p = Softmax(s)\n "
    found = output_comparisons(opened(tmp_path, f"{head}{values}{LABELS[case]} }}").ir)
    assert found["p"].kind == "values"
    assert found["y"].kind == "labels" and found["y"].labels is not None
    assert (found["y"].labels.scores.name, found["y"].labels.axis) in (("s", 1), ("s", -1))


def test_a_classifier_s_label_is_decided_by_its_scores() -> None:
    found = output_comparisons(open_model(DATASETS / "logreg_iris.onnx").ir)
    assert found["probabilities"].kind == "values"
    source = found["label"].labels
    assert source is not None and source.scores.name == "probability_tensor"
    assert source.classes == (0, 1, 2)


def test_scores_inside_a_branch_or_a_function_are_not_read(tmp_path: Path) -> None:
    inside = (
        "g (float[1,8] x, float[8,8] w) => (int64[1] y) { s = MatMul(x, w)\n y = local.best(s) }\n"
        '<domain: "local", opset_import: ["" : 17]> best (a) => (b) '
        "{ s = Neg(a)\n b = ArgMax <axis: int = 1, keepdims: int = 0> (s) }"
    )
    (comparison,) = output_comparisons(opened(tmp_path, inside).ir).values()
    assert (comparison.kind, comparison.labels) == ("labels", None)


@pytest.mark.parametrize(
    ("training", "expected"),
    [("", []), (", , off", []), (", , on", [("y", "Dropout")]), (", , mode", [("y", "Dropout")])],
)
def test_random_ops(tmp_path: Path, training: str, expected: list[tuple[str, str]]) -> None:
    text = (
        "g (float[4] x, bool mode) => (float[4] y, float[4] r) <bool on = {1}, bool off = {0}> "
        f"{{ y = Dropout(x{training})\n r = RandomNormalLike(x) }}"
    )
    assert random_ops(opened(tmp_path, text).ir) == [*expected, ("r", "RandomNormalLike")]


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ("g (float[4] x) => (float[4] y, float[4] z) { y = RandomNormalLike(x)\n z = Relu(x) }", {"y": False}),
        ("g (float[4] x) => (float[4] y, int64[1] z) { r = RandomNormalLike(x)\n y = Add(r, x)\n z = Shape(r) }",
         {"y": False}),
        ("g (float[4] x) => (int64[1,m] y, int64[2] z) { r = Bernoulli(x)\n y = NonZero(r)\n z = Shape(y) }",
         {"y": True, "z": False}),
        ("g (float[4] x, bool c) => (float[4] y, float[4] z) { y = If (c) <then_branch = t () => (float[4] a) "
         "{ a = Relu(x) }, else_branch = e () => (float[4] b) { b = RandomUniformLike(x) }>\n z = Relu(x) }",
         {"y": False}),
        ("g (float[4] x) => (float[4] y) { y = Relu(x) }", {}),
    ],
)  # fmt: skip
def test_random_outputs(tmp_path: Path, graph: str, expected: dict[str, bool]) -> None:
    assert random_outputs(opened(tmp_path, graph).ir) == expected


@pytest.mark.parametrize(
    ("graph", "names"),
    [
        ("g (float[n] x) => (int64[m] y) <int64 z = {0}, int64 o = {1}, int64[1] ax = {0}> "
         "{ s = Shape(x)\n e = Squeeze(s, ax)\n y = Range(z, e, o) }", []),
        ("g (int64 e) => (int64[m] y) <int64 z = {0}, int64 o = {1}> { y = Range(z, e, o) }", ["y"]),
        ("g (float[n] x) => (float[m] y, int64[1] c) { a = NonZero(x)\n c = Shape(a)\n y = ConstantOfShape(c) }",
         ["a", "y"]),
        ("g (float[n] x, int64[1] k) => (float[m] v, int64[m] i) { v, i = TopK(x, k) }", ["v"]),
        ("g (float[n] x) => (float[m] v, int64[m] i) <int64[1] k = {2}> { v, i = TopK(x, k) }", []),
        ("g (float[n] x) => (int64[1,m] y) <float[3] f = {1.0, 0.0, 2.0}> { y = NonZero(f) }", []),
        ("g (float[n] x, int64[2] s) => (float[a,b] y) { y = Expand(x, s) }", ["y"]),
    ],
)  # fmt: skip
def test_value_dependent_ops(tmp_path: Path, graph: str, names: list[str]) -> None:
    assert [name for name, _ in value_dependent_ops(opened(tmp_path, graph).ir)] == names


def test_loops_and_branches_depend_on_values_only_where_values_decide(tmp_path: Path) -> None:
    body = (
        "body = r (int64 i, bool go, float[4] v) => (bool on, float[4] w) { on = Identity(go)\n w = Relu(v) }"
    )
    text = (
        "g (float[4] x, bool c, int64 many) => (float[4] y, float[4] z, float[4] q) <int64 three = {3}> {\n"
        "y = If (c) <then_branch = t () => (float[4] a) { a = Relu(x) }, "
        "else_branch = e () => (float[4] b) { b = Identity(x) }>\n"
        f"z = Loop (three, , x) <{body}>\n q = Loop (many, , x) <{body}> }}"
    )
    found = value_dependent_ops(opened(tmp_path, text).ir)
    assert found == [("y", "If"), ("q", "Loop")]


def test_ordinary_networks_have_plain_outputs_and_depend_on_no_values() -> None:
    for name in ("squeezenet", "densenet121", "shufflenet", "inception_v1"):
        model = open_model(LIGHT / f"light_{name}.onnx").ir
        assert set(output_kinds(model).values()) == {"values"}
        assert random_ops(model) == []
        assert value_dependent_ops(model) == []


def test_a_cast_to_what_is_no_type_leaves_the_kind_as_it_is(tmp_path: Path) -> None:
    def kinds(number: int) -> dict[str, str]:
        text = f"g (float[2,8] x) => (float[2,8] y) {{ c = Cast <to = {number}> (x)\n y = Softmax(c) }}"
        return dict(output_kinds(open_model(saved(tmp_path / "m.onnx", model_of(text))).ir))

    assert kinds(99) == kinds(TensorProto.FLOAT)
