"""A first run that fails: the optimiser, a node of the model, a size, or the values of an input are the reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from broken_models import broad_layer_norm, broad_rms, chained_reshapes, short_bias
from facts import facts
from onnx_text import model_of
from ortune.errors import InputError, ModelError
from ortune.measuring import first_run
from ortune.measuring.budget import UNLIMITED
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.scratch import scratch_folder
from ortune.measuring.sides import SideText, resolve
from ortune.records import DEFAULT_BROKEN, Plan
from ortune.store.db import SessionLog
from simulated_machine import Lab

MACHINE = Lab(1).machine()


def settled(model: Path, **options: object) -> Measuring:
    """A model that was run once."""
    with scratch_folder() as scratch:
        side = resolve(SideText(text=str(model)), common=Plan(), scratch=scratch)
        feeds = InputOptions(**options)
        baseline = Measuring(side, feeds, scratch, SessionLog(None, ""), lambda text: None, MACHINE)
        first_run.find_checked_inputs(baseline, UNLIMITED, limit_s=60.0)
        return baseline


BROKEN: dict[str, tuple[Callable[[Path], Path], str, str, set[str]]] = {
    "reshapes": (chained_reshapes, "basic", "disable", {"R1", "R2"}),
    "reshapes, two sizes": (lambda p: chained_reshapes(p, 2, 3, "3,2"), "basic", "disable", {"R1", "R2"}),
    "norm": (broad_rms, "extended", "basic", {"pow", "mean", "eps", "root", "div", "mul"}),
    "norm, dynamic rows": (
        lambda p: broad_rms(p, "n", "1.5,-2.0,1.0"),
        "extended",
        "basic",
        {"pow", "mean", "mul"},
    ),
    "layer norm": (broad_layer_norm, "basic", "disable", {"mean", "div", "mul"}),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_level_that_breaks_the_model_is_named_and_the_highest_that_runs_is_taken(
    kind: str, tmp_path: Path
) -> None:
    make, level, right, nodes = BROKEN[kind]
    baseline = settled(make(tmp_path / "m.onnx"))
    (alert,) = baseline.alerts
    assert (alert.code, alert.severity) == (DEFAULT_BROKEN, "error")
    facts(alert.what, "ONNX Runtime", "optimiser breaks", f"level {level} and above", f"level {right}")
    assert nodes <= set(alert.where)
    assert f"--set level={right}" in alert.fix
    assert list(baseline.side.plan.assignments) == [f"graph_optimization_level={right}"]
    assert "ONNXRuntimeError" in alert.evidence


def test_a_node_that_fails_at_every_level_is_named_and_no_input_is_asked_for(tmp_path: Path) -> None:
    model = short_bias(tmp_path / "m.onnx")
    proto = onnx.load(model)
    weights = {"a": (4, 2, 1, 1), "b": (8, 2, 1, 1), "bias": (4,)}
    for value in [v for v in proto.graph.input if v.name in weights]:
        proto.graph.input.remove(value)
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in weights.items()
    )
    onnx.save(proto, model)
    with pytest.raises(ModelError) as error:
        settled(model)
    facts(error.value.what, "Conv", "ConvB", "bias")
    assert "--inputs" not in error.value.do


CONCAT = """
g (float[batch,4,2] x) => (float[batch,6,2] y)
<float[{held},2,2] more = {{{values}}}>
{{ [cat] y = Concat <axis = 1> (x, more) }}
"""


def baked(path: Path, held: int) -> Path:
    onnx.save(model_of(CONCAT.format(held=held, values=",".join(["1.0"] * 4 * held))), path)
    return path


@pytest.mark.parametrize("held", [1, 3])
def test_a_size_that_is_not_the_one_in_the_graph_is_named_with_its_node(held: int, tmp_path: Path) -> None:
    model = baked(tmp_path / "m.onnx", held)
    assert settled(model).work.cases[0].inputs[0].shape == (held, 4, 2)
    with pytest.raises(InputError) as error:
        settled(model, dims={"batch": ((2, 1.0),)})
    facts(error.value.what, "batch is dynamic in the file", "cat", f"batch={held}")
    assert f"--dim batch={held}" in error.value.do


@pytest.mark.parametrize("order", [(1, 2), (2, 1), (2, 1, 3)])
def test_of_a_mix_only_the_size_that_fails_is_left_out(order: tuple[int, ...], tmp_path: Path) -> None:
    model = baked(tmp_path / "m.onnx", 1)
    baseline = settled(model, dims={"batch": tuple((size, 1.0) for size in order)})
    assert [case.name for case in baseline.work.cases] == ["batch=1"]
    assert sum(case.weight for case in baseline.work.cases) == pytest.approx(1.0)
    notes = [note for note in baseline.work.notes if "left out" in note]
    assert {note.split()[0] for note in notes} == {f"batch={size}" for size in order if size != 1}
    assert all("cat" in note for note in notes)


def test_of_own_inputs_the_one_that_fails_is_named(tmp_path: Path) -> None:
    model = baked(tmp_path / "m.onnx", 1)
    for number, rows in enumerate((1, 2)):
        place = tmp_path / "data" / f"test_data_set_{number}"
        place.mkdir(parents=True)
        tensor = onnx.numpy_helper.from_array(np.ones((rows, 4, 2), np.float32), "x")
        (place / "input_0.pb").write_bytes(tensor.SerializeToString())
    with pytest.raises(InputError) as error:
        settled(model, inputs=tmp_path / "data")
    facts(error.value.what, "set 1", "other inputs")
    assert "set 0" not in error.value.what


SHAPES = {
    "reshape": ("g (float[2,3] x, int64[2] s) => (float[3,2] y) { y = Reshape (x, s) }", [3, 2]),
    "expand": ("g (float[1,3] x, int64[2] s) => (float[4,3] y) { y = Expand (x, s) }", [4, 3]),
    "joined": (
        """g (float[batch,6] x, int64[1] s) => (float[batch,3,2] y)
        <int64[1] rest = {-1}, int64[1] two = {2}>
        { all = Concat <axis = 0> (rest, s, two) y = Reshape (x, all) }""",
        [3],
    ),
    "added": (
        """g (float[2,3] x, int32[2] s) => (float[2,3] y)
        { wide = Cast <to = 7> (s) zeros = ConstantOfShape (wide) y = Add (x, zeros) }""",
        [2, 3],
    ),
    "sizes open": ("g (float[2,3] x, int64[3] s) => (float[a,b,c] y) { y = Reshape (x, s) }", [6, 1, 1]),
}


@pytest.mark.parametrize("kind", SHAPES)
def test_an_input_that_is_a_shape_gets_the_value_of_the_declared_output(kind: str, tmp_path: Path) -> None:
    text, values = SHAPES[kind]
    onnx.save(model_of(text), tmp_path / "m.onnx")
    baseline = settled(tmp_path / "m.onnx")
    (choice,) = (c for c in baseline.work.cases[0].inputs if c.name == "s")
    assert list(choice.values) == values
    assert baseline.work.tries == 0


LIMITS = {
    "lengths": "g (float[2,2] x, int64[2] n) => (float[2,2] y) "
    "{ y = ReverseSequence <batch_axis = 1, time_axis = 0> (x, n) }",
    "k": "g (float[2] x, int64[1] n) => (float[m] y, int64[m] i) { y, i = TopK (x, n) }",
    "axis": "g (float[3,2] x, int64 n) => (float[3,2] y) { y = CumSum (x, n) }",
    "place": "g (float[3] x, int64 n) => (float[3] y) { s = SequenceConstruct (x, x) y = SequenceAt (s, n) }",
}


@pytest.mark.parametrize("kind", LIMITS)
def test_limits_in_an_error_are_kept_in_the_next_try(kind: str, tmp_path: Path) -> None:
    onnx.save(model_of(LIMITS[kind]), tmp_path / "m.onnx")
    baseline = settled(tmp_path / "m.onnx")
    assert baseline.work.tries == 1
    (choice,) = (c for c in baseline.work.cases[0].inputs if c.name == "n")
    assert choice.high is not None and choice.high <= 2
