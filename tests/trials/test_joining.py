"""Which input of one model takes which of another's: by name, by order, and never another kind of number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper

from ortune.errors import InputError
from ortune.inputs import feed_files
from ortune.model.open import open_model
from ortune.records import FeedRef
from ortune.trials import pairing

IDS, FLOAT, HALF = TensorProto.INT64, TensorProto.FLOAT, TensorProto.FLOAT16
Values = list[tuple[str, int]]


def model(path: Path, inputs: Values, outputs: Values) -> onnx_ir.Model:
    """Each output is made of the first input; nobody runs it."""
    infos = [[helper.make_tensor_value_info(n, t, [1, 8]) for n, t in each] for each in (inputs, outputs)]
    nodes = [helper.make_node("Cast", [inputs[0][0]], [name], to=kind) for name, kind in outputs]
    graph = helper.make_graph(nodes, "g", *infos)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return open_model(path).ir


@pytest.fixture
def make(tmp_path: Path):
    def make(inputs: Values, outputs: Values = (("y", FLOAT),)) -> onnx_ir.Model:  # type: ignore[assignment]
        return model(tmp_path / f"{len(list(tmp_path.iterdir()))}.onnx", inputs, list(outputs))

    return make


def test_token_ids_take_token_ids_whatever_their_order(make) -> None:
    a, b = make([("embeds", FLOAT), ("ids", IDS)]), make([("tokens", IDS), ("vectors", HALF)])
    assert pairing.pair_inputs(a, b, {}) == {"tokens": "ids", "vectors": "embeds"}


def test_an_input_that_only_another_kind_would_fit_is_refused(make) -> None:
    with pytest.raises(InputError, match="no input of A fits input 'tokens' of C, which is int64"):
        pairing.pair_inputs(make([("embeds", FLOAT)]), make([("tokens", IDS)]), {}, "C")


@pytest.mark.parametrize("given", [{}, {"x": "x"}])
def test_not_even_by_name_are_floats_made_token_ids(make, tmp_path: Path, given: dict[str, str]) -> None:
    a, b = make([("x", FLOAT)]), make([("x", IDS)])
    feed_files.write_feeds(tmp_path / "feeds", {"x": np.full((1, 8), 0.7, np.float32)})
    refs = [FeedRef(name="", path=str(tmp_path / "feeds"), weight=1.0)]
    with pytest.raises(InputError, match="'x' of B is int64, its partner 'x' in A is float"):
        pairing.feeds_for(refs, b, pairing.pair_inputs(a, b, given), tmp_path / "out")


def test_widths_of_one_kind_are_joined(make, tmp_path: Path) -> None:
    a, b = make([("x", FLOAT)]), make([("x", HALF)])
    feed_files.write_feeds(tmp_path / "feeds", {"x": np.full((1, 8), 0.5, np.float32)})
    refs = [FeedRef(name="", path=str(tmp_path / "feeds"), weight=1.0)]
    (made,) = pairing.feeds_for(refs, b, pairing.pair_inputs(a, b, {}), tmp_path / "out")
    assert feed_files.read_feeds(Path(made.path))["x"].dtype == np.float16


def test_outputs_meet_by_name_then_by_order_and_kind(make) -> None:
    a = make([("x", FLOAT)], [("scores", FLOAT), ("label", IDS), ("mask", FLOAT)])
    b = make([("x", FLOAT)], [("top", IDS), ("mask", FLOAT), ("probabilities", HALF), ("more", FLOAT)])
    assert pairing.pair_outputs(a, b) == {"mask": "mask", "top": "label", "probabilities": "scores"}
