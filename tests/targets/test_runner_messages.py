"""What every runner must do, whatever its language: a process that is told turn by turn, by lines of JSON.

Python's worker, that of Node.js and the example of ``docs/add-a-runner.md`` are put under it, and each command in
``$ORTUNE_TEST_RUNNERS`` (separated by new lines), which reads that page in its own way.
"""

from __future__ import annotations

import json
import os
import queue
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper

from onnx_text import assemble
from ortune.errors import RuntimeNotFound
from ortune.inputs.feed_files import write_feeds
from ortune.inputs.value_files import read_index
from ortune.records import (
    PROTOCOL_VERSION,
    Applied,
    FeedRef,
    Ready,
    TrialDone,
    TrialError,
    TrialRequest,
    WorkerMessage,
)
from ortune.runtimes import node
from ortune.targets.archive import write_worker
from ortune.targets.node import process as node_process

LIMIT_S = 120.0
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "runner.py"
OTHERS = [line for line in os.environ.get("ORTUNE_TEST_RUNNERS", "").splitlines() if line.strip()]
_messages = msgspec.json.Decoder(WorkerMessage)


def command(name: str, folder: Path) -> list[str]:
    """How a runner is started."""
    if name == "python":
        return [sys.executable, str(write_worker(folder))]
    if name == "example":
        return [sys.executable, str(EXAMPLE)]
    if name != "node":
        return shlex.split(name)
    if shutil.which("node") is None:
        pytest.skip("Node.js is not installed")
    try:
        found = node.find()
    except RuntimeNotFound as error:
        pytest.skip(error.what)
    return [
        found.program,
        "--expose-gc",
        str(Path(node_process.__file__).with_name(node_process.RUNNER)),
        found.folder,
    ]


