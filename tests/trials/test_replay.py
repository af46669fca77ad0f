"""What a session that goes on takes from its journal."""

from __future__ import annotations

from pathlib import Path

from ortune.records import BrowserPlace
from ortune.store.db import Store
from ortune.trials.replay import PLACES, ROW, Places, read


def test_what_a_browser_offered_is_known_with_the_time_that_it_took(tmp_path: Path) -> None:
    seen = Places(places=(BrowserPlace(target="web-webgpu", state="not-tried"),), ended_ns=7_000_000_000)
    with Store(tmp_path) as store:
        log = store.begin("tune", "tune m", {"model": "m.onnx"})
        log.add(PLACES, seen)
        log.add(ROW, ())
        replay = read(store.events(log.id))
    assert replay.places == seen and replay.row == () and replay.findings is None
    assert replay.decided() == 0
    replay.reached(seen.ended_ns)
    assert replay.decided() == seen.ended_ns
    replay.reached(0)
    assert replay.decided() == seen.ended_ns
