"""Does a row's answer depend on the rest of its batch, or on padding: asked by running it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ortune
from onnx_text import model_of, saved
from ortune.answer import Answer
from ortune.measuring import row_check
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.scratch import scratch_folder
from ortune.measuring.sides import SideText, resolve
from ortune.outputs.files import Array
from ortune.records import Plan, RowCheck, RowDifference
from ortune.store.db import SessionLog
from simulated_machine import Lab, measuring_on

LAB = Lab(1)
DRAW = np.random.default_rng(0)
WEIGHTS: dict[str, Array] = {
    "table": DRAW.standard_normal((4096, 8)).astype(np.float32),
    "w": DRAW.standard_normal((8, 8)).astype(np.float32),
    "q": DRAW.integers(-127, 128, (8, 8)).astype(np.int8),
    "kernel": DRAW.standard_normal((8, 8, 3)).astype(np.float32),
    "unit": np.array(1, np.float32),
    "huge": np.array(1e9, np.float32),
    "one": np.array([1], np.int64),
    "flat": np.array([1, -1, 8], np.int64),
    "rows": np.array([-1, 16, 8], np.int64),
    "other": np.array([16, -1, 8], np.int64),
}
IDS = "g (int64[b,s] input_ids, int64[b,s] attention_mask) => (float[b,s,8] y)"
WEIGHTS["table"][0] *= 4  # of padding, which nobody trained to be small
BATCH = "g (float[batch,16,8] x) => (float[batch,16,8] y)"
RANGE = "i, a, z = DynamicQuantizeLinear (e)\n p = MatMulInteger (i, q, z)\n f = Cast <to = 1> (p)\n y = Mul (f, a)"
ATTENTION = (
    "m = Cast <to = 1> (attention_mask)\n u = Unsqueeze (m, one)\n t = Transpose <perm = [0, 2, 1]> (e)\n "
    "s = MatMul (e, t)\n n = Sub (u, unit)\n h = Mul (n, huge)\n r = Add (s, h)\n p = Softmax (r)\n y = MatMul (p, e)"
)


@pytest.fixture(autouse=True, scope="module")
def simulated() -> Iterator[None]:
    """Outputs are real, and asked for once by all tests."""
    with measuring_on(LAB):
        yield


def _model(folder: Path, text: str) -> Path:
    words = set(text.translate(str.maketrans("(),", "   ")).split())
    used = {name: value for name, value in WEIGHTS.items() if name in words}
    return saved(folder / "m.onnx", model_of(text, weights=used))


def _checked(model: Path, inputs: Path | None = None) -> RowCheck | None:
    with scratch_folder() as scratch:
        side = resolve(SideText(text=str(model)), common=Plan(), scratch=scratch)
        options = InputOptions(inputs=inputs)
        baseline = Measuring(side, options, scratch, SessionLog(None, ""), lambda text: None, LAB.machine())
        baseline.find_inputs(60.0)
        return row_check.check_base(baseline, np.inf)


def _by(check: RowCheck | None) -> Mapping[str, RowDifference]:
    assert check is not None
    return {row.by: row for row in check.compared}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("y = Softmax <axis = 0> (x)", id="softmax over the batch"),
        pytest.param(
            "r = Reshape (x, flat)\n s = Softmax <axis = 1> (r)\n y = Reshape (s, rows)",
            id="one axis of all tokens",
        ),
        pytest.param(
            "r = Reshape (x, other)\n s = Softmax <axis = 1> (r)\n y = Reshape (s, rows)",
            id="another size first",
        ),
        pytest.param("m = ReduceMax (x)\n y = Div (x, m)", id="largest of everything"),
    ],
)
def test_rows_that_are_combined_differ_in_a_batch(tmp_path: Path, body: str) -> None:
    """By far more than rounding."""
    row = _by(_checked(_model(tmp_path, f"{BATCH} {{ {body} }}")))["batch"]
    assert row.differs and row.outputs.relative_l2 > 0.01
    assert (row.alone, row.size) == (1, 2)


def test_a_range_over_the_batch_shows_in_both(tmp_path: Path) -> None:
    """In company, and with padding that mask and table know nothing of."""
    rows = _by(_checked(_model(tmp_path, f"{IDS} {{ e = Gather (table, input_ids)\n {RANGE} }}")))
    assert rows["batch"].differs and rows["padding"].differs
    assert 1e-4 < rows["batch"].outputs.relative_l2 < 0.1


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{IDS} {{ e = Gather (table, input_ids)\n {ATTENTION} }}", id="masked attention"),
        pytest.param(f"{BATCH} {{ p = MatMul (x, w)\n y = Softmax <axis = 1> (p) }}", id="tokens of a row"),
        pytest.param(
            "g (float[batch,8,16] x) => (float[batch,8,14] y) { y = Conv (x, kernel) }", id="convolution"
        ),
    ],
)
def test_rows_that_stay_apart_do_not_differ(tmp_path: Path, text: str) -> None:
    """Whatever they are compared by."""
    check = _checked(_model(tmp_path, text))
    assert check is not None and check.compared and not check.differing


def test_padding_that_a_convolution_sees_differs(tmp_path: Path) -> None:
    """The mask hides it from nobody who does not read it."""
    text = f"{IDS} {{ e = Gather (table, input_ids)\n m = ReduceMean <axes = [1]> (e)\n y = Add (e, m) }}"
    rows = _by(_checked(_model(tmp_path, text)))
    assert rows["padding"].differs and not rows["batch"].differs


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("g (float[1,8] x) => (float[1,8] y) { y = Softmax <axis = 0> (x) }", id="one row"),
        pytest.param(
            "g (float[frames,8] x) => (float[frames,8] y) { y = Softmax <axis = 0> (x) }", id="no batch"
        ),
        pytest.param(
            "g (float[batch,8] x) => (float[batch,8] y) { r = RandomNormalLike (x)\n y = Add (x, r) }",
            id="random",
        ),
    ],
)
def test_nothing_is_asked_where_nothing_can_be_told(tmp_path: Path, text: str) -> None:
    """Of one row, of no row, or of what differs from itself."""
    assert _checked(_model(tmp_path, text)) is None


def test_a_batch_that_the_model_refuses_tells_nothing(tmp_path: Path) -> None:
    """Its padding is compared all the same."""
    body = "z = Constant <value_ints = [1, 128]> ()\n f = Reshape (x, z)\n y = Reshape (f, rows)"
    check = _checked(_model(tmp_path, f"{BATCH} {{ {body} }}"))
    assert check is not None and not check.compared


def test_the_users_own_rows_are_compared(tmp_path: Path) -> None:
    """A large row of theirs beside the first makes its steps coarse."""
    text = f"g (float[batch,8] e) => (float[batch,8] y) {{ {RANGE} }}"
    x = np.stack([np.linspace(-1, 1, 8), 50 * np.linspace(-1, 1, 8)]).astype(np.float32)
    np.savez(tmp_path / "x.npz", e=x)
    row = _by(_checked(_model(tmp_path, text), tmp_path / "x.npz"))["batch"]
    assert row.differs and row.size == 4 and row.outputs.relative_l2 > 0.05


def test_a_bench_of_a_batch_says_it_first(tmp_path: Path) -> None:
    """Of one row nobody has company, and a look says it as a finding."""
    model = _model(tmp_path, f"{BATCH} {{ y = Softmax <axis = 0> (x) }}")
    options = {"budget": "60s", "store": tmp_path / "store"}
    of_four = ortune.bench(model, dim=["batch=4"], processes=3, runs=3, **options)
    assert [alert.code for alert in of_four.alerts] == ["MSR015"]
    assert not ortune.bench(model, processes=3, runs=3, **options).alerts
    look = ortune.look(model, **options)
    assert not look.alerts and look.result is not None
    codes = [finding.code for finding in look.result.findings]
    assert "MSR015" in codes and "GRA029" not in codes


MIXED = BATCH + " { [mix] e = Softmax <axis = 0> (x) \n y = MatMul (e, w) }"
RANGED = BATCH + " { e = Identity (x)\n " + RANGE + " }"
APART = BATCH + " { e = Identity (x)\n y = MatMul (e, w) }"


def _of_verb(verb: str, model: Path, folder: Path, budget: float) -> Answer[Any]:
    x = folder / "x.npz"
    np.savez(x, x=DRAW.standard_normal((4, 16, 8)).astype(np.float32))
    common = {"inputs": x, "budget": budget, "store": folder / "store"}
    if verb == "tune":
        return ortune.tune(model, bundle=False, **common)
    if verb == "B of compare":
        apart = _model(folder / "apart", APART)
        return ortune.compare(apart, model, **common)
    if verb == "compare":
        return ortune.compare(model, b_set={"intra": "1"}, **common)
    return getattr(ortune, verb)(model, **common)


@pytest.mark.parametrize("verb", ["tune", "diagnose", "bench", "compare", "B of compare"])
@pytest.mark.parametrize(
    ("text", "node"), [(MIXED, "mix"), (RANGED, "DynamicQuantizeLinear")], ids=["nodes", "ranges"]
)
def test_every_verb_that_feeds_a_batch_says_that_rows_meet(
    verb: str, text: str, node: str, tmp_path: Path
) -> None:
    for folder in ("apart", "mixed"):
        (tmp_path / folder).mkdir()
    answer = _of_verb(verb, _model(tmp_path / "mixed", text), tmp_path, 20)
    (alert,) = (alert for alert in answer.alerts if alert.code == "MSR015")
    assert node in alert.what and alert.what.startswith("B: ") == (verb == "B of compare")


@pytest.mark.parametrize("verb", ["tune", "compare", "B of compare"])
def test_the_graph_tells_it_where_there_is_no_time(verb: str, tmp_path: Path) -> None:
    for folder in ("apart", "mixed"):
        (tmp_path / folder).mkdir()
    answer = _of_verb(verb, _model(tmp_path / "mixed", MIXED), tmp_path, 0.1)
    (alert,) = (alert for alert in answer.alerts if alert.code in ("MSR015", "GRA029"))
    assert "mix" in alert.what
