"""``ortune bench`` end to end on small models: figures from raw samples, shapes, what sessions share, stopping."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import ortune
from facts import facts
from onnx_text import model_of, saved
from ortune.errors import Interrupted, MeasurementError, UsageError
from ortune.platform import host
from ortune.records import Envelope, Measured, Plan, Sensors, TrialDone, Workload
from ortune.targets.machine import Machine
from ortune.verbs._shared.spelling import command
from ortune.verbs.bench.figures import CaseTrial, own_threads, remarks
from ortune.verbs.bench.result import BenchResult
from ortune.verbs.bench.run import Options, requests, shared
from within import program


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A matrix product over a dynamic number of rows, then the place of the largest."""
    dense = model_of(
        """dense (float[rows,64] x) => (float[rows,64] y, int64[rows] best)
        { y = MatMul (x, w) best = ArgMax <axis = -1, keepdims = 0> (y) }""",
        weights={"w": np.eye(64, dtype=np.float32)},
    )
    return saved(tmp_path_factory.mktemp("bench") / "dense.onnx", dense)


@pytest.fixture(autouse=True)
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))


def test_figures_are_those_of_the_raw_samples(model: Path, tmp_path: Path) -> None:
    """Of the document that the command line prints, which holds what the schema says."""
    asked = ("--processes", "3", "--runs", "50", "--dim", "rows=2,8")
    code, out, said = bench(tmp_path, str(model), "--json", *asked)
    assert code == 0, said
    document = json.loads(out)
    assert Envelope.__struct_fields__ == tuple(document)
    result = msgspec.convert(document["result"], BenchResult)
    assert [row.case for row in result.rows] == ["rows=2", "rows=8"]
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    for row, rows in zip(result.rows, (2, 8), strict=True):
        mine = [p for p in result.processes if p.case == row.case]
        assert [len(p.latency_ns) for p in mine] == [50, 50, 50]
        assert row.median_ns.value == np.median([np.median(p.latency_ns) for p in mine])
        assert row.median_ns.low <= row.median_ns.value <= row.median_ns.high
        assert row.mean_ns.value == np.median([np.mean(p.latency_ns) for p in mine])
        every = [ns for p in mine for ns in p.latency_ns]
        assert (row.min_ns, row.max_ns) == (min(every), max(every))
        everything = np.concatenate([p.latency_ns for p in mine])
        by_quantile = {t.quantile: t for t in row.tails}
        assert by_quantile[0.95].latency_ns.value == np.quantile(everything, 0.95)
        assert by_quantile[0.99].latency_ns is None
        assert (by_quantile[0.99].needed, by_quantile[0.99].made) == (662, 150)
        # What a loop by hand would see: no request lasts longer than all of them together.
        assert all(sum(p.latency_ns) <= p.wall_ns for p in mine)
        assert row.throughput_per_s.value == np.median([1e9 * 50 / p.wall_ns for p in mine])
        shapes = [v.shape for v in session.run(None, {"x": np.zeros((rows, 64), np.float32)})]
        assert row.outputs == tuple(
            f"{o.name} {'x'.join(map(str, s))}{kind}"
            for o, s, kind in zip(session.get_outputs(), shapes, ("", ", labels"), strict=True)
        )
    assert sorted(p.index for p in result.processes) == list(range(6))
    assert result.session


def test_sessions_share_a_pool_and_an_arena(model: Path, tmp_path: Path) -> None:
    envelope = ortune.bench(
        model, processes=3, runs=12, sessions=2, callers=2, shared_pool=True, shared_arena=True, set=["intra=2"],
        store=tmp_path / "store",
    )  # fmt: skip
    result: BenchResult = envelope.result
    assert result.side.plan.settings == {
        "arena_extend_strategy": "power_of_two",
        "global_thread_pool": 2,
    }
    assert {(r.knob, r.level) for r in result.read_back if r.ok} == {
        ("arena_extend_strategy", "echo"),
        ("global_thread_pool", "effect"),
    }
    facts(result.load, "2 callers", "2 sessions", "back to back")
    assert all(len(p.latency_ns) >= 4 * 12 for p in result.processes)
    for p in result.processes:  # four callers at once: their waits overlap, and none outlasts the whole
        assert max(p.latency_ns) <= p.wall_ns


def stopping_after(n: int) -> Callable[[], bool]:
    """Asks to stop once it was asked n times whether to."""
    asked = iter(range(1000))
    return lambda: next(asked) >= n


def test_a_stop_tells_what_was_measured_by_then(model: Path, tmp_path: Path) -> None:
    watcher = ortune.Watcher(stop=stopping_after(2))
    envelope = ortune.bench(
        model, processes=9, runs=100, dim=["rows=2"], store=tmp_path / "store", watcher=watcher
    )
    assert envelope.status == "interrupted"
    row = envelope.result.rows[0]
    assert row.n_processes == 2
    assert row.median_ns.single
    assert row.median_ns.low is None
    p95 = next(t for t in row.tails if t.quantile == 0.95)
    assert p95.latency_ns.single


