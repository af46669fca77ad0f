"""A Python that sees no files of this machine, as on a board behind ssh: its files travel through stdin and stdout.

It is a real interpreter in a namespace of its own, with empty folders where this machine has the models, the scratch
folders and the temporary files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import boards
from facts import facts
from onnx_text import assemble
from ortune import platform
from ortune.graph.model.open import open_model
from ortune.inputs.feed_files import write_feeds
from ortune.inputs.value_files import read_index
from ortune.records import Failed, FeedRef, Measured, Plan, Runtime, TrialRequest
from ortune.runtimes.runtimes import find_runtime
from ortune.targets.machine import Machine
from ortune.targets.remote_process import _FOLDER, _OUTPUT
from ortune.targets.runner import run
from ortune.targets.task import TrialTask
from ortune.targets.tool import ToolFailed, ToolProcess
from ortune.targets.turns import Turns
from ortune.worker import relay
from within import program

NAME = "Modèle mit ä.onnx"
FEED = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a board: ``python`` is the command, ``home`` is all that it shares with nobody else."""
    return boards.board(tmp_path_factory.mktemp("boards"), "board").parent


@pytest.fixture(scope="module")
def far(board: Path) -> Runtime:
    return find_runtime(str(board / "python"))


def model(path: Path, op: str = "Relu") -> Path:
    """y = op(x @ w), with the weights as external data in a folder beside it."""
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float32) - 0.5, "w")
    proto = assemble(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node(op, ["m"], ["y"])],
        "float[2,4] x",
        "float[2,4] y",
        [weight],
        opset=13,
        ir_version=7,
    )
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def task(folder: Path, path: Path, runtime: Runtime, name: str = "trial") -> TrialTask:
    write_feeds(folder / "feeds", {"x": FEED})
    place = folder / name
    place.mkdir()
    request = TrialRequest(
        model=str(path),
        feeds=(FeedRef(name="all", path=str(folder / "feeds")),),
        warmup_runs=1,
        warmup_ns=0,
        outputs_path=str(place / "outputs"),
        profile_path=str(place / "profile"),
    )
    return TrialTask(plan=Plan(), runtime=runtime, request=request, folder=place, scratch=folder)


def test_it_is_another_machine_of_which_the_interpreter_tells(far: Runtime) -> None:
    here = platform.host()
    assert far.host is not None
    assert (far.host.system, far.host.machine, far.host.cpu) == (here.system, here.machine, here.cpu)
    assert (far.host.cores, far.host.logical, far.host.features) == (here.cores, here.logical, here.features)
    assert far.host.memory_bytes == here.memory_bytes
    assert find_runtime(sys.executable).host is None


def test_trials_there_take_turns_and_their_files_come_back(far: Runtime, board: Path, tmp_path: Path) -> None:
    path = model(tmp_path / NAME)
    machine = Machine(elsewhere=far.host)
    tasks = [task(tmp_path, path, far, "a"), task(tmp_path, path, far, "b")]
    outcomes = run(tasks, machine, Turns(runs=3, unmeasured=1, rounds=2))
    assert outcomes is not None
    weight = np.eye(4, dtype=np.float32) - 0.5
    for outcome, one in zip(outcomes, tasks, strict=True):
        assert isinstance(outcome, Measured), outcome
        assert len(outcome.done.cases[0].latency_ns) == 6
        assert (outcome.done.peak_bytes or 0) > 1 << 20
        assert outcome.sensors.load1 is not None and outcome.sensors.elapsed_ns
        (value,) = read_index(one.folder / "outputs" / "all", "outputs")
        np.testing.assert_allclose(np.load(value.files[0]), np.maximum(FEED @ weight, 0))
        profile = Path(outcome.done.profile)
        assert profile.parent == one.folder
        assert b'"op_name" : "Relu"' in profile.read_bytes()
    kept = {file.name: file.stat().st_ino for file in (board / "home/cache/ortune-relay").iterdir()}
    assert len(kept) >= 4  # the worker, the model, its weights, the feeds
    assert not list((board / "home/tmp").iterdir())
    assert isinstance((run([task(tmp_path, path, far, "c")], machine) or ())[0], Measured)
    again = {file.name: file.stat().st_ino for file in (board / "home/cache/ortune-relay").iterdir()}
    assert again == kept  # nothing was sent a second time


