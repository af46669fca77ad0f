"""``lock --check``: what is fed again, and what is claimed of another file, processor or figure."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ortune
from facts import facts
from onnx_text import assemble
from ortune.engines.locks.check import differences
from ortune.errors import UsageError
from ortune.measuring.watcher import Watcher
from ortune.records import LockChange, Snapshot
from ortune.verbs.lock import run as lock
from ortune.verbs.lock import words as lock_words
from ortune.verbs.lock.result import LockResult
from within import program

PYTHON = sys.executable


def saved(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[int | str]],
    outputs: dict[str, list[int | str]],
    weights: dict[str, np.ndarray[Any, Any]] | None = None,
) -> Path:
    """A model of float values."""
    given, made = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in values.items()]
        for values in (inputs, outputs)
    )
    held = [numpy_helper.from_array(values, name) for name, values in (weights or {}).items()]
    onnx.save(assemble(nodes, given, made, held), path)
    return path


def two_layers(path: Path, *, exchanged: bool = False, prefix: str = "", as_nodes: bool = False) -> Path:
    """Two products with weights of one shape, behind noise, so that no output tells which weight is where."""
    a, b = (np.full((4, 4), value, np.float32) for value in (0.5, 2.0))
    weights = {f"{prefix}a": b if exchanged else a, f"{prefix}b": a if exchanged else b}
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], [f"{prefix}r"]),
        helper.make_node("MatMul", [f"{prefix}r", f"{prefix}a"], [f"{prefix}m"]),
        helper.make_node("Relu", [f"{prefix}m"], [f"{prefix}n"]),
        helper.make_node("MatMul", [f"{prefix}n", f"{prefix}b"], ["y"]),
    ]
    if as_nodes:
        held = [numpy_helper.from_array(values, name) for name, values in weights.items()]
        nodes = [helper.make_node("Constant", [], [t.name], value=t) for t in held] + nodes
        weights = {}
    return saved(path, nodes, {"x": [2, 4]}, {"y": [2, 4]}, weights)


def classes(path: Path, count: int, batch: int | str = 1) -> Path:
    """A classifier with so many classes."""
    weights = {"w": np.ones((4, count), np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    return saved(path, nodes, {"x": [batch, 4]}, {"y": [batch, count]}, weights)


def snapshot(path: Path, **options: Any) -> Snapshot:
    """What a lock of a model holds."""
    result: LockResult = ortune.lock(path, output=path.with_suffix(".json"), python=PYTHON, **options).result
    return result.snapshot


def told(was: Snapshot, now: Snapshot, **options: Any) -> list[str]:
    return [lock_words.sentence(c) for c in differences(was, now, **options).changes]


def headline(was: Snapshot, now: Snapshot, **options: Any) -> str:
    found = differences(was, now, **options)
    return lock_words.headline(was, now, found.changes, (), found.tolerance_ratio)


@pytest.fixture(scope="module")
def ten(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Of a classifier of ten classes."""
    return snapshot(classes(tmp_path_factory.mktemp("ten") / "m.onnx", 10))


def test_weights_that_change_places_are_no_names(tmp_path: Path) -> None:
    was = snapshot(two_layers(tmp_path / "a.onnx"))
    assert told(was, snapshot(two_layers(tmp_path / "b.onnx", exchanged=True))) == ["another file"]
    for name, same in (
        ("c", snapshot(two_layers(tmp_path / "c.onnx", prefix="net/"))),
        ("d", snapshot(two_layers(tmp_path / "d.onnx", as_nodes=True))),
    ):
        (line,) = told(was, same)
        facts(line, "another file", "names or order")
        older = msgspec.structs.replace(was, model=msgspec.structs.replace(was.model, contents=""))
        assert told(older, same) == ["another file"], name


