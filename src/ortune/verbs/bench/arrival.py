"""Open-loop load of a benchmark: the start times of calls, and load metrics that are derived from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ortune.inputs import recorded
from ortune.measuring.input_options import InputOptions
from ortune.measuring.sides import ResolvedSide
from ortune.records import ArrivalSchedule, LoadFigures, Measured
from ortune.stats import arrivals
from ortune.stats.arrivals import RECORDED
from ortune.verbs._shared.load_words import at_rate
from ortune.verbs._shared.quantities import per_second


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalProcess:
    """Distribution of call start times.

    Attributes:
        kind: "constant", "poisson", "gamma:CV" or "recorded".
        rate_per_s: Calls per second; the mean rate for recorded calls.
        recorded: The recorded calls at their recorded times; None for all other kinds.
        scaled: Whether recorded times are stretched or compressed to the rate.
    """

    kind: str
    rate_per_s: float
    recorded: ArrivalSchedule | None = None
    scaled: bool = False

    def schedule(self, n: int, seed: Sequence[int]) -> ArrivalSchedule:
        """Return a schedule of ``n`` calls for one process, or of all recorded calls if there are fewer."""
        if self.recorded is None:
            return ArrivalSchedule(starts_ns=arrivals.schedule(self.kind, self.rate_per_s, n, seed))
        starts = self.recorded.starts_ns[:n]
        if self.scaled:  # the first calls may have another mean rate than all of them
            starts = arrivals.scaled(starts, self.rate_per_s)
        return ArrivalSchedule(starts_ns=starts, cases=self.recorded.cases[:n])

    def rate_of(self, schedule: ArrivalSchedule) -> float:
        """Return the calls per second of a schedule; its own mean rate for recorded calls."""
        return self.rate_per_s if self.recorded is None else _mean_rate(schedule) or self.rate_per_s

    def words(self) -> str:
        """Return the distribution in words: "50/s, poisson arrivals"."""
        return at_rate(self.rate_per_s, self.kind)


def arrival_of(
    rate: str | float | None, kind: str | None, side: ResolvedSide, feeds: InputOptions
) -> ArrivalProcess | None:
    """Return the distribution of call start times; None if each caller starts a call when its previous call ends.

    Raises:
        InputError: The recording does not contain the start times of single calls.
    """
    if rate is None and kind is None:
        return None
    asked = None if rate is None else per_second(rate, "--rate")
    if kind != RECORDED:
        assert asked is not None
        return ArrivalProcess(kind=kind or "poisson", rate_per_s=asked)
    assert feeds.workload is not None
    found = recorded.arrivals_of(feeds.workload, side.model)
    rate_per_s = asked or _mean_rate(found) or 0.0
    return ArrivalProcess(kind=RECORDED, rate_per_s=rate_per_s, recorded=found, scaled=asked is not None)


def _mean_rate(schedule: ArrivalSchedule) -> float | None:
    """Return the calls per second of a schedule; None if all of its calls start at once."""
    span_ns = schedule.starts_ns[-1] - schedule.starts_ns[0]
    return 1e9 * (len(schedule.starts_ns) - 1) / span_ns if span_ns else None


def load_of(trial: Measured, schedule: ArrivalSchedule, rate_per_s: float) -> LoadFigures:
    """Return the load metrics of one process."""
    done = trial.done
    assert done.open_loop is not None
    latencies = _in_order([list(case.latency_ns) for case in done.cases], schedule.cases)
    return arrivals.load_of(
        latencies,
        done.open_loop.waited_ns,
        done.open_loop.late_ns,
        busy_ns=done.open_loop.busy_ns,
        own_cpu_ns=done.open_loop.own_cpu_ns,
        wall_ns=done.wall_ns,
        rate_per_s=rate_per_s,
        callers=done.n_callers,
    )


def in_one(trial: Measured, schedule: ArrivalSchedule) -> Measured:
    """Return the trial with the latencies of all its shapes merged into one case, in order of arrival."""
    cases = trial.done.cases
    latencies = _in_order([list(case.latency_ns) for case in cases], schedule.cases)
    name = RECORDED if len(cases) > 1 else cases[0].case
    one = msgspec.structs.replace(
        cases[0], case=name, weight=1.0, latency_ns=tuple(latencies), turn_runs=(len(latencies),)
    )
    return msgspec.structs.replace(trial, done=msgspec.structs.replace(trial.done, cases=(one,)))


def _in_order(by_case: Sequence[list[int]], cases: Sequence[int]) -> list[int]:
    """Merge the latencies of all cases in order of arrival.

    Args:
        by_case: Latencies of each case.
        cases: Index of the case of each call, in order of arrival.
    """
    if len(by_case) == 1:
        return by_case[0]
    each = [iter(latencies) for latencies in by_case]
    return [next(each[number]) for number in cases]
