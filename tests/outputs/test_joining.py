"""Which input of one model takes which of another's: by name, by order, and never another kind of number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest
from onnx import TensorProto, helper

from onnx_text import assemble
from ortune.errors import InputError
from ortune.graph.model.open import open_model
from ortune.graph.outputs import class_labels
from ortune.inputs import feed_files
from ortune.outputs import pairing
from ortune.records import FeedRef

IDS, FLOAT, HALF = TensorProto.INT64, TensorProto.FLOAT, TensorProto.FLOAT16
Values = list[tuple[str, int]]


def model(path: Path, inputs: Values, outputs: Values, shape: Sequence[int | str] = (1, 8)) -> onnx_ir.Model:
    """Each output is made of the first input; nobody runs it."""
    infos = [[helper.make_tensor_value_info(n, t, shape) for n, t in each] for each in (inputs, outputs)]
    nodes = [helper.make_node("Cast", [inputs[0][0]], [name], to=kind) for name, kind in outputs]
    onnx.save(assemble(nodes, *infos), path)
    return open_model(path).ir


@pytest.fixture
def make(tmp_path: Path):
    def make(
        inputs: Values,
        outputs: Values = (("y", FLOAT),),  # type: ignore[assignment]
        shape: Sequence[int | str] = (1, 8),
    ) -> onnx_ir.Model:
        return model(tmp_path / f"{len(list(tmp_path.iterdir()))}.onnx", inputs, list(outputs), shape)

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
    with pytest.raises(InputError, match="'x' of B is int64, but input 'x' of A is float"):
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


@pytest.mark.parametrize(
    ("of_a", "of_b", "words"),
    [
        (
            (1, 3, 640, 640),
            (1, 3, 384, 640),
            "do different amounts of work: input 'x' is 1x3x640x640 in A, and 1x3x384x640 in C",
        ),
        (
            (1, 3, 64, 64),
            (8, 3, 64, 64),
            "do different amounts of work: input 'x' is 1x3x64x64 in A, and 8x3x64x64 in C",
        ),
        ((1, 128), (1, 512), "do different amounts of work"),
        (("n", 3, 64, 64), ("n", 3, 32, 32), "is ?x3x64x64 in A, and ?x3x32x32 in C"),
        ((1, 3, 64, 32), (1, 64, 32, 3), "take their input in different layouts"),
    ],
)
@pytest.mark.parametrize("name", ["x", "image"])
def test_sides_made_for_other_sizes_are_told_as_that(
    make, name: str, of_a: tuple[int, ...], of_b: tuple[int, ...], words: str
) -> None:
    a, b = make([("x", FLOAT)], shape=of_a), make([(name, FLOAT)], shape=of_b)
    words = words if name == "x" else words.replace(", and ", f", and {name!r} ")
    with pytest.raises(InputError, match=re.escape(words)):
        pairing.pair_inputs(a, b, {}, "C")
    assert pairing.pair_inputs(a, make([(name, FLOAT)], shape=["a", "b", "c", "d"][: len(of_a)]), {})


def test_inputs_that_the_other_side_cannot_take_come_with_the_size_it_takes(make, tmp_path: Path) -> None:
    a, b = make([("x", FLOAT)], shape=["n", 8]), make([("x", FLOAT)], shape=[4, 8])
    feed_files.write_feeds(tmp_path / "feeds", {"x": np.zeros((1, 8), np.float32)})
    refs = [FeedRef(name="", path=str(tmp_path / "feeds"), weight=1.0)]
    with pytest.raises(InputError, match="input 'x' is 1x8 for A, and 4x8 in B") as caught:
        pairing.feeds_for(refs, b, pairing.pair_inputs(a, b, {}), tmp_path / "out")
    assert caught.value.do == "choose A's sizes: --shape x:4x8"


def test_maps_of_classes_meet_the_tensor_of_scores(make) -> None:
    """ZipMap's output has no type of a tensor, and comes after what fits by its own."""
    maps = make([("x", FLOAT)], [("scores", FLOAT), ("label", IDS)])
    maps.graph.outputs[0].type = maps.graph.outputs[0].shape = None
    tensors = make([("x", FLOAT)], [("top", IDS), ("probabilities", FLOAT)])
    assert pairing.pair_outputs(maps, tensors) == {"top": "label", "probabilities": "scores"}
    zipped = onnx_ir.Node("ai.onnx.ml", "ZipMap", [tensors.graph.inputs[0]])
    zipped.attributes["classlabels_strings"] = onnx_ir.AttrStrings("classlabels_strings", ["no", "yes"])
    zipped.outputs[0].name = "probabilities"
    tensors.graph.append(zipped)
    tensors.graph.outputs[1] = zipped.outputs[0]
    pairs = {"probabilities": "scores"}
    assert pairing.joint_labels({}, maps, tensors, pairs) == {"scores": ("no", "yes")}
    assert pairing.joint_labels({"scores": ("a",)}, maps, tensors, pairs) == {"scores": ("a",)}


def test_the_columns_of_a_classifier_are_in_its_own_order() -> None:
    """Whatever order the map on the other side lists them in."""
    path = Path(onnxruntime.__file__).parent / "datasets" / "logreg_iris.onnx"
    maps, columns = (open_model(path).ir.clone() for _ in range(2))
    (zipped,) = (node for node in maps.graph if node.op_type == "ZipMap")
    zipped.attributes["classlabels_int64s"] = onnx_ir.AttrInt64s("classlabels_int64s", [2, 1, 0])
    (zipmap,) = (node for node in columns.graph if node.op_type == "ZipMap")
    columns.graph.outputs[1] = zipmap.inputs[0]
    pairs = {"probability_tensor_normalized": "probabilities"}
    listed = {"probabilities": ("2", "1", "0")}
    assert class_labels(maps) == listed
    assert pairing.joint_labels(listed, maps, columns, pairs) == {"probabilities": ("0", "1", "2")}
