"""Determines whether waiting for CPUs that other programs used may explain a difference.

The rule was fixed before any result was known. The waiting of the slower side is subtracted from its times: a
difference that remains is not explained by waiting. Otherwise the CPU time per run of both sides is compared, which
waiting does not raise, unless they differ in threads, spinning or affinity. If it does not confirm the difference,
the same statistic is computed over the rounds in which no side waited. Rounds are selected by the waiting of all
sides together, never by one side's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from ortune.catalogue import knobs
from ortune.records import (
    Block,
    BlockTrial,
    CaseTimes,
    Comparison,
    CpuTime,
    Host,
    Measured,
    OtherPrograms,
    Plan,
    QuietRounds,
    TrialDone,
)
from ortune.search.blocks import BASE, measured
from ortune.search.figures import FROM_START, LATENCIES, WAITED
from ortune.stats.waiting import quiet_rounds

FEW = 0.01
"""Fraction of the time of the runs below which waiting is negligible; also the default of ``--worth``."""
IDLE = 0.05
"""Number of CPUs that other programs use on an idle system."""
BUSY_SHARE, LEAST_BUSY = 0.05, 0.1
"""Fraction of the CPUs, and number of CPUs, that other programs may use on a quiet machine; the larger applies."""
LONGEST = 0.95
"""Maximum fraction of a time that is subtracted as waiting."""

Again = Callable[[Sequence[Block], str], Comparison | None]
"""Function that computes the comparison from other blocks with a given statistic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialWaiting:
    """The waiting of one trial.

    Attributes:
        used_cpus: Number of the trial's CPUs that other programs used during the trial.
        share: Upper bound of the fraction of the runs' time in which threads waited for these programs.
    """

    used_cpus: float
    share: float


def quiet_cpus(host: Host) -> float:
    """Return the number of CPUs that other programs may use on a quiet machine."""
    return max(LEAST_BUSY, BUSY_SHARE * host.effective_cpus)


def with_other_programs(
    comparison: Comparison,
    blocks: Sequence[Block],
    statistic: str,
    host: Host,
    again: Again,
    *,
    arm: str,
    base: str = BASE,
    favours: bool = False,
) -> Comparison:
    """Return a comparison with a record of the other programs that may explain or hide its difference.

    Args:
        comparison: A comparison of an arm with a base.
        blocks: Its blocks, with latencies.
        statistic: The statistic that was compared.
        host: The machine.
        again: Computes the same comparison from other blocks.
        arm: Name of the candidate.
        base: Name of the baseline.
        favours: Whether the arms differ in settings whose effect depends on other programs.
    """
    if statistic not in (*WAITED, *FROM_START):
        return comparison
    by_arm = {name: [waiting_of(t, host) for t in measured(blocks, name)] for name in (base, arm)}
    known = [w for each in by_arm.values() for w in each if w is not None]
    if not known:
        return comparison
    if comparison.verdict == "inconclusive":
        return _hidden(comparison, by_arm, host, favours=favours)
    if comparison.verdict not in ("faster", "slower"):
        return comparison
    slower = base if comparison.verdict == "faster" else arm
    share = _share(by_arm[slower])
    if share < FEW:
        return comparison
    quiet: QuietRounds | None = None
    explains = not _remains(comparison, blocks, statistic, host, again, slower)
    cpu_time = (
        _cpu_time(comparison, blocks, again) if explains and statistic in WAITED and not favours else None
    )
    explains = explains and cpu_time is None
    if explains and statistic in WAITED and (counted := only_quiet(blocks, arm, base)) is not None:
        of_quiet = again(counted.blocks, statistic)
        quiet = _quiet(counted, of_quiet)
        explains = quiet.verdict != comparison.verdict
    others = OtherPrograms(
        used_cpus=_used_cpus(known),
        cpus=host.effective_cpus,
        waited_ratio=share,
        explains=explains,
        favours=favours,
        quiet=quiet,
        cpu_time=cpu_time,
    )
    return msgspec.structs.replace(comparison, others=others)


def _hidden(
    comparison: Comparison, by_arm: Mapping[str, Sequence[TrialWaiting | None]], host: Host, *, favours: bool
) -> Comparison:
    """Return an inconclusive comparison with a record of the other programs if the machine is busy.

    The noise of other programs comes in phases that last longer than a block, so the number of blocks that would decide
    the comparison is unknown.
    """
    used_cpus = _used_cpus([w for each in by_arm.values() for w in each if w is not None])
    share = max(map(_share, by_arm.values()))
    if used_cpus <= quiet_cpus(host) or share < FEW:
        return comparison
    others = OtherPrograms(
        used_cpus=used_cpus,
        cpus=host.effective_cpus,
        waited_ratio=share,
        explains=False,
        favours=favours,
        hides=True,
    )
    comparison = msgspec.structs.replace(comparison, others=others)
    # Without an upper bound, the missing blocks are those that any interval needs.
    known = comparison.ratio_high is None
    return comparison if known else msgspec.structs.replace(comparison, more_blocks=None, more_s=None)


