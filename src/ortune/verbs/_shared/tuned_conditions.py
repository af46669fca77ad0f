"""The conditions of a tuning: drift, throttling, other programs, and a default that is easy to beat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortune.engines.racing.tuning import Tuning
from ortune.records import BUSY_MACHINE, Block, BlockPoint, Measured
from ortune.search.state import Search
from ortune.verbs._shared import tuned_words

NEIGHBOUR = 0.5  # CPUs used by other processes (or their load, without that figure) that make a machine busy
IDLE_SHARE, BUSY_SHARE = 0.05, 0.25
"""Fractions of time in which a task waits for a CPU: the machine is idle below the first, busy from the second on."""

LEAST_SEEN, PHASES = 18, 1.25
"""Minimum number of blocks for a drift check of the default, and the ratio of its ninth to its first decile that counts
as drift.
"""


def phases(statistic: str, block_points: Sequence[BlockPoint]) -> list[str]:
    """Return a warning if the default's times drifted during the session, as on a shared machine; empty if stable."""
    values = [p.values["default"] for p in block_points if "default" in p.values and not p.dropped]
    if statistic.startswith("memory") or len(values) < LEAST_SEEN:
        return []
    low, high = np.quantile(values, (0.1, 0.9))
    if high < PHASES * low:
        return []
    return [tuned_words.drifted(low, high)]


def caution(run: Tuning) -> str:
    """Return a caution if the default's thread pool exceeds the CPU quota, so that it is easy to beat; "" otherwise."""
    host = run.baseline.host
    if host.effective_cpus >= host.cores or run.search.current is not None:
        return ""
    return tuned_words.weak_default(host.cores, host.effective_cpus)


def throttled(blocks: Sequence[Block]) -> list[str]:
    """Return a note if a CPU quota throttled more than one in a hundred periods of the measurement; empty otherwise."""
    sensors = [trial.sensors for trial in trials(blocks)]
    periods = sum(s.nr_periods or 0 for s in sensors)
    n_throttled = sum(s.nr_throttled or 0 for s in sensors)
    if n_throttled <= 0.01 * periods:
        return []
    return [tuned_words.throttled(n_throttled / periods)]


def conditions(search: Search) -> str:
    """Return "on an idle machine" or its opposite for a busy machine; "" if neither is certain.

    The decision is based on the fraction of time in which a task waited for a CPU, during the calibration or, without a
    calibration, during the search.
    """
    blocks = search.calibration or search.blocks
    waits = [ratio for t in trials(blocks) if (ratio := t.sensors.waited_ratio(t.elapsed_ns)) is not None]
    if not waits:
        return ""
    share = float(np.median(waits))
    # Even if no task waits for a CPU, a neighbouring process lowers the clock rate and evicts caches.
    others = [
        sensors.load1 - (sensors.cpu_over_wall or 0.0)
        if sensors.others_cpu_us is None
        else sensors.others_cpu_us * 1e3 / max(1, sensors.elapsed_ns or t.elapsed_ns)
        for t in trials(blocks)
        if (sensors := t.sensors).load1 is not None
    ]
    beside = bool(others) and float(np.median(others)) >= NEIGHBOUR
    # What other guests of the same host do shows in no counter here: then a known wait is not found either.
    unseen = any(c.name == "spike-in" and not c.detected for c in search.controls)
    if share >= BUSY_SHARE:
        return BUSY_MACHINE
    return "" if unseen or beside or share >= IDLE_SHARE else tuned_words.IDLE_MACHINE


def trials(blocks: Sequence[Block]) -> list[Measured]:
    """Return the completed trials of all plans, including trials in dropped blocks."""
    return [t.outcome for b in blocks for t in b.trials if isinstance(t.outcome, Measured)]
