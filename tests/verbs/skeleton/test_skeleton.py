"""``ortune skeleton``: the file, what it is held against, and where it is not the original."""

from __future__ import annotations

import getpass
import platform
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import ortune
from facts import facts
from onnx_text import assemble
from ortune.errors import ModelError, UsageError
from ortune.graph.model.open import open_model
from planted import convolutions


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))
    monkeypatch.chdir(tmp_path)


def test_it_is_written_and_held_against_the_original(tmp_path: Path) -> None:
    model = convolutions(tmp_path / "private-name.onnx")
    answer = ortune.skeleton(model)
    result = answer.result
    assert result.path == "skeleton.onnx" and answer.verdict in ("same", "differs")
    assert result.profile is not None and result.profile.placed
    assert result.places_before == result.places_after
    assert result.same is (answer.verdict == "same")
    assert len(result.inputs) == 1
    new = open_model("skeleton.onnx")
    assert new.op_counts == open_model(model).op_counts
    assert (result.bytes_after, result.n_nodes) == (new.facts.size_bytes, 10)
    assert "10" in answer.summary() and "skeleton.onnx" in answer.summary()
    with pytest.raises(UsageError, match="already exists"):
        ortune.skeleton(model)
    with pytest.raises(UsageError, match="folder"):
        ortune.skeleton(model, output=tmp_path)


def test_operators_that_follow_values_are_told(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("NonZero", ["h"], ["y"]),
    ]
    onnx.save(
        assemble(nodes, "float[4,32] x", "int64[2,n] y", {"w": np.ones((32, 32), np.float32)}), "m.onnx"
    )
    answer = ortune.skeleton("m.onnx")
    assert answer.result.by_values == {"NonZero": 1}
    facts(" ".join(answer.summary().split()), "1 NonZero", "depends on values")


def test_operators_of_the_owner_are_renamed_and_not_run(tmp_path: Path) -> None:
    node = helper.make_node("ZebraOp", ["x"], ["y"], domain="zebra.fish", zebra_mode="stripes")
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    onnx.save(assemble([node], sides[:1], sides[1:], opsets={"zebra.fish": 1}), "m.onnx")
    answer = ortune.skeleton("m.onnx")
    assert (answer.verdict, answer.result.profile) == ("not-run", None)
    assert answer.result.own_operators == {"Op0": 1}
    data = Path("skeleton.onnx").read_bytes()
    assert b"ebra" not in data and b"stripes" not in data


def test_a_finished_graph_is_refused(tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = "m.ort"
    options.add_session_config_entry("session.save_model_format", "ORT")
    model = convolutions(tmp_path / "m.onnx")
    onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    with pytest.raises(ModelError, match="ORT format"):
        ortune.skeleton(tmp_path / "m.ort")


def test_a_bug_report_tells_the_machine_and_the_skeleton_and_nothing_of_its_owner(tmp_path: Path) -> None:
    home = tmp_path / "zebrafish-project"
    home.mkdir()
    model = convolutions(home / "zebrafish-v2.onnx")
    answer = ortune.show(model, issue="bug")
    issue = answer.result.issue
    assert issue is not None and issue.path == str(Path("bug", "issue.md"))
    assert sorted(p.name for p in Path("bug").iterdir()) == ["issue.md", "skeleton.onnx"]
    text = Path("bug", "issue.md").read_text()
    for part in ("onnxruntime", "CPUExecutionProvider", "skeleton.onnx", "What happens", "Conv"):
        assert part in text
    owner = ["zebrafish", str(tmp_path), platform.node(), getpass.getuser(), sys.prefix, "/"]
    names = {node.name for node in onnx.load(model).graph.node} - {""}
    assert not [each for each in (*owner, *names) if len(each) > 3 and each in text]
    assert issue.path in " ".join(answer.summary().split())
    with pytest.raises(UsageError, match="already exists"):
        ortune.show(model, issue="bug")
    with pytest.raises(ModelError):
        ortune.show("missing.onnx", issue="other")
    assert not Path("other").exists()
    with pytest.raises(UsageError, match="one model"):
        ortune.show(issue="other")


def test_runs_that_take_too_long_are_not_repeated_for_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ortune.verbs.skeleton.run.MOST_PROFILED_S", 1e-3)
    answer = ortune.skeleton(convolutions(tmp_path / "m.onnx"))
    assert answer.verdict == "not-run" and Path(answer.result.path).exists()
    assert answer.result.profile is None
    assert "profiling both would take more than" in answer.result.not_profiled
    assert "profiling both would take more than" in " ".join(answer.summary(verbose=True).split())
