"""The user's own inputs: npz, npy, ONNX test data folders, and what is said when they do not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

from onnx_text import assemble
from ortune.errors import InputError, UsageError
from ortune.inputs import feed_files, input_folders, user_feeds, workload


def net(*inputs):
    values = [h.make_tensor_value_info(name, dtype, dims) for name, dtype, dims in inputs]
    nodes = [h.make_node("Identity", [inputs[0][0]], ["y"])]
    return ir.from_proto(
        assemble(nodes, values, [h.make_tensor_value_info("y", inputs[0][1], None)], ir_version=9)
    )


TWO = net(("ids", T.INT64, ["batch", "seq"]), ("scale", T.FLOAT, [3]))
IDS = np.array([[5, 6, 7]])
SCALE = np.ones(3, np.float32)


def test_npz(tmp_path: Path):
    np.savez(tmp_path / "in.npz", scale=SCALE, ids=IDS)
    (feeds,) = user_feeds.load(tmp_path / "in.npz", TWO)
    assert list(feeds) == ["ids", "scale"]
    chosen = workload.propose(TWO, inputs_path=tmp_path / "in.npz")
    ids = chosen.cases[0].inputs[0]
    assert (ids.shape, ids.origin, ids.low, ids.high) == ((1, 3), "user", 5, 7)
    ((_, again),) = workload.feeds(TWO, chosen)
    np.testing.assert_array_equal(again["ids"], IDS)
    ((_, extreme),) = workload.feeds(TWO, chosen, "extreme")
    assert extreme["ids"].max() <= 7


def test_the_middle_set_decides_the_sizes(tmp_path: Path):
    for number, length in enumerate((90, 3, 12, 4, 40)):
        np.savez(tmp_path / f"{number}.npz", ids=np.zeros((1, length), np.int64), scale=SCALE)
    assert user_feeds.middle_shapes(tmp_path, TWO, "--data") == {"ids": (1, 12), "scale": (3,)}
    (tmp_path / "2.npz").unlink()
    assert user_feeds.middle_shapes(tmp_path, TWO, "--data")["ids"] == (1, 4)


def step(mask: str) -> ir.Model:
    """The inputs of a decoder with its past, whose mask has so many columns."""
    return net(
        ("input_ids", T.INT64, ["batch", "seq"]),
        ("attention_mask", T.INT64, ["batch", mask]),
        ("position_ids", T.INT64, ["batch", "seq"]),
        ("past_key_values.0.key", T.FLOAT, ["batch", 2, "past_seq", 4]),
        ("past_key_values.0.value", T.FLOAT16, ["batch", 2, "past_seq", 4]),
    )


MASKS = pytest.mark.parametrize("mask", ["total_seq", "past_seq + seq"])


@MASKS
def test_of_a_decoder_token_ids_are_enough(mask: str, tmp_path: Path):
    np.savez(tmp_path / "in.npz", input_ids=IDS)
    (feeds,) = user_feeds.load(tmp_path / "in.npz", step(mask))
    np.testing.assert_array_equal(feeds["attention_mask"], [[1, 1, 1]])
    np.testing.assert_array_equal(feeds["position_ids"], [[0, 1, 2]])
    assert feeds["position_ids"].dtype == feeds["attention_mask"].dtype == np.int64
    for part, dtype in (("key", np.float32), ("value", np.float16)):
        past = feeds[f"past_key_values.0.{part}"]
        assert (past.shape, past.dtype) == ((1, 2, 0, 4), dtype)


@MASKS
def test_with_a_past_the_mask_covers_it_and_positions_go_on(mask: str, tmp_path: Path):
    past = {f"past_key_values.0.{part}": np.ones((1, 2, 5, 4)) for part in ("key", "value")}
    past["past_key_values.0.key"] = past["past_key_values.0.key"].astype(np.float32)
    past["past_key_values.0.value"] = past["past_key_values.0.value"].astype(np.float16)
    np.savez(tmp_path / "in.npz", input_ids=IDS, **past)
    (feeds,) = user_feeds.load(tmp_path / "in.npz", step(mask))
    np.testing.assert_array_equal(feeds["attention_mask"], np.ones((1, 8)))
    np.testing.assert_array_equal(feeds["position_ids"], [[5, 6, 7]])
    # A past of which one half is missing does not follow from anything.
    del past["past_key_values.0.value"]
    np.savez(tmp_path / "in.npz", input_ids=IDS, **past)
    with pytest.raises(InputError, match=r"no value for .*past_key_values\.0\.value"):
        user_feeds.load(tmp_path / "in.npz", step(mask))


def test_what_does_not_follow_from_token_ids_is_asked_for(tmp_path: Path):
    np.savez(tmp_path / "in.npz", input_ids=IDS)
    images = net(("input_ids", T.INT64, ["n", "seq"]), ("pixel_values", T.FLOAT, ["n", 3, 8, 8]))
    with pytest.raises(InputError, match="no value for pixel_values"):
        user_feeds.load(tmp_path / "in.npz", images)


def test_npy_for_a_single_input(tmp_path: Path):
    np.save(tmp_path / "x.npy", SCALE)
    (feeds,) = user_feeds.load(tmp_path / "x.npy", net(("x", T.FLOAT, ["n"])))
    np.testing.assert_array_equal(feeds["x"], SCALE)
    with pytest.raises(InputError, match="it holds 1 values and the model has 2 inputs: ids, scale"):
        user_feeds.load(tmp_path / "x.npy", TWO)


def test_test_data_sets_are_equally_weighted_cases(tmp_path: Path):
    for number, length in ((0, 3), (2, 4), (10, 5)):
        folder = tmp_path / f"test_data_set_{number}"
        folder.mkdir()
        values = [np.zeros((1, length), np.int64), SCALE]
        for i, value in enumerate(values):
            (folder / f"input_{i}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())
    chosen = workload.propose(TWO, inputs_path=tmp_path)
    assert [c.inputs[0].shape for c in chosen.cases] == [(1, 3), (1, 4), (1, 5)]
    assert sum(c.weight for c in chosen.cases) == pytest.approx(1)
    assert len(user_feeds.load(tmp_path / "test_data_set_2", TWO)) == 1


def test_string_and_sequence_protobufs(tmp_path: Path):
    text = net(("s", T.STRING, ["n"]))
    tensor = numpy_helper.from_array(np.array(["a", "ü"], dtype=object))
    (tmp_path / "input_0.pb").write_bytes(tensor.SerializeToString())
    (feeds,) = user_feeds.load(tmp_path, text)
    assert feeds["s"].tolist() == ["a", "ü"]

    kind = h.make_sequence_type_proto(h.make_tensor_type_proto(T.FLOAT, ["n"]))
    sequence = numpy_helper.from_list([SCALE, SCALE[:2]])
    (tmp_path / "input_0.pb").write_bytes(sequence.SerializeToString())
    (feeds,) = user_feeds.load(
        tmp_path,
        ir.from_proto(
            assemble([h.make_node("SequenceLength", ["q"], ["y"])], [h.make_value_info("q", kind)], "int64 y")
        ),
    )
    assert [a.shape for a in feeds["q"]] == [(3,), (2,)]


def test_folder_of_feeds_written_before(tmp_path: Path):
    feed_files.write_feeds(tmp_path, {"ids": IDS, "scale": SCALE})
    (feeds,) = user_feeds.load(tmp_path, TWO)
    np.testing.assert_array_equal(feeds["ids"], IDS)


def test_bfloat16_comes_as_bits(tmp_path: Path):
    np.savez(tmp_path / "in.npz", x=np.array([0x3F80, 0x4000], np.uint16))
    (feeds,) = user_feeds.load(tmp_path / "in.npz", net(("x", T.BFLOAT16, ["n"])))
    assert feeds["x"].astype(np.float32).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("arrays", "what", "do"),
    [
        ({"ids": IDS}, "no value for scale", "name the arrays like the model inputs: ids, scale"),
        ({"ids": IDS, "scale": SCALE, "z": SCALE}, "z is not an input", "name the arrays"),
        (
            {"ids": IDS, "scale": np.ones(3)},
            "it is double and the model takes float",
            "array.astype(np.float32)",
        ),
        (
            {"ids": IDS[0], "scale": SCALE},
            "its shape 3 does not fit the model's batchxseq",
            "batch dimension",
        ),
        ({"ids": IDS, "scale": SCALE[:2]}, "its shape 2 does not fit the model's 3", "reshape it"),
    ],
)
def test_what_does_not_fit(tmp_path: Path, arrays, what, do):
    np.savez(tmp_path / "in.npz", **arrays)
    with pytest.raises(InputError) as caught:
        user_feeds.load(tmp_path / "in.npz", TWO)
    assert what in caught.value.what
    assert "in.npz" in caught.value.where
    assert do in caught.value.do


def test_shared_dimensions_must_agree(tmp_path: Path):
    np.savez(tmp_path / "in.npz", a=np.zeros((1, 3), np.float32), b=np.zeros((1, 4), np.float32))
    two = net(("a", T.FLOAT, ["n", "seq"]), ("b", T.FLOAT, ["n", "seq"]))
    with pytest.raises(InputError, match=r"its shape 1x4 does not fit the model's nxseq \(n=1, seq=3\)"):
        user_feeds.load(tmp_path / "in.npz", two)


def test_unreadable_files(tmp_path: Path):
    with pytest.raises(InputError, match="no such file"):
        user_feeds.load(tmp_path / "none.npz", TWO)
    with pytest.raises(InputError, match="the folder contains no inputs"):
        user_feeds.load(tmp_path, TWO)
    (tmp_path / "bad.npz").write_bytes(b"not a zip")
    with pytest.raises(InputError, match="it cannot be read"):
        user_feeds.load(tmp_path / "bad.npz", TWO)
    np.save(tmp_path / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="would run code"):
        user_feeds.load(tmp_path / "pickled.npy", TWO)
    (tmp_path / "input_0.pb").write_bytes(b"\xff\xff\xff")
    with pytest.raises(InputError, match="neither a tensor nor a sequence"):
        user_feeds.load(tmp_path, net(("x", T.FLOAT, ["n"])))


def test_inputs_exclude_shapes(tmp_path: Path):
    with pytest.raises(UsageError, match="cannot be combined"):
        workload.propose(TWO, inputs_path=tmp_path, shapes={"ids": (1, 2)})


def test_workload_of_another_model_is_refused():
    other = net(("x", T.FLOAT, ["n"]))
    with pytest.raises(InputError, match="belongs to a model with different inputs"):
        workload.feeds(other, workload.propose(TWO))


def test_map_input_is_refused():
    value = ir.Value(name="m")
    graph = ir.Graph([value], [], nodes=[], opset_imports={"": 17})
    with pytest.raises(InputError, match="neither a tensor, a sequence nor an optional"):
        workload.propose(ir.Model(graph, ir_version=9))


def test_of_a_folder_with_many_inputs_eight_are_timed(tmp_path: Path):
    for number in range(20):
        np.savez(tmp_path / f"{number}.npz", scale=np.full(3, number, np.float32), ids=IDS)
    timed = [values["scale"][0] for values in user_feeds.load(tmp_path, TWO)]
    assert timed == [0, 2, 5, 7, 10, 12, 15, 17]
    assert input_folders.left_out(tmp_path).startswith("8 of 20 inputs")
    assert len(user_feeds.labelled(tmp_path, TWO)) == 20  # a calibration reads all
    work = workload.propose(TWO, inputs_path=tmp_path)
    assert len(workload.feeds(TWO, work)) == len(work.cases) == 8
    for number in range(15):
        (tmp_path / f"{number}.npz").unlink()
    with pytest.raises(InputError, match="5 inputs, and the workload has 8"):
        workload.feeds(TWO, work)
