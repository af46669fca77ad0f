"""Objectives that a trial cannot answer are refused after the first one."""

from __future__ import annotations

import pytest

from facts import facts
from ortune.errors import UsageError
from ortune.measuring.run_pilot import require_page
from ortune.records import Measured, MemoryKept, TrialDone


def trial(kept: MemoryKept | None) -> Measured:
    done = TrialDone(load_ns=1, cases=(), cpu_ns=1, wall_ns=1, n_runs=1, peak_bytes=1, kept=kept)
    return Measured(plan="p", done=done, elapsed_ns=1)


def test_memory_that_nothing_reports_is_no_objective() -> None:
    with pytest.raises(UsageError) as caught:
        require_page("memory:idle", trial(None), "m.onnx")
    facts(str(caught.value), "--objective memory:idle", "m.onnx", "--objective memory")
    not_released = trial(MemoryKept(idle_bytes=5))
    require_page("memory:idle", not_released, "m.onnx")
    with pytest.raises(UsageError):
        require_page("memory:released", not_released, "m.onnx")
    require_page("memory:released", trial(MemoryKept(idle_bytes=5, released_bytes=4)), "m.onnx")
    require_page("memory", trial(None), "m.onnx")
