"""What passes for rounding: as much as the model itself moves when it is rounded otherwise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from msgspec.structs import replace
from onnx import TensorProto, helper, numpy_helper

import ortune
from onnx_text import assemble
from ortune.inputs.feed_files import read_feeds, write_feeds
from ortune.outputs.rounding import OwnRounding, doubtful, far_beyond, forgiven, moved_feed, nudged, tightened
from ortune.records import FeedRef, OutputDifference, OutputError


def apart(relative: float, *, ok: bool = True) -> OutputDifference:
    output = OutputError(name="y", relative_l2=relative, max_error=relative, limit=1e-4)
    return OutputDifference(ok=ok, relative_l2=relative, max_error=relative, outputs=(output,))


def test_a_difference_that_passes_is_held_to_what_rounding_moves() -> None:
    assert not doubtful(apart(9e-6))
    assert doubtful(apart(2e-5))
    assert not tightened(apart(2e-5), OwnRounding(optimised=apart(1e-7), moved=apart(3e-7))).ok
    assert tightened(apart(2e-5), OwnRounding(optimised=apart(1e-7), moved=apart(3e-6))).ok
    assert tightened(apart(2e-5), OwnRounding(moved=apart(0.0))).ok  # which tells nothing of its rounding
    refused = tightened(apart(2e-5), OwnRounding(moved=apart(1e-7)))
    assert "rounding alone causes 1e-07" in refused.what
    assert refused.accepting_tolerance == 5e-5


def test_a_difference_that_does_not_pass_may_be_the_models_own() -> None:
    assert forgiven(apart(2e-3, ok=False), OwnRounding(optimised=apart(1e-7), moved=apart(1e-3))).ok
    assert not forgiven(apart(2e-3, ok=False), OwnRounding(moved=apart(5e-4))).ok
    assert not forgiven(apart(2e-3, ok=False), OwnRounding()).ok


def test_what_the_optimiser_changes_excuses_no_more_than_another_such_change() -> None:
    """Both are equally far from the reference; a wrong scale of 15 % beside 9 % is no rounding."""
    own = OwnRounding(optimised=apart(0.09), moved=apart(1e-3))
    assert forgiven(apart(0.09, ok=False), own).ok
    assert forgiven(apart(0.09 * 2**0.5, ok=False), own).ok
    assert not forgiven(apart(0.15, ok=False), own).ok
    one = replace(apart(0.09).outputs[0], max_error=0.17)
    assert forgiven(replace(apart(0.09, ok=False), outputs=(one,)), own).ok
    assert own.moves == 0.09 and own.accepted == pytest.approx(0.135)


def test_one_output_that_is_sensitive_excuses_no_other() -> None:
    def both(y: float, z: float, *, ok: bool = True, limit: float = 1e-4) -> OutputDifference:
        outputs = tuple(
            OutputError(name=name, relative_l2=value, max_error=value, limit=limit)
            for name, value in (("y", y), ("z", z))
        )
        return OutputDifference(ok=ok, relative_l2=max(y, z), max_error=max(y, z), outputs=outputs)

    own = OwnRounding(moved=both(1e-2, 1e-7))
    assert forgiven(both(2e-2, 2e-5, ok=False), own).ok
    assert not forgiven(both(2e-2, 2e-2, ok=False), own).ok
    assert not forgiven(both(0.0, 2e-2, ok=False), own).ok
    assert not forgiven(both(0.0, 2e-2, ok=False, limit=1e-2), own).ok


def test_an_output_of_which_no_rounding_is_known_is_far_only_where_another_value(tmp_path: Path) -> None:
    # Its shape was another one with weights moved, say: it is in no list of distances.
    unknown = OutputDifference(ok=False, comparable=False)
    near, far = (replace(apart(by, ok=False), accepting_tolerance=1.0) for by in (5e-3, 0.3))
    assert not far_beyond(near, unknown, few_bits=True)
    assert far_beyond(far, unknown, few_bits=True)
    # A label that flipped is no distance; where nothing was seen to move, it proves nothing.
    flipped = OutputDifference(ok=False, relative_l2=1e-4)
    assert not far_beyond(flipped, None, few_bits=True)
    assert far_beyond(OutputDifference(ok=False, comparable=False), None, few_bits=True)


def test_a_model_that_draws_numbers_is_far_by_no_moment() -> None:
    drawn = OutputDifference(ok=False, compared_as="moments", comparable=False)
    assert not far_beyond(drawn, OutputDifference(ok=True, compared_as="moments"), few_bits=False)
    assert not far_beyond(drawn, None, few_bits=False)
    no_numbers = OutputDifference(ok=False, compared_as="moments", comparable=False, nonfinite_candidate=3)
    assert far_beyond(no_numbers, OutputDifference(ok=True, compared_as="moments"), few_bits=False)


def test_weights_that_decide_shapes_do_not_move() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[1,1,4,4] x, int64 n) => (float[A,B,C,D] y, float[E] r, float[1,1,4,4] z)
    <float[4] scales = {1, 1, 2, 2}, float half = {0.5}, float step = {1}, float w = {3}, float v = {5}>
    {
        y = Resize (x, , scales)
        f = Cast <to: int = 1> (n)
        end = Mul (f, half)
        zero = Sub (w, w)
        r = Range (zero, end, step)
        s = Shape (y)
        t = ReduceSum (s)
        u = Cast <to: int = 1> (t)
        k = Mul (u, v)
        z = Mul (x, k)
    }"""
    before = ir.from_proto(onnx.parser.parse_model(text))
    after = nudged(before, 0, 2.0**-8)
    assert after is not None
    moved = {
        name
        for name, value in after.graph.initializers.items()
        if not np.array_equal(value.const_value.numpy(), before.graph.initializers[name].const_value.numpy())
    }
    assert moved == {"v"}


