"""``ortune MODEL`` end to end on tiny models."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from look_models import FLOAT, INFO, dense, ortune, save
from onnx import TensorProto, helper, numpy_helper

from facts import facts
from graphs import filled
from onnx_text import assemble, saved
from ortune.engines.profiling import peaks, processes
from ortune.graph.model.open import open_model
from ortune.records import Workload
from ortune.runtimes.runtimes import probe
from ortune.store import lock
from ortune.store.db import Store
from ortune.targets.machine import Machine
from ortune.verbs.look.contents import contents
from ortune.verbs.look.result import LookResult
from ortune.verbs.look.words import about


def test_a_first_look_says_what_the_file_holds_and_what_a_run_costs(tmp_path: Path) -> None:
    model = dense(
        tmp_path / "m.onnx", inputs=[INFO("x", FLOAT, ["rows", 96]), INFO("w", FLOAT, [96, 96])], opset=11
    )
    code, document, _ = ortune(tmp_path, str(model), "--dim", "rows=8", "--budget", "60s")
    assert (code, document["schema"], document["status"]) == (0, "ortune/look/2", "ok")
    result = msgspec.convert(document["result"], LookResult)
    assert (result.parameters, result.parameter_bytes) == (96 * 96, 4 * 96 * 96)
    assert (result.weight_types, result.operators) == ({"float32": 4 * 96 * 96}, {"MatMul": 1})
    assert result.flops == 2 * 8 * 96 * 96
    assert result.timing is not None
    assert result.timing.n_runs >= 3
    assert result.timing.warmed_up
    assert result.timing.flops_per_s == pytest.approx(result.flops / result.timing.latency_ns * 1e9)
    assert result.profile is not None
    assert [(o.op_type, o.n_nodes) for o in result.profile.operators] == [("MatMul", 1)]
    assert result.profile.nodes[0].name.startswith("product")
    assert {"GRA002", "GRA004"} <= {finding.code for finding in result.findings}
    assert "SHP001" not in {finding.code for finding in result.findings}
    assert result.next_commands[0] == f"ortune tune {model} --dim rows=8"
    events = Store(tmp_path / "store").events(result.session)
    kinds = [e.kind for e in events]
    assert (kinds.count("trial"), kinds.count("untimed")) == (2, 3)  # one of them without optimisation
    assert msgspec.json.decode(events[-1].body)["schema"] == "ortune/look/2"


def test_a_model_that_does_not_run_here_still_shows_its_file(tmp_path: Path) -> None:
    nodes = [helper.make_node("Secret", ["x"], ["y"], domain="my.own", name="secret")]
    code, document, said = ortune(tmp_path, str(save(tmp_path / "m.onnx", nodes, [filled()])))
    assert (code, document["status"]) == (2, "error")
    assert document["error"]["code"] == "model"
    assert "--custom-ops" in document["error"]["do"]
    assert "--custom-ops" in said
    assert document["result"]["operators"] == {"my.own.Secret": 1}
    assert document["result"]["parameters"] == 96 * 96
    assert document["result"]["timing"] is None


def test_without_a_runtime_the_file_is_shown_all_the_same(tmp_path: Path) -> None:
    code, document, _ = ortune(tmp_path, str(dense(tmp_path / "m.onnx")), "--python", str(tmp_path / "none"))
    assert (code, document["error"]["code"]) == (2, "no-runtime")
    assert document["result"]["parameters"] == 96 * 96
    assert document["result"]["next_commands"] == ["ortune doctor"]


def test_findings_are_those_of_the_target(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], name="narrow"),
        helper.make_node("MatMulInteger", ["q", "q"], ["y"], name="product"),
    ]
    path, nowhere = str(save(tmp_path / "m.onnx", nodes)), str(tmp_path / "none")
    for target, there in (("cpu", False), ("cuda", True)):
        _, document, _ = ortune(tmp_path, path, "--target", target, "--python", nowhere)
        assert ("QNT006" in [each["code"] for each in document["result"]["findings"]]) is there


def test_without_a_runtime_a_model_of_a_revision_is_shown_too(tmp_path: Path) -> None:
    model = dense(tmp_path / "m.onnx")
    name = ["-c", "user.name=n", "-c", "user.email=e"]
    for git in (["init", "-q"], ["add", "m.onnx"], [*name, "commit", "-qm", "one"]):
        subprocess.run(["git", "-C", str(tmp_path), *git], check=True)
    model.unlink()
    code, document, _ = ortune(tmp_path, f"{model}@HEAD", "--python", str(tmp_path / "none"))
    assert (code, document["error"]["code"]) == (2, "no-runtime")
    assert document["result"]["parameters"] == 96 * 96
    # The folder that it was checked out to is gone: documents and pages name the revision.
    assert document["model"]["path"] == document["result"]["model"]["path"] == f"{model}@HEAD"


def test_a_rewrite_is_part_of_what_is_looked_at_and_of_what_comes_next(tmp_path: Path) -> None:
    model = dense(tmp_path / "m.onnx", inputs=[INFO("x", FLOAT, ["rows", 96]), INFO("w", FLOAT, [96, 96])])
    code, document, said = ortune(
        tmp_path, str(model), "--rewrite", "initializers-out-of-inputs", "--budget", "0"
    )
    assert code == 0, said
    result = document["result"]
    assert [each["name"] for each in result["plan"]["rewrites"]] == ["initializers-out-of-inputs"]
    assert "--rewrite initializers-out-of-inputs" in result["next_commands"][0]


def test_ctrl_c_while_another_measures_claims_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it waits for the lock that another holds, so that the moment is certain."""
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))
    model = str(dense(tmp_path / "m.onnx"))
    with lock.measuring("another", wait=False, say=print):
        code, document, _ = ortune(tmp_path, model, "--no-wait")
        assert (code, document["error"]["code"]) == (2, "busy")
        assert document["result"]["parameters"] == 96 * 96
        command = [sys.executable, "-m", "ortune", model, "--store", str(tmp_path / "store")]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            # On a slow machine a remark on how long the start took comes first.
            assert any("another" in line for line in iter(process.stderr.readline, ""))
            process.send_signal(signal.SIGINT)
            assert "no verdict" in process.stderr.read()
    assert process.returncode == 130


