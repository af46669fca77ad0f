"""One model is judged alike by every verb: how its outputs are rounded, and which side is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import ortune
from few_bit_models import four_bits, products, same_in_float
from ortune.records import REFUTED, OutputDifference
from ortune.store import evaluations
from simulated_machine import Lab, measuring_on

ROUNDED = "MSR017"


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    """Time is drawn, and what a model answers is real."""
    lab = Lab(3)
    lab.profiles = True
    with measuring_on(lab):
        yield


def codes(answer: Any) -> set[str]:
    """What is said before the answer, and what was found."""
    found = getattr(answer.result, "findings", ())
    return {finding.code for finding in (*answer.alerts, *found)}


# --- rounding


def test_zero_points_make_no_difference(tmp_path: Path) -> None:
    answer = ortune.look(four_bits(tmp_path / "m.onnx", unsigned=True), budget=20, store=tmp_path / "store")
    assert ROUNDED in codes(answer) and answer.exact.right is True


def test_at_the_accurate_level_nothing_is_said(tmp_path: Path) -> None:
    answer = ortune.look(four_bits(tmp_path / "m.onnx"), set={"nbits_level": "1"}, budget=20, store=tmp_path)
    assert ROUNDED not in codes(answer) and answer.exact.outputs.relative_l2 < 1e-5


SETTING, REWRITE = "--set qdq_matmulnbits_accuracy_level=1", "--rewrite accuracy-level:level=1"


def against_float(verb: str, folder: Path) -> Any:
    sides = (same_in_float(folder / "float.onnx"), four_bits(folder / "four.onnx"))
    return _of_two(verb, sides, folder)


def against_basic(verb: str, folder: Path) -> Any:
    return _of_two(verb, (four_bits(folder / "four.onnx"), None), folder, b_set={"level": "basic"})


def by_the_file(verb: str, folder: Path) -> Any:
    sides = (same_in_float(folder / "float.onnx"), products(folder / "products.onnx", bits=8))
    return _of_two(verb, sides, folder)


def _of_two(verb: str, sides: tuple[Path, Path | None], folder: Path, **more: Any) -> Any:
    if verb == "bisect":
        return ortune.bisect(*sides, **more)
    return ortune.compare(*sides, budget=10, store=folder / "store", **more)


@pytest.mark.parametrize("verb", ["bisect", "compare"])
@pytest.mark.parametrize(
    ("pair", "options"), [(against_float, SETTING), (against_basic, SETTING), (by_the_file, REWRITE)]
)
def test_two_sides_that_differ_by_it_are_equal_but_for_rounding(
    verb: str, pair: Callable[[str, Path], Any], options: str, tmp_path: Path
) -> None:
    answer = pair(verb, tmp_path)
    outputs: OutputDifference = answer.result.outputs
    assert (outputs.ok, outputs.cause) == (True, "int8-activations")
    assert 1e-3 < outputs.relative_l2 < 1e-2 and outputs.without_cause_l2 < 1e-5
    summary = " ".join(answer.summary().split())
    assert options in summary
    assert "wrong" not in summary and "--tolerance" not in summary
    if verb == "bisect":
        assert answer.result.wrong == ""
    else:
        assert not answer.result.wrong_sides


def test_kernels_without_packed_weights_do_not_round(tmp_path: Path) -> None:
    answer = ortune.bisect(products(tmp_path / "m.onnx"), b_set={"disable_prepacking": "1"})
    assert answer.result.outputs.cause == "int8-activations" and answer.result.wrong == ""


@pytest.mark.parametrize("make", [four_bits, products])
def test_weights_of_another_model_are_no_rounding(make: Callable[[Path], Path], tmp_path: Path) -> None:
    answer = ortune.bisect(same_in_float(tmp_path / "float.onnx", seed=4), make(tmp_path / "b.onnx"))
    assert not answer.result.outputs.ok and answer.result.outputs.cause == ""


# --- the right side


def refute(store: Path) -> None:
    """Doubles every output that the store holds as exact: as if all kernels were wrong."""
    for file in (store / evaluations.FOLDER).iterdir():
        stored = evaluations.load(store, file.stem)
        assert stored is not None
        evaluations.keep(store, file.stem, [{k: 2 * v for k, v in outputs.items()} for outputs in stored])


def test_stored_evaluations_show_outputs_that_are_wrong_at_every_level(tmp_path: Path) -> None:
    model, store = same_in_float(tmp_path / "m.onnx"), tmp_path / "store"
    assert ortune.bench(model, budget=20, processes=3, store=store).exact.right is True
    refute(store)
    answer = ortune.tune(model, budget=10, bundle=False, store=store)
    assert answer.status == "default-wrong"
    assert answer.alerts[0].code == REFUTED
    assert answer.exact.right is False and answer.exact.right_level == ""
    if answer.result.outputs is not None:
        assert answer.result.outputs.reference_wrong and "are wrong" in answer.summary()


def test_what_is_not_evaluated_is_named(tmp_path: Path) -> None:
    answer = ortune.bench(
        same_in_float(tmp_path / "m.onnx"),
        rewrite=["ort-format"],
        budget=20,
        processes=3,
        store=tmp_path / "store",
    )
    assert answer.exact.right is None and answer.exact.not_evaluated == "format"
    assert any("not compared with ONNX's reference" in note for note in answer.result.notes)


def test_an_evaluation_is_kept_for_later_sessions(tmp_path: Path) -> None:
    model, store = same_in_float(tmp_path / "m.onnx"), tmp_path / "store"
    first = ortune.look(model, budget=20, store=store)
    (kept,) = (store / evaluations.FOLDER).iterdir()
    assert msgspec.json.decode(kept.read_bytes())
    again = ortune.look(model, budget=20, store=store)
    assert again.exact == first.exact
