"""Evaluates the controls of a calibration, and chooses the statistic and scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from ortune.errors import MeasurementError
from ortune.records import Block, Control, Failed
from ortune.search.blocks import (
    BASE,
    CONTROLS_FAILED,
    IDENTICAL,
    SPIKE,
    log_ratios,
    measured,
    pairs,
    recorded_waits,
)
from ortune.search.figures import LATENCIES, PAIRED, WAITED, turns
from ortune.stats import calibration

CALIBRATION_BLOCKS = 9
LEAST_BLOCKS = 6
"""Minimum number of blocks of a calibration that runs out of time."""
SPIKE_RATIO = 0.05  # the injected wait, as a share of each run
BASE_FAILURES_ALLOWED = 1
LEAST_FOR_P10 = 30
"""Minimum number of runs per trial for the tenth percentile, which with fewer is one or two runs and depends on chance.

For a model with a latency of 200 ms it varied by 8.8 % between blocks, and the median of rounds by 1.7 %.
"""
INVALID = "invalid"  # error code if the controls failed: no verdict, exit code 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The result of a calibration.

    Attributes:
        statistic: Statistic to compare: fixed by the objective, or for latency the steadiest.
        scale: Robust scale of log ratios without a difference.
        within, between: Variance of a round's log ratio within a block, and additional variance between blocks.
    """

    statistic: str
    controls: tuple[Control, ...]
    scale: float
    within: float
    between: float

    @property
    def ok(self) -> bool:
        """Whether every control passed."""
        return all(c.ok for c in self.controls)

    @property
    def blind(self) -> bool:
        """Whether an injected slowdown was not detected, so that only clear differences can be claimed."""
        return any(c.detected is False for c in self.controls)


def judge(blocks: Sequence[Block], fixed: str | None) -> Judgement:
    """Evaluate the controls in the blocks of one calibration.

    If ``fixed`` is None, the statistic is chosen, too.
    """
    # A wait within runs affects only these statistics; without it, the remaining difference is noise, as in
    # the A/A check.
    statistics = [fixed] if fixed else list(_selectable_statistics(blocks))
    spikes = {e: log_ratios(blocks, SPIKE, e) for e in statistics if e in WAITED}
    waits = {e: recorded_waits(blocks, e) for e in spikes}
    noise = {e: log_ratios(blocks, IDENTICAL, e) for e in statistics}
    # Not with several callers: with four sessions on two CPUs, a wait of 5 % took 27 % of the throughput,
    # repeatedly.
    alone = all(t.done.n_callers == 1 for t in measured(blocks, SPIKE))
    if alone:
        noise = {e: np.concatenate([d, spikes[e] - waits[e]]) if e in spikes else d for e, d in noise.items()}
    # Chosen on arms without a difference, so the choice cannot favour a side.
    statistic = calibration.choose_statistic(noise)
    controls = [calibration.identical_control(log_ratios(blocks, IDENTICAL, statistic))]
    if statistic in spikes:
        controls.append(calibration.spike_control(spikes[statistic], waits[statistic], alone=alone))
    scale = calibration.null_scale(noise[statistic])
    within, n_rounds = round_variance(blocks, statistic if statistic in PAIRED else LATENCIES[0])
    # The variance of blocks beyond that of rounds is between processes. The median of n rounds has a variance
    # of pi / 2n times that of one.
    between = max(0.0, scale**2 - 0.5 * np.pi * within / max(1.0, n_rounds))
    return Judgement(
        statistic=statistic, controls=tuple(controls), scale=scale, within=within, between=between
    )


def unjudged(fixed: str | None, scale: float = 0.0) -> Judgement:
    """Return a calibration result without controls, which has the usual statistic and allows no claims."""
    return Judgement(statistic=fixed or LATENCIES[0], controls=(), scale=scale, within=0.0, between=0.0)


def _selectable_statistics(blocks: Sequence[Block]) -> Sequence[str]:
    """Return the statistics that may be chosen for latency; the tenth percentile requires ``LEAST_FOR_P10`` runs."""
    few = any(t.done.n_runs < LEAST_FOR_P10 for t in measured(blocks, IDENTICAL))
    return tuple(PAIRED) if few else LATENCIES


def round_variance(blocks: Sequence[Block], statistic: str) -> tuple[float, float]:
    """Return a robust variance of log(identical / base) per round within blocks, and the mean number of rounds."""
    off: list[float] = []
    counts = []
    for ours, theirs in pairs(blocks, IDENTICAL):
        a, b = turns(ours, statistic), turns(theirs, statistic)
        n = min(len(a), len(b))
        rounds = np.log(a[:n] / b[:n])
        # The deviations of few rounds from their own median are too small by this factor.
        off += list((rounds - np.median(rounds)) * (n / (n - 1)) ** 0.5) if n > 1 else []
        counts.append(n)
    return float((1.4826 * np.median(np.abs(off))) ** 2) if off else 0.0, float(np.mean(counts or [0]))


def mark_dropped(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks of a failed calibration marked as dropped, so that they are recorded but not used."""
    return [msgspec.structs.replace(b, dropped=b.dropped or CONTROLS_FAILED) for b in blocks]


def calibration_error(*, again: bool) -> MeasurementError:
    """Return the error for a failed calibration; ``again`` is True for the second failure."""
    which = "the A/A check (identical configurations) or the sensitivity check (a known slowdown) failed"
    do = "stop other programs (ortune doctor shows the load), and try again"
    if again:
        return MeasurementError(f"invalid: {which} twice", do=do, code=INVALID)
    what = f"invalid: {which}, and no time is left to repeat it"
    return MeasurementError(what, do=f"{do}, with a larger --budget", code=INVALID)


def late_controls(ratios: np.ndarray) -> list[Control]:
    """Return the A/A control over the whole session; [] if it ran only in the calibration.

    Raises:
        MeasurementError: The control failed, because the machine became too noisy during the session.
    """
    if len(ratios) <= CALIBRATION_BLOCKS:
        return []
    control = calibration.late_control(ratios)
    if not control.ok:
        raise MeasurementError(
            "invalid: the A/A check (identical configurations) failed over the whole run",
            do="stop other programs (ortune doctor shows the load), and try again",
            code=INVALID,
        )
    return [control]


def raise_if_base_fails(blocks: Sequence[Block], references: Sequence[str] = (BASE,)) -> None:
    """Raise MeasurementError if trials of the baseline, its copies or another reference failed twice."""
    failed = [
        t.outcome
        for b in blocks
        for t in b.trials
        if t.arm in (*references, IDENTICAL, SPIKE) and isinstance(t.outcome, Failed)
    ]
    if len(failed) > BASE_FAILURES_ALLOWED:
        raise MeasurementError(
            f"the baseline cannot be measured: {failed[-1].what}",
            where=failed[-1].phase,
            do="run ortune bench MODEL to see whether it runs alone",
        )
