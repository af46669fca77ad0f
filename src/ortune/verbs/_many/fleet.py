"""Runs a command for each model on each kind of host in a cluster; a host runs one model at a time.

This module only schedules, without threads or Ray: a ``Cluster`` starts jobs and reports events. If a host is lost, its
current block is lost too, and the model resumes from its journal on another host of the same kind.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ortune import monotonic
from ortune.assigned_host import HostLost
from ortune.errors import OrtuneError
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope
from ortune.step import Step
from ortune.verbs._many import words
from ortune.verbs._many.executor import Done, Job, Jobs

WAIT_S = 0.5
"""Seconds to wait for an event before checking again whether the user stopped the command."""
NONE_LEFT_S = 120.0
"""Seconds to wait for a new host if a kind has none left; autoscalers replace a preempted node within minutes."""
LOSSES = 3
"""Number of lost hosts after which a model is not run again, because the model may be the cause."""
SLOW_RATIO = 2.0
SLOW, INVALID = "slow", "invalid"


@dataclass(frozen=True, kw_only=True)
class HostJoined:
    """Event: a host became available."""

    host: str
    kind: str


@dataclass(frozen=True, kw_only=True)
class LostHost:
    """Event: a host and its running job were lost."""

    host: str
    why: str


@dataclass(frozen=True, kw_only=True)
class JobEnded:
    """Event: a job ended.

    Attributes:
        host: Name of the job's host.
        number: Number that was passed to ``Cluster.start``.
        answer: The job's document, or its error.
        spent_s: Duration of the job.
        speed_ns: Duration of a fixed computation on the host; 0 if unknown.
    """

    host: str
    number: int
    answer: Envelope[Any] | OrtuneError
    spent_s: float
    speed_ns: int = 0


Event = HostJoined | LostHost | JobEnded


class Cluster(Protocol):
    """Hosts that run jobs and report events."""

    def start(self, host: str, number: int, job: Job, watcher: Watcher) -> None:
        """Start a job on a free host; the job ends with a ``JobEnded`` event that has this number."""
        ...

    def wait(self, limit_s: float) -> Sequence[Event]:
        """Return the next events in order, as soon as there are any; empty after ``limit_s`` seconds."""
        ...

    def stop(self) -> None:
        """Request that running jobs end early."""
        ...


@dataclass(kw_only=True)
class _Waiting:
    """A job with the history of its runs.

    Attributes:
        avoid: Hosts on which the job's measurement was invalid.
        first: The invalid result, which is yielded if no other host can run the job.
        n_lost: Number of hosts that were lost while they ran the job.
    """

    job: Job
    avoid: set[str] = field(default_factory=set)
    first: Done | None = None
    n_lost: int = 0


@dataclass(kw_only=True)
class _Host:
    kind: str
    speed_ns: int = 0
    number: int = 0
    runs: _Waiting | None = None


class Fleet:
    """Executor of jobs on the hosts of a cluster.

    Args:
        cluster: The cluster.

    Attributes:
        aside: Maps hosts that get no more jobs to the reason, ``SLOW`` or ``INVALID``.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.aside: dict[str, str] = {}
        self._cluster = cluster
        self._hosts: dict[str, _Host] = {}
        self._fit: dict[str, dict[str, _Host]] = {}  # by kind, those that are not set aside
        self._free: dict[str, deque[str]] = {}
        self._again: dict[str, deque[_Waiting]] = {}
        self._alone_since: dict[str, float] = {}
        self._n_started = self._n_done = self._n_running = 0

    def __call__(self, jobs: Jobs, watcher: Watcher) -> Iterator[Done]:
        """Run the jobs, and yield each job with its document or error in the order in which they end."""
        began_s, total = monotonic.now_s(), jobs.n_left
        is_stopped = False
        while True:
            if not is_stopped and watcher.stop():
                is_stopped = True
                self._cluster.stop()
            if is_stopped:
                self._again.clear()
            else:
                yield from self._counted(self._assign(jobs, watcher))
            if not self._n_running and (is_stopped or not (jobs.n_left or any(self._again.values()))):
                return
            events = self._cluster.wait(WAIT_S)
            for event in events:
                yield from self._counted(self._handle(event, watcher))
            if events and total:
                watcher.step(self._step(total, monotonic.now_s() - began_s))

    def _counted(self, done: Iterator[Done]) -> Iterator[Done]:
        for one in done:
            self._n_done += 1
            yield one

    def _assign(self, jobs: Jobs, watcher: Watcher) -> Iterator[Done]:
        """Start jobs on the free hosts, and yield the jobs that no host can run."""
        kinds = set(jobs.kinds)
        for kind, free in self._free.items():
            if kind not in kinds and not self._again.get(kind):
                continue
            for _ in range(len(free)):
                name = free.popleft()
                waiting = self._next(kind, name, jobs)
                if waiting is None:
                    free.append(name)
                    continue
                host = self._hosts[name]
                self._n_started += 1
                self._n_running += 1
                host.number, host.runs = self._n_started, waiting
                self._cluster.start(name, host.number, waiting.job, watcher)
        for kind in {*self._again, *kinds}:
            yield from self._hopeless(kind, jobs)

    def _next(self, kind: str, name: str, jobs: Jobs) -> _Waiting | None:
        """Return the next job for a free host; None if there is no job for it."""
        again = self._again.get(kind, deque())
        for i, waiting in enumerate(again):
            if name not in waiting.avoid:
                del again[i]
                return waiting
        job = jobs.take(kind, len(self._fit[kind]))
        return None if job is None else _Waiting(job=job)

    def _hopeless(self, kind: str, jobs: Jobs) -> Iterator[Done]:
        """Yield the jobs of a kind that no host can run any more.

        These are jobs with an invalid result that no other host can repeat and, after ``NONE_LEFT_S`` without a host
        of the kind, all jobs of the kind.
        """
        fit = self._fit.get(kind, {})
        again = self._again.get(kind, deque())
        for _ in range(len(again)):
            waiting = again.popleft()
            if waiting.first is not None and not fit.keys() - waiting.avoid:
                yield waiting.first  # no other host can confirm it
            else:
                again.append(waiting)
        if fit:
            self._alone_since.pop(kind, None)
            return
        since_s = self._alone_since.setdefault(kind, monotonic.now_s())
        if monotonic.now_s() - since_s < NONE_LEFT_S:
            return
        while again:
            yield _lost(again.popleft().job, words.no_host_left(kind))
        while (job := jobs.take(kind, 1)) is not None:
            yield _lost(job, words.no_host_left(kind))

    def _handle(self, event: Event, watcher: Watcher) -> Iterator[Done]:
        if isinstance(event, HostJoined):
            host = self._hosts[event.host] = _Host(kind=event.kind)
            self._fit.setdefault(event.kind, {})[event.host] = host
            self._free.setdefault(event.kind, deque()).append(event.host)
            return
        known = self._hosts.get(event.host)
        if known is None or (isinstance(event, JobEnded) and event.number != known.number):
            return  # a duplicate answer, or the answer of a lost host
        host = known
        waiting, host.runs, host.number = host.runs, None, 0
        self._n_running -= waiting is not None
        why = _why_lost(event)
        if isinstance(event, LostHost) or why:
            watcher.say(words.host_lost(event.host, why))
            self._remove(event.host)
            if waiting is not None:
                yield from self._lose(waiting)
            return
        assert waiting is not None
        if event.host in self.aside:  # since it began
            self._put_back(waiting)
            return
        host.speed_ns = event.speed_ns
        done = Done(job=waiting.job, answer=event.answer, spent_s=event.spent_s)
        if self._is_slow(host):
            self._set_aside(event.host, SLOW, watcher)
            self._put_back(waiting)
            return
        self._free[host.kind].append(event.host)
        if _is_invalid(event.answer) and waiting.first is None and len(self._fit[host.kind]) > 1:
            waiting.avoid.add(event.host)
            waiting.first = done
            self._put_back(waiting)
            return
        if waiting.first is not None and not _is_invalid(event.answer):
            for name in waiting.avoid & self._hosts.keys():
                self._set_aside(name, INVALID, watcher)
        yield done

    def _lose(self, waiting: _Waiting) -> Iterator[Done]:
        """Put back the job of a lost host to be resumed; after ``LOSSES`` lost hosts, yield an error instead."""
        waiting.n_lost += 1
        if waiting.n_lost >= LOSSES:
            yield _lost(waiting.job, words.lost_with(waiting.n_lost))
            return
        waiting.job = replace(waiting.job, resumes=True)
        self._put_back(waiting)

    def _put_back(self, waiting: _Waiting) -> None:
        self._again.setdefault(waiting.job.host, deque()).append(waiting)

    def _remove(self, name: str) -> None:
        kind = self._hosts.pop(name).kind
        self._fit[kind].pop(name, None)
        if name in self._free.get(kind, ()):
            self._free[kind].remove(name)

    def _set_aside(self, name: str, reason: str, watcher: Watcher) -> None:
        """Give a host no more jobs, and report this to the user."""
        if name in self.aside:
            return
        self.aside[name] = reason
        kind = self._hosts[name].kind
        self._fit[kind].pop(name)
        if name in self._free.get(kind, ()):
            self._free[kind].remove(name)
        watcher.say(words.set_aside(name, reason))

    def _is_slow(self, host: _Host) -> bool:
        """Return whether a fixed computation took more than twice the median time of other hosts of the same kind."""
        fit = self._fit[host.kind].values()
        others = [one.speed_ns for one in fit if one is not host and one.speed_ns]
        return bool(others) and host.speed_ns > SLOW_RATIO * statistics.median(others)

    def _step(self, total: int, elapsed_s: float) -> Step:
        """Return the progress: the number of finished jobs, the running jobs, and an estimate of the remaining time."""
        running = [(host.runs.job.label, name) for name, host in self._hosts.items() if host.runs is not None]
        what = words.fleet(self._n_done, total, running)
        if not self._n_done:
            return Step(what=what)
        left_s = elapsed_s / self._n_done * (total - self._n_done)
        return Step(what=what, done_ratio=self._n_done / total, left_s=left_s)


def _why_lost(event: LostHost | JobEnded) -> str:
    """Return why the event's host was lost; "" if it was not lost."""
    if isinstance(event, LostHost):
        return event.why
    return event.answer.what if isinstance(event.answer, HostLost) else ""


def _is_invalid(answer: Envelope[Any] | OrtuneError) -> bool:
    """Return whether the checks of a measurement found its result invalid."""
    return answer.code == "invalid" if isinstance(answer, OrtuneError) else answer.verdict == "invalid"


def _lost(job: Job, what: str) -> Done:
    return Done(job=job, answer=HostLost(what, do=words.RESUME_WITH_A_HOST), spent_s=0.0)
