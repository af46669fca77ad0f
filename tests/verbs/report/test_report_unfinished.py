"""``ortune report`` on sessions that were cut off, and on stores that are foreign or damaged."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from stored_sessions import HEADER, keep, report_of, run

import golden
import golden_tune
from ortune.errors import UsageError
from ortune.records import CaseTimes, Envelope, Failed, Measured, Outcome, Plan, TrialDone
from ortune.store.db import DATABASE, SessionLog, Store


def trial(latency_ns: int) -> TrialDone:
    times = CaseTimes(case="c", weight=1.0, latency_ns=(latency_ns,) * 9, first_ns=9_000_000)
    return TrialDone(
        load_ns=5_000_000, cases=(times,), cpu_ns=9 * latency_ns, wall_ns=9 * latency_ns, n_runs=9
    )


def journal(log: SessionLog, trials: list[tuple[str, Plan, Outcome]], *, block: bool = True) -> None:
    """Trials as a session writes them down, and the block that they make."""
    for arm, plan, outcome in trials:
        name = f"{log.seq}-{arm}"
        log.add("trial", {"trial": name, "arm": arm, "plan": plan})
        log.add("outcome", {"trial": name, "arm": arm, "plan_id": plan.id, "outcome": outcome})
    if block:
        log.add("block", {"index": 0, "phase": "race", "order": [arm for arm, _, _ in trials]})


def test_two_models_with_one_plan_are_two(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        log = store.begin("compare", "key", {"a": "a.onnx", "b": "b.onnx", "host": golden.HOST})
        for times in ((2_000_000, 8_000_000), (4_000_000, 6_000_000)):
            arms = zip(("base", "new"), times, strict=True)
            journal(log, [(arm, Plan(), Measured(plan="a", done=trial(t))) for arm, t in arms])
    (session,) = report_of(tmp_path, "newest").sessions
    assert [(s.name, s.figures.latency_ns) for s in session.so_far if s.figures] == [("A", 3e6), ("B", 7e6)]
    text = " ".join(run(tmp_path, "newest").stdout.split())
    assert "4 trials of 2 configurations measured" in text
    assert "A: default 2 3.00 ms" in text and "B: default 2 7.00 ms" in text


def test_an_interrupted_session_tells_what_was_measured(tmp_path: Path) -> None:
    fast = Plan(settings={"intra_op_num_threads": 1})
    with Store(tmp_path) as store:
        log = store.begin("tune", "tune key", HEADER)
        # Before the first block the pilot's trials, among them one fed with zeros.
        journal(log, [("base", Plan(), Measured(plan="a", done=trial(9_000_000)))], block=False)
        journal(log, [("kinds", Plan(), Measured(plan="a", done=trial(9_000_000)))], block=False)
        outcomes: list[tuple[str, Plan, Outcome]] = [
            ("base", Plan(), Measured(plan="a", done=trial(2_000_000))),
            ("identical", Plan(), Measured(plan="a", done=trial(9_000_000))),
            ("spike", Plan(), Measured(plan="a", done=trial(9_000_000))),
            ("p1", fast, Measured(plan="b", done=trial(1_000_000))),
            ("p1", fast, Failed(plan="b", reason="crash", what="killed")),
            ("base", Plan(), Measured(plan="a", done=trial(4_000_000))),
        ]
        journal(log, outcomes[:4])
        journal(log, outcomes[4:])
        # Cut in the middle of a block.
        journal(log, [("base", Plan(), Measured(plan="a", done=trial(9_000_000)))], block=False)
        log.add("trial", {"trial": "cut", "arm": "base", "plan": Plan()})
    (session,) = report_of(tmp_path, "newest").sessions
    assert session.state == "unfinished" and session.document is None
    default, other = session.so_far
    assert default.figures is not None and other.figures is not None
    assert (default.plan, default.figures.n_trials, default.figures.latency_ns) == (Plan(), 2, 3e6)
    assert (other.plan, other.figures.n_trials, other.n_failed) == (fast, 1, 1)
    text = " ".join(run(tmp_path, "newest").stdout.split())
    for part in ("there is no verdict", "1, 1 failed", "one observation", "3.00 ms"):
        assert part in text
    assert "9.00 ms" not in text
    assert run(tmp_path, "newest", "--brief").returncode == 2


def test_foreign_and_damaged_sessions_are_one_line_and_the_rest_goes_on(tmp_path: Path) -> None:
    newer = msgspec.structs.replace(golden_tune.tuned(), schema="ortune/tune/2", ortune="9.9.9")
    good, future, unknown, shape, broken = keep(
        tmp_path,
        golden_tune.tuned(),
        newer,
        Envelope(schema="ortune/dream/1", ortune="0.1.0", status="ok", result={"x": 1}),
        Envelope(schema="ortune/tune/1", ortune="0.1.0", status="ok", result={"side": 3}),
        golden_tune.tuned(notes=("a long note" * 9000,)),
    )
    for blob in (tmp_path / "blobs").rglob("*"):
        if blob.is_file():
            blob.write_bytes(b"not compressed")
    by_id = {s.id: s for s in report_of(tmp_path).sessions}
    assert by_id[good].state == "done" and by_id[good].headline
    assert "format 'ortune/tune/2', written by ortune 9.9.9" in by_id[future].trouble
    assert by_id[unknown].document.result == {"x": 1}
    assert "cannot be read" in by_id[shape].trouble and by_id[broken].trouble
    done = run(tmp_path)
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert all(i in done.stdout for i in by_id)
    pair = report_of(tmp_path, good, future)
    assert pair.kind == "told" and pair.sessions[0].id == good and future in pair.troubles[0]
    assert "available only as JSON" in run(tmp_path, unknown).stdout
    with pytest.raises(UsageError, match="cannot read"):
        report_of(tmp_path, future)


def test_a_file_that_is_no_store_is_named(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_text("this is no database at all, only words " * 9)
    done = run(tmp_path)
    assert done.returncode == 2 and str(tmp_path) in done.stderr and "Traceback" not in done.stderr
