"""Verbs agree about one model: equal, rounded, wrong, or nothing to compare, whichever verb is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import ortune
from few_bit_models import four_bits, products, same_in_float
from onnx_text import model_of, saved
from ortune.errors import MeasurementError, UsageError
from ortune.measuring.sides import SideText, resolve
from ortune.outputs import exact
from ortune.records import DEFAULT_WRONG, REFUTED, OutputDifference, Plan
from ortune.runtimes import made
from ortune.search import controls
from ortune.verbs.compare.run import exit_code
from simulated_machine import Lab, measuring_on
from wrong_models import gemm

pytestmark = pytest.mark.xdist_group("verbs-agree")

ROUNDED = "MSR017"
Judgement = Literal["equal", "rounding", "wrong", "cannot be compared", "differs"]
LOWER = {"b_set": {"level": "basic"}}
IN_FLOAT = {"b_rewrite": ["accuracy-level:level=1"]}


EVERY_LEVEL = "wrong at every level"
"""ONNX's evaluator is made to give twice as much: as if the kernels were wrong."""
SWAPPED = "sorted indices in another order"
"""ONNX's evaluator is made to swap two of them: as if the kernel did."""
BY_FILE = "activations rounded to int8 by the file"
QUANTIZED = ("activations rounded to int8", BY_FILE, "a wrong default")
MEASURED = ("look", "bench", "tune", "compare")
EXACT = {
    "float": (True, ""),
    "activations rounded to int8": (True, ""),
    BY_FILE: (None, ""),
    "a wrong default": (False, "basic"),
    "no rows": (None, ""),
    EVERY_LEVEL: (False, ""),
    SWAPPED: (False, ""),
}
"""Whether the model in float64, if it can be evaluated, confirms the outputs, and the level at which they are right."""


def soft(path: Path) -> Path:
    """A model of as many rows as its input has."""
    return saved(path, model_of("g (float[n,4] x) => (float[n,4] y) { y = Softmax (x) }"))


def wide(path: Path) -> Path:
    """A product of weights that are worth quantizing."""
    return _weighted(path, "g (float[4,128] x) => (float[4,64] y) { [mm] y = MatMul (x, w) }")


def best(path: Path) -> Path:
    """The eight largest numbers of such a product, and where they are."""
    return _weighted(
        path,
        """g (float[4,128] x) => (float[4,8] v, int64[4,8] i) <int64[1] k = {8}>
        { [mm] y = MatMul (x, w) [top] v, i = TopK (y, k) }""",
    )


def _weighted(path: Path, text: str) -> Path:
    proto = model_of(text)
    weights = np.random.default_rng(3).standard_normal((128, 64)).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return saved(path, proto)


MODELS: dict[str, tuple[Callable[[Path], Path], Judgement]] = {
    "float": (same_in_float, "equal"),
    "activations rounded to int8": (four_bits, "rounding"),
    BY_FILE: (products, "rounding"),
    "a wrong default": (gemm, "wrong"),
    "no rows": (soft, "cannot be compared"),
    EVERY_LEVEL: (same_in_float, "wrong"),
    SWAPPED: (best, "wrong"),
}


def weights_as_inputs(model: Path) -> Path:
    """Declare the initializers as inputs too, so that a rewrite has something to remove."""
    proto = onnx.load(model)
    if not proto.graph.initializer:
        proto.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "w"))
        proto.graph.node[0].input[0] = "scaled"
        proto.graph.node.insert(0, helper.make_node("Mul", ["x", "w"], ["scaled"]))
    for tensor in proto.graph.initializer:
        proto.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    onnx.save(proto, model)
    return model


VERBS: dict[str, Callable[..., Any]] = {
    "look": lambda m, at, **more: ortune.look(m, budget=20, store=at, **more),
    "bench": lambda m, at, **more: ortune.bench(m, budget=20, processes=3, store=at, **more),
    "diagnose": lambda m, at, **more: ortune.diagnose(m, budget=10, store=at, **more),
    "tune": lambda m, at, **more: ortune.tune(m, budget=10, bundle=False, store=at, **more),
    "compare": lambda m, at, **more: ortune.compare(m, budget=10, store=at, **more),
    "bisect": lambda m, at, **more: ortune.bisect(m, **more),
    "history": lambda m, at, **more: ortune.history(
        m, release=["1.32.0", "1.31.0"], budget=10, store=at, **more
    ),
    "quantize": lambda m, at, **more: ortune.quantize(m, budget=10, bundle=False, store=at, **more),
    "check": lambda m, at, **more: ortune.check(
        weights_as_inputs(m), fix=True, output=at.with_suffix(".onnx"), **more
    ),
    "rewrite": lambda m, at, **more: ortune.rewrite(
        weights_as_inputs(m), "initializers-out-of-inputs", output=at.with_suffix(".onnx"), **more
    ),
}
"""``convert --verify``, which needs a framework, is in the tests of convert."""


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    """Draw times; outputs are real."""
    lab = Lab(3)
    lab.profiles = True
    with measuring_on(lab):
        yield