def two_inputs(path: Path) -> Path:
    nodes = [helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Sin", ["b"], ["z"])]
    return saved(path, nodes, {"a": ["n", "c"], "b": ["m", "c"]}, {"y": ["n", "c"], "z": ["m", "c"]})


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two inputs whose sizes and seed are locked."""
    path = two_inputs(tmp_path_factory.mktemp("fed") / "two.onnx")
    ortune.lock(path, shape=["a:3x4", "b:5x4"], seed=7, python=PYTHON)
    return path


@pytest.mark.parametrize(
    ("options", "shapes", "seed"),
    [
        ({"shape": ["a:3x4"]}, {"a": (3, 4), "b": (5, 4)}, 7),
        ({"dim": ["n=2"]}, {"a": (2, 4), "b": (5, 4)}, 7),
        ({"shape": ["a:3x6"]}, {"a": (3, 6), "b": (5, 6)}, 7),
        ({"seed": 0}, {"a": (3, 4), "b": (5, 4)}, 0),
    ],
)
def test_a_check_keeps_of_the_lock_what_is_not_given(
    options: dict[str, Any], shapes: dict[str, tuple[int, ...]], seed: int, fed: Path
) -> None:
    found = ortune.lock(fed, check=True, python=PYTHON, **options)
    run = found.result.snapshot.run
    assert (run.shapes, run.seed) == (shapes, seed)
    if shapes == {"a": (3, 4), "b": (5, 4)} and seed == 7:
        assert (found.verdict, found.result.changes, found.result.notes) == ("unchanged", (), ())
    # Other sizes take other memory: told, and no failure of the model.
    assert not [c for c in found.result.changes if c.part == "peak-memory" and c.fails]


def test_a_check_runs_the_model_on_nothing_but_the_locked_sizes(fed: Path) -> None:
    """Guessed ones may not run, or be of another size altogether."""
    texts: list[str] = []
    lock.run(
        lock.Options(model=fed, check=True, runtime=PYTHON),
        Watcher(say=texts.append, step=lambda step: texts.append(step.text)),
    )
    inputs = [text for text in texts if text.startswith("inputs: ")]
    assert len(inputs) == 2
    assert all("a 3x4" in text and "b 5x4" in text for text in inputs), inputs


def test_what_is_given_wins_over_a_locked_size_that_must_be_equal(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("MatMul", ["s", "w"], ["y"])]
    weights = {"w": np.ones((4, 4), np.float32)}
    path = saved(tmp_path / "m.onnx", nodes, {"a": ["n", 4], "b": ["m", 4]}, {"y": ["n", 4]}, weights)
    ortune.lock(path, dim=["n=5", "m=5"], python=PYTHON)
    found = ortune.lock(path, check=True, dim=["n=3"], python=PYTHON)
    assert found.result.snapshot.run.shapes == {"a": (3, 4), "b": (3, 4)}


def test_several_sets_of_inputs_are_no_matter_of_dim(tmp_path: Path) -> None:
    path = classes(tmp_path / "m.onnx", 10)
    for n in range(2):
        folder = tmp_path / "data" / f"test_data_set_{n}"
        folder.mkdir(parents=True)
        tensor = numpy_helper.from_array(np.ones((1, 4), np.float32), "x")
        (folder / "input_0.pb").write_bytes(tensor.SerializeToString())
    with pytest.raises(UsageError) as caught:
        snapshot(path, inputs=tmp_path / "data")
    assert caught.value.where.startswith("inputs=")
    assert "test_data_set_N" in caught.value.do
    assert snapshot(path, inputs=tmp_path / "data" / "test_data_set_1").run.inputs == "test_data_set_1"


def test_placement_is_compared_on_the_same_processor_alone(ten: Snapshot) -> None:
    was = ten
    placed = [
        msgspec.structs.replace(was, run=msgspec.structs.replace(was.run, placement=placement))
        for placement in ({"A": 3, "CPUExecutionProvider": 12}, {"A": 3, "CPUExecutionProvider": 15})
    ]
    assert told(*placed) == ["nodes on CPUExecutionProvider 12 -> 15"]
    elsewhere = msgspec.structs.replace(
        placed[1], hardware=msgspec.structs.replace(was.hardware, features=("other",))
    )
    found = differences(placed[0], elsewhere)
    assert found.changes == ()
    assert found.not_compared == ("level all", "placement")
    alone = msgspec.structs.replace(elsewhere, run=was.run)
    assert differences(was, alone).not_compared == ("level all",)


@pytest.mark.parametrize("batch", [1, "n"])
def test_an_output_is_named_once(batch: int | str, tmp_path: Path) -> None:
    was, now = (snapshot(classes(tmp_path / f"{n}.onnx", n, batch), shape=["x:1x4"]) for n in (10, 11))
    said = headline(was, now)
    assert said.count("output y: ") == 1
    assert f"output y: float[{batch},10] -> float[{batch},11]" in said


def test_a_size_that_the_interface_leaves_open_is_told_beside_it(ten: Snapshot) -> None:
    was = ten
    model = msgspec.structs.replace(was.model, outputs=("y: float[1,n]",))
    output = msgspec.structs.replace(was.run.outputs[0], shape=(1, 11))
    run = msgspec.structs.replace(was.run, outputs=(output,))
    said = told(was, msgspec.structs.replace(was, model=model, run=run))
    assert said == [
        "output y: float[1,10] -> float[1,n] (now dynamic)",
        "output y: float[1,10] -> float[1,11]",
    ]


def test_a_headline_gives_no_cause_that_it_names_itself(ten: Snapshot) -> None:
    was = ten
    older = msgspec.structs.replace(was, ort_version="1.2.3")
    said = f"onnxruntime {was.ort_version}, locked with 1.2.3"
    assert headline(older, was, strict=True) == said
    model = msgspec.structs.replace(was.model, sha256="0" * 64)
    other = msgspec.structs.replace(was, model=model)
    facts(headline(older, other, strict=True), said, "another file", "names or order")


@pytest.mark.parametrize(
    ("part", "was", "now", "said"),
    [
        ("weights-type", 90_800_000, 90_801_000, "weights of type float: 86.594 MiB -> 86.595 MiB"),
        ("weights-type", 1020 << 20, 3 << 30, "weights of type float: 1020 MiB -> 3 GiB"),
        ("weights-type", 1023, 0, "weights of type float: 1023 B -> 0 B"),
        ("output-values", 12.3123, 12.3456, "output float 12.31 -> 12.35"),
        ("output-values", 1234.56, 9.5e-05, "output float 1235 -> 9.5e-05"),
        ("output-values", 123457.0, 123458.0, "output float 123457 -> 123458"),
        ("output-values", 1.0, 1e308, "output float 1 -> 1e+308"),
    ],
)
def test_figures_show_the_change(part: str, was: float, now: float, said: str) -> None:
    assert lock_words.sentence(LockChange(part=part, name="float", was=was, now=now)) == said


def test_the_commands_that_follow_feed_and_set_what_this_one_did(tmp_path: Path) -> None:
    """Each is run as it is printed."""
    nodes = [helper.make_node("Abs", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    path = saved(tmp_path / "m.onnx", nodes, {"x": ["n", 4]}, {"y": ["n", 4]})
    np.save(tmp_path / "x.npy", np.ones((3, 4), np.float32))

    def printed(*words: str) -> tuple[int, list[str]]:
        code, out, _ = program(["lock", *words, "--runtime", PYTHON])
        assert code in (0, 1), out
        return code, shlex.split(out.partition("\nnext:\n")[2])[2:]

    _, again = printed(str(path), "--inputs", str(tmp_path / "x.npy"))
    assert again == [str(path), "--check", "--inputs", str(tmp_path / "x.npy")]
    assert printed(*again) == (0, [])
    code, intended = printed(*again, "--set", "level=disable")
    assert code == 1 and intended[1:3] == ["--set", "graph_optimization_level=disable"]
    _, again = printed(*intended)
    checked = ortune.lock(path, check=True, inputs=tmp_path / "x.npy", python=PYTHON)
    assert checked.verdict == "unchanged" and not checked.result.not_compared
    assert checked.result.snapshot.run.level == "disable"
