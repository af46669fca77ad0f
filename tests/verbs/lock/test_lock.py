"""``ortune lock`` on small real models: silent where nothing changed, and each change named."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from lock_models import model
from onnx import TensorProto, helper
from onnxruntime import datasets
from rich.console import Console

import ortune
from facts import facts
from onnx_text import assemble
from ortune.bundle import digests
from ortune.engines.locks.check import differences
from ortune.engines.locks.file import encoded, read, write
from ortune.engines.locks.outputs import output_snapshots
from ortune.engines.locks.take import nodes_by_provider
from ortune.errors import InputError, OrtuneError, UsageError
from ortune.records import BundleInfo, Envelope, LockChange, Plan
from ortune.show import terminal
from ortune.verbs.lock import words as lock_words
from ortune.verbs.lock.result import LockResult
from within import program

PYTHON = sys.executable


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model, with its lock beside it."""
    path = model(tmp_path_factory.mktemp("base") / "m.onnx")
    assert ortune.lock(path, python=PYTHON).verdict == "written"
    return path


def locked(base: Path) -> Path:
    return Path(f"{base}.lock.json")


def check(path: Path, lock: Path, **options: Any) -> tuple[str, str, list[str]]:
    """Verdict, headline, and every sentence."""
    envelope = ortune.lock(path, lock, check=True, python=PYTHON, **options)
    failing, told = lock_words.details(envelope.result)
    return str(envelope.verdict), envelope.result.headline, [*failing, *told]


def test_three_snapshots_are_the_same_bytes_and_the_check_is_silent(base: Path, tmp_path: Path) -> None:
    texts = {locked(base).read_bytes()}
    ortune.lock(base, output=tmp_path / "again.json", python=PYTHON)
    texts.add((tmp_path / "again.json").read_bytes())
    third = ortune.lock(base, locked(base), check=True, python=PYTHON)
    assert texts == {encoded(third.result.snapshot).encode()}
    assert third.verdict == "unchanged"
    assert third.result.headline.startswith("unchanged: ")
    assert (third.result.changes, third.result.notes) == ((), ())


def test_what_a_lock_holds(base: Path) -> None:
    found = json.loads(locked(base).read_text(encoding="utf-8"))
    assert found["schema"] == "ortune/snapshot/1"
    assert found["levels"]["disable"]["operators"]["BatchNormalization"] == 1
    assert "BatchNormalization" not in found["levels"]["basic"]["operators"]
    assert found["levels"]["extended"]["fused"] == {"com.microsoft:FusedConv": 1}
    assert set(found["hardware"]["levels"]) == {"all"}
    assert found["model"]["inputs"] == ["x: float[1,3,8,8]"]
    assert found["model"]["parameters"] == 8 * 27 + 4 * 8 + 32
    assert found["model"]["weights_bytes"] == {"float": 4 * (8 * 27 + 4 * 8 + 32)}
    # Before pooling the widest moment holds Conv's input and output, or its output and Relu's, with the input.
    assert found["levels"]["disable"]["peak_activation_bytes"] == 4 * (192 + 512 + 512)
    assert found["levels"]["disable"]["unknown_values"] == 0
    assert found["run"]["outputs"][0]["finite"] == 4
    assert list(found) == sorted(found)


