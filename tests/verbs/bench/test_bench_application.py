"""``ortune bench app.workload``: a recorded program, played again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import onnx
import pytest

from facts import facts
from onnx_text import model_of
from ortune import files
from ortune.errors import RuntimeNotFound
from ortune.graph.model.open import open_model
from ortune.inputs.played import ReplayPart
from ortune.measuring import application
from ortune.measuring.application import Application, Variant
from ortune.measuring.recorded_models import find_models
from ortune.measuring.recorded_settings import affinity_of, providers_of, settings_of, variables_of
from ortune.records import (
    Arrival,
    Frame,
    RecordedCalls,
    RecordedInput,
    RecordedModel,
    RecordedProcess,
    RecordedSession,
    RecordedWorkload,
    Recording,
)
from ortune.runtimes import node
from ortune.verbs._app_bench import words as app_words
from ortune.verbs._app_bench.result import AppBenchResult
from within import program

MS = 1_000_000


@pytest.fixture(scope="module", autouse=True)
def own_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORTUNE_LOCK", str(tmp_path_factory.mktemp("lock") / "lock"))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of two processes: one has a session per call, one calls from two threads."""
    folder = tmp_path_factory.mktemp("app")
    onnx.save(model_of("g (float[n,3] x) => (float[n,3] y) { y = Relu (x) }"), folder / "m.onnx")
    sha256 = open_model(folder / "m.onnx").sha256
    size = (folder / "m.onnx").stat().st_size
    recording = Recording(
        processes=(
            RecordedProcess(pid=1, arrivals=tuple(_call(i, 10 * i + 5) for i in range(3))),
            RecordedProcess(pid=2, arrivals=tuple(_call(9, 10 * i + 5, thread=i % 2) for i in range(4))),
        ),
        sessions=(
            *(_session(i + 1, 0, i, start_ns=10 * i * MS, end_ns=(10 * i + 8) * MS) for i in range(3)),
            _session(1, 1, 9, n=4, options={"intra_op_num_threads": 1}),
        ),
        models=(RecordedModel(path=str(folder / "m.onnx"), sha256=sha256, size_bytes=size),),
    )
    files.write(folder / "app.workload", msgspec.json.encode(RecordedWorkload(cases=(), recording=recording)))
    return folder


def _call(key: int, start: int, thread: int = 0) -> Arrival:
    return Arrival(key=key, start_ns=start * MS, took_ns=MS, thread=thread, active=1)


def _session(number: int, process: int, key: int, *, n: int = 1, **more: object) -> RecordedSession:
    calls = RecordedCalls(key=key, count=4 if process else 1, inputs=(RecordedInput(name="x", shape=(n, 3)),))
    return RecordedSession(id=number, process=process, model=0, creation_ns=2 * MS, calls=(calls,), **more)  # type: ignore[arg-type]


def test_sessions_threads_and_processes_are_played(folder: Path, tmp_path: Path) -> None:
    words = ("bench", str(folder / "app.workload"), "--processes", "3", "--store", str(tmp_path / "store"))
    code, out, said = program([*words, "--json"])
    assert code == 0, said
    document = json.loads(out)
    assert document["schema"] == "ortune/app-bench/1"
    result = msgspec.convert(document["result"], AppBenchResult)
    assert (result.played.processes, result.played.sessions, result.played.calls) == (2, 4, 7)
    (row,) = result.rows
    assert (row.model, row.sessions, row.calls) == ("m.onnx", 4, 7)
    assert [play.variant for play in result.plays] == ["recorded"] * 3
    for play in result.plays:
        assert 0 < play.creating_ns < play.in_ort_ns
        # The last call starts 35 ms after the beginning.
        assert play.wall_ns > 30 * MS
    code, out, said = program(["report", result.session, "--store", str(tmp_path / "store")])
    assert code == 0, said
    facts(out, "app.workload", "7 calls", "time in ONNX Runtime")


