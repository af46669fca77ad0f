"""Values behind QuantizeLinear, compared in steps of their scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest
from onnx import helper

from facts import facts
from onnx_text import assemble
from ortune.graph.grids import Grid, grids, input_grids, output_grids
from ortune.graph.model.open import open_model
from ortune.inputs.feed_files import read_feeds, write_feeds
from ortune.outputs.comparison import compare_outputs
from ortune.outputs.rounding import OwnRounding, doubtful, forgiven, moved_feed
from ortune.outputs.tolerance import worst_of
from ortune.records import FeedRef, OutputDifference
from ortune.show.output_words import outputs
from ortune.worker.values import write_outputs

RNG = np.random.default_rng(5)
SCALE = 0.06
STEPS = RNG.integers(0, 256, (8, 40, 30))
ONE = Grid(scales=(SCALE,), zero_points=(100,))


def difference(
    folder: Path, old: np.ndarray, new: np.ndarray, grid: Grid | None = ONE, tolerance: float | None = None
) -> OutputDifference:
    kinds = {"f": "float" if old.dtype == np.float32 else "float16", "u": "uint8"}
    for side, value in (("a", old), ("b", new)):
        write_outputs(str(folder / side), ["y"], [f"tensor({kinds[old.dtype.kind]})"], [value])
    return compare_outputs(
        folder / "a", folder / "b", grids={"y": grid} if grid is not None else {}, tolerance=tolerance
    )


def floats(steps: np.ndarray, dtype: type = np.float32) -> np.ndarray:
    return ((steps.astype(dtype) - dtype(100)) * dtype(SCALE)).astype(dtype)


def moved(share: float, by: int = 1) -> np.ndarray:
    """As many elements, up or down."""
    draw = np.random.default_rng(by)
    signs = np.where(draw.random(STEPS.shape) < 0.5, -by, by)
    return np.clip(STEPS + np.where(draw.random(STEPS.shape) < share, signs, 0), 0, 255)


@pytest.mark.parametrize("share", [1e-3, 0.23, 0.48])
@pytest.mark.parametrize("kind", ["float", "half", "integers"])
def test_one_step_of_the_grid_is_the_same(tmp_path: Path, share: float, kind: str) -> None:
    old, new, grid = STEPS.astype(np.uint8), moved(share).astype(np.uint8), ONE
    if kind == "integers":
        grid = Grid(scales=(SCALE,), zero_points=(100,), integers=True)
    else:
        dtype = np.float32 if kind == "float" else np.float16
        old, new = floats(old, dtype), floats(new, dtype)
    for tolerance in (None, 1e-6):
        found = difference(tmp_path, old, new, grid, tolerance)
        assert found.ok and not doubtful(found), found.what
        steps = found.outputs[0].steps
        assert steps is not None and (steps.scale, steps.most) == (SCALE, 1)
        assert steps.share == pytest.approx(share, abs=0.02)
    if share == 0.23:
        facts(outputs(found), "one step of 0.06", "in 2", " % of the elements")


@pytest.mark.parametrize(("share", "by"), [(0.6, 1), (1.0, 1), (0.001, 2), (0.3, 20)])
def test_more_than_rounding_explains_is_a_difference(tmp_path: Path, share: float, by: int) -> None:
    new = floats(moved(share, by))
    found = difference(tmp_path, floats(STEPS), new)
    assert not found.ok
    steps = found.outputs[0].steps
    assert steps is not None and steps.most == by and not steps.same
    assert f"up to {'1 step' if by == 1 else f'{by} steps'} of 0.06 in" in outputs(found)
    assert difference(tmp_path, floats(STEPS), new, tolerance=1.0).ok
    assert not worst_of([found, difference(tmp_path, floats(STEPS), floats(moved(0.1)))]).ok


def test_a_few_elements_may_all_be_a_step_apart(tmp_path: Path) -> None:
    assert difference(tmp_path, floats(np.array([120, 90])), floats(np.array([121, 89]))).ok
    assert not difference(tmp_path, floats(np.array([120, 90])), floats(np.array([122, 90]))).ok


def test_a_candidate_that_is_on_another_grid_is_compared_as_any_other(tmp_path: Path) -> None:
    """A float model differs from its quantized form by less than a step everywhere."""
    new = floats(STEPS) + RNG.uniform(-0.03, 0.03, STEPS.shape).astype(np.float32)
    found = difference(tmp_path, floats(STEPS), new)
    assert not found.ok and found.outputs[0].steps is None
    assert difference(tmp_path, floats(STEPS), new, None).what == found.what


def test_scales_by_channel_count_each_in_its_own_steps(tmp_path: Path) -> None:
    scales = tuple(0.01 * 2.0**i for i in range(8))
    grid = Grid(scales=scales, zero_points=(0,) * 8, axis=0)
    by_channel = np.float32(scales).reshape(8, 1, 1)
    found = difference(tmp_path, STEPS.astype("f") * by_channel, moved(0.2).astype("f") * by_channel, grid)
    assert found.ok and found.outputs[0].steps is not None
    wrong = STEPS.astype("f") * by_channel
    wrong[0, 3, 3] += 3 * scales[0]
    found = difference(tmp_path, STEPS.astype("f") * by_channel, wrong, grid)
    assert found.ok  # within the limit of any float output
    assert found.outputs[0].steps is not None and found.outputs[0].steps.most == 3
    elsewhere = Grid(scales=scales, zero_points=(0,) * 8, axis=1)
    assert difference(tmp_path, floats(STEPS), floats(moved(0.2)), elsewhere).outputs[0].steps is None


def graph(*nodes: str, opset: int = 17) -> ir.Model:
    """A model of nodes written as "y = Op(a, b) attribute=1"; x is its input, and the last value its output."""
    made = []
    for text in nodes:
        result, _, rest = text.partition(" = ")
        operator, _, rest = rest.partition("(")
        inputs, _, rest = rest.partition(")")
        attributes = dict(pair.split("=") for pair in rest.split())
        plain = {
            k: [int(n) for n in v.split(",")] if "," in v else int(v) if v.lstrip("-").isdigit() else v
            for k, v in attributes.items()
        }
        made.append(helper.make_node(operator, inputs.split(", "), result.split(", "), **plain))
    weights = {
        "s": np.array(0.5, np.float32),
        "z": np.array(7, np.uint8),
        "ss": np.float32([0.5, 0.25]),
        "zz": np.uint8([0, 0]),
        "inf": np.array(np.inf, np.float32),
        "shape": np.int64([4, 2]),
    }
    last = made[-1].output[0]
    proto = assemble(made, "float[2,4] x, float t", f"float[] {last}", weights, opset=opset)
    return ir.serde.deserialize_model(proto)


ON = ("q = QuantizeLinear(x, s, z)", "d = DequantizeLinear(q, s, z)")


@pytest.mark.parametrize(
    ("after", "on_grid"),
    [
        (["y = Identity(d)"], True),
        (["r = Reshape(d, shape)", "m = Relu(r)", "y = Transpose(m)"], True),
        (["y = Concat(d, d) axis=0"], True),
        (["y = Add(d, d)"], False),
        (["y = Sigmoid(d)"], False),
        (["y = Concat(d, x) axis=0"], False),
        (["y = Gather(s, q)"], False),
    ],
)
def test_operators_that_move_values_leave_them_on_their_grid(after: list[str], on_grid: bool) -> None:
    found = output_grids(graph(*ON, *after))
    assert found == ({"y": Grid(scales=(0.5,), zero_points=(7,))} if on_grid else {})


@pytest.mark.parametrize(
    ("after", "scale"),
    [
        (["y = Mul(d, s)"], 0.25),
        (["y = Mul(s, d)"], 0.25),
        (["y = Div(d, s)"], 1.0),
        (["y = Sub(ss, d)"], 0.5),
        (["a = Add(d, ss)", "m = Mul(s, a)", "y = Reshape(m, shape)"], 0.25),
        (["y = Div(s, d)"], None),
        (["y = Mul(d, ss)"], None),
        (["y = Mul(d, inf)"], None),
        (["y = Mul(d, t)"], None),
        (["y = Add(d, t)"], None),
        (["y = Mul(d, d)"], None),
        (["y = Add(q, z)"], None),
    ],
)
def test_a_constant_scales_the_step_or_keeps_it(after: list[str], scale: float | None) -> None:
    """As the boxes of a detector are decoded: times a stride, plus an anchor."""
    found = output_grids(graph(*ON, *after))
    assert found == ({"y": Grid(scales=(scale,), zero_points=(7,))} if scale else {})


def test_grids_are_those_of_constant_scales() -> None:
    found = grids(graph(*ON, "y = Identity(d)"))
    assert found["q"].integers and not found["d"].integers and "x" not in found
    assert output_grids(graph("q = QuantizeLinear(x, t, z)", "y = DequantizeLinear(q, t, z)")) == {}
    assert output_grids(graph("y = QuantizeLinear(x, s) output_dtype=3", opset=21))["y"].integers
    assert output_grids(graph("y = QuantizeLinear(x, s) output_dtype=17", opset=21)) == {}
    assert output_grids(graph("u = Neg(z)", "y = QuantizeLinear(x, s, u)")) == {}
    assert output_grids(graph("y = QLinearAdd(q, s, z, q, s, z, s, z)"))["y"].integers
    by_channel = graph(
        "q = QuantizeLinear(x, ss, zz) axis=0",
        "d = DequantizeLinear(q, ss, zz) axis=0",
        "y = Transpose(d) perm=1,0",
    )
    assert output_grids(by_channel) == {"y": Grid(scales=(0.5, 0.25), zero_points=(0, 0), axis=1)}
    assert output_grids(graph("y = DequantizeLinear(w, s, z)")) == {}


FED = """
<ir_version: {version}, opset_import: ["" : 17]>
fed (float[2,4] x{inputs}) => (float[2,4] y) <float s = {{0.5}}, uint8 z = {{7}}>
{{
    q = QuantizeLinear (x, s, z)
    y = DequantizeLinear (q, s, z)
}}
"""


@pytest.mark.parametrize(
    ("version", "inputs", "on_grid"),
    [(8, "", True), (8, ", float s", False), (8, ", uint8 z", False), (3, ", float s, uint8 z", True)],
    ids=["constant", "scale", "zero point", "old"],
)
def test_a_scale_that_may_be_fed_gives_no_grid(
    version: int, inputs: str, on_grid: bool, tmp_path: Path
) -> None:
    onnx.save(onnx.parser.parse_model(FED.format(version=version, inputs=inputs)), tmp_path / "m.onnx")
    model = open_model(tmp_path / "m.onnx").ir
    assert ("y" in output_grids(model)) is on_grid
    assert ("y" in grids(model)) is on_grid
    assert ("x" in input_grids(model)) is on_grid


WITHIN = """
<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
within (float[2,4] x, bool c) => (float[2,4] y, float[2,4] r, float[2,4] b) <float s = {0.5}, uint8 z = {7}>
{
    p = Neg (x)
    r = own.Rounded (p, s, z)
    b = If (c) <
        then_branch = then () => (float[2,4] m) {
            n = QuantizeLinear (x, s, z)
            m = DequantizeLinear (n, s, z)
        },
        else_branch = otherwise () => (float[2,4] m) { m = Neg (x) }
    >
    y = Exp (x)
}
<domain: "own", opset_import: ["" : 17]>
Rounded (a, s, z) => (y)
{
    p = QuantizeLinear (a, s, z)
    y = DequantizeLinear (p, s, z)
}
"""


def test_names_within_functions_and_branches_are_not_those_of_the_graph() -> None:
    model = ir.from_proto(onnx.parser.parse_model(WITHIN))
    assert grids(model).keys() == output_grids(model).keys() == set()
    constants = WITHIN.replace("(p, s, z)\n    b", "(p)\n    b").replace(
        "(a, s, z) => (y)\n{",
        "(a) => (y)\n{\n    s = Constant <value = float {0.5}> ()\n    z = Constant <value = uint8 {7}> ()",
    )
    model = ir.from_proto(onnx.parser.parse_model(constants))
    assert grids(model).keys() == output_grids(model).keys() == {"r"}


@pytest.mark.parametrize(
    ("node", "on_grid"),
    [
        ("r, y = MaxPool(d) kernel_shape=1,1", False),
        ("r, y = Dropout(d)", False),
        ("r, y = Split(d) axis=1", True),
    ],
)
def test_of_several_outputs_only_parts_of_the_input_are_on_its_grid(node: str, on_grid: bool) -> None:
    found = grids(graph(*ON, node))
    assert ("y" in found) is on_grid and "r" in found


def test_inputs_that_are_quantized_move_by_a_step_in_a_few_elements(tmp_path: Path) -> None:
    steps = input_grids(graph(*ON, "y = Identity(d)"))
    assert steps == {"x": Grid(scales=(0.5,), zero_points=(7,))}
    assert input_grids(graph(*ON, "y = Add(d, x)")) == {}
    x = RNG.normal(size=(40, 50)).astype(np.float32)
    write_feeds(tmp_path / "a", {"x": x})
    ref = moved_feed(FeedRef(name="c", path=str(tmp_path / "a")), tmp_path / "b", 0, steps)
    after = read_feeds(Path(ref.path))["x"]
    assert isinstance(after, np.ndarray) and after.dtype == np.float32
    by = np.abs(after - x)
    assert int((by > 0.4).sum()) == 80 and float(by.max()) == pytest.approx(0.5, abs=1e-5)


def test_what_steps_explain_is_not_held_to_rounding(tmp_path: Path) -> None:
    """A second output that is sensitive is forgiven for what it moves itself; one that is on a grid needs none."""
    near = difference(tmp_path / "near", floats(STEPS), floats(moved(0.2)))
    far = difference(tmp_path / "far", floats(STEPS), floats(moved(0.2, 5)))
    assert near.ok and not far.ok
    assert not forgiven(far, OwnRounding(moved=near)).ok
    assert forgiven(far, OwnRounding(moved=far)).ok