def test_a_profile_that_holds_nothing_is_left_out_and_the_rest_is_told(tmp_path: Path) -> None:
    """An interpreter whose ONNX Runtime leaves an empty file where the profile should be."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import onnxruntime\n"
        "write = onnxruntime.InferenceSession.end_profiling\n"
        "def end_profiling(self):\n"
        "    path = write(self)\n"
        "    open(path, 'w').close()\n"
        "    return path\n"
        "onnxruntime.InferenceSession.end_profiling = end_profiling\n"
    )
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nPYTHONPATH='{tmp_path / 'site'}' exec '{sys.executable}' \"$@\"\n")
    python.chmod(0o755)
    model = str(dense(tmp_path / "m.onnx"))
    code, document, _ = ortune(tmp_path, model, "--python", str(python), "--budget", "60s")
    assert (code, document["status"]) == (0, "ok")
    assert document["result"]["timing"]["n_runs"] >= 3
    assert document["result"]["profile"] is None
    (left,) = document["result"]["left_out"]
    assert left.startswith("the profile, which ")
    # No budget mends what failed.
    assert not any("--budget" in line for line in document["result"]["next_commands"])


def test_the_load_of_a_workload_file_is_not_looked_at_and_said(tmp_path: Path) -> None:
    """And the command that comes next keeps what was asked for, of a model that wants real inputs too."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["z"], name="nz"),
        helper.make_node("Cast", ["z"], ["y"], to=FLOAT),
    ]
    model, saved = str(save(tmp_path / "m.onnx", nodes)), tmp_path / "work.json"
    code, document, _ = ortune(
        tmp_path, model, "--shape", "x:8x96", "--seed", "5", "--save-workload", str(saved), "--budget", "0s"
    )
    assert code == 0
    assert document["result"]["next_commands"][0] == f"ortune tune {model} --shape x:8x96 --seed 5"
    work = msgspec.json.decode(saved.read_bytes(), type=Workload)
    saved.write_bytes(msgspec.json.encode(msgspec.structs.replace(work, callers=4, gap_ns=30_000_000)))
    code, document, _ = ortune(tmp_path, model, "--workload", str(saved), "--budget", "0s")
    assert code == 0
    assert (document["workload"]["callers"], document["workload"]["gap_ns"]) == (1, 0)
    assert "the workload has 4 callers, 30 ms apart" in document["result"]["inputs"]
    tune, again = document["result"]["next_commands"]
    assert tune == f"ortune tune {model} --workload {saved}"
    assert again.startswith(f"ortune {model} --workload {saved} --budget ")


@pytest.mark.parametrize(
    ("word", "said"),
    [("docter", "ortune doctor?"), ("model.onxx", "ortune MODEL.onnx"), ("x" * 5000, "--help")],
)
def test_a_mistyped_verb_names_the_nearest(tmp_path: Path, word: str, said: str) -> None:
    code, document, _ = ortune(tmp_path, word, "--whatever")
    assert (code, document["error"]["code"]) == (2, "usage")
    assert word in document["error"]["what"]
    assert said in document["error"]["do"]


def test_a_missing_model_says_so(tmp_path: Path) -> None:
    code, document, _ = ortune(tmp_path, str(tmp_path / "none.onnx"))
    assert (code, document["error"]["code"]) == (2, "model")


