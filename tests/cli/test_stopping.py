"""A signal that asks to end at once ends ortune, whatever it interrupts."""

from __future__ import annotations

import signal
import sys

import pytest

from ortune.cli.session import StopRequest
from ortune.errors import Stopped


class Interrupted:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def test_a_stop_that_python_drops_in_a_finalizer_is_not_lost_and_prints_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    stop = StopRequest(print, "stopping")
    with stop.listening():
        assert not stop()
        Interrupted()
        with pytest.raises(Stopped, match="before there was a result"):
            stop()
    assert printed == []