def test_inputs_move_by_one_step_of_their_type(tmp_path: Path) -> None:
    x = np.array([0.0, 1.0, -3.5, np.inf, np.nan], np.float32)
    half = np.array([1.0, 65504.0], np.float16)
    write_feeds(tmp_path / "a", {"x": x, "h": half, "ids": np.arange(3)})
    ref = moved_feed(FeedRef(name="c", path=str(tmp_path / "a")), tmp_path / "b", 0)
    moved = read_feeds(Path(ref.path))
    steps = np.abs(moved["x"][1:3] - x[1:3]) / np.spacing(np.abs(x[1:3]))
    assert set(steps) <= {0.5, 1.0}
    assert moved["x"][0] != 0 and np.isinf(moved["x"][3]) and np.isnan(moved["x"][4])
    assert moved["h"].dtype == np.float16 and moved["h"][0] != 1
    assert (moved["ids"] == np.arange(3)).all()


def model(path: Path, *, half: bool) -> Path:
    """A fifth of the input goes through half precision and back, or does not."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 512]) for name in "xy"]
    nodes = [helper.make_node("Mul", ["x", "k"], ["h"], "scale")]
    if half:
        nodes += [
            helper.make_node("Cast", ["h"], ["c"], "to_half", to=TensorProto.FLOAT16),
            helper.make_node("Cast", ["c"], ["f"], "from_half", to=TensorProto.FLOAT),
        ]
    nodes.append(helper.make_node("Add", ["x", "f" if half else "h"], ["y"], "add"))
    stored = numpy_helper.from_array(np.array([0.2], np.float32), "k")
    onnx.save(assemble(nodes, values[:1], values[1:], [stored]), path)
    return path


def test_half_precision_within_the_bounds_is_still_no_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))
    answer = ortune.bisect(model(tmp_path / "a.onnx", half=False), model(tmp_path / "b.onnx", half=True))
    found = answer.result
    assert 1e-5 < found.outputs.relative_l2 < 1e-4
    assert not found.outputs.ok
    assert "rounding alone causes" in found.outputs.what
    assert [node.name for node in found.partings[0].b][:1] == ["to_half"]
