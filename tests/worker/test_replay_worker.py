"""A process of a recorded application: sessions, threads, and what is measured of each step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from fake_clock import FakeClock
from onnx_text import model_of, saved
from ortune.inputs import feed_files
from ortune.worker.replay import Player

MS = 1_000_000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replay")
    feed_files.write_feeds(folder / "feed", {"x": np.full((2, 3), 2, np.float32)})
    return saved(folder / "m.onnx", model_of("g (float[n,3] x) => (float[n,3] y) { y = Relu (x) }"))


class TimedPlayer(Player):
    """Its creations take 50 ms and its calls 4 ms of a fake clock."""

    def create(self, number: int) -> None:
        super().create(number)
        self.clock.t += 50 * MS

    def call(self, number: int, feed: int) -> None:
        super().call(number, feed)
        self.clock.t += 4 * MS


def player(model: Path, steps: list[list[Any]], shared: tuple[str, ...] = ("",), **more: Any) -> Player:
    applied = {"channel": "session_option", "key": "intra_op_num_threads", "value": 1, "knob": "intra"}
    session = {"model": str(model), "applied": [applied], "providers": []}
    request = {
        "sessions": [{**session, "shared": name, "before": more.get("before", False)} for name in shared],
        "feeds": [{"path": str(model.parent / "feed"), "batch": 1, "strided": False, "lists": []}],
        "steps": steps,
        "seed": 0,
        "open_loop": more.get("open_loop", False),
        "outputs_path": more.get("outputs", ""),
    }
    if "clock" in more:
        return TimedPlayer(onnxruntime, request, more["clock"])
    return Player(onnxruntime, request)


def test_each_step_is_timed_and_outputs_are_kept_once(model: Path, tmp_path: Path) -> None:
    steps = [
        [0, "create", 0, -1, 0],
        [0, "call", 0, 0, MS],
        [0, "call", 0, 0, 2 * MS],
        [0, "close", 0, -1, 0],
    ]
    played = player(model, steps, outputs=str(tmp_path))
    done = played.play()
    assert all(took > 0 for took in done["took_ns"][:3]) and played.sessions == {}
    assert done["wall_ns"] >= 3 * MS + sum(done["took_ns"])
    assert done["waited_ns"] == [0] * 4 and done["cpu_ns"] > 0
    assert np.array_equal(np.load(tmp_path / "0" / "0.npy"), np.full((2, 3), 2, np.float32))


def test_a_thread_waits_for_the_session_of_another(model: Path) -> None:
    steps = [[1, "call", 0, 0, 0], [0, "create", 0, -1, 3 * MS], [1, "call", 0, 0, 0]]
    done = player(model, steps).play()
    assert all(took > 0 for took in done["took_ns"])


def test_a_session_is_released_after_the_calls_of_all_threads(model: Path) -> None:
    steps = [
        [0, "create", 0, -1, 0],
        [0, "close", 0, -1, 0],
        [1, "call", 0, 0, 20 * MS],
        [1, "call", 0, 0, 0],
    ]
    played = player(model, steps)
    assert all(took > 0 for took in played.play()["took_ns"])
    assert played.sessions == {}


def test_equal_requests_share_one_session(model: Path) -> None:
    create = [[0, "create", number, -1, 0] for number in range(3)]
    played = player(model, create, shared=("a", "a", ""))
    played.play()
    first, second, own = (played.sessions[number] for number in range(3))
    assert first is second and own is not first


def test_a_session_from_before_exists_at_the_start(model: Path) -> None:
    assert player(model, [[0, "call", 0, 0, 0]], before=True).play()["took_ns"][0] > 0


def test_calls_of_an_open_loop_count_from_their_time(model: Path) -> None:
    # The creation takes longer than the nanosecond after which the call is due.
    steps = [[0, "create", 0, -1, 0], [0, "call", 0, 0, 1]]
    done = player(model, steps, open_loop=True).play()
    assert done["waited_ns"][1] > 0


def open_loop(model: Path, steps: list[list[Any]], late_ns: int = 0, **more: Any) -> dict[str, Any]:
    clock = FakeClock(late_ns)
    return player(model, steps, open_loop=True, clock=clock, **more).play()


def test_a_call_that_finds_its_thread_busy_counts_from_its_intended_start(model: Path) -> None:
    done = open_loop(model, [[0, "call", 0, 0, at * MS] for at in (0, 1, 20)], before=True)
    assert done["took_ns"] == [4 * MS] * 3
    assert done["waited_ns"] == [0, 3 * MS, 0] and done["late_ns"] == [0, 0, 0]
    assert done["own_cpu_ns"] == 2000  # of two sleeps, not of the calls


def test_a_late_start_of_a_free_thread_is_that_of_the_generator(model: Path) -> None:
    steps = [[0, "call", 0, 0, at * MS] for at in (0, 5, 20)]
    done = open_loop(model, steps, late_ns=2 * MS, before=True)
    assert done["late_ns"] == [2 * MS, 0, 2 * MS] and done["waited_ns"] == [0, 1 * MS, 0]


def test_the_creation_of_a_session_delays_its_calls_and_is_no_lateness_of_the_generator(model: Path) -> None:
    created = open_loop(model, [[0, "create", 0, -1, 0], [0, "call", 0, 0, 10 * MS]])
    assert created["took_ns"] == [50 * MS, 4 * MS]
    assert created["waited_ns"] == [0, 40 * MS] and created["late_ns"] == [0, 0]


def test_a_call_waits_for_the_session_of_another_thread_before_it_is_late(model: Path) -> None:
    # The call is due at once, and the session is created 3 ms later in another thread.
    steps = [[1, "call", 0, 0, 0], [0, "create", 0, -1, 3 * MS]]
    done = player(model, steps, open_loop=True).play()
    assert done["waited_ns"][0] >= 3 * MS > done["late_ns"][0]


def test_sessions_that_exist_are_called_once_with_each_input_before_an_open_loop(model: Path) -> None:
    clock = FakeClock()
    steps = [[0, "call", 0, 0, 0], [0, "call", 0, 0, 0], [0, "create", 1, -1, 0], [0, "call", 1, 0, 0]]
    warm = player(model, steps, ("", ""), open_loop=True, clock=clock)
    warm.create(0)
    began = clock.t
    warm.warm_up()
    assert clock.t - began == 4 * MS  # one call of the session that exists
    closed = player(model, steps, ("", ""), clock=clock)
    closed.create(0)
    began = clock.t
    closed.warm_up()
    assert clock.t == began


def test_an_error_in_one_thread_ends_all(model: Path, tmp_path: Path) -> None:
    steps = [[0, "create", 0, -1, 0], [1, "call", 0, 0, 0], [1, "call", 0, 0, 0]]
    broken = player(model, steps)
    broken.request["sessions"][0]["model"] = str(tmp_path / "missing.onnx")
    with pytest.raises(Exception, match="missing"):
        broken.play()
