"""Verbs agree about one pair of models: whether their outputs are equal, whichever verb is asked."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

import ortune
from facts import facts
from onnx_text import assemble
from ortune.inputs import feed_files
from ortune.inputs.value_files import VERSION
from ortune.records import OutputDifference, RunSource, SourceInput, SourceOpened, SourceRan
from ortune.verbs.convert import run as convert_run
from simulated_machine import Lab, measuring_on

pytestmark = pytest.mark.xdist_group("verbs-agree")

RNG = np.random.default_rng(8)
ROWS, CLASSES = 40, 5
X = RNG.standard_normal((ROWS, 8)).astype(np.float32)
W = RNG.standard_normal((8, CLASSES)).astype(np.float32)
W[:, 1] = W[:, 0]  # two classes that always tie
REVERSED = {"m": np.array([-1]), "e": np.array([-10_000]), "z": np.array([0]), "o": np.array([1])}

Answer = Literal["equal", "differ", "cannot be compared"]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two models, and what every verb must say of them.

    Attributes:
        a, b: Their nodes behind ``s``, the scores.
        said: Words and numbers of the answer.
        compared: More of them, in verbs that compare two ONNX models.
        rows: Of the input.
    """

    outputs: str
    a: tuple[onnx.NodeProto, ...]
    b: tuple[onnx.NodeProto, ...]
    answer: Answer
    said: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    rows: int = ROWS


def best(name: str = "y", **options: int) -> onnx.NodeProto:
    return helper.make_node("ArgMax", ["s"], [name], name="best", axis=1, keepdims=0, **options)


SHOWN = helper.make_node("Softmax", ["s"], ["p"], name="softmax")
TOP = helper.make_node("TopK", ["s", "three"], ["v", "y"], name="top")
SORTED = helper.make_node("TopK", ["s", "three"], ["v", "i"], name="top")
BOXES = helper.make_node("Gather", ["table", "y"], ["boxes"], name="boxes")
N_TIED = int((np.argmax(X @ W, axis=1) == 0).sum())

PAIRS = {
    "labels in another order": Pair(
        outputs="int64[n] y, float[n,5] p",
        a=(best(), SHOWN),
        b=(best("l"), helper.make_node("Slice", ["l", "m", "e", "z", "m"], ["y"], name="turned"), SHOWN),
        answer="differ",
        said=("'y'", f"of {ROWS} labels differ"),
    ),
    "another class of a single row": Pair(
        outputs="int64[n] y, float[n,5] p",
        a=(best(), SHOWN),
        b=(
            best("l"),
            helper.make_node("Add", ["l", "two"], ["k"], name="next"),
            helper.make_node("Mod", ["k", "five"], ["y"], name="around"),
            SHOWN,
        ),
        answer="differ",
        said=("1 of 1 labels differs",),
        rows=1,
    ),
    "labels whose scores tie": Pair(
        outputs="int64[n] y",
        a=(best(),),
        b=(best(select_last_index=1),),
        answer="equal",
        said=(f"{N_TIED} of {ROWS} labels of y differ", "within rounding of a tie"),
    ),
    "positions of another row": Pair(
        outputs="int64[n,3] y, float[n,3] v",
        a=(TOP,),
        b=(SORTED, helper.make_node("Slice", ["i", "m", "e", "z", "m"], ["y"], name="turned")),
        answer="differ",
        said=("'y'", "no counterpart"),
    ),
    "positions in another order than their scores": Pair(
        outputs="int64[n,3] y, float[n,3] v",
        a=(TOP,),
        b=(SORTED, helper.make_node("Slice", ["i", "m", "e", "o", "m"], ["y"], name="turned")),
        answer="differ",
        said=("'y'", f"of {3 * ROWS} rows"),
        compared=("come before rows with a better score",),
    ),
    "positions in another order, without their scores": Pair(
        outputs="int64[n,3] y",
        a=(TOP,),
        b=(SORTED, helper.make_node("Slice", ["i", "m", "e", "o", "m"], ["y"], name="turned")),
        answer="differ",
        said=("'y'", f"of {3 * ROWS} rows"),
        compared=("come before rows with a better score",),
    ),
    "positions whose scores tie": Pair(
        outputs="int64[n,5] y",
        a=(helper.make_node("TopK", ["s", "all"], ["v", "y"], name="top"),),
        b=(
            helper.make_node("TopK", ["s", "all"], ["v", "i"], name="top"),
            helper.make_node("Less", ["i", "two"], ["tied"], name="tied"),
            helper.make_node("Sub", ["one", "i"], ["other"], name="other"),
            helper.make_node("Where", ["tied", "other", "i"], ["y"], name="swapped"),
        ),
        answer="equal",
        said=("in another order",),
    ),
    "classes of other boxes": Pair(
        outputs="float[n,3,4] boxes, int64[n,3] classes",
        a=(TOP, BOXES, helper.make_node("Gather", ["numbers", "y"], ["classes"], name="classes")),
        b=(
            TOP,
            BOXES,
            helper.make_node("Gather", ["numbers", "y"], ["c"], name="classes"),
            helper.make_node("Slice", ["c", "m", "e", "o", "m"], ["classes"], name="turned"),
        ),
        answer="differ",
        said=("'classes'", f"of {3 * ROWS} "),
        compared=("belong together with others",),
    ),
    "no rows": Pair(
        outputs="int64[n] y, float[n,5] p",
        a=(best(), SHOWN),
        b=(best(select_last_index=1), SHOWN),
        answer="cannot be compared",
        said=("no elements",),
        rows=0,
    ),
}


