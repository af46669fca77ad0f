"""Models that are written with their weights in a file of their own load in ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from onnx_text import assemble
from ortune.errors import ModelError, UsageError
from ortune.graph.model.open import open_model
from ortune.graph.model.save import deliver_model, save_model, staged_model
from ortune.temporary import ALIVE

WIDE = np.linspace(-1, 1, 600, dtype=np.float32)

SIZES = """
<ir_version: 8, opset_import: ["" : 17]>
sizes (float[2,600] x) => (float[2,8] y)
<int64[3] shape = {2,150,4}, int64[1] start = {0}, int64[1] end = {2}, int64[1] axis = {1}, int64[2] flat = {2,8}>
{
    a = Add (x, w)
    r = Reshape (a, shape)
    s = Slice (r, start, end, axis)
    y = Reshape (s, flat)
}
"""
BRANCHES = """
<ir_version: 8, opset_import: ["" : 17]>
branches (float[2,600] x, bool first) => (float[m,n] y)
{
    y = If (first) <
        then_branch = one () => (float[2,600] a) { a = Add (x, w) },
        else_branch = other () => (float[600,2] b) <int64[2] shape = {600,2}> { b = Reshape (x, shape) }
    >
}
"""
ROUNDS = """
<ir_version: 8, opset_import: ["" : 17]>
rounds (float[2,600] x, int64 n) => (float[2,600] y)
{
    y = Loop (n, , x) <
        body = once (int64 i, bool on, float[2,600] was) => (bool still, float[2,600] now)
            <int64[3] shape = {2,4,150}, int64[2] back = {2,600}>
        {
            still = Identity (on)
            a = Add (was, w)
            r = Reshape (a, shape)
            now = Reshape (r, back)
        }
    >
}
"""


def with_weight(text: str, *, in_branch: bool = False) -> onnx.ModelProto:
    """A model with the weight that its text leaves out: in the graph, or in the first graph of its node."""
    model = onnx.parser.parse_model(text)
    graph = model.graph.node[0].attribute[0].g if in_branch else model.graph
    graph.initializer.append(numpy_helper.from_array(WIDE, "w"))
    return model


def many_parts() -> onnx.ModelProto:
    """A Split whose sizes take more bytes than a small tensor, and a weight as long as they are."""
    names = [f"part{i}" for i in range(300)]
    nodes = [
        helper.make_node("Add", ["x", "w"], ["a"]),
        helper.make_node("Split", ["a", "sizes"], names, axis=1),
        helper.make_node("Concat", names[::-1], ["y"], axis=1),
    ]
    sides = [helper.make_tensor_value_info(name, 1, [2, 600]) for name in ("x", "y")]
    sizes = numpy_helper.from_array(np.full(300, 2, np.int64), "sizes")
    held = [numpy_helper.from_array(WIDE, "w"), sizes]
    return assemble(nodes, sides[:1], sides[1:], held, name="parts")


def outputs(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)


@pytest.mark.parametrize(
    ("model", "more"),
    [
        (with_weight(SIZES), {}),
        (many_parts(), {}),
        (with_weight(BRANCHES, in_branch=True), {"first": np.array(True)}),
        (with_weight(BRANCHES, in_branch=True), {"first": np.array(False)}),
        (with_weight(ROUNDS, in_branch=True), {"n": np.array(3)}),
    ],
    ids=["sizes", "split", "then", "else", "loop"],
)
def test_weights_move_out_and_sizes_stay(
    tmp_path: Path, model: onnx.ModelProto, more: dict[str, np.ndarray]
) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 600)).astype(np.float32), **more}
    before = outputs(tmp_path / "m.onnx", feeds)
    place = tmp_path / "copy.onnx"
    save_model(open_model(tmp_path / "m.onnx").ir, place, inline_limit_bytes=0)
    (tmp_path / "m.onnx").unlink()
    for old, new in zip(before, outputs(place, feeds), strict=True):
        np.testing.assert_array_equal(old, new)
    (weight,) = open_model(place).external
    assert (weight.name, place.with_name("copy.onnx.data").stat().st_size) == ("w", WIDE.nbytes)


def test_a_model_beyond_the_limit_is_delivered_with_its_weights_from_another_folder(tmp_path: Path) -> None:
    """As one beyond 2 GiB is: the weights are read where they lie, and written beside the new model."""
    (tmp_path / "old" / "weights").mkdir(parents=True)
    (tmp_path / "new").mkdir()
    old, new = tmp_path / "old" / "m.onnx", tmp_path / "new" / "m.onnx"
    model = with_weight(SIZES)
    onnx.save(model, old, save_as_external_data=True, location="weights/w.bin", size_threshold=1024)
    feeds = {"x": np.ones((2, 600), np.float32)}
    before = outputs(old, feeds)
    with staged_model(open_model(old).ir, new, external=True) as staged:
        assert staged.is_relative_to(new.parent) and staged != new
        np.testing.assert_array_equal(outputs(staged, feeds)[0], before[0])
        deliver_model(staged, new, typed=False, replace=False)
    assert sorted(p.name for p in new.parent.iterdir()) == ["m.onnx", "m.onnx.data"]
    np.testing.assert_array_equal(outputs(new, feeds)[0], before[0])


def test_a_staged_model_that_is_not_delivered_is_gone(tmp_path: Path) -> None:
    onnx.save(with_weight(SIZES), tmp_path / "m.onnx")
    with staged_model(open_model(tmp_path / "m.onnx").ir, tmp_path / "n.onnx", external=True):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_what_a_killed_process_left_beside_a_model_is_gone_and_the_rest_stays(tmp_path: Path) -> None:
    onnx.save(with_weight(SIZES), tmp_path / "m.onnx")
    (tmp_path / "precious").mkdir()
    for place in (".ortune-dead", ".ortune-other", "ortune-plain", ".ortune-linked"):
        if place.endswith("linked"):
            (tmp_path / place).symlink_to(tmp_path / "precious")
        else:
            (tmp_path / place).mkdir()
    for place in (".ortune-dead", "ortune-plain", "precious"):
        (tmp_path / place / ALIVE).touch()
    (tmp_path / ".ortune-dead" / "model").mkdir()
    (tmp_path / ".ortune-dead" / "model" / "n.onnx").write_bytes(b"a model")
    model = open_model(tmp_path / "m.onnx").ir
    rest = {"m.onnx", "precious", ".ortune-other", "ortune-plain", ".ortune-linked"}
    with staged_model(model, tmp_path / "n.onnx", external=True) as first:
        with staged_model(model, tmp_path / "n.onnx", external=True):
            assert first.exists(), "somebody lives there"
        deliver_model(first, tmp_path / "n.onnx", typed=True, replace=False)
    assert {p.name for p in tmp_path.iterdir()} == rest | {"n.onnx", "n.onnx.data"}
    assert (tmp_path / "precious" / ALIVE).exists()


@pytest.mark.parametrize("chain", [1, 2])
def test_a_model_with_a_file_of_weights_is_not_written_through_a_link(tmp_path: Path, chain: int) -> None:
    """ONNX Runtime would find the weights beside the link, or beside what it leads to, and never both."""
    onnx.save(with_weight(SIZES), tmp_path / "m.onnx")
    real, link = tmp_path / "real.onnx", tmp_path / "links" / "out.onnx"
    real.write_bytes(b"what was there")
    link.parent.mkdir()
    goal = real
    for number in range(1, chain):
        goal = tmp_path / f"{number}.onnx"
        goal.symlink_to(real)
    link.symlink_to(goal)
    model = open_model(tmp_path / "m.onnx").ir
    with (
        pytest.raises(ModelError, match="The output is a symbolic link") as caught,
        staged_model(model, link, external=True),
    ):
        pass
    assert str(real) in caught.value.do and real.read_bytes() == b"what was there"
    with staged_model(model, link, external=False) as staged:
        deliver_model(staged, link, typed=True, replace=True)
    assert link.is_symlink() and onnx.load(real).graph.name == "sizes"
    assert [p.name for p in link.parent.iterdir()] == ["out.onnx"]


@pytest.mark.parametrize("output", ["new.onnx", "shared.onnx.data"])
def test_a_file_of_weights_that_another_model_reads_is_not_replaced(tmp_path: Path, output: str) -> None:
    """Neither by weights nor by a model, in whichever way it is asked for; what nobody else reads may be replaced."""
    onnx.save(with_weight(SIZES), tmp_path / "m.onnx")
    model = open_model(tmp_path / "m.onnx").ir
    place = tmp_path / output
    weights = place.with_name(f"{output}.data") if output.endswith(".onnx") else place
    save_model(model, tmp_path / "other.onnx", inline_limit_bytes=0)
    other = onnx.load(tmp_path / "other.onnx", load_external_data=False)
    for tensor in other.graph.initializer:
        for entry in tensor.external_data:
            entry.value = weights.name if entry.key == "location" else entry.value
    onnx.save(other, tmp_path / "other.onnx")
    (tmp_path / "other.onnx.data").rename(weights)
    before = weights.read_bytes()
    with (
        staged_model(model, place, external=True) as staged,
        pytest.raises(UsageError, match=r"holds the weights of other\.onnx"),
    ):
        deliver_model(staged, place, typed=True, replace=True)
    assert weights.read_bytes() == before and place.exists() == (place == weights)
    (tmp_path / "other.onnx").rename(tmp_path / "new.onnx" if place != weights else tmp_path / "other.txt")
    with staged_model(model, place, external=True) as staged:
        deliver_model(staged, place, typed=True, replace=True)
    feeds = {"x": np.ones((2, 600), np.float32)}
    np.testing.assert_array_equal(outputs(place, feeds)[0], outputs(tmp_path / "m.onnx", feeds)[0])