def other_programs(
    trials: Sequence[Measured], host: Host, *, explains: bool, favours: bool
) -> OtherPrograms | None:
    """Return the record of other programs for trials without a comparison; None on a quiet machine.

    Args:
        trials: Trials of all plans.
        host: The machine.
        explains: Whether a plan looks faster, which waiting may explain; otherwise waiting may hide differences.
        favours: Whether that plan has other threads, spinning or affinity.
    """
    known = [waits for trial in trials if (waits := waiting_of(trial, host)) is not None]
    if not known or (used_cpus := _used_cpus(known)) <= quiet_cpus(host):
        return None
    return OtherPrograms(
        used_cpus=used_cpus,
        cpus=host.effective_cpus,
        waited_ratio=_share(known),
        explains=explains,
        favours=favours,
        hides=not explains,
    )


def _share(waits: Sequence[TrialWaiting | None]) -> float:
    """Return the mean fraction of waiting over the trials with known waiting; 0.0 if there are none."""
    shares = [w.share for w in waits if w is not None]
    return float(np.mean(shares)) if shares else 0.0


def _used_cpus(known: Sequence[TrialWaiting]) -> float:
    return float(np.median([w.used_cpus for w in known]))


def differ_in_threads(plan: Plan, base: Plan) -> bool:
    """Return whether two plans differ in threads, spinning or affinity."""
    names, options = load_settings()
    changed = {*plan.settings.items()} ^ {*base.settings.items()}
    if any(name in names for name, _ in changed):
        return True
    ours, theirs = (
        {(provider.name, *option) for provider in each.providers for option in provider.options.items()}
        for each in (plan, base)
    )
    return any((provider, key) in options for provider, key, _ in ours ^ theirs)


def load_settings() -> tuple[set[str], set[tuple[str, str]]]:
    """Return the names of settings for threads, spinning and affinity, and such provider options as (provider, key)."""
    found = [knob for knob in knobs.all_knobs().values() if knob.under_load]
    return {knob.name for knob in found}, {(knob.provider, knob.key) for knob in found if knob.provider}


def waiting_of(trial: Measured, host: Host) -> TrialWaiting | None:
    """Return how long a trial waited for CPUs that other programs used; None if the system does not report it.

    If there are more threads than CPUs, threads wait for each other even on an idle machine. At any moment, the number
    of threads that wait for other programs is at most the number of CPUs that these use.
    """
    sensors, done = trial.sensors, trial.done
    elapsed_ns = sensors.elapsed_ns or trial.elapsed_ns
    if sensors.others_cpu_us is None or not elapsed_ns:
        return None
    # Other programs on CPUs that the trial may not use do not affect it.
    used = max(0.0, 1e3 * sensors.others_cpu_us / elapsed_ns - (host.cores - host.effective_cpus))
    if used < IDLE:
        share = 0.0
    elif done.turn_waits_ns and done.wall_ns:
        share = min(used, sum(done.turn_waits_ns) / done.wall_ns)
    else:
        # Measured for all trials of the group together, so one of them may have waited for a larger share.
        some = sensors.waited_ratio(elapsed_ns)
        share = 0.0 if some is not None and some < FEW else used
    return TrialWaiting(used_cpus=used, share=share)


def _remains(
    comparison: Comparison, blocks: Sequence[Block], statistic: str, host: Host, again: Again, slower: str
) -> bool:
    """Return whether the verdict remains after the waiting of the slower side is subtracted from its times.

    A run is longer by at most its threads' waiting. This is a bound on a sum, so means are compared: the median of runs
    that mostly waited a little increases by more than the mean of the waiting.
    """
    if statistic not in (*LATENCIES, "median", "mean"):
        return False
    without = [_without_waiting(block, slower, host) for block in blocks]
    remaining = again(without, "mean")
    return remaining is not None and remaining.verdict == comparison.verdict


def _cpu_time(comparison: Comparison, blocks: Sequence[Block], again: Again) -> CpuTime | None:
    """Return the change in CPU time per run if it confirms the verdict; otherwise None.

    A thread that waits for a CPU uses none. Fewer threads, or threads that do not spin, use less CPU time even if they
    are not faster, so the CPU time confirms nothing for sides that differ in such settings.
    """
    found = again(blocks, "cpu")
    if found is None or found.verdict != comparison.verdict:
        return None
    return CpuTime(ratio=found.ratio, ratio_low=found.ratio_low, ratio_high=found.ratio_high)


def _without_waiting(block: Block, arm: str, host: Host) -> Block:
    trials = []
    for trial in block.trials:
        if trial.arm == arm and isinstance(trial.outcome, Measured):
            found = waiting_of(trial.outcome, host)
            share = min(LONGEST, found.share) if found is not None else LONGEST
            done = _scaled(trial.outcome.done, 1 - share)
            trials.append(_with_done(trial, trial.outcome, done))
        else:
            trials.append(trial)
    return msgspec.structs.replace(block, trials=tuple(trials))