def written(folder: Path, pair: Pair) -> tuple[Path, Path, Path]:
    """The two models, and their inputs."""
    weights = {"w": W, "three": np.array([3]), "two": np.array(2), "five": np.array(5), **REVERSED}
    weights |= {"all": np.array([CLASSES]), "one": np.array(1), "numbers": np.arange(10, 10 + CLASSES)}
    weights["table"] = RNG.uniform(0, 100, (CLASSES, 4)).astype(np.float32)
    scores = helper.make_node("MatMul", ["x", "w"], ["s"], name="scores")
    paths = []
    for name, nodes in (("a", pair.a), ("b", pair.b)):
        used = {value for node in (scores, *nodes) for value in node.input}
        stored = {key: value for key, value in weights.items() if key in used}
        paths.append(folder / f"{name}.onnx")
        onnx.save(assemble([scores, *nodes], "float[n,8] x", pair.outputs, stored), paths[-1])
    np.savez(folder / "x.npz", x=X[: pair.rows])
    return paths[0], paths[1], folder / "x.npz"


def judged(outputs: OutputDifference) -> Answer:
    if outputs.empty:
        return "cannot be compared"
    return "equal" if outputs.ok else "differ"


@pytest.mark.parametrize("case", PAIRS)
def test_verbs_agree_whether_outputs_are_equal(case: str, tmp_path: Path) -> None:
    pair = PAIRS[case]
    a, b, inputs = written(tmp_path, pair)
    with measuring_on(Lab(1)):
        compared = ortune.compare(a, b, inputs=inputs, budget=5, store=tmp_path / "store")
        bisected = ortune.bisect(a, b, inputs=inputs)
    for answer in (compared, bisected):
        assert judged(answer.result.outputs) == pair.answer, answer.result.outputs.what
        text = " ".join(answer.summary().split())
        facts(text, *pair.said, *pair.compared)
        assert "identical" not in text
    if pair.answer == "differ":
        assert bisected.result.partings, "the node is named"


@dataclass(frozen=True)
class OnnxAsSource:
    """Stands in for a framework's process: the source is another ONNX model, run by ONNX Runtime."""

    model: Path
    folder: Path

    def ask(self, request: RunSource, _: type[SourceRan]) -> SourceRan:
        session = ort.InferenceSession(self.model, providers=["CPUExecutionProvider"])
        names = tuple(value.name for value in session.get_outputs())
        for ref in request.feeds:
            fed = feed_files.read_feeds(Path(ref.path))
            outputs = session.run(None, {request.inputs.get(name, name): x for name, x in fed.items()})
            place = Path(request.output) / ref.name
            place.mkdir(parents=True)
            entries = []
            for i, (name, array) in enumerate(zip(names, outputs, strict=True)):
                np.save(place / f"{i}.npy", array)
                onnx_type = feed_files.onnx_type(array)
                entries.append(
                    {"name": name, "kind": "tensor", "onnx_type": onnx_type, "files": [f"{i}.npy"]}
                )
            (place / "outputs.json").write_text(json.dumps({"version": VERSION, "outputs": entries}))
        return SourceRan(outputs=names)


@pytest.mark.parametrize("case", [case for case, pair in PAIRS.items() if pair.answer == "differ"])
def test_a_converted_model_is_judged_as_any_other(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = PAIRS[case]
    a, b, inputs = written(tmp_path, pair)
    (tmp_path / "a.tflite").write_bytes(b"\x1c\0\0\0TFL3")
    told = SourceOpened(
        kind="a model",
        versions={},
        exporters=(),
        inputs=(SourceInput(name="x", type="tensor(float)", shape=(None, 8)),),
        example=False,
    )

    @contextlib.contextmanager
    def opened(
        kind: object, python: str, folder: Path, *_: object, **more: object
    ) -> Iterator[SimpleNamespace]:
        folder.mkdir(exist_ok=True)
        yield SimpleNamespace(process=OnnxAsSource(a, folder), told=told, example={}, request=None)

    monkeypatch.setattr(convert_run, "opened_source", opened)
    monkeypatch.setattr(convert_run, "python_of", lambda *_: sys.executable)
    monkeypatch.setattr(convert_run, "require_fence", lambda *_, **more: None)
    with measuring_on(Lab(1)):
        itself = ortune.convert(tmp_path / "a.tflite", a, verify=True, inputs=inputs)
        answer = ortune.convert(tmp_path / "a.tflite", b, verify=True, inputs=inputs)
    assert (itself.verdict, answer.verdict) == ("equal", "wrong-output")
    text = " ".join(answer.summary().split())
    facts(text, *pair.said)
    assert "identical" not in text
