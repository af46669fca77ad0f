"""Rules on recorded applications: what they say, and what they do not take for a fault."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed
from recording_examples import (
    MS,
    arrivals,
    between,
    calls,
    failed,
    inherited,
    masked,
    on_loop,
    process,
    reading,
    recorded,
    session,
    short,
    unused,
    workers,
)

from facts import facts
from ortune import rules
from ortune.records import Finding, RecordedModel
from ortune.rules import Facts


def found(facts: Facts) -> list[Finding]:
    return list(rules.found_by(rules.Selection().rules(("application",)), facts))


def codes(facts: Facts) -> list[str]:
    return [finding.code for finding in found(facts)]


def test_a_program_without_faults_has_no_findings() -> None:
    quiet = {"session.intra_op.allow_spinning": "0", "intra_op_num_threads": 2}
    one = recorded(session(used=quiet, options=quiet), processes=(process(arrivals=arrivals(20)),))
    assert codes(one) == []
    two_models = [RecordedModel(path="a.onnx", sha256="a"), RecordedModel(path="b.onnx", sha256="b")]
    both = [session(1, model=0), session(2, model=1)]
    assert codes(recorded(*both, models=tuple(two_models))) == []


def test_sessions_per_call_name_count_place_and_cost() -> None:
    (finding,) = found(recorded(*short(8)))
    assert finding.code == "APP001"
    assert finding.what.startswith("8 sessions of m.onnx for 8 calls (lib 1.2, lib/core.py:12, called from ")
    assert finding.share_ratio == pytest.approx(8 * 5 / 1000)
    assert finding.where == ("lib/core.py:12", "/srv/app.py:7")


@pytest.mark.parametrize(
    ("n", "per_session", "expected"),
    [(3, 1, []), (4, 2, ["APP001"]), (4, 3, []), (49, 1, ["APP001"]), (8, 50, [])],
)
def test_a_few_sessions_or_long_lived_ones_are_no_session_per_call(
    n: int, per_session: int, expected: list[str]
) -> None:
    assert codes(recorded(*short(n, per_session))) == expected


def test_sessions_with_other_settings_or_in_other_processes_are_not_alike() -> None:
    every = short(8)
    other = [changed(each, used={"intra_op_num_threads": each.id}) for each in every]
    assert codes(recorded(*other)) == []
    apart = [changed(each, process=each.id - 1) for each in every]
    assert codes(recorded(*apart, processes=tuple(process(n) for n in range(8)))) == []
    lost = [changed(each, error="RuntimeException", calls=()) for each in every]
    assert codes(recorded(*lost)) == ["APP018"]


def test_one_kept_session_does_not_hide_those_per_call() -> None:
    kept = session(20, place=1, calls=(calls(5000),))
    assert codes(recorded(kept, *short(8))) == ["APP001"]


def test_copies_are_counted_only_if_they_are_called_at_the_same_time() -> None:
    (finding,) = found(recorded(*(session(n) for n in range(1, 9))))
    assert (finding.code, finding.what[:30]) == ("APP002", "8 sessions of m.onnx exist at ")
    replaced = [session(1, end_ns=500 * MS), session(2, start_ns=600 * MS)]
    assert codes(recorded(*replaced)) == []
    warm = [session(1, calls=()), session(2)]
    assert codes(recorded(*warm)) == ["APP017"]


def test_a_session_of_one_thread_loses_nothing_in_a_fork() -> None:
    family = (process(), process(2, parent=0))
    (finding,) = found(recorded(*inherited(3), processes=family))
    assert finding.code == "APP003" and "its 4 threads became 1" in finding.what
    assert codes(recorded(*inherited(0), processes=family)) == []
    parent, child = inherited(3)
    assert codes(recorded(parent, changed(child, calls=()), processes=family)) == ["APP017"]


def test_a_creation_at_start_up_blocks_nobody() -> None:
    assert codes(on_loop(150)) == ["APP002", "APP004"]
    assert codes(on_loop(50)) == ["APP002"]
    assert codes(on_loop(150, creation_ms=2)) == ["APP002"]


def test_pools_are_added_up_over_processes_that_run_at_the_same_time() -> None:
    (finding,) = found(workers(0, 5, 3, threads=4))
    assert finding.code == "APP007"
    facts(finding.what, "3 processes", "12 threads", "4 CPUs")
    assert finding.fix == "set intra_op_num_threads=1 in each of them"
    assert codes(workers(0, 5, threads=2)) == []
    assert codes(workers(0, 500, threads=4)) == []  # one after the other


def test_a_pool_is_held_to_the_quota_and_the_affinity() -> None:
    four = recorded(session(threads=3))
    assert codes(four) == []
    quota = replace(four, recording=changed(four.recording, cpu_quota=1.5))
    (finding,) = found(quota)
    assert finding.code == "APP007" and finding.fix == "set intra_op_num_threads=2"
    (narrow,) = found(recorded(session(threads=3), processes=(process(cpus=(2,)),)))
    assert "its affinity allows 1 CPU (" in narrow.what


def test_spinning_is_said_of_pauses_and_not_of_calls_in_a_row() -> None:
    assert codes(between(400, 3)) == ["APP008"]
    assert codes(between(400, 500)) == []
    assert codes(between(5, 3)) == []

    assert codes(between(11, 3, gap_ms=0)) == []


def test_spinning_that_is_a_small_part_of_the_cpu_time_is_no_finding() -> None:
    facts = between(400, 3)
    assert facts.recording is not None
    for seconds, expected in ((10, ["APP008"]), (100, [])):
        busy = changed(facts.recording, cpu_ns=seconds * 1000 * MS)
        assert codes(replace(facts, recording=busy)) == expected


def test_padding_needs_several_calls_and_is_a_note() -> None:
    (finding,) = found(masked(0.02))
    assert (finding.code, finding.severity) == ("APP009", "note")
    assert "98 %" in finding.what
    assert codes(masked(0.5)) == []
    assert codes(masked(0.02, inspected=3)) == []


def test_masks_that_may_mark_something_else_than_tokens_are_no_padding() -> None:
    assert codes(masked(0)) == []
    assert codes(masked(0.02, dtype="bool")) == []
    assert codes(masked(0.02, name="padding_mask")) == []
    assert codes(masked(0.02, shape=(50, 50))) == []
    assert codes(masked(0.02, shape=(2, 1, 50, 50))) == []


def test_python_s_own_library_is_not_the_caller() -> None:
    facts = recorded(*short(8))
    assert facts.recording is not None
    inner, outer = facts.recording.places[0]
    library = changed(outer, file="/usr/lib/python3.11/functools.py")
    places = ((inner, library, outer), *facts.recording.places[1:])
    (finding,) = found(replace(facts, recording=changed(facts.recording, places=places)))
    assert "called from /srv/app.py:7" in finding.what


def test_sessions_without_calls_name_count_place_time_and_memory() -> None:
    (finding,) = found(recorded(unused(1), unused(2, end_ns=40 * MS), session(3, place=1)))
    assert finding.code == "APP017"
    facts(finding.what, "2 sessions of m.onnx were created and never called (lib 1.2, lib/core.py:12", "1 %")
    facts(finding.evidence, "10 ms", "188 MiB")
    assert finding.fix == "create the session on first use, or not at all"
    (one,) = found(recorded(unused(memory_bytes=None)))
    assert "1 session of m.onnx was created" in one.what and "memory" not in one.evidence


def test_a_session_that_set_providers_created_again_has_its_own_fix() -> None:
    again = [unused(1, end_ns=30 * MS, recreated=True), session(2)]
    (finding,) = found(recorded(*again))
    assert finding.code == "APP017" and "set_providers" in finding.fix


@pytest.mark.parametrize(
    "ended",
    [{"ended_by": "duration"}, {"ended_by": "SIGINT"}, {"ended_by": "SIGTERM", "code": 143}, {"code": 1}],
)
def test_a_session_may_be_called_after_the_recorded_part_of_a_program(ended: dict[str, Any]) -> None:
    busy = process(arrivals=arrivals(100))
    assert codes(recorded(unused(1), session(2, place=1), processes=(busy,), **ended)) == []
    at_the_end = unused(1, end_ns=900 * MS)  # objects are freed when the interpreter ends
    assert codes(recorded(at_the_end, session(2, place=1), processes=(busy,), **ended)) == []
    freed = unused(1, end_ns=60 * MS)
    assert codes(recorded(freed, session(2, place=1), processes=(busy,), **ended)) == ["APP017"]


def test_a_call_in_a_forked_process_is_a_call_of_its_session() -> None:
    family = (process(), process(2, parent=0), process(3, parent=1))
    parent, child = inherited(0)
    quiet = changed(child, calls=())
    grandchild = changed(child, process=2)
    assert codes(recorded(parent, quiet, grandchild, processes=family)) == []
    assert codes(recorded(parent, quiet, processes=family)) == ["APP017"]


def test_a_worker_without_work_is_no_fault() -> None:
    pool = (process(), process(2))
    assert codes(recorded(unused(1), session(1, process=1), processes=pool)) == []
    assert codes(recorded(unused(1), session(1, process=1, place=1), processes=pool)) == ["APP017"]


def test_sessions_that_may_have_had_calls_or_another_purpose_are_left_out() -> None:
    assert codes(recorded(unused(writes_model=True))) == []
    assert codes(recorded(unused(creation_ns=0))) == []
    copy = session(2, creation_ns=0)
    assert codes(recorded(unused(), copy)) == []
    for lossy in ({"stopped": "why"}, {"lost_events": 3}):
        assert codes(recorded(unused(), processes=(process(**lossy),))) == []
        family = (process(), process(2, parent=0, **lossy))
        assert codes(recorded(unused(), processes=family)) == []


def test_many_sessions_without_a_call_are_never_called_and_with_a_few_they_are_sessions_per_call() -> None:
    none = [changed(each, calls=()) for each in short(8)]
    assert codes(recorded(*none)) == ["APP017"]
    assert codes(recorded(*none[:4], *short(8)[4:])) == ["APP001"]


def test_a_failed_creation_is_a_note_with_the_error_and_the_providers() -> None:
    (finding,) = found(recorded(failed(1), failed(2), session(3)))
    assert (finding.code, finding.severity) == ("APP018", "note")
    facts(finding.what, "2 sessions of m.onnx with CUDAExecutionProvider could not be created (lib 1.2")
    assert finding.evidence == "Fail: no CUDA here"
    assert "CUDAExecutionProvider" in finding.fix
    (other,) = found(recorded(failed(providers=None, error_message="")))
    assert other.evidence == "Fail" and "ExecutionProvider" not in other.what + other.fix


def test_outputs_are_unread_only_if_all_callers_of_a_place_are_known() -> None:
    (finding,) = found(reading(0))
    assert (finding.code, finding.severity) == ("APP019", "note")
    assert finding.what == "2 of 3 outputs of m.onnx are never read (/srv/app.py:9)"
    facts(finding.evidence, "100 calls", "output 1: float32 [1, 20]", "output 2: float32 [1, 30]")
    assert "1 of 3 outputs of m.onnx is" in found(reading(0, 2))[0].what
    assert codes(reading(0, outputs_read=None)) == []
    assert codes(reading(0, count=3)) == []
    assert codes(reading(0, failed=100)) == []
    one = reading(0).recording
    assert one is not None
    first = one.sessions[0].calls[0]
    for other, expected in (
        ({"outputs_read": (1,)}, "1 of 3 outputs"), ({"outputs_read": None}, ""), ({"outputs": first.outputs[:2]}, ""),
    ):  # fmt: skip
        both = changed(one.sessions[0], calls=(first, changed(first, key=2, **other)))
        assert "".join(finding.what[:14] for finding in found(recorded(both))) == expected