def test_a_budget_that_is_spent_before_the_first_play_still_gives_one(folder: Path, tmp_path: Path) -> None:
    words = ("bench", str(folder / "app.workload"), "--budget", "1ms", "--store", str(tmp_path / "store"))
    code, out, said = program([*words, "--json"])
    assert code == 0, said
    result = msgspec.convert(json.loads(out)["result"], AppBenchResult)
    assert (result.played.calls, len(result.plays), result.in_ort_ns.single) == (7, 1, True)


@dataclass(frozen=True, kw_only=True)
class AtARate:
    """A bench at 2000 calls a second: its result, the text of ``ortune report``, and the start times of each play."""

    result: AppBenchResult
    text: str
    times: list[list[int]]


@pytest.fixture(scope="module")
def at_a_rate(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> AtARate:
    """Of three plays; the budget is never reached."""
    store, times, play = str(tmp_path_factory.mktemp("store")), list[list[int]](), Application.play

    def noted(self: Application, played: ReplayPart, variant: Variant) -> object:
        calls = (step.at_ns for script in played.scripts for step in script.steps if step.do == "call")
        times.append(list(calls))
        return play(self, played, variant)

    words = ("--rate", "2000/s", "--processes", "3", "--budget", "3m", "--json", "--store", store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Application, "play", noted)
        patch.setattr(application, "REPEATED_CALLS", 100)
        code, out, said = program(["bench", str(folder / "app.workload"), *words])
    assert code == 0, said
    facts(said, "2000/s", "poisson")
    result = msgspec.convert(json.loads(out)["result"], AppBenchResult)
    code, text, said = program(["report", result.session, "--store", store, "--verbose"])
    assert code == 0, said
    return AtARate(result=result, text=text, times=times)


def test_a_recording_is_repeated_at_a_given_rate(at_a_rate: AtARate) -> None:
    result, text = at_a_rate.result, at_a_rate.text
    assert (result.arrival, result.rate_per_s) == ("poisson", 2000)
    assert result.played.open_loop and result.played.of_calls == 7
    # A hundred calls in whole turns of seven, since the budget has time for them.
    calls = result.played.calls
    assert calls == 105
    (row,) = result.rows
    assert row.calls == calls
    # The first process releases two sessions before its last call, and keeps the third one. That of the second
    # process exists from the beginning.
    assert row.sessions == 2 * 15 + 1
    assert result.played.sessions == row.sessions + 1
    assert all(play.wall_ns > 0.8 * 1e9 * calls / 2000 for play in result.plays)
    assert [tail.made for tail in result.tails] == [3 * calls] * 3
    assert result.load is not None and result.latency_ns is not None
    facts(text, "started late", "offered load", "generator", "2000/s, poisson arrivals")


def test_each_play_has_times_of_its_own(at_a_rate: AtARate) -> None:
    first, second, third = at_a_rate.times
    assert len(first) == len(second) == len(third) == 105
    assert first != second != third != first


def test_no_latency_of_a_recording_is_shown_if_the_generator_or_the_rate_decides_it(
    at_a_rate: AtARate,
) -> None:
    """Words alone: whether a machine is late or overloaded is no test's to arrange."""
    result = at_a_rate.result
    assert result.load is not None
    load = msgspec.structs.replace(result.load, late_ns=2.0 * MS, late_share=0.3, served_per_s=31.0)
    said = {}
    for verdict in ("measured", "generator", "overloaded"):
        changed = msgspec.structs.replace(result, verdict=verdict, load=load)
        changed = msgspec.structs.replace(changed, headline=app_words.headline(changed))
        said[verdict] = changed.headline, {name for name, _, _ in app_words.figures(changed)}
    facts(said["measured"][0], "p50", "2000/s")
    facts(said["generator"][0], "no answer", "2000/s", "30 %")
    facts(said["overloaded"][0], "cannot serve 2000/s", "31")
    assert {"p50", "p99"} <= said["measured"][1]
    for verdict in ("generator", "overloaded"):
        assert {"p50", "p99"}.isdisjoint(said[verdict][1]) and "offered load" in said[verdict][1]
    assert "time in ONNX Runtime" not in said["generator"][1]


def test_recorded_arrivals_are_played_once_at_their_times_or_at_a_rate(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "REPEATED_CALLS", 20)
    words = ("bench", str(folder / "app.workload"), "--arrival", "recorded", "--processes", "2", "--json")
    rates = []
    for rate in ((), ("--rate", "2000/s", "--budget", "3m")):
        code, out, said = program([*words, *rate, "--store", str(tmp_path / "store")])
        assert code == 0, said
        result = msgspec.convert(json.loads(out)["result"], AppBenchResult)
        assert result.arrival == "recorded" and result.played.open_loop
        rates.append((result.rate_per_s, result.played.calls == 7))
    # Seven calls within 30 ms as recorded.
    assert rates == [(pytest.approx(200), True), (2000, False)]


def test_a_model_elsewhere_is_found_by_its_content(folder: Path, tmp_path: Path) -> None:
    recording = msgspec.json.decode((folder / "app.workload").read_bytes(), type=RecordedWorkload).recording
    assert recording is not None
    (model,) = recording.models
    moved = msgspec.structs.replace(
        recording, models=(msgspec.structs.replace(model, path="/nowhere/m.onnx"),)
    )
    assert find_models(moved, []) == {}
    as_bytes = msgspec.structs.replace(recording, models=(model, msgspec.structs.replace(model, path="")))
    assert find_models(as_bytes, []) == {0: folder / "m.onnx", 1: folder / "m.onnx"}
    shutil.copy(folder / "m.onnx", tmp_path / "other.onnx")
    assert find_models(moved, [tmp_path]) == {0: tmp_path / "other.onnx"}
    (tmp_path / "other.onnx").write_bytes(b"x" * model.size_bytes)
    assert find_models(moved, [tmp_path]) == {}


def test_a_recording_with_thousands_of_threads_is_not_played(folder: Path, tmp_path: Path) -> None:
    saved = msgspec.json.decode((folder / "app.workload").read_bytes(), type=RecordedWorkload)
    assert saved.recording is not None
    many = tuple(_call(0, 5, thread=i) for i in range(600))
    first = msgspec.structs.replace(saved.recording.processes[0], arrivals=many)
    changed = msgspec.structs.replace(saved.recording, processes=(first, saved.recording.processes[1]))
    file = tmp_path / "app.workload"
    files.write(file, msgspec.json.encode(msgspec.structs.replace(saved, recording=changed)))
    code, _, said = program(["bench", str(file), "--budget", "10s", "--store", str(tmp_path / "store")])
    assert code == 2
    facts(said, "threads", "512")


def in_node(folder: Path, target: Path, threads: int = 1) -> Path:
    """The second process alone, as if onnxruntime-node had created its session."""
    saved = msgspec.json.decode((folder / "app.workload").read_bytes(), type=RecordedWorkload)
    assert saved.recording is not None
    recording = saved.recording
    frame = Frame(
        file="onnxruntime-node/bin/x.node", line=0, function="", package="onnxruntime-node", version="1.30.0"
    )
    process = recording.processes[1]
    changed = msgspec.structs.replace(
        recording,
        processes=(
            msgspec.structs.replace(
                process,
                onnxruntime="1.30.0",
                arrivals=tuple(
                    msgspec.structs.replace(a, thread=a.thread % threads) for a in process.arrivals
                ),
            ),
        ),
        sessions=(msgspec.structs.replace(recording.sessions[3], process=0, place=0),),
        places=((frame,),),
    )
    files.write(target, msgspec.json.encode(msgspec.structs.replace(saved, recording=changed)))
    return target


def test_a_recording_of_node_is_played_there_if_its_threads_allow_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        node.find()
    except RuntimeNotFound as error:
        pytest.skip(error.what)
    words = ("--processes", "2", "--store", str(tmp_path / "store"))
    builds = []
    for threads in (1, 2):
        place = in_node(folder, tmp_path / f"{threads}.workload", threads)
        code, out, said = program(["bench", str(place), *words, "--json"])
        assert code == 0, said
        result = msgspec.convert(json.loads(out)["result"], AppBenchResult)
        assert (result.played.calls, [row.calls for row in result.rows]) == (4, [4])
        builds.append((result.runtime.build.partition(" ")[0], " ".join(result.notes)))
    (here, first), (there, second) = builds
    assert here == "onnxruntime-node" and "played with" not in first
    assert there != "onnxruntime-node"
    facts(second, "not Python", "in Python")
    place = in_node(folder, tmp_path / "rate.workload")
    monkeypatch.setattr(application, "REPEATED_CALLS", 20)
    code, out, said = program(["bench", str(place), *words, "--rate", "2000/s", "--budget", "3m", "--json"])
    assert code == 0, said
    result = msgspec.convert(json.loads(out)["result"], AppBenchResult)
    assert result.runtime.node is not None and result.load is not None
    # Its session exists before the calls, which are repeated.
    assert (result.rows[0].calls, result.rows[0].sessions) == (20, 0)
    code, _, said = program(["bench", str(folder / "app.workload"), "--runtime", "node", *words])
    assert code == 2
    facts(said, "Node.js does not play this recording")


@pytest.mark.parametrize(
    "words", [("--callers", "2"), ("--arrival", "constant"), ("--rate", "fast"), ("--set", "spin=0")]
)
def test_options_of_one_model_do_not_apply(words: tuple[str, ...], folder: Path) -> None:
    code, _, said = program(["bench", str(folder / "app.workload"), *words])
    assert code == 2 and "--" in said


def test_no_model_here_is_an_error_that_says_what_to_pass(folder: Path, tmp_path: Path) -> None:
    text = (folder / "app.workload").read_text().replace(str(folder), "/nowhere")
    (tmp_path / "app.workload").write_text(text)
    code, _, said = program(["bench", str(tmp_path / "app.workload"), "--budget", "5s"])
    assert code == 2
    facts(said, "m.onnx", "--models")


def test_models_belong_to_a_recording_alone(folder: Path) -> None:
    code, _, said = program(["bench", str(folder / "m.onnx"), "--models", str(folder)])
    assert code == 2 and "--models" in said


def test_recorded_settings_are_those_that_a_plan_could_have() -> None:
    options = {
        "intra_op_num_threads": 0, "enable_cpu_mem_arena": False, "enable_mem_pattern": True,
        "execution_mode": "ORT_PARALLEL", "graph_optimization_level": "ORT_ENABLE_ALL",
        "session.intra_op.allow_spinning": "0", "optimized_model_filepath": "/tmp/x", "enable_profiling": True,
        "session.intra_op_thread_affinities": "$(evil)",
    }  # fmt: skip
    session = RecordedSession(id=1, process=0, model=0, options=options)  # type: ignore[arg-type]
    assert settings_of(session) == {
        "enable_cpu_mem_arena": False,
        "execution_mode": "parallel",
        "allow_spinning": False,
    }
    forked = RecordedSession(id=1, process=0, model=0, inherited=1)
    assert settings_of(forked) == {"intra_op_num_threads": 1}


def test_a_recording_sets_no_variable_but_numbers_of_threads() -> None:
    variables = {"ORT_INTRA_OP_NUM_THREADS": "2", "OMP_NUM_THREADS": "x", "LD_PRELOAD": "/tmp/evil.so"}
    process = RecordedProcess(pid=1, variables=variables, cpus=(0,))
    assert [(each.key, each.value) for each in variables_of(process, {})] == [
        ("ORT_INTRA_OP_NUM_THREADS", "2")
    ]
    assert [each.value for each in affinity_of(process, {0, 1})] == ["0"]
    assert affinity_of(process, {0}) == () == affinity_of(RecordedProcess(pid=1), {0, 1})


def test_only_providers_that_exist_here_are_played() -> None:
    session = RecordedSession(
        id=1, process=0, model=0, providers_used=("CUDAExecutionProvider", "CPUExecutionProvider")
    )
    assert providers_of(session, {"CPUExecutionProvider"}) == ()
    both = {"CUDAExecutionProvider", "CPUExecutionProvider"}
    assert [each.name for each in providers_of(session, both)] == [
        "CUDAExecutionProvider",
        "CPUExecutionProvider",
    ]
