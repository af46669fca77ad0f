"""Runs a program once and measures its total time, CPU time and memory."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ortune import launcher, monotonic
from ortune.platform.sensors import read_sensors
from ortune.recorder.following import children_cpu_ns
from ortune.recorder.watch import descendants

TICK_S = 0.1
OUTPUT_BYTES = 1 << 20
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRun:
    """Result of one run of a program.

    Attributes:
        wall_ns, cpu_ns: Duration, and CPU time of all processes that were waited for.
        peak_bytes: Maximum memory of all its processes, read every 0.1 s; shared pages count once.
        code: Exit code, or minus the number of the signal that ended it; None if it was ended after the limit.
        output: The end of its stdout and stderr.
    """

    wall_ns: int
    cpu_ns: int
    peak_bytes: int
    code: int | None
    output: str


def run(command: Sequence[str], environment: Mapping[str, str], scratch: Path, *, limit_s: float) -> WholeRun:
    """Run a program to its end, with empty stdin.

    Args:
        command: Program and arguments.
        environment: Complete environment.
        scratch: Folder for the output while the program runs.
        limit_s: Seconds after which the program is ended.

    Raises:
        OSError: The program cannot be started.
    """
    place = scratch / "output"
    with place.open("wb") as output:
        before, start_s = children_cpu_ns(), monotonic.now_s()
        child = launcher.Child(command, environment=environment, output=output, log=output)
        peak = 0
        code = None
        try:
            child.send(b"", last=True)
            while (code := child.ended_within(TICK_S)) is None and monotonic.now_s() - start_s < limit_s:
                peak = max(peak, sum(map(_pss, descendants(child.pid))))
            wall_ns = round((monotonic.now_s() - start_s) * 1e9)
        finally:
            child.end()
        cpu_ns = children_cpu_ns() - before
    with place.open("rb") as written:
        written.seek(max(0, place.stat().st_size - OUTPUT_BYTES))
        text = written.read().decode("utf-8", "replace")
    return WholeRun(wall_ns=wall_ns, cpu_ns=cpu_ns, peak_bytes=peak, code=code, output=text)


class CpuShareMeter:
    """Meter of the CPU time that other programs use, from its creation on."""

    def __init__(self) -> None:
        self._before = read_sensors()

    def ratio(self) -> float | None:
        """Return the fraction of the CPUs that other programs used since the start; None if unknown."""
        before, after = self._before, read_sensors()
        if before.busy_us is None or after.busy_us is None or before.own_us is None or after.own_us is None:
            return None
        others_us = (after.busy_us - before.busy_us) - (after.own_us - before.own_us)
        elapsed_us = ((after.at_ns or 0) - (before.at_ns or 0)) / 1e3 * (os.cpu_count() or 1)
        return max(0.0, others_us / elapsed_us) if elapsed_us > 0 else None


def _pss(pid: int) -> int:
    try:
        rollup = (Path("/proc") / str(pid) / "smaps_rollup").read_text(encoding="ascii")
    except (OSError, ValueError):
        return 0
    match = _PSS.search(rollup)
    return int(match[1]) * 1024 if match else 0