def test_a_stop_before_the_first_process_has_nothing_to_tell(model: Path, tmp_path: Path) -> None:
    watcher = ortune.Watcher(stop=lambda: True)
    with pytest.raises(Interrupted, match="there is no result"):
        ortune.bench(model, store=tmp_path / "store", watcher=watcher)


def bench(folder: Path, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command, run within this process."""
    return program(["bench", *words, "--store", str(folder / "store")])


def test_the_command_line_says_all_of_it(model: Path, tmp_path: Path) -> None:
    code, out, said = bench(
        tmp_path, str(model), "--processes", "3", "--runs", "30", "--gap", "1ms", "--set", "spin=0",
        "--set", "inter_spin=0",
    )  # fmt: skip
    assert code == 0, said
    for part in (
        "p50",
        "p99 too few samples 662 requests needed, 90 were made",
        "(set by the gap of 1 ms)",
        "allow_spinning=0",
        "ortune report",
    ):
        assert part in " ".join(out.split())
    assert "inter_op_allow_spinning=0 needs execution_mode=parallel" in said
    assert max(len(line) for line in out.splitlines() if not line.startswith("ortune ")) <= 100


def test_json_is_one_document_and_errors_are_too(model: Path, tmp_path: Path) -> None:
    code, out, _ = bench(tmp_path, str(model), "--json", "--processes", "2")
    document = json.loads(out)
    assert code == 2
    assert document["schema"] == "ortune/bench/1"
    assert document["error"]["where"] == "--processes"


def test_a_plan_alone_is_refused_with_the_way_to_give_it() -> None:
    with pytest.raises(UsageError) as refused:
        ortune.bench("plan.json")
    assert "--plan plan.json" in refused.value.do


def test_what_stands_against_a_shared_pool_is_named() -> None:
    with pytest.raises(UsageError, match="--shared-pool: cannot be combined with the setting allow_spinning"):
        shared(Plan(settings={"allow_spinning": False}), pool=True, arena=False, cpus=2)
    with pytest.raises(
        UsageError, match="--shared-arena: cannot be combined with the setting enable_cpu_mem_arena"
    ):
        shared(Plan(settings={"enable_cpu_mem_arena": False}), pool=False, arena=True, cpus=2)
    assert shared(Plan(), pool=False, arena=False, cpus=2) == Plan()
    given = Plan(settings={"global_thread_pool": 3, "arena_extend_strategy": "same_as_requested"})
    assert shared(given, pool=True, arena=True, cpus=2) == given


def test_a_shared_pool_is_as_large_as_the_pod() -> None:
    machine = Machine(Options(model="m.onnx", cpus=0.5).feeds.pod)
    try:
        assert machine.trial_host.effective_cpus == 1
        assert Machine().trial_host.effective_cpus == host().effective_cpus
        plan = shared(Plan(), pool=True, arena=False, cpus=machine.trial_host.effective_cpus)
        assert plan.settings == {"global_thread_pool": 1}
    finally:
        machine.close()


def test_inputs_that_do_not_run_are_refused_before_anything_is_timed(model: Path, tmp_path: Path) -> None:
    broken = onnx.load(model)
    broken.graph.node.insert(1, helper.make_node("Reshape", ["y", "to"], ["z"]))
    broken.graph.node[2].input[0] = "z"
    broken.graph.initializer.append(numpy_helper.from_array(np.array([2, 64], np.int64), "to"))
    path = tmp_path / "broken.onnx"
    onnx.save(broken, path)
    with pytest.raises(UsageError) as refused:
        ortune.bench(path, dim=["rows=3"], store=tmp_path / "store")
    assert refused.value.code == "input"


@pytest.fixture
def python_that_breaks(tmp_path: Path) -> tuple[Path, Path]:
    """An interpreter that ends at once as soon as a file is there, and that file."""
    broken, python = tmp_path / "broken", tmp_path / "python"
    python.write_text(f"#!/bin/sh\n[ -e '{broken}' ] && exit 9\nexec '{sys.executable}' \"$@\"\n")
    python.chmod(0o755)
    return python, broken


def breaking_after(n: int, broken: Path) -> Callable[[], bool]:
    """Never asks to stop; the interpreter breaks once it was asked n times whether to."""
    asked = iter(range(1000))

    def stop() -> bool:
        if next(asked) >= n:
            broken.touch()
        return False

    return stop


def test_a_process_that_fails_is_told_beside_those_that_did_not(
    model: Path, tmp_path: Path, python_that_breaks: tuple[Path, Path]
) -> None:
    python, broken = python_that_breaks
    watcher = ortune.Watcher(stop=breaking_after(3, broken))
    envelope = ortune.bench(
        model, python=python, processes=9, runs=5, dim=["rows=2"], store=tmp_path / "store", watcher=watcher
    )
    assert envelope.status == "ok"
    assert envelope.result.rows[0].n_processes == 3
    assert [f.reason for f in envelope.result.failures] == ["crash", "crash"]
    assert [note for note in envelope.result.notes if "3 of 9 processes" in note and "2 in a row" in note]


def test_failures_that_others_lie_between_end_nothing(
    model: Path, tmp_path: Path, python_that_breaks: tuple[Path, Path]
) -> None:
    python, broken = python_that_breaks
    asked = iter(range(1000))

    def stop() -> bool:
        """Every other process fails."""
        if next(asked) % 2:
            broken.touch()
        else:
            broken.unlink(missing_ok=True)
        return False

    envelope = ortune.bench(
        model, python=python, processes=5, runs=1, dim=["rows=2"], store=tmp_path / "store",
        watcher=ortune.Watcher(stop=stop),
    )  # fmt: skip
    assert envelope.result.rows[0].n_processes == 3
    assert len(envelope.result.failures) == 2
    assert not any("stopped after" in note for note in envelope.result.notes)
    assert [len(p.latency_ns) for p in envelope.result.processes] == [1, 1, 1]


def test_the_own_load_is_not_called_a_busy_machine() -> None:
    done = TrialDone(load_ns=1, cases=(), cpu_ns=1, wall_ns=1, n_runs=1, threads=1)
    waiting = Measured(plan="p", done=done, elapsed_ns=10**9, sensors=Sensors(psi_cpu_some_us=900_000))
    (busy,) = remarks([waiting], 2, own=2)
    facts(busy, "busy machine", "90 %")
    own = "tasks waited for a CPU 90 % of the time, including the process's own 9 threads on 2 CPUs"
    assert remarks([waiting], 2, own=9) == [own]
    loaded = msgspec.structs.replace(waiting, sensors=Sensors(load1=9.0, cpu_over_wall=2.0))
    assert remarks([loaded], 2, own=9) == []
    trial = CaseTrial(index=0, case=0, trial=waiting)
    assert own_threads(Workload(cases=(), sessions=2, callers=4), Plan(), [trial]) == 2 * (4 + 1)
    pool = Plan(settings={"global_thread_pool": 3})
    assert own_threads(Workload(cases=(), sessions=2, callers=4), pool, [trial]) == 2 * 4 + 2


def test_stolen_time_of_all_cpus_is_given_in_cpus() -> None:
    done = TrialDone(load_ns=1, cases=(), cpu_ns=1, wall_ns=1, n_runs=1, threads=1)
    # 300 ticks of 10 ms in 2 s, of which the runs took 1 s.
    sensors = Sensors(steal_ticks=300, elapsed_ns=2 * 10**9)
    assert remarks([Measured(plan="p", done=done, elapsed_ns=10**9, sensors=sensors)], 4) == [
        "CPU steal by the hypervisor: 150 % of one CPU"
    ]


def test_nothing_but_failures_is_an_error(
    model: Path, tmp_path: Path, python_that_breaks: tuple[Path, Path]
) -> None:
    python, broken = python_that_breaks
    watcher = ortune.Watcher(stop=breaking_after(0, broken))
    with pytest.raises(MeasurementError, match="every process failed: crash"):
        ortune.bench(model, python=python, processes=3, store=tmp_path / "store", watcher=watcher)
    told = ortune.show("newest", store=tmp_path / "store").result
    (session,) = told.sessions
    assert session.state == "failed" and "every process failed" in session.trouble


def test_requests_grow_only_where_eight_processes_can_tell_a_p99() -> None:
    usual = {"least": 10, "process_ns": 0.5e9, "callers": 1}
    assert requests(left_ns=18e9, request_ns=5e6, **usual) == 125
    assert requests(left_ns=18e9, request_ns=100e6, **usual) == 17
    assert requests(left_ns=1e9, request_ns=100e6, **usual) == 10


def test_the_command_is_said_with_everything_that_mattered(tmp_path: Path) -> None:
    o = Options(
        model="a model.onnx",
        set=["intra=2"],
        shape=["x:1x3"],
        dim=["seq=16:1,32:3"],
        gap="30ms",
        sessions=2,
        cpus=2,
        memory="1g",
        shared_pool=True,
        runs=9,
        budget=60,
        store=tmp_path,
    )
    words = shlex.split(command("bench", o))
    assert words[:3] == ["ortune", "bench", "a model.onnx"]
    said = {"--set intra=2", "--shape x:1x3", "--dim seq=16:1,32:3", "--gap 30ms", "--sessions 2", "--cpus 2"}
    said |= {"--memory 1g", "--shared-pool", "--runs 9", "--budget 60"}
    assert set(" ".join(words[3:]).replace(" --", "\n--").splitlines()) == said


def test_a_budget_that_holds_no_process_of_its_own_tells_what_the_pilot_timed(
    model: Path, tmp_path: Path
) -> None:
    found = ortune.bench(
        model, dim=["rows=2"], python=sys.executable, budget="0.1s", store=tmp_path / "store"
    )
    (row,) = found.result.rows
    assert row.n_processes == 1 and row.median_ns.single and row.median_ns.value > 0
    assert found.status == "ok"
