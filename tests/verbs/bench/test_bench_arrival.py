"""``ortune bench --rate``: calls that start at given times."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from facts import facts
from onnx_text import model_of, saved
from ortune import files
from ortune.graph.model.open import open_model
from ortune.records import (
    Arrival,
    ArrivalSchedule,
    BenchRow,
    Estimate,
    RecordedCalls,
    RecordedInput,
    RecordedModel,
    RecordedProcess,
    RecordedSession,
    RecordedWorkload,
    Recording,
)
from ortune.stats.tails import minimum_requests
from ortune.verbs.bench import arrival_words, words
from ortune.verbs.bench.arrival import ArrivalProcess
from ortune.verbs.bench.result import BenchResult
from within import program

MS = 1_000_000


@pytest.fixture(scope="module", autouse=True)
def own_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORTUNE_LOCK", str(tmp_path_factory.mktemp("lock") / "lock"))
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arrival")
    return saved(folder / "m.onnx", model_of("g (float[n,3] x) => (float[n,3] y) { y = Relu (x) }"))


def result_of(folder: Path, *words: str) -> BenchResult:
    code, out, said = program(["bench", *words, "--json", "--store", str(folder / "store")])
    assert code == 0, said
    return msgspec.convert(json.loads(out)["result"], BenchResult)


@pytest.fixture(scope="module")
def result(model: Path, tmp_path_factory: pytest.TempPathFactory) -> BenchResult:
    """Of 20 calls in each of three processes."""
    asked = ("--rate", "500/s", "--processes", "3", "--runs", "20", "--callers", "2")
    return result_of(tmp_path_factory.mktemp("store"), str(model), *asked)


def test_latencies_count_from_the_intended_start(result: BenchResult) -> None:
    assert (result.arrival, result.rate_per_s) == ("poisson", 500)
    (arrival,) = result.arrivals
    assert [len(p.latency_ns) for p in result.processes] == [20] * 3
    for process in result.processes:
        assert process.load is not None
        # A latency contains what it waited and what it was late.
        assert np.mean(process.latency_ns) > process.load.waited_ns + process.load.late_ns
    loads = [p.load for p in result.processes if p.load is not None]
    assert arrival.load.late_ns == np.median([load.late_ns for load in loads])
    # 20 arrivals at 500 a second take 40 ms, whatever the model takes.
    assert all(p.wall_ns > 10 * MS for p in result.processes)


def recorded(model: Path, folder: Path) -> Path:
    shapes = [RecordedInput(name="x", dtype="float32", shape=(n, 3)) for n in (1, 4)]
    calls = tuple(RecordedCalls(key=i, inputs=(shape,), count=6 - 2 * i) for i, shape in enumerate(shapes))
    keys = [0, 1, 0, 1, 1, 0, 1, 0, 0, 0]
    times = [100 * MS + 2 * MS * i + MS * (i % 3) for i in range(len(keys))]
    arrivals = [
        Arrival(key=key, start_ns=start, took_ns=MS, thread=0, active=1)
        for key, start in zip(keys, times, strict=True)
    ]
    recording = Recording(
        processes=(RecordedProcess(pid=1, arrivals=tuple(arrivals)),),
        sessions=(RecordedSession(id=1, process=0, model=0, calls=calls),),
        models=(RecordedModel(sha256=open_model(model).sha256),),
    )
    files.write(folder / "app.workload", msgspec.json.encode(RecordedWorkload(cases=(), recording=recording)))
    return folder / "app.workload"


def test_recorded_calls_are_made_at_their_times_with_their_shapes_in_one_process(
    model: Path, tmp_path: Path
) -> None:
    file = recorded(model, tmp_path)
    slower = result_of(
        tmp_path, str(model), "--workload", str(file), "--arrival", "recorded", "--rate", "100/s",
        "--processes", "3",
    )  # fmt: skip
    assert [row.case for row in slower.rows] == ["recorded"]
    assert [len(p.latency_ns) for p in slower.processes] == [10] * 3
    assert slower.rate_per_s == pytest.approx(100)
    assert all(p.wall_ns > 80 * MS for p in slower.processes)


def test_the_first_calls_of_a_recording_have_the_rate_too() -> None:
    calls = ArrivalSchedule(starts_ns=(0, 10 * MS, 20 * MS, 200 * MS), cases=(0, 1, 0, 1))
    asked = ArrivalProcess(kind="recorded", rate_per_s=50, recorded=calls, scaled=True)
    first = asked.schedule(3, ())
    assert first == ArrivalSchedule(starts_ns=(0, 20 * MS, 40 * MS), cases=(0, 1, 0))
    assert asked.rate_of(first) == pytest.approx(50)
    own = ArrivalProcess(kind="recorded", rate_per_s=15, recorded=calls)
    assert own.schedule(3, ()).starts_ns == (0, 10 * MS, 20 * MS)
    assert own.rate_of(own.schedule(3, ())) == pytest.approx(100)
    assert own.rate_of(own.schedule(1, ())) == 15


@pytest.mark.parametrize(
    ("words", "about"),
    [
        (("--rate", "fast"), "--rate"),
        (("--rate", "0/s"), "--rate"),
        (("--arrival", "constant"), "--arrival"),
        (("--rate", "1/s", "--arrival", "gamma:0"), "--arrival"),
        (("--rate", "1/s", "--gap", "1ms"), "--gap"),
        (("--arrival", "recorded"), "--arrival"),
        (("--rate", "1/s", "--target", "web-wasm"), "--rate"),
    ],
)
def test_what_cannot_be_played_is_refused(words: tuple[str, ...], about: str, model: Path) -> None:
    code, _, said = program(["bench", str(model), *words])
    assert code == 2 and f"{about}:" in said


def test_a_workload_without_calls_one_by_one_is_refused(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "no.workload"
    file.write_text('{"cases": []}')
    code, _, said = program(
        ["bench", str(model), "--workload", str(file), "--arrival", "recorded", "--budget", "5s"]
    )
    assert code == 2, said


def test_no_latency_is_shown_where_the_generator_or_the_rate_decides_it(result: BenchResult) -> None:
    """Words alone: whether a machine is late or overloaded is no test's to arrange."""
    (arrival,) = result.arrivals
    load = msgspec.structs.replace(
        arrival.load, late_ns=2.0 * MS, late_share=0.3, served_per_s=31.0, offered_share=9.7
    )
    for name, told in (("generator", ("no answer", "30 %")), ("overloaded", ("cannot serve", "31"))):
        changed = msgspec.structs.replace(
            result, arrivals=(msgspec.structs.replace(arrival, verdict=name, load=load),)
        )
        said = arrival_words.instead(result.rows[0], changed)
        facts(said, *told)
        assert arrival_words.no_latency(result.rows[0], changed)


def test_rows_of_other_benches_have_no_load() -> None:
    one = Estimate(value=1.0, single=True)
    row = BenchRow(
        case="default", n_processes=1, n_requests=minimum_requests(0.9), median_ns=one, tails=(),
        throughput_per_s=one, load_ns=one, first_run_ns=one, cpu_per_run_ns=one,
    )  # fmt: skip
    result = BenchResult(side=None, rows=(row,), processes=(), load="")  # type: ignore[arg-type]
    assert arrival_words.rows(row, result) == [] and not arrival_words.no_latency(row, result)


def test_no_gap_sets_the_throughput_of_calls_at_a_given_rate(result: BenchResult) -> None:
    # The calls of a recorded application have a gap, which is not played at a given rate.
    recorded = msgspec.structs.replace(result, gap_ns=100 * MS)
    assert "gap" not in str(words.figures(recorded.rows[0], recorded))