def test_what_the_runtime_makes_there_comes_back(far: Runtime, tmp_path: Path) -> None:
    path = model(tmp_path / NAME)
    made = tmp_path / "made" / "modèle.ort"
    made.parent.mkdir()
    tool = ToolProcess(runtime=far, folder=tmp_path)
    params = {"level": "basic", "platform": "arm", "style": "fixed", "needed": "types"}
    tool("ort-format", path, made, params)
    assert [node.op_type for node in open_model(made).ir.graph] == ["MatMul", "Relu"]
    assert {file.name for file in made.parent.iterdir()} == {made.name, f"{made.name}.config"}
    levels = tmp_path / "levels"
    levels.mkdir()
    tool("levels", path, levels, {"levels": "basic,all"})
    assert {"basic.onnx", "all.onnx"} <= {file.name for file in levels.iterdir()}


def test_what_fails_there_is_a_failure_as_here(far: Runtime, tmp_path: Path) -> None:
    bad = model(tmp_path / "bad.onnx", "NoSuchOperator")
    (outcome,) = run([task(tmp_path, bad, far)], Machine(elsewhere=far.host)) or ()
    assert isinstance(outcome, Failed)
    assert outcome.reason == "load-error" and "NoSuchOperator" in outcome.what
    assert str(tmp_path) not in outcome.what and "ortune-relay" not in outcome.what
    with pytest.raises(ToolFailed, match="NoSuchOperator"):
        ToolProcess(runtime=far, folder=tmp_path)("optimize", bad, tmp_path / "o.onnx", {"level": "basic"})


def test_a_worker_that_is_killed_there_is_told_of(far: Runtime, board: Path, tmp_path: Path) -> None:
    (board / "home/killing.py").write_text(
        "import code, sys\nsys.executable = '/bin/false'\ncode.interact()\n"  # which is what it starts workers with
    )
    killing = board / "killing"
    killing.write_text((board / "python").read_text().replace(' "$@"\' sh', " /mnt/killing.py' sh"))
    killing.chmod(0o755)
    other = msgspec.structs.replace(far, python=str(killing))
    (outcome,) = run([task(tmp_path, model(tmp_path / "m.onnx"), other)], Machine(elsewhere=far.host)) or ()
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.phase) == ("crash", "loading")
    facts(outcome.what, "exited with code 1")
    assert not list((board / "home/tmp").iterdir())


def test_a_command_that_ends_is_no_runtime(far: Runtime, tmp_path: Path) -> None:
    other = msgspec.structs.replace(far, python="/bin/true")
    (outcome,) = run([task(tmp_path, model(tmp_path / "m.onnx"), other)], Machine(elsewhere=far.host)) or ()
    assert isinstance(outcome, Failed)
    assert outcome.reason == "no-runtime"
    facts(outcome.what, "/bin/true", "without an answer")


_HOSTILE = """#!{python}
import base64, json, sys
sys.stdin.buffer.readline()
say = lambda **m: print(json.dumps(m), flush=True)
say(relay="ready")
for line in sys.stdin.buffer:
    command = json.loads(line)
    if command.get("relay") == "file":
        say(relay="send", wanted=False)
    if "relay" not in command:
        for path in (["0", "..", "evil"], ["0", "evil"], ["0", "outputs", "..", "..", "evil"], ["0", "outputs/../evil"],
                     ["0", "/evil"], ["0", "outputs", "good"]):
            say(relay="back", path=path, first=True, data=base64.b64encode(b"x").decode())
        say(message="error", reason="crash", what="enough", phase="loading")
"""


def test_the_other_end_writes_only_what_it_was_asked_for(far: Runtime, tmp_path: Path) -> None:
    hostile = tmp_path / "hostile"
    hostile.write_text(_HOSTILE.format(python=sys.executable))
    hostile.chmod(0o755)
    folder = tmp_path / "folder"
    folder.mkdir()
    other = msgspec.structs.replace(far, python=str(hostile))
    one = task(folder, model(folder / "m.onnx"), other)
    (outcome,) = run([one], Machine(elsewhere=far.host)) or ()
    assert isinstance(outcome, Failed) and outcome.what == "enough"
    assert [file.name for file in tmp_path.rglob("*") if file.is_file() and file.read_bytes() == b"x"] == [
        "good"
    ]


