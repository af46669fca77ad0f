"""What the user says about inputs; seeds and kinds of feeds; workloads and feeds as files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from input_models import (
    by_name,
    classifier,
    encoder,
    gpt2_step,
    one_node,
    proposed,
)
from onnx import TensorProto as T

from ortune.errors import InputError
from ortune.inputs import feed_files, workload, written_sizes


def test_mix_of_sizes_makes_weighted_cases():
    chosen = proposed(encoder(512), dims=dict([written_sizes.parse_dim("seq=16:3,128:1")]))
    assert [(c.name, c.weight, c.inputs[0].shape) for c in chosen.cases] == [
        ("seq=16", 0.75, (1, 16)),
        ("seq=128", 0.25, (1, 128)),
    ]
    assert "2 cases: seq=16 (75 %), seq=128 (25 %)" in workload.describe(chosen)


def test_shape_decides_and_is_not_guessed():
    chosen = by_name(proposed(one_node("Relu", T.FLOAT, ["n", 3, "h", "w"]), shapes={"x": (2, 3, 32, 48)}))[
        "x"
    ]
    assert (chosen.shape, chosen.origin, chosen.guessed) == ((2, 3, 32, 48), "user", False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"shapes": {"nope": (1,)}},
            "--shape nope: the model has no input with this name; available: 'tokens'",
        ),
        ({"shapes": {"tokens": (1, 2, 3)}}, "--shape tokens: 1x2x3 does not fit the model's batchxseq"),
        ({"dims": {"nope": ((1, 1.0),)}}, "--dim nope: the model has no dynamic dimension with this name"),
        (
            {"shapes": {"tokens": (1, 2)}, "dims": {"seq": ((3, 1.0),)}},
            "--shape makes it 2 and --dim seq makes it 3",
        ),
    ],
)
def test_what_does_not_fit_is_one_clear_error(options, said):
    with pytest.raises(InputError) as caught:
        workload.propose(ir.from_proto(encoder()), **options)
    assert said in str(caught.value)
    assert caught.value.do


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("x:1x3x320x320", ("x", (1, 3, 320, 320))), ("a:0:2", ("a:0", (2,))), ("sr:", ("sr", ()))],
)
def test_shape_option(text, parsed):
    assert written_sizes.parse_shape(text) == parsed


@pytest.mark.parametrize("text", ["x", "x:1xb", ":3", "x:-1x3", "x:1x"])
def test_bad_shape_option(text):
    with pytest.raises(InputError, match="not a valid shape"):
        written_sizes.parse_shape(text)


@pytest.mark.parametrize("text", ["seq", "seq=", "=3", "seq=a", "seq=1:0", "seq=-4", "seq=1:nan"])
def test_bad_dim_option(text):
    with pytest.raises(InputError) as caught:
        written_sizes.parse_dim(text)
    assert "--dim seq=" in caught.value.do


def test_feeds_follow_the_seed_and_differ_by_kind():
    net = ir.from_proto(classifier(28))
    chosen = workload.propose(net, seed=7)
    ((_, first),), ((_, again),) = workload.feeds(net, chosen), workload.feeds(net, chosen)
    np.testing.assert_array_equal(first["image"], again["image"])
    ((_, other),) = workload.feeds(net, workload.propose(net, seed=8))
    assert not np.array_equal(first["image"], other["image"])
    ((_, zeros),) = workload.feeds(net, chosen, "zeros")
    ((_, extreme),) = workload.feeds(net, chosen, "extreme")
    assert not zeros["image"].any()
    assert set(np.unique(extreme["image"])) == {0.0, 1.0}


def test_workload_is_saved_and_loaded(tmp_path: Path):
    chosen = proposed(gpt2_step(), gap_ns=5, custom_ops=("lib.so",))
    workload.save(tmp_path / "workload.json", chosen)
    assert workload.load(tmp_path / "workload.json", ("lib.so",)) == chosen
    (tmp_path / "bad.json").write_text('{"cases": 3}')
    with pytest.raises(InputError, match=r"bad\.json: not a workload file"):
        workload.load(tmp_path / "bad.json")


def test_feeds_survive_the_folder(tmp_path: Path):
    bfloat16, float8, int4 = (ir.DataType[n].numpy() for n in ("BFLOAT16", "FLOAT8E4M3FN", "INT4"))
    feeds = {
        "f": np.arange(6, dtype=np.float32).reshape(2, 3),
        "s": np.array([["ä b", ""]]),
        "h": np.array([1.5, -2], bfloat16),
        "q": np.array([0.5, 2], float8),
        "n": np.array([[-8, 7, -1]], int4),
        "scalar": np.array(16000, np.int64),
        "seq": [np.zeros((1, 2), np.float16), np.ones((3, 2), np.float16)],
        "none": None,
    }
    feed_files.write_feeds(tmp_path / "feeds", feeds)
    back = feed_files.read_feeds(tmp_path / "feeds")
    assert back.keys() == feeds.keys()
    assert back["none"] is None
    for name in ("f", "s", "h", "q", "n", "scalar"):
        assert (back[name].dtype, back[name].shape) == (feeds[name].dtype, feeds[name].shape)
        np.testing.assert_array_equal(back[name].astype(object), feeds[name].astype(object))
    assert [a.shape for a in back["seq"]] == [(1, 2), (3, 2)]
    stored = np.load(tmp_path / "feeds" / "2.npy", allow_pickle=False)
    assert stored.dtype == np.uint16


def test_damaged_feeds_folder_is_one_error(tmp_path: Path):
    feed_files.write_feeds(tmp_path, {"x": np.zeros(3)})
    (tmp_path / "0.npy").unlink()
    with pytest.raises(InputError, match="the feeds cannot be read"):
        feed_files.read_feeds(tmp_path)


@pytest.mark.parametrize("seed", [-1, 2**31, 10**30])
def test_a_seed_that_no_generator_takes_is_refused(seed):
    model = ir.from_proto(one_node("Relu", T.FLOAT, [2]))
    with pytest.raises(InputError, match="is not a valid seed"):
        workload.feeds(model, workload.propose(model, seed=seed))


@pytest.mark.parametrize(
    ("name", "notes"),
    [
        ("seqlen", ("--dim seqlen was taken for 'seq'",)),
        ("seq_length", ("--dim seq_length was taken for 'seq'",)),
        ("seq", ()),
    ],
)
def test_a_size_that_is_taken_for_another_name_is_said(name, notes):
    chosen = workload.propose(ir.from_proto(encoder()), dims={name: ((16, 1.0),)})
    assert tuple(note for note in chosen.notes if "--dim" in note) == notes