@pytest.mark.parametrize("name", ["logreg_iris.onnx"])
def test_no_change_is_silent(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(Path(datasets.get_example(name)).read_bytes())
    ortune.lock(path, python=PYTHON)
    assert check(path, locked(path))[::2] == ("unchanged", [])


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "an operator": ({"extra": True}, "Sin 0 -> 1"),
    "a cast": ({"cast": True}, "Cast 0 -> 2"),
    "a pair that fuses no more": ({"bn_on_conv": False}, "BatchNormalization 0 -> 1"),
    "weights of another type": ({"half": True}, "weights of type float16: 0 B -> 560 B"),
    "an added output": ({"second_output": True}, "output flat is new: float[1,8]"),
    "a dynamic input": ({"batch": "N"}, "input x: float[1,3,8,8] -> float[N,3,8,8] (now dynamic)"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_planted_change_is_named(name: str, base: Path, tmp_path: Path) -> None:
    change, sentence = CHANGES[name]
    verdict, headline, said = check(model(tmp_path / "new.onnx", **change), locked(base))
    assert verdict == "changed"
    assert any(line.startswith(sentence) for line in said), said
    assert "new export" in headline


@pytest.fixture(scope="module")
def envelopes(base: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Envelope[LockResult]]:
    """A lock that is written, one that changed and one that did not; of files with long names."""
    folder = tmp_path_factory.mktemp("a-folder-with-a-long-name-that-is-folded-where-a-line-ends")
    changed = model(folder / f"{'long-' * 20}name.onnx", extra=True, second_output=True, prefix="encoder/")
    return [
        ortune.lock(changed, python=PYTHON),
        ortune.lock(changed, locked(base), check=True, python=PYTHON),
        ortune.lock(base, locked(base), check=True, python=PYTHON),
    ]


@pytest.mark.parametrize("width", [80, 140])
def test_what_is_shown_fits_its_width_and_loses_nothing(
    envelopes: list[Envelope[LockResult]], width: int
) -> None:
    for envelope in envelopes:
        page = io.StringIO()
        Console(file=page, width=width, highlight=False).print(
            terminal.render(lock_words.document(envelope)), crop=False
        )
        text, result = page.getvalue(), envelope.result
        assert max(len(line) for line in text.splitlines() if not line.startswith("ortune lock ")) <= width
        assert "…" not in text
        bare = "".join(text.split())
        failing, told = lock_words.details(result)
        rows = lock_words.summary(result.snapshot, result.path)
        parts = [text for _, text in rows] if result.written else [result.headline, *failing, *told]
        for part in parts:
            assert "".join(part.split()) in bare, part


def test_the_optimiser_switched_off_is_named(base: Path) -> None:
    verdict, headline, said = check(base, locked(base), set=["level=disable"])
    assert verdict == "changed"
    assert headline.startswith("graph_optimization_level default -> disable; ")
    assert "BatchNormalization 0 -> 1" in said


def test_other_weights_pass_and_their_outputs_are_told(base: Path, tmp_path: Path) -> None:
    path = model(tmp_path / "new.onnx", scale=2.0)
    verdict, headline, said = check(path, locked(base))
    assert (verdict, headline.split(":")[0]) == ("unchanged", "same snapshot, different weights")
    assert "the outputs changed" in headline
    assert any(line.startswith("output y: norm ") for line in said), said
    assert [line for line in said if line.startswith("weight g ") and "values" in line]
    assert not [line for line in said if line.startswith("weight ") and "weight g " not in line]


def test_weights_without_names_in_the_lock_are_told_together(base: Path, tmp_path: Path) -> None:
    lock = edited(base, tmp_path / "l.json", lambda found: found["model"].update(tensors={}))
    assert "other weights" in check(model(tmp_path / "new.onnx", scale=2.0), lock)[2]


def test_outputs_are_compared_as_closely_as_the_machine_allows(base: Path, tmp_path: Path) -> None:
    """A weight scaled so little that the outputs move by less than one per cent: told here, not elsewhere."""
    slightly = model(tmp_path / "new.onnx", scale=1.005)
    assert "the outputs changed" in check(slightly, locked(base))[1]
    assert check(base, locked(base))[1].endswith("outputs as locked (outputs within 0.0001)")
    other = edited(base, tmp_path / "l.json", lambda found: found.update(ort_version="1.2.3"))
    said = check(slightly, other)[1]
    assert "outputs as locked (outputs within 0.01)" in said


def test_what_is_fewer_than_in_the_model_is_removed() -> None:
    change = LockChange(part="inserted", name="Cast", was=0, now=-2, fails=False)
    facts(lock_words.sentence(change), "Cast", "as many -> 2 removed")


def test_other_names_are_silent(base: Path, tmp_path: Path) -> None:
    path = model(tmp_path / "new.onnx", prefix="/torch/Sequential_")
    verdict, _, said = check(path, locked(base))
    assert verdict == "unchanged"
    (line,) = said
    facts(line, "another file", "names or order")


def edited(base: Path, to: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The lock as another machine or version would have written it."""
    found = json.loads(locked(base).read_text(encoding="utf-8"))
    change(found)
    to.write_text(json.dumps(found), encoding="utf-8")
    return to


def test_a_changed_output_of_the_same_weights_fails(base: Path, tmp_path: Path) -> None:
    def change(found: dict[str, Any]) -> None:
        found["run"]["outputs"][0]["sketch"] += 0.1 * found["run"]["outputs"][0]["l2"]

    verdict, headline, _ = check(base, edited(base, tmp_path / "l.json", change))
    assert verdict == "changed"
    assert headline.startswith("output y: values by position ")


def test_another_onnxruntime_is_told_and_fails_when_strict(base: Path, tmp_path: Path) -> None:
    lock = edited(base, tmp_path / "l.json", lambda found: found.update(ort_version="1.2.3"))
    verdict, _, said = check(base, lock)
    assert verdict == "unchanged"
    assert len(said) == 1
    assert said[0].endswith("locked with 1.2.3")
    found = differences(read(lock, "m"), read(locked(base), "m"), strict=True)
    assert [(c.part, c.fails) for c in found.changes] == [("ort-version", True)]


def test_another_processor_compares_what_does_not_depend_on_it(base: Path, tmp_path: Path) -> None:
    def change(found: dict[str, Any]) -> None:
        found["hardware"]["features"] = ["avx2"]
        found["hardware"]["levels"]["all"]["operators"] = {"com.microsoft.nchwc:Conv": 99}

    verdict, headline, said = check(base, edited(base, tmp_path / "l.json", change))
    assert verdict == "unchanged"
    facts(said[0], "level all", "not compared")
    facts(headline, "unchanged", "4 nodes at level extended, ")
    assert headline.endswith("NOT compared: level all")

    def change_too(found: dict[str, Any]) -> None:
        change(found)
        found["levels"]["extended"]["operators"]["com.microsoft:FusedConv"] = 3

    lock = edited(base, tmp_path / "l.json", change_too)
    was, now = read(lock, "m"), read(locked(base), "m")
    changes = differences(was, now).changes
    assert [(c.name, c.was, c.now, c.fails) for c in changes] == [("com.microsoft:FusedConv", 3, 1, True)]
    strict = differences(was, now, strict=True).changes
    assert [(c.part, c.name, c.fails) for c in strict][1:] == [("not-compared", "level all", True)]


def test_what_was_not_compared_is_not_claimed_and_fails_when_strict(base: Path, tmp_path: Path) -> None:
    """A lock made with the user's own inputs, checked with made ones."""
    np.savez(tmp_path / "real.npz", x=np.ones((1, 3, 8, 8), np.float32))
    lock = tmp_path / "l.json"
    ortune.lock(base, output=lock, inputs=tmp_path / "real.npz", python=PYTHON)
    verdict, headline, said = check(base, lock)
    assert verdict == "unchanged"
    facts(headline, "unchanged", "operators and memory", "NOT compared: outputs")
    told = "the outputs are not compared: locked with --inputs real.npz, checked with values generated from seed 0"
    assert said == [told]
    assert check(base, lock, strict=True) == ("changed", told, [told])
    assert check(base, lock, strict=True, inputs=tmp_path / "real.npz")[::2] == ("unchanged", [])


def test_another_file_is_so_in_names_alone_only_where_nothing_else_differs(
    base: Path, tmp_path: Path
) -> None:
    other = onnx.load(base)
    other.producer_name = "somebody"
    onnx.save(other, tmp_path / "produced.onnx")
    _, headline, said = check(tmp_path / "produced.onnx", locked(base))
    assert said[-1] == "another file"
    assert headline.endswith("; another file")
    _, _, said = check(model(tmp_path / "extra.onnx", extra=True), locked(base))
    assert "another file" in said


def test_rounding_is_no_difference(base: Path, tmp_path: Path) -> None:
    """Two norms 0.02 % apart, on both sides of a figure of three digits, and a tolerance of 0.1 %."""
    was = read(locked(base), "m")
    found = []
    for name, value in (("a", 1.0049), ("b", 1.0051)):
        folder = tmp_path / name
        folder.mkdir()
        np.save(folder / "y.npy", np.array([value], np.float32))
        entry = {"name": "y", "kind": "tensor", "onnx_type": "float", "files": ["y.npy"]}
        (folder / "outputs.json").write_text(json.dumps({"version": 1, "outputs": [entry]}))
        run = msgspec.structs.replace(was.run, outputs=output_snapshots(folder, random=False))
        found.append(msgspec.structs.replace(was, run=run))
    assert differences(*found, tolerance=1e-3).changes == ()
    assert differences(*found, tolerance=1e-4).changes != ()


def test_placement_is_that_of_the_run(base: Path, tmp_path: Path) -> None:
    """A provider that takes no node is no way to run; what no profile tells is not called the CPU's."""
    plan, lock = tmp_path / "plan.json", tmp_path / "l.json"
    plan.write_text('{"providers": [{"name": "AzureExecutionProvider"}]}')
    with pytest.raises(OrtuneError, match="AzureExecutionProvider took none of the nodes"):
        ortune.lock(base, output=lock, plan=plan, python=PYTHON)
    ortune.lock(base, output=lock, python=PYTHON)
    was = read(lock, "m")
    assert was.run.placement == {"CPUExecutionProvider": was.hardware.levels["all"].nodes}
    nothing = msgspec.structs.replace(was, run=msgspec.structs.replace(was.run, placement={}))
    assert differences(was, nothing).not_compared == ("placement",)
    (tmp_path / "empty").touch()
    assert nodes_by_provider(tmp_path / "empty") == {}


def test_a_lock_that_cannot_be_written_says_so(base: Path, tmp_path: Path) -> None:
    for place in (base / "x.json", tmp_path / ("x" * 300)):
        with pytest.raises(UsageError, match="the lock cannot be written"):
            write(place, read(locked(base), "m"), typed=True)


def test_names_keep_their_commas(base: Path) -> None:
    found = read(locked(base), "m")
    named = msgspec.structs.replace(found.run, shapes={"a,,b": (1, 2, 3)})
    text = encoded(msgspec.structs.replace(found, run=named))
    assert '"a,,b": [1, 2, 3]' in text


def test_settings_of_the_whole_process_are_applied_once(base: Path, tmp_path: Path) -> None:
    for settings in (["pool=2"], ["arena_extend_strategy=same_as_requested"]):
        lock = tmp_path / "l.json"
        assert ortune.lock(base, output=lock, set=settings, python=PYTHON).verdict == "written"
        assert check(base, lock)[::2] == ("unchanged", [])


def bundle(folder: Path, source: Path, **settings: bool | int | str) -> Path:
    """The least of a bundle: its index and its model."""
    folder.mkdir(exist_ok=True)
    (folder / "m.onnx").write_bytes(source.read_bytes())
    info = BundleInfo(schema="ortune/bundle/1", model="m.onnx", sha256="0" * 64, plan=Plan(settings=settings))
    (folder / "ortune.json").write_bytes(msgspec.json.encode(info))
    digests.write(folder)
    return folder


def test_a_bundle_is_checked_with_its_own_plan(base: Path, tmp_path: Path) -> None:
    """What it lost is seen, and a thread count that fits any machine is none of its changes."""
    tuned = {"intra_op_num_threads": "min(4, cpus)", "allow_spinning": False}
    place = bundle(tmp_path / "m.ortune", base, **tuned)
    lock = Path(f"{place}.lock.json")
    ortune.lock(place, set=["arena=0"], python=PYTHON)
    run = read(lock, "m").run
    assert run.plan.settings == tuned | {"enable_cpu_mem_arena": False}
    assert run.given == Plan(settings={"enable_cpu_mem_arena": False})
    assert check(place, lock)[::2] == ("unchanged", [])
    bundle(place, base, intra_op_num_threads="min(4, cpus)")
    verdict, _, said = check(place, lock)
    assert (verdict, said) == ("changed", ["allow_spinning 0 -> default"])


def test_random_models_are_compared_by_type_and_rank(tmp_path: Path) -> None:
    nodes = [helper.make_node("RandomNormalLike", ["x"], ["r"]), helper.make_node("Add", ["x", "r"], ["y"])]
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy"]
    path = tmp_path / "random.onnx"
    onnx.save(assemble(nodes, value[:1], value[1:], opset=13), path)
    ortune.lock(path, python=PYTHON)
    verdict, _, said = check(path, locked(path))
    assert verdict == "unchanged"
    (line,) = said
    facts(line, "random (RandomNormalLike)", "type and rank")


def test_a_lock_that_cannot_be_read_says_how_to_write_it(base: Path, tmp_path: Path) -> None:
    cases = {
        "missing.json": None,
        "empty.json": "",
        "cut.json": locked(base).read_text()[:400],
        "other.json": "{}",
    }
    for name, text in cases.items():
        if text is not None:
            (tmp_path / name).write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match="lock") as caught:
            ortune.lock(base, tmp_path / name, check=True)
        assert caught.value.exit_code == 2
        assert f"ortune lock {base}" in caught.value.do
    with pytest.raises(UsageError, match="schema"):
        ortune.lock(base, edited(base, tmp_path / "new.json", lambda f: f.update(schema="x/9")), check=True)
    with pytest.raises(UsageError, match="without check=True has no effect"):
        ortune.lock(base, tmp_path / "cut.json")
    with pytest.raises(InputError):
        ortune.lock(base, output=tmp_path / "o.json", shape=["z:1"], python=PYTHON)


def test_the_command_line(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit codes, formats, and a hostile name that stays text."""
    new = model(tmp_path / "new.onnx", extra=True, second_output=True, prefix="[red]::error::\x1b")

    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)

    def run(*words: str) -> tuple[int, str]:
        return program(["lock", *words, "--python", PYTHON])[:2]

    code, failed = run(str(new), "--check", str(locked(base)), "--format", "github")
    assert code == 1
    # Which operators work in blocks, and so come before it, is the CPU's to say.
    assert re.match(r"::error title=ortune lock::(.*%0A)?Sin 0 -> 1", failed), failed
    assert "\x1b" not in failed
    assert failed.count("\n") == 1
    code, same = run(str(base), "--check", "--json")
    assert code == 0
    document = json.loads(same)
    assert (document["schema"], document["verdict"], document["status"]) == (
        "ortune/lock/1",
        "unchanged",
        "ok",
    )
    assert run(str(base), "--check", "nowhere.json")[0] == 2