def _with_done(trial: BlockTrial, outcome: Measured, done: TrialDone) -> BlockTrial:
    return msgspec.structs.replace(trial, outcome=msgspec.structs.replace(outcome, done=done))


def _scaled(done: TrialDone, factor: float) -> TrialDone:
    cases = tuple(
        msgspec.structs.replace(case, latency_ns=tuple(int(factor * ns) for ns in case.latency_ns))
        for case in done.cases
    )
    return msgspec.structs.replace(done, cases=cases, wall_ns=int(factor * done.wall_ns))


@dataclass(slots=True, kw_only=True)
class QuietBlocks:
    """Blocks with only the rounds in which no side waited.

    Attributes:
        n_rounds, of_rounds: Number of rounds in which no side waited, and of all rounds.
    """

    blocks: list[Block] = field(default_factory=list)
    n_rounds: int = 0
    of_rounds: int = 0


def only_quiet(blocks: Sequence[Block], arm: str, base: str = BASE) -> QuietBlocks | None:
    """Return the blocks with only the rounds in which neither side waited; None if waiting per round is unknown.

    A block without such a round is omitted. The waiting of controls is ignored.
    """
    counted, known = QuietBlocks(), False
    for block in blocks:
        if block.dropped:
            continue
        kept: list[BlockTrial] = []
        for group in {trial.group: None for trial in block.trials}:
            trials = [t for t in block.trials if t.group == group and t.arm in (arm, base)]
            ran = [t.outcome for t in trials if isinstance(t.outcome, Measured)]
            if len(ran) < 2:  # one failed, or the arms of a block ran in several groups for lack of memory
                continue
            rounds = _quiet_of(ran)
            if rounds is None:
                continue
            known = True
            counted.of_rounds += len(rounds)
            counted.n_rounds += int(rounds.sum())
            if rounds.any():
                kept += [_of_rounds(trial, rounds) for trial in trials]
        if kept:
            counted.blocks.append(msgspec.structs.replace(block, trials=tuple(kept)))
    return counted if known else None


def _quiet_of(trials: Sequence[Measured]) -> np.ndarray | None:
    """Return a mask of the rounds of a group in which no trial waited; None if the waiting of a trial is unknown."""
    n = min((len(t.done.turn_waits_ns) for t in trials), default=0)
    if not n or any(len(_turn_ns(t.done)) < n for t in trials):
        return None
    waits = np.asarray([t.done.turn_waits_ns[:n] for t in trials], dtype=float)
    times = np.asarray([_turn_ns(t.done)[:n] for t in trials], dtype=float)
    return quiet_rounds(waits, times, FEW)


def _turn_ns(done: TrialDone) -> np.ndarray:
    """Return the total time of each turn's runs over all cases, in nanoseconds."""
    of_cases = [[float(sum(part)) for part in _parts(case)] for case in done.cases]
    n = min((len(turns) for turns in of_cases), default=0)
    # Callers run in parallel.
    return np.asarray([turns[:n] for turns in of_cases]).sum(axis=0) / done.n_callers if n else np.empty(0)


def _parts(case: CaseTimes) -> list[tuple[int, ...]]:
    """Return the latencies of each turn's runs in nanoseconds."""
    ends = np.cumsum(case.turn_runs)
    return [case.latency_ns[end - n : end] for end, n in zip(ends, case.turn_runs, strict=True)]


def _of_rounds(trial: BlockTrial, rounds: np.ndarray) -> BlockTrial:
    """Return a trial with only the turns of the rounds that a mask selects."""
    assert isinstance(trial.outcome, Measured)
    done = trial.outcome.done
    cases = tuple(_case_of_rounds(case, rounds.tolist()) for case in done.cases)
    times = _turn_ns(done)
    done = msgspec.structs.replace(
        done,
        cases=cases,
        n_runs=sum(len(case.latency_ns) for case in cases),
        # In proportion to the times of the runs, since the wall time is known only for all turns together.
        wall_ns=int(done.wall_ns * float(times[: len(rounds)][rounds].sum() / times.sum())),
    )
    return _with_done(trial, trial.outcome, done)


def _case_of_rounds(case: CaseTimes, keep: Sequence[bool]) -> CaseTimes:
    parts = [part for part, kept in zip(_parts(case), keep, strict=False) if kept]
    latencies = tuple(ns for part in parts for ns in part)
    turn_runs = tuple(len(part) for part in parts)
    return msgspec.structs.replace(case, latency_ns=latencies, turn_runs=turn_runs, waits_ns=())


def _quiet(counted: QuietBlocks, of_quiet: Comparison | None) -> QuietRounds:
    if of_quiet is None:
        return QuietRounds(n_rounds=counted.n_rounds, of_rounds=counted.of_rounds)
    return QuietRounds(
        n_rounds=counted.n_rounds,
        of_rounds=counted.of_rounds,
        n_blocks=of_quiet.n_blocks,
        ratio=of_quiet.ratio,
        ratio_low=of_quiet.ratio_low,
        ratio_high=of_quiet.ratio_high,
        verdict=of_quiet.verdict,
    )
