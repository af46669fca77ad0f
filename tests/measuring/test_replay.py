"""What a session that goes on takes from its journal."""

from __future__ import annotations

from pathlib import Path

from ortune.measuring.replay import PASSED, Places, Replay, read
from ortune.records import BrowserPlace, Failed
from ortune.store.db import Store


def test_what_a_browser_offered_is_known_with_the_time_that_it_took(tmp_path: Path) -> None:
    seen = Places(places=(BrowserPlace(target="web-webgpu", state="not-tried"),), ended_ns=7_000_000_000)
    with Store(tmp_path) as store:
        log = store.begin("tune", "tune m", {"model": "m.onnx"})
        assert Replay(log=log).once("places", Places, lambda: seen) == seen
        replay = read(store.events(log.id))

    def again() -> Places:
        raise AssertionError("what is journalled is not made again")

    assert replay.once("places", Places, again) == seen
    assert replay.decision_time_ns() == 0
    replay.set_clock(seen.ended_ns)
    assert replay.decision_time_ns() == seen.ended_ns
    replay.set_clock(0)
    assert replay.decision_time_ns() == seen.ended_ns


def test_what_is_no_trial_takes_time_too_and_a_session_that_goes_on_decides_by_it(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        log = store.begin("tune", "tune m", {"model": "m.onnx"})
        log.add("after", 2.5)
        for number, ended_ns in enumerate((1_000, 3_000, 6_000)):
            outcome = Failed(plan="p", reason="crash", what="")
            trial = {
                "trial": str(number),
                "arm": "base",
                "plan_id": "p",
                "outcome": outcome,
                "ended_ns": ended_ns,
            }
            log.add("outcome", trial)
            log.add("block", {"index": number, "phase": "race", "order": ["base"]})
            log.add(PASSED, {"ended_ns": ended_ns + 500})
        log.add("outcome", trial | {"ended_ns": 9_000})  # of a block that was cut
        replay = read(store.events(log.id))
    assert replay.once("after", float, lambda: 0.0) == 2.5
    decided = []
    for _ in range(3):
        assert replay.next("base", "p") is not None
        replay.record_other_work()
        decided.append(replay.decision_time_ns())
    # What followed the last trial comes anew, and is journalled anew.
    assert decided[:2] == [1_500, 3_500]
    assert decided[2] >= 6_000


def test_a_decision_that_is_damaged_is_made_anew() -> None:
    replay = Replay(decisions={"order": b"{", "row": b'"no row"'})
    assert replay.once("order", int, lambda: 7) == 7
    assert replay.once("row", tuple[int, ...], lambda: (1,)) == (1,)
