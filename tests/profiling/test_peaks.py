"""Peaks of this machine by the real worker: in order of size, kept, found again, and never in the way."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from ortune import platform
from ortune.errors import Interrupted
from ortune.fleet.runtimes import probe
from ortune.profiling import peaks
from ortune.profiling.peaks import FILE, load_peak, measure_peak, thread_counts
from ortune.records import MachinePeak
from ortune.targets.machine import Machine
from ortune.targets.tool import ToolFailed
from ortune.verbs.doctor import Options
from ortune.verbs.doctor import run as doctor

HOST = platform.host()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("peaks")


@pytest.fixture(scope="module")
def measured(store: Path) -> MachinePeak:
    (store / "scratch").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        # What a neighbour disturbed is as good here, and so is what the arrays leave in a cache.
        patch.setattr(peaks, "_RETRIES", 0)
        patch.setattr(peaks, "_MOST_ARRAY", peaks._LEAST_ARRAY)
        return measure_peak(probe(sys.executable), store / "scratch", store, Machine(), seconds=0.05)


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


def test_stopped_before_it_began(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        measure_peak(probe(sys.executable), tmp_path, tmp_path, Machine(), stop=lambda: True)
    assert load_peak(HOST, tmp_path) is None


def test_an_interpreter_without_onnxruntime_says_so(tmp_path: Path) -> None:
    runtime = msgspec.structs.replace(probe(sys.executable), python=str(tmp_path / "none"))
    with pytest.raises(ToolFailed, match="cannot start"):
        measure_peak(runtime, tmp_path, tmp_path, Machine())


def test_doctor_shows_the_stored_one_where_it_does_not_measure(measured: MachinePeak, store: Path) -> None:
    options = Options(runtime=sys.executable, measure=False, store=store)
    assert doctor(options).result.peak == measured
    assert doctor(replace(options, store=store / "nowhere")).result.peak is None
