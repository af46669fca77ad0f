"""Peaks of this machine by the real worker: in order of size, kept, found again, and never in the way."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

import ortune
from facts import facts
from ortune import platform
from ortune.engines.profiling import peaks
from ortune.engines.profiling.peaks import duration_s, known_peak, measure_peak, thread_counts
from ortune.engines.profiling.stored_peaks import FILE, NOT_MEASURED, keep_peak, load_peak, not_measured
from ortune.errors import Interrupted, MeasurementError
from ortune.records import MachinePeak
from ortune.runtimes.runtimes import probe
from ortune.show.message_words import peak_duration
from ortune.targets.machine import Machine
from ortune.targets.tool import ToolFailed
from ortune.verbs.doctor.run import Options
from ortune.verbs.doctor.run import run as doctor
from web_models import convolutions

HOST = platform.host()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("peaks")


@pytest.fixture(scope="module")
def measured(store: Path) -> MachinePeak:
    (store / "scratch").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peaks, "_QUIET_SHARE", 1e9)  # what a neighbour disturbed is as good here
        return measure_peak(probe(sys.executable), store / "scratch", store, Machine())


@pytest.mark.parametrize(
    ("cpus", "counts"), [(1, (1,)), (2, (1, 2)), (3, (1, 2, 3)), (8, (1, 2, 4, 8)), (9, (1, 2, 4, 8, 9))]
)
def test_numbers_of_threads(cpus: int, counts: tuple[int, ...]) -> None:
    assert thread_counts(cpus) == counts


def test_every_number_of_threads_has_its_rates(measured: MachinePeak) -> None:
    counts = set(thread_counts(HOST.effective_cpus))
    assert set(measured.flops_per_s) == set(measured.int8_ops_per_s) == set(measured.bytes_per_s) == counts
    # Any processor of this century, and none yet: a factor of a thousand in the units would show.
    assert all(1e9 < rate < 1e14 for rate in measured.flops_per_s.values())
    assert all(1e9 < rate < 1e15 for rate in measured.int8_ops_per_s.values())
    assert all(1e8 < rate < 1e13 for rate in measured.bytes_per_s.values())
    # Caches are faster than memory, and elementwise work than nothing.
    assert max(measured.bytes_per_s[1] / 4, 1e9) < measured.elementwise_bytes_per_s < 1e13
    assert measured.cpu == HOST.cpu
    assert measured.cache_bytes == platform.cache_bytes()
    assert "onnxruntime" in measured.how


def test_it_is_found_again_on_this_machine_only(measured: MachinePeak, store: Path) -> None:
    assert load_peak(HOST, store) == measured
    assert load_peak(HOST, store, "0.0.1") == measured
    for change in ({"cpu": "Another"}, {"effective_cpus": 999}, {"features": ("other",)}):
        assert load_peak(msgspec.structs.replace(HOST, **change), store) is None
    assert load_peak(HOST, store / "nowhere") is None


def test_the_same_runtime_is_preferred_and_others_are_kept(
    measured: MachinePeak, store: Path, tmp_path: Path
) -> None:
    (entry,) = msgspec.json.decode((store / FILE).read_bytes()).values()
    newer = {**entry, "ort_version": "9.9.9", "peak": {**entry["peak"], "taken": "2999-01-01T00:00:00+00:00"}}
    (tmp_path / FILE).write_bytes(msgspec.json.encode({"one": entry, "two": newer}))
    assert load_peak(HOST, tmp_path, entry["ort_version"]) == measured
    found = load_peak(HOST, tmp_path)
    assert found is not None
    assert found.taken.startswith("2999")


def test_the_version_is_told_and_a_peak_of_an_older_ortune_is_taken(
    measured: MachinePeak, store: Path, tmp_path: Path
) -> None:
    (entry,) = msgspec.json.decode((store / FILE).read_bytes()).values()
    assert measured.ort_version == entry["ort_version"] != ""
    del entry["peak"]["elementwise_bytes_per_s"], entry["peak"]["ort_version"]
    (tmp_path / FILE).write_bytes(msgspec.json.encode({"one": {**entry, "ort_version": "1.2.3"}}))
    found = load_peak(HOST, tmp_path, measured.ort_version)
    assert found is not None
    assert (found.ort_version, found.elementwise_bytes_per_s) == ("1.2.3", 0.0)
    assert found.flops_per_s == measured.flops_per_s


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', "\x00\xff", '{"a": {"cpu": "x"}}'])
def test_a_broken_file_is_no_peak(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text, encoding="latin-1")
    assert load_peak(HOST, tmp_path) is None


class Beside(Machine):
    """This machine, where programs of others have so many CPUs."""

    others = 0.0
    at_s = 0.0

    def pause(self, seconds: float) -> None:
        self.at_s += seconds

    def sensors(self) -> platform.SensorSnapshot:
        self.at_s += 1.0
        return platform.SensorSnapshot(
            at_ns=int(1e9 * self.at_s), busy_us=int(1e6 * self.others * self.at_s), own_us=0
        )


def test_beside_others_nothing_is_measured_kept_or_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Beside()
    machine.others = HOST.cores - 0.5
    said: list[str] = []
    with pytest.raises(MeasurementError, match="other programs used") as raised:
        measure_peak(probe(sys.executable), tmp_path, tmp_path, machine, seconds=0.02, say=said.append)
    assert load_peak(HOST, tmp_path) is None
    assert not said, "a minute is not spent where nothing can come of it"
    assert "ortune doctor" not in raised.value.do and "--wait-quiet" in raised.value.do


def test_what_was_postponed_is_measured_at_the_next_quiet_moment_and_doctor_not_advised_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: MachinePeak
) -> None:
    runtime, machine = probe(sys.executable), Beside()
    calls: list[Machine] = []

    def found(*_: object, **__: object) -> MachinePeak:
        calls.append(machine)
        keep_peak(tmp_path, HOST, runtime.ort_version, measured, print)
        return measured

    assert not_measured(tmp_path) == NOT_MEASURED and "ortune doctor" in NOT_MEASURED
    # Nobody asked for it yet: a verb that can do without does not spend its time on it.
    assert known_peak(runtime, tmp_path, tmp_path, machine, 1e9) is None
    machine.others = HOST.cores
    with pytest.raises(MeasurementError):
        measure_peak(runtime, tmp_path, tmp_path, machine)
    assert "ortune doctor" not in not_measured(tmp_path)
    assert known_peak(runtime, tmp_path, tmp_path, machine, 1e9) is None, "still busy"
    machine.others = 0.0
    monkeypatch.setattr(peaks, "measure_peak", found)
    assert known_peak(runtime, tmp_path, tmp_path, machine, 1.0) is None, "no time for it"
    assert known_peak(runtime, tmp_path, tmp_path, machine, 1e9) == measured and calls
    assert not_measured(tmp_path) == NOT_MEASURED


def test_others_on_cpus_that_trials_may_not_use_take_none() -> None:
    machine = Beside()
    machine.others = 3.0
    machine.host = msgspec.structs.replace(HOST, cores=8, logical=8, effective_cpus=4)
    assert machine.taken_cpus(machine.sensors()) == 0.0
    machine.host = msgspec.structs.replace(HOST, cores=4, logical=8, effective_cpus=4)
    assert machine.taken_cpus(machine.sensors()) == pytest.approx(3.0)


def test_a_second_measurement_agrees_where_it_finds_no_more(measured: MachinePeak) -> None:
    assert measured.quiet and not measured.agreed
    assert peaks._agree(measured, measured)
    more = {threads: 1.2 * rate for threads, rate in measured.int8_ops_per_s.items()}
    assert not peaks._agree(measured, msgspec.structs.replace(measured, int8_ops_per_s=more))
    assert not peaks._agree(measured, msgspec.structs.replace(measured, ort_version="0.1"))


def test_a_peak_that_nodes_exceed_is_measured_again(
    measured: MachinePeak, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken beside a neighbour, a tenth of what the machine can do was stored."""
    monkeypatch.setattr(peaks, "_QUIET_SHARE", 1e9)
    (key, entry), *_ = msgspec.json.decode((store / FILE).read_bytes()).items()
    for kind in ("flops_per_s", "int8_ops_per_s", "bytes_per_s"):
        entry["peak"][kind] = {threads: rate / 1000 for threads, rate in entry["peak"][kind].items()}
    entry["peak"]["elementwise_bytes_per_s"] /= 1000
    (tmp_path / FILE).write_bytes(msgspec.json.encode({key: entry}))
    said: list[str] = []
    model = convolutions(tmp_path / "m.onnx")
    found = ortune.profile(
        model, store=tmp_path, runtime=sys.executable, budget="60s", watcher=ortune.Watcher(say=said.append)
    ).result
    assert any("measuring it again" in sentence for sentence in said)
    again = load_peak(HOST, tmp_path)
    assert again is not None and again == found.peak and not again.agreed
    assert again.flops_per_s[1] > 10 * entry["peak"]["flops_per_s"]["1"]


def test_stopped_before_it_began(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        measure_peak(probe(sys.executable), tmp_path, tmp_path, Machine(), stop=lambda: True)
    assert load_peak(HOST, tmp_path) is None


def test_an_interpreter_without_onnxruntime_says_so(tmp_path: Path) -> None:
    runtime = msgspec.structs.replace(probe(sys.executable), python=str(tmp_path / "none"))
    with pytest.raises(ToolFailed, match="cannot start"):
        measure_peak(runtime, tmp_path, tmp_path, Beside())


def test_how_long_it_takes_is_said_before_it_begins() -> None:
    facts(peak_duration(*duration_s(Machine())), "about", " s, up to", " s next to other programs")


def test_doctor_shows_the_stored_one_where_it_does_not_measure(measured: MachinePeak, store: Path) -> None:
    options = Options(runtime=sys.executable, measure=False, store=store)
    assert doctor(options).result.peak == measured
    assert doctor(replace(options, store=store / "nowhere")).result.peak is None