def test_text_among_the_weights_has_no_width(tmp_path: Path) -> None:
    words = helper.make_tensor("words", TensorProto.STRING, [1024], [b"w"] * 1024)
    nodes = [helper.make_node("Gather", ["words", "i"], ["y"], axis=0)]
    text = helper.make_tensor_value_info("y", TensorProto.STRING, [2])
    empty = numpy_helper.from_array(np.zeros((0, 3), np.float32), "none")
    given = [helper.make_tensor_value_info("i", TensorProto.INT64, [2])]
    path = save(tmp_path / "m.onnx", nodes, [words, empty], inputs=given, outputs=[text])
    rows = dict(about(contents(open_model(path))))
    facts(rows["weights"], "1.02 k parameters", "string, float32")


def test_weights_beside_the_model_are_counted(tmp_path: Path) -> None:
    path = dense(tmp_path / "m.onnx")
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="m.data", size_threshold=0)
    assert contents(open_model(path)).parameter_bytes == 4 * 96 * 96


def convolution(path: Path) -> Path:
    """Long enough that the profiler does not matter; ONNX Runtime runs it in a blocked layout, under another name."""
    filters = numpy_helper.from_array(np.full((32, 32, 3, 3), 0.01, np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="heavy", pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["c"], ["y"], name="light"),
    ]
    return save(path, nodes, [filters], inputs=[INFO("x", FLOAT, [1, 32, 64, 64])])


@pytest.mark.parametrize("version", ["", "1.2.3"], ids=["same version", "another version"])
def test_the_stored_peak_is_used_and_nodes_are_called_as_the_user_calls_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    model = convolution(tmp_path / "m.onnx")
    # Not what this machine can do: no kernel may exceed it here, however fast the machine is.
    rate = {"fastest": 1e12}
    monkeypatch.setattr(
        peaks,
        "_measured",
        lambda *_: peaks._Rates(float32=rate, int8=rate, bytes=rate, elementwise=rate, numpy="2"),
    )
    # Beside other programs no peak is measured and no share of it told: here the machine passes for quiet.
    monkeypatch.setattr(Machine, "taken_cpus", lambda *_: 0.0)
    monkeypatch.setattr(processes, "BUSY", math.inf)
    runtime = probe(sys.executable)
    runtime = msgspec.structs.replace(runtime, ort_version=version or runtime.ort_version)
    peaks.measure_peak(runtime, tmp_path, tmp_path / "store", Machine())
    _, document, _ = ortune(tmp_path, str(model), "--budget", "60s")
    result = msgspec.convert(document["result"], LookResult)
    assert result.profile is not None and result.headroom is not None
    assert "heavy" in [name for node in result.profile.nodes for name in node.originals]
    told = {finding.name: finding for finding in result.findings}
    if "dominant-node" in told:
        assert told["dominant-node"].where[0] in ("heavy", "light")
    assert result.headroom.covered_ratio > 0.5 and "is not known" not in result.headroom.sentence
    # A run that the profiler makes much longer has no share of the peak.
    if result.headroom.kernels_ratio is not None:
        assert ("onnxruntime 1.2.3" in result.headroom.sentence) == bool(version)


def test_what_is_missing_for_the_share_of_the_peak_is_said(tmp_path: Path) -> None:
    _, document, _ = ortune(tmp_path, str(convolution(tmp_path / "m.onnx")), "--budget", "60s")
    headroom = document["result"]["headroom"]
    assert "not measured yet" in headroom["sentence"] or headroom["settings_ratio"] is None


def test_time_outside_the_run_is_part_of_it(tmp_path: Path) -> None:
    """Dictionaries are made after the last node has run: as in a profile, a run lasts until they are there."""
    nodes = [
        helper.make_node("Softmax", ["x"], ["p"], name="softmax"),
        helper.make_node(
            "ZipMap", ["p"], ["y"], name="zip", domain="ai.onnx.ml", classlabels_int64s=list(range(50))
        ),
    ]
    maps = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    outputs = [helper.make_value_info("y", helper.make_sequence_type_proto(maps))]
    path = saved(
        tmp_path / "m.onnx", assemble(nodes, "float[2000,50] x", outputs, opsets={"": 17, "ai.onnx.ml": 3})
    )
    _, document, _ = ortune(tmp_path, str(path), "--budget", "60s")
    result = msgspec.convert(document["result"], LookResult)
    assert result.profile is not None
    inside_ns = sum(operator.time_ns for operator in result.profile.operators)
    assert result.profile.run_ns > 1.2 * inside_ns
    finding = next(finding for finding in result.findings if finding.code == "GRA030")
    assert finding.plan is not None and finding.plan.rewrites[0].name == "zipmap-to-tensor"