class Talk:
    """One process and what it says."""

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=folder
            )
        self.lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(b"")

    def tell(self, **message: Any) -> None:
        self.tell_line(json.dumps(message))

    def tell_line(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        """The next message: nothing but messages may be on its stdout."""
        line = self.lines.get(timeout=LIMIT_S)
        assert line, self.log.read_text("utf-8", "replace")
        return _messages.decode(line)

    def until_loaded(self) -> None:
        ready = self.hear()
        assert isinstance(ready, Ready), ready
        assert ready.version == PROTOCOL_VERSION and ready.ort_version
        assert type(self.hear()).__name__ == "Loaded"

    def turn(self, **message: Any) -> None:
        self.tell(**message)
        answer = self.hear()
        assert type(answer).__name__ == "TurnOver", answer

    def finish(self) -> TrialDone:
        self.tell(do="finish")
        done = self.hear()
        assert isinstance(done, TrialDone), done
        assert self.process.wait(LIMIT_S) == 0
        return done

    def error(self) -> TrialError:
        """Its last word, once it has ended."""
        while not isinstance(said := self.hear(), TrialError):
            assert not isinstance(said, TrialDone)
        assert self.process.wait(LIMIT_S) == 0
        return said


class Start:
    """Starts one runner for trials of models in a folder."""

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        self.words, self.folder = words, folder
        self.talks: list[Talk] = []

    def feeds(self, name: str, **arrays: Any) -> str:
        write_feeds(self.folder / name, arrays)
        return str(self.folder / name)

    def request(self, model: Path, feeds: Sequence[FeedRef], **changes: Any) -> TrialRequest:
        usual: dict[str, Any] = {"warmup_runs": 2, "warmup_ns": 0, "warmup_cap_ns": 0}
        return TrialRequest(model=str(model), feeds=tuple(feeds), **usual | changes)

    def __call__(self, model: Path, feeds: Sequence[FeedRef], **changes: Any) -> Talk:
        talk = self.bare()
        talk.tell_line(msgspec.json.encode(self.request(model, feeds, **changes)).decode())
        return talk

    def bare(self) -> Talk:
        self.talks.append(Talk(self.words, self.folder))
        return self.talks[-1]


@pytest.fixture(params=["python", "node", "example", *OTHERS])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    starts = Start(command(request.param, tmp_path), tmp_path)
    yield starts
    for talk in starts.talks:
        talk.process.kill()
        talk.process.wait()


def relu(folder: Path, op: str = "Relu") -> Path:
    proto = assemble(
        [helper.make_node(op, ["x"], ["y"], domain="" if op == "Relu" else "nobody")],
        "float[N,4] x",
        "float[N,4] y",
        {},
        opset=13,
        ir_version=7,
        opsets=None if op == "Relu" else {"nobody": 1},
    )
    onnx.save(proto, folder / f"{op}.onnx")
    return folder / f"{op}.onnx"


X = np.arange(-4, 4, dtype=np.float32).reshape(2, 4)


def test_a_trial_takes_turns_and_reports_every_run(start: Start) -> None:
    feeds = [FeedRef(name="one", path=start.feeds("a", x=X))]
    outputs = start.folder / "outputs"
    talk = start(relu(start.folder), feeds, outputs_path=str(outputs))
    talk.until_loaded()
    talk.turn(do="warm")
    talk.turn(do="run", runs=5, unmeasured=2)
    talk.turn(do="run", runs=3, unmeasured=0)
    done = talk.finish()
    (case,) = done.cases
    assert (case.case, case.turn_runs, done.n_runs) == ("one", (5, 3), 8)
    assert len(case.latency_ns) == 8 and min(case.latency_ns) > 0 and case.first_ns > 0 and done.load_ns > 0
    assert case.warmup_runs >= 2 and case.output_shapes == ((2, 4),)
    assert done.wall_ns >= sum(case.latency_ns) and done.waiting_ns > 0
    (value,) = read_index(outputs / "one", "outputs")
    np.testing.assert_array_equal(np.load(value.files[0]), np.maximum(X, 0))


def test_cases_run_in_the_proportions_of_the_mix(start: Start) -> None:
    feeds = [
        FeedRef(name="rare", path=start.feeds("a", x=X), weight=1.0),
        FeedRef(name="usual", path=start.feeds("b", x=np.ones((7, 4), np.float32)), weight=3.0),
    ]
    talk = start(relu(start.folder), feeds)
    talk.until_loaded()
    talk.turn(do="warm")
    talk.turn(do="run", runs=8, unmeasured=0)
    done = talk.finish()
    assert [(c.case, c.weight, len(c.latency_ns)) for c in done.cases] == [
        ("rare", 1.0, 4),
        ("usual", 3.0, 12),
    ]
    assert [c.output_shapes for c in done.cases] == [((2, 4),), ((7, 4),)]


def test_a_wait_is_part_of_the_latency_and_recorded(start: Start) -> None:
    talk = start(relu(start.folder), [FeedRef(name="one", path=start.feeds("a", x=X))], wait_ratio=1.0)
    talk.until_loaded()
    talk.turn(do="warm")
    talk.turn(do="run", runs=20, unmeasured=0)
    (case,) = talk.finish().cases
    assert len(case.waits_ns) == 20
    for waited, latency in zip(case.waits_ns, case.latency_ns, strict=True):
        assert 0.4 * latency <= waited <= latency


def test_settings_are_read_back(start: Start) -> None:
    applied = [
        Applied(
            knob="intra_op_num_threads",
            channel="session_option",
            key="intra_op_num_threads",
            value=3,
            probe="threads",
        ),
        Applied(
            knob="level", channel="session_option", key="graph_optimization_level", value="ORT_ENABLE_BASIC"
        ),
        Applied(
            knob="allow_spinning",
            channel="session_config",
            key="session.intra_op.allow_spinning",
            value=0,
        ),
    ]
    talk = start(
        relu(start.folder), [FeedRef(name="one", path=start.feeds("a", x=X))], applied=tuple(applied)
    )
    talk.until_loaded()
    talk.turn(do="warm")
    done = talk.finish()
    found = {item.knob: item for item in done.read_back}
    assert set(found) == {item.knob for item in applied} and all(item.ok for item in found.values())
    if done.threads is not None:
        assert done.threads == 2 and found["intra_op_num_threads"].level == "effect"


def test_a_key_that_the_library_does_not_know_is_an_error(start: Start) -> None:
    unknown = Applied(knob="made_up", channel="session_config", key="session.no_such_key_at_all", value="1")
    talk = start(relu(start.folder), [FeedRef(name="one", path=start.feeds("a", x=X))], applied=(unknown,))
    error = talk.error()
    assert (error.reason, error.knob) == ("unknown-key", "made_up")


def test_what_fails_has_a_reason_and_a_phase(start: Start) -> None:
    feeds = [FeedRef(name="one", path=start.feeds("a", x=X))]
    error = start(relu(start.folder, "NoSuchOperator"), feeds).error()
    assert (error.reason, error.phase) == ("load-error", "loading") and "NoSuchOperator" in error.what
    talk = start(
        relu(start.folder), [FeedRef(name="one", path=start.feeds("b", x=np.ones((2, 5), np.float32)))]
    )
    talk.until_loaded()
    talk.tell(do="warm")
    assert talk.error().reason == "input-error"


def test_what_it_does_not_speak_is_refused(start: Start) -> None:
    feeds = [FeedRef(name="one", path=start.feeds("a", x=X))]
    assert start(relu(start.folder), feeds, version=PROTOCOL_VERSION + 1).error().reason == "protocol"
    talk = start(relu(start.folder), feeds)
    talk.until_loaded()
    talk.tell(do="dance")
    assert talk.error().reason == "protocol"


def test_it_ends_when_its_stdin_does(start: Start) -> None:
    talk = start(relu(start.folder), [FeedRef(name="one", path=start.feeds("a", x=X))])
    talk.until_loaded()
    assert talk.process.stdin is not None
    talk.process.stdin.close()
    talk.process.wait(LIMIT_S)


TYPES = {
    "float": np.array([[1.5, -2]], np.float32), "double": np.array([1.5]), "float16": np.array([0.5, -1], np.float16),
    "int8": np.array([-3], np.int8), "uint8": np.array([200], np.uint8), "int32": np.array([[-7]], np.int32),
    "int64": np.array([2**53 + 1]), "bool": np.array([True, False]), "string": np.array(["", "häß", "🙂 x"]),
}  # fmt: skip


def test_values_of_every_type_arrive_and_return(start: Start) -> None:
    nodes = [helper.make_node("Identity", [f"{kind}_in"], [f"{kind}_out"]) for kind in TYPES]
    sizes = {kind: ",".join(map(str, array.shape)) for kind, array in TYPES.items()}
    proto = assemble(
        nodes,
        ", ".join(f"{kind}[{size}] {kind}_in" for kind, size in sizes.items()),
        ", ".join(f"{kind}[{size}] {kind}_out" for kind, size in sizes.items()),
        {},
        opset=13,
        ir_version=7,
    )
    onnx.save(proto, start.folder / "types.onnx")
    feeds = FeedRef(
        name="one", path=start.feeds("a", **{f"{kind}_in": array for kind, array in TYPES.items()})
    )
    talk = start(start.folder / "types.onnx", [feeds], outputs_path=str(start.folder / "outputs"))
    talk.until_loaded()
    talk.turn(do="warm")
    talk.finish()
    found = {value.name: value for value in read_index(start.folder / "outputs" / "one", "outputs")}
    for kind, array in TYPES.items():
        value = found[f"{kind}_out"]
        assert value.onnx_type == kind
        np.testing.assert_array_equal(np.load(value.files[0]), array)


def test_memory_is_reported(start: Start) -> None:
    talk = start(relu(start.folder), [FeedRef(name="one", path=start.feeds("a", x=X))])
    talk.until_loaded()
    talk.turn(do="warm")
    done = talk.finish()
    if sys.platform != "linux":
        pytest.skip("only Linux reports it")
    assert done.peak_bytes is not None and done.base_bytes is not None and done.kept is not None
    assert done.peak_bytes > done.base_bytes > 1 << 20
    # The kernel counts resident pages of each thread apart, and adds some of them late.
    assert done.kept.idle_bytes <= done.peak_bytes + (1 << 20)