def judgement(answer: Any) -> Judgement:
    """What a verb makes of the outputs."""
    result = answer.result
    codes = {finding.code for finding in (*answer.alerts, *getattr(result, "findings", ()))}
    outputs: OutputDifference | None = getattr(result, "outputs", None)
    if answer.schema.startswith("ortune/check/"):
        outputs = result.models[0].fixed.verification.outputs
    exact = answer.exact
    if codes & {DEFAULT_WRONG, REFUTED}:
        return "wrong"
    if (outputs is not None and outputs.empty) or (exact is not None and exact.not_evaluated == "empty"):
        return "cannot be compared"
    if ROUNDED in codes or (outputs is not None and outputs.cause):
        return "rounding"
    known = outputs.ok if outputs is not None else exact.right
    return "equal" if known else "differs"


OF_WRONG = "identical to the base's, which are wrong"


def swapped(outputs: dict[str, np.ndarray] | None) -> dict[str, np.ndarray] | None:
    return outputs and {name: v[:, [1, 0, *range(2, 8)]] if name == "i" else v for name, v in outputs.items()}


def doubled(outputs: dict[str, np.ndarray] | None) -> dict[str, np.ndarray] | None:
    return None if outputs is None else {name: 2 * value for name, value in outputs.items()}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("case", MODELS)
def test_verbs_agree_about_one_model(
    case: str, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if verb == "quantize" and case == "no rows":
        pytest.skip("there is nothing to quantize")
    make, expected = MODELS[case]
    if verb == "quantize" and make is same_in_float:
        make = wide
    refuted = case in (EVERY_LEVEL, SWAPPED)
    if refuted:
        right, change = exact.evaluate, swapped if case == SWAPPED else doubled
        monkeypatch.setattr(exact, "evaluate", lambda *args, **more: change(right(*args, **more)))
    model, more = make(tmp_path / "m.onnx"), dict[str, Any]()
    if verb in ("compare", "bisect"):
        more |= IN_FLOAT if case == BY_FILE else LOWER
    if case == "no rows":
        np.savez(tmp_path / "x.npz", x=np.zeros((0, 4), np.float32))
        more["inputs"] = tmp_path / "x.npz"
    if verb == "history":  # one build under two names: what it says of outputs is asked here
        runtime = resolve(SideText(text=str(model)), common=Plan(), scratch=Path("-")).runtime
        monkeypatch.setattr(made, "require_installed", lambda *_: SimpleNamespace(runtime=runtime))
    if verb == "quantize" and case in QUANTIZED:
        fault = "; QNT011" if expected == "wrong" else ""
        with pytest.raises(UsageError, match=f"already has quantized operators{fault}"):
            VERBS[verb](model, tmp_path / "store", **more)
        return
    answer = VERBS[verb](model, tmp_path / "store", **more)
    assert judgement(answer) == expected, answer.summary()
    text = " ".join(answer.summary().split())
    if expected == "cannot be compared":
        assert "identical" not in text and "differ from" not in text
    if expected == "wrong":
        assert answer.status == "default-wrong"
        assert "identical" not in text.replace("identical at level basic", "").replace(OF_WRONG, "")
    if refuted:
        assert "at every optimisation level" in text
    elif expected == "wrong":
        assert "--set level=basic" in text
    if verb in MEASURED:
        assert (answer.exact.right, answer.exact.right_level) == EXACT[case]
        if expected == "rounding":
            assert answer.status == "ok"
        if case == "a wrong default":
            (alert,) = (alert for alert in answer.alerts if alert.code == DEFAULT_WRONG)
            assert "match the model in float64" in alert.fix and "correct" not in alert.fix
    if expected == "wrong" and verb == "bisect":
        assert answer.result.wrong == ("both" if refuted else "A")
    if expected == "wrong" and verb == "compare":
        assert answer.result.wrong_sides == (("A", "B") if refuted else ("A",))


def test_a_side_that_is_wrong_is_named_where_no_time_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controls.Judgement, "ok", property(lambda _: False))
    model = gemm(tmp_path / "m.onnx")
    answer = ortune.compare(model, **LOWER, budget=30, threshold="5%", store=tmp_path / "store")
    assert (answer.verdict, answer.result.wrong_sides) == ("wrong-output", ("A",))
    assert answer.result.comparison is None and exit_code(answer) == 1
    assert any("A/A check" in note for note in answer.result.notes)
    with pytest.raises(MeasurementError, match="A/A check"):
        ortune.compare(
            model,
            a_set={"level": "basic"},
            b_set={"intra": "1", "level": "basic"},
            budget=30,
            store=tmp_path / "store",
        )
