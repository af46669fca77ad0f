"""Calibration: what the controls say, and which statistic and scale follow from them."""

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
"""Of a calibration that time cuts short."""
SPIKE_RATIO = 0.05  # the known wait, as a share of each run
BASE_FAILURES_ALLOWED = 1
LEAST_FOR_P10 = 30
"""Runs of a trial: of fewer the tenth percentile is one run or two, and luck whether a neighbour was there: 8.8 % from
block to block where the median of rounds had 1.7 %, of a model of 200 ms."""
INVALID = "invalid"  # the error's code when the controls failed: no verdict, exit 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a calibration's blocks say.

    Attributes:
        statistic: What counts: fixed by the objective, else what "latency" means here.
        scale: Robust scale of what does not differ, log units.
        within, between: Variance of a round's log ratio within a block, and of blocks beyond that, log units squared.
    """

    statistic: str
    controls: tuple[Control, ...]
    scale: float
    within: float
    between: float

    @property
    def ok(self) -> bool:
        """True where every control holds."""
        return all(c.ok for c in self.controls)

    @property
    def blind(self) -> bool:
        """True where a known slowdown was run and did not show: what shows all the same must be plain."""
        return any(c.detected is False for c in self.controls)


def judge(blocks: Sequence[Block], fixed: str | None) -> Judgement:
    """Read the controls off the blocks of one calibration."""
    # A wait within runs shows in nothing else; what remains when it is taken off is noise like the identical plan's.
    statistics = [fixed] if fixed else list(_tellable(blocks))
    spikes = {e: log_ratios(blocks, SPIKE, e) for e in statistics if e in WAITED}
    waits = {e: recorded_waits(blocks, SPIKE, e) for e in spikes}
    noise = {e: log_ratios(blocks, IDENTICAL, e) for e in statistics}
    # Four sessions on two CPUs: 5 % of waiting took 27 % of the throughput, again and again.
    alone = all(t.done.n_callers == 1 for t in measured(blocks, SPIKE))
    if alone:
        noise = {e: np.concatenate([d, spikes[e] - waits[e]]) if e in spikes else d for e, d in noise.items()}
    # Chosen on what does not differ, so that the choice cannot favour a side.
    statistic = calibration.choose_statistic(noise)
    controls = [calibration.identical_control(log_ratios(blocks, IDENTICAL, statistic))]
    if statistic in spikes:
        controls.append(calibration.spike_control(spikes[statistic], waits[statistic], alone=alone))
    scale = calibration.null_scale(noise[statistic])
    within, n_rounds = round_variance(blocks, statistic if statistic in PAIRED else LATENCIES[0])
    # What rounds alone explain is taken off the variance of blocks; the rest is how processes differ.
    # The median of n rounds varies by pi / 2 n of what one does.
    between = max(0.0, scale**2 - 0.5 * np.pi * within / max(1.0, n_rounds))
    return Judgement(
        statistic=statistic, controls=tuple(controls), scale=scale, within=within, between=between
    )


def unjudged(fixed: str | None, scale: float = 0.0) -> Judgement:
    """Judge without controls: the usual statistic, of whose figures none is a claim."""
    return Judgement(statistic=fixed or LATENCIES[0], controls=(), scale=scale, within=0.0, between=0.0)


def _tellable(blocks: Sequence[Block]) -> Sequence[str]:
    """List the statistics that latency may mean here: the tenth percentile needs at least 30 runs a trial."""
    few = any(t.done.n_runs < LEAST_FOR_P10 for t in measured(blocks, IDENTICAL))
    return tuple(PAIRED) if few else LATENCIES


def round_variance(blocks: Sequence[Block], statistic: str) -> tuple[float, float]:
    """Robust variance of one round's log(identical / baseline) about its block's middle, and the rounds of a block."""
    off: list[float] = []
    counts = []
    for ours, theirs in pairs(blocks, IDENTICAL):
        a, b = turns(ours, statistic), turns(theirs, statistic)
        n = min(len(a), len(b))
        rounds = np.log(a[:n] / b[:n])
        # About their own middle few rounds scatter less than they should.
        off += list((rounds - np.median(rounds)) * (n / (n - 1)) ** 0.5) if n > 1 else []
        counts.append(n)
    return float((1.4826 * np.median(np.abs(off))) ** 2) if off else 0.0, float(np.mean(counts or [0]))


def dropped(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks of a calibration that failed: kept on record, counted, and out of every figure."""
    return [msgspec.structs.replace(b, dropped=b.dropped or CONTROLS_FAILED) for b in blocks]


def failed(*, again: bool) -> MeasurementError:
    """Return the error after a failed calibration: ``again``, the second, or the only one that the budget holds."""
    which = "the A/A check (identical configurations) or the sensitivity check (a known slowdown) failed"
    do = "stop other programs (ortune doctor shows the load), and try again"
    if again:
        return MeasurementError(f"invalid: {which} twice", do=do, code=INVALID)
    what = f"invalid: {which}, and no time is left to repeat it"
    return MeasurementError(what, do=f"{do}, with a larger --budget", code=INVALID)


def late_controls(ratios: np.ndarray) -> list[Control]:
    """Return the identical plan once more, over the whole session; nothing if it only ran in the calibration.

    Raises:
        MeasurementError: It does not look identical: the machine turned bad on the way.
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
    """Raise MeasurementError when the baseline, under whatever name, or another reference failed twice."""
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
