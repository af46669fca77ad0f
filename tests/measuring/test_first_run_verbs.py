"""Every verb that runs a model says first that its outputs are wrong, or no numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ortune
from broken_models import broad_rms, chained_reshapes, mendable_reshapes
from facts import facts
from onnx_text import model_of, saved
from ortune.errors import MeasurementError, ModelError
from ortune.records import DEFAULT_BROKEN, DEFAULT_WRONG, NOT_FINITE, REFUTED
from simulated_machine import Lab, measuring_on
from wrong_models import gemm, not_finite

VERBS: dict[str, Callable[[Path, Path], Any]] = {
    "look": lambda model, store: ortune.look(model, budget=20, store=store),
    "bench": lambda model, store: ortune.bench(model, budget=20, processes=3, store=store),
    "profile": lambda model, store: ortune.profile(model, budget=20, processes=1, no_peak=True, store=store),
    "diagnose": lambda model, store: ortune.diagnose(model, budget=10, store=store),
    "tune": lambda model, store: ortune.tune(model, budget=10, bundle=False, store=store),
    "lock": lambda model, store: ortune.lock(model, output=store.with_suffix(".lock.json")),
    "bisect": lambda model, store: ortune.bisect(model, b_set={"intra": "1"}),
}
"""The others are asked of in test_first_run (compare), test_quantise (quantize) and test_releases (history)."""


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    """Time is drawn, and what a model answers is real."""
    lab = Lab(3)
    lab.profiles = True
    with measuring_on(lab):
        yield


@pytest.mark.parametrize("verb", VERBS)
def test_a_wrong_default_is_the_first_thing_said(verb: str, tmp_path: Path) -> None:
    answer = VERBS[verb](gemm(tmp_path / "m.onnx"), tmp_path / "store")
    first, *_ = answer.alerts
    assert (first.code, first.severity, first.where) == (DEFAULT_WRONG, "error", ("fc",))
    assert answer.status == "default-wrong"
    assert answer.summary().lstrip().startswith(DEFAULT_WRONG)


@pytest.mark.parametrize("verb", VERBS)
def test_outputs_that_are_no_numbers_are_the_first_thing_said(verb: str, tmp_path: Path) -> None:
    answer = VERBS[verb](not_finite(tmp_path / "m.onnx", "mask"), tmp_path / "store")
    first, *_ = answer.alerts
    assert (first.code, first.where[0]) == (NOT_FINITE, "bad")
    assert "low" in first.what
    assert answer.summary().lstrip().startswith(NOT_FINITE)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "lock"])
def test_a_default_that_the_optimiser_breaks_is_said_first_and_a_lower_level_goes_on(
    verb: str, tmp_path: Path
) -> None:
    answer = VERBS[verb](broad_rms(tmp_path / "m.onnx"), tmp_path / "store")
    first, *_ = answer.alerts
    assert (first.code, first.severity) == (DEFAULT_BROKEN, "error")
    assert answer.status == "default-wrong"
    assert answer.summary().lstrip().startswith(DEFAULT_BROKEN)
    assert "level=all" not in answer.summary()
    if verb == "tune":  # no rewrite mends it, so its level stays
        levels = {c.plan.settings.get("graph_optimization_level") for c in answer.result.candidates}
        assert levels == {"basic"}


def test_a_lock_of_a_model_that_the_optimiser_breaks_names_the_level_that_runs(tmp_path: Path) -> None:
    model, lock = broad_rms(tmp_path / "m.onnx"), tmp_path / "m.lock.json"
    with pytest.raises(ModelError) as error:
        ortune.lock(model, output=lock)
    assert "set='level=basic'" in error.value.do
    assert ortune.lock(model, set={"level": "basic"}, output=lock).verdict == "written"


def test_both_sides_of_a_comparison_go_on_at_the_level_that_runs(tmp_path: Path) -> None:
    model = chained_reshapes(tmp_path / "m.onnx")
    answer = ortune.compare(model, b_set={"intra": "1"}, budget=20, store=tmp_path / "store")
    (alert,) = answer.alerts  # said once of both
    assert alert.code == DEFAULT_BROKEN and alert.what.startswith("A and B: ")
    assert answer.result.base.plan.settings == {"graph_optimization_level": "disable"}
    assert answer.result.new.plan.settings["graph_optimization_level"] == "disable"


def only_compared(model: Path, **sides: Any) -> Any:
    return ortune.compare(model, budget=20, store=model.parent / "store", **sides)


@pytest.mark.parametrize("verb", [ortune.bisect, only_compared], ids=["bisect", "compare"])
@pytest.mark.parametrize(
    ("make", "sides", "said"),
    [
        (
            chained_reshapes,
            {"b_set": {"level": "basic"}},
            ("neither side runs", "A: all", "B: basic", "disable"),
        ),
        (chained_reshapes, {"b_set": {"level": "disable"}}, ("A does not run", "level all", "disable")),
        (chained_reshapes, {"a_set": {"level": "disable"}}, ("B does not run", "level all", "disable")),
        (
            broad_rms,
            {"b_set": {"level": "extended"}},
            ("neither side runs", "A: all", "B: extended", "basic"),
        ),
        (broad_rms, {"a_set": {"level": "basic"}}, ("B does not run", "level all", "basic")),
    ],
    ids=["neither at basic", "A not at all", "B not at all", "neither at extended", "B at all of the other"],
)
def test_a_level_that_does_not_run_is_not_compared_with_itself(
    make: Callable[[Path], Path], sides: dict[str, Any], said: tuple[str, ...], verb: Any, tmp_path: Path
) -> None:
    model = make(tmp_path / "m.onnx")
    with pytest.raises(MeasurementError) as error:
        verb(model, **sides)
    facts(error.value.what, *said, "are equal")
    runs = "basic" if make is broad_rms else "disable"
    assert error.value.do.startswith("ortune bench") and error.value.do.endswith(f"--set level={runs}")
    assert error.value.code == "broken-level"


def test_a_file_is_not_bisected_against_itself_where_its_level_does_not_run(tmp_path: Path) -> None:
    model = chained_reshapes(tmp_path / "m.onnx")
    with pytest.raises(MeasurementError) as error:
        ortune.bisect(model, model)
    facts(error.value.what, "neither side runs at level all", "are equal")


@pytest.mark.parametrize("letter", "ab")
def test_a_level_given_for_one_side_alone_is_not_replaced(letter: str, tmp_path: Path) -> None:
    model, other = chained_reshapes(tmp_path / "m.onnx"), "b" if letter == "a" else "a"
    sides = {f"{letter}_set": {"level": "extended"}, f"{other}_set": {"intra": "1"}}
    with pytest.raises(MeasurementError) as error:
        ortune.bisect(model, **sides)
    facts(error.value.what, f"{letter.upper()} does not run at level extended")
    assert f"{letter}_set='level=disable'" in error.value.do


def test_other_sides_go_on_where_the_level_of_one_does_not_run(tmp_path: Path) -> None:
    model = chained_reshapes(tmp_path / "m.onnx")
    answer = only_compared(model, b_set={"level": "basic"}, c_set={"intra": "1"})
    failed = {side.name: side.failures for side in answer.result.candidates}
    assert failed["B"] and not failed["C"]


def test_a_tuning_races_every_level_once_a_rewrite_has_removed_the_cause(tmp_path: Path) -> None:
    model = mendable_reshapes(tmp_path / "m.onnx")
    answer = ortune.tune(model, budget=10, bundle=False, store=tmp_path / "store")
    result = answer.result
    assert result.default_broken and result.wrong_default.settings == {}
    assert result.wrong_default_figures is None and "does not run" in answer.summary()
    assert result.default.settings == {"graph_optimization_level": "disable"}
    plans = [candidate.plan for candidate in result.candidates]
    assert all("initializers-out-of-inputs" in [spec.name for spec in plan.rewrites] for plan in plans)
    levels = {plan.settings.get("graph_optimization_level") for plan in plans}
    assert {None, "basic"} <= levels
    assert any("initializers-out-of-inputs" in note and "level" in note for note in result.notes)


def test_a_compared_side_of_no_numbers_is_told_with_its_node_and_weight(tmp_path: Path) -> None:
    bad = not_finite(tmp_path / "bad.onnx", "weight")
    proto = onnx.load(bad)
    (held,) = (tensor for tensor in proto.graph.initializer if tensor.name == "held")
    held.CopyFrom(onnx.numpy_helper.from_array(np.ones((8, 8), np.float32), "held"))
    onnx.save(proto, tmp_path / "good.onnx")
    answer = ortune.compare(tmp_path / "good.onnx", bad, store=tmp_path / "store")
    assert answer.verdict == "wrong-output" and answer.result.wrong_sides == ("B",)
    fault, alert = answer.alerts  # what the file holds comes before what follows from it
    assert (fault.code, fault.where) == ("PRC006", ("held",))
    assert (alert.code, alert.where) == (NOT_FINITE, ("bad", "held"))
    assert all(told.what.startswith("B: ") for told in (fault, alert))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_input_that_is_not_finite_is_at_fault_and_no_model(value: float, tmp_path: Path) -> None:
    model = saved(
        tmp_path / "m.onnx",
        model_of("g (float[2,4] x) => (float[2,4] y) { [t] t = Add (x, x) [s] y = Softmax (t) }"),
    )
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    for i, bad in enumerate((0.0, value)):
        np.savez(inputs / f"{i}.npz", x=np.array([[1, 2, 3, bad], [1, 2, 3, 4]], np.float32))
    answer = ortune.look(model, inputs=inputs, budget=20, store=tmp_path / "store")
    (alert,) = answer.alerts
    assert alert.code == NOT_FINITE and alert.where[-1] == "x"
    assert "input 'x' holds 1 " in alert.what and "input 'x'" in alert.fix
    assert "model" not in alert.fix
    if np.isnan(value):
        found = ortune.bisect(model, b_set={"level": "basic"}, inputs=inputs)
        assert found.alerts[0].where[-1] == "x"


NORMALISED = "g (float[4,8] x) => (float[4,8] y) { [n] y = MeanVarianceNormalization <axes = [1]> (x) }"
SHARES = """g (float[4,8] x) => (float[4,8] y) {
    [exp] e = Exp (x)  [sum] s = ReduceSum (e)  [div] y = Div (e, s)
}"""
OF_3 = np.where(np.arange(4)[:, None] == 2, 3, np.random.default_rng(0).standard_normal((4, 8)))


@pytest.mark.parametrize(
    ("text", "x", "refuted", "to_do"),
    [
        (SHARES, np.full((4, 8), 100), False, "input of 'exp'"),  # the type overflows
        (NORMALISED, np.zeros((4, 8)), True, ""),  # the kernel divides 0 by 0
        (
            NORMALISED,
            OF_3,
            False,
            "correct the model",
        ),  # so it does, and one step of rounding is enough to end it
    ],
    ids=["overflow", "kernel", "rounding"],
)
@pytest.mark.parametrize("verb", ["look", "bisect"])
def test_values_that_are_finite_in_float64_are_said_to_be(
    verb: str, text: str, x: np.ndarray, refuted: bool, to_do: str, tmp_path: Path
) -> None:
    model = saved(tmp_path / "m.onnx", model_of(text))
    np.savez(tmp_path / "x.npz", x=x.astype(np.float32))
    more = (
        {"b_set": {"level": "disable"}} if verb == "bisect" else {"budget": 20, "store": tmp_path / "store"}
    )
    answer = getattr(ortune, verb)(model, inputs=tmp_path / "x.npz", **more)
    alert, *others = answer.alerts
    assert alert.code == NOT_FINITE and "finite values in float64" in alert.what
    assert to_do in alert.fix and bool(to_do) == bool(alert.fix)
    assert [other.code for other in others] == [REFUTED] * refuted
    assert answer.exact.right is (False if refuted else None)
    if verb == "bisect":
        assert answer.summary().count("no node was found") == 0