def test_a_comparison_is_of_that_machine(board: Path, tmp_path: Path) -> None:
    path = model(tmp_path / NAME)
    # One block, without controls: what it claims is no matter here.
    common = ["--runtime", str(board / "python"), "--budget", "1s", "--no-why", "--json"]
    code, told, said = program(["compare", str(path), str(path), *common])
    assert code == 0, said
    document = json.loads(told)
    runtime = document["result"]["base"]["runtime"]
    assert document["host"]["fingerprint"] == runtime["host"]["fingerprint"]
    assert document["result"]["outputs"]["ok"]  # on a busy machine the second holds no block
    code, _, said = program(["compare", str(path), str(path), *common, "--b-runtime", sys.executable])
    assert code == 2 and "a different machine" in said


def test_a_file_for_the_board_is_made_there(board: Path, tmp_path: Path) -> None:
    path, goal = model(tmp_path / NAME), tmp_path / "out.ort"
    words = ["convert", str(path), "--to", "ort", "--for", "cpu-arm64", "--output", str(goal)]
    code, told, said = program([*words, "--runtime", str(board / "python"), "--json"])
    assert code == 0, said
    assert json.loads(told)["verdict"] == "written"
    assert [node.op_type for node in open_model(goal).ir.graph]


def test_both_ends_call_what_is_there_by_one_name() -> None:
    """The walls keep the two apart: the other end is sent as text, and imports nothing of the package."""
    assert (_FOLDER, _OUTPUT) == (relay.FOLDER, relay.OUTPUT)


REFUSED = {
    "no message": 'print(\'{{"relay": ["back"]}}\', flush=True)',
    "no JSON": "print('{{\"relay\"', flush=True)",
    "no place": 'say(relay="back", path=["7", "outputs"], data="eA=="); say(relay=1)',
    "too much": '[say(relay="back", path=["0", "outputs"], first=False, data="eHh4eHh4") for _ in range(9)]',
    "too many": '[say(relay="back", path=["0", "outputs", str(i)], first=True, data="") for i in range(9)]',
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_another_machine_sends_is_read_within_limits(
    far: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("ortune.targets.remote_process.MOST_BACK_BYTES", 32)
    monkeypatch.setattr("ortune.targets.remote_process.MOST_FILES", 5)
    hostile = tmp_path / "hostile"
    text = _HOSTILE.partition("        for path in")[0] + f"        {REFUSED[kind]}\n"
    hostile.write_text(text.format(python=sys.executable))
    hostile.chmod(0o755)
    folder = tmp_path / "folder"
    folder.mkdir()
    other = msgspec.structs.replace(far, python=str(hostile))
    (outcome,) = run([task(folder, model(folder / "m.onnx"), other)], Machine(elsewhere=far.host)) or ()
    assert isinstance(outcome, Failed) and outcome.reason == "protocol"
    facts(outcome.what, str(hostile), "refused")


def test_sensors_of_another_machine_are_read_from_its_files(tmp_path: Path) -> None:
    texts = {
        "proc/loadavg": "1.50 0.9 0.7 2/300 4000",
        "sys/class/thermal/thermal_zone0/temp": "41000",
        "sys/class/thermal/thermal_zone3/temp": "61500",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "1800000",
        "proc/pressure/cpu": "some avg10=1 avg60=1 avg300=1 total=99",
        "../../outside": "no",
    }
    seen = platform.remote_sensors(texts)
    assert (seen.load1, seen.temperature_c, seen.cpu_mhz) == (1.5, 61.5, 1800)
    assert seen.psi_cpu_some_us is None and seen.own_us is None and seen.at_ns is not None
    there = relay.sensor_texts()
    assert "proc/loadavg" in there and max(map(len, there.values())) <= relay.TEXT_BYTES
    assert platform.remote_sensors(there).load1 is not None
