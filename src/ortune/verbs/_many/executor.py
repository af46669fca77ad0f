"""Jobs of a command on several models, and the executor that runs the jobs on this machine one after another."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from ortune import verbs
from ortune.errors import OrtuneError, UsageError
from ortune.measuring.clock import Stopwatch
from ortune.measuring.watcher import Watcher
from ortune.records import Configured, Envelope
from ortune.show.verb_modules import module_of
from ortune.step import Step
from ortune.verbs._shared.attempt import result_or_error
from ortune.verbs._shared.groups import ResumeOptions


@dataclass(frozen=True, kw_only=True)
class Job:
    """One command on one model.

    Attributes:
        label: Number and name of the model, for the progress line.
        verb: The command.
        model: Path of the model.
        host: Name of the machine that runs the job; "" for this machine.
        values: Option values by name.
        configured: Options that a project's file added.
        resumes: Whether to resume an interrupted session of this model.
        spent_s, later_s: Time of the models before and after this one; None if the command has no budget.
        error: Error that is raised instead of running the command; None for none.
    """

    label: str
    verb: str
    model: str
    host: str = ""
    values: dict[str, Any]
    configured: Configured | None = None
    resumes: bool = False
    spent_s: float | None = None
    later_s: float | None = None
    error: OrtuneError | None = None

    def of_all(self, step: Step) -> Step:
        """Return a progress step of this model as a step of the whole command.

        The step gets the model's label, and the progress and remaining time of all models.
        """
        step = replace(step, what=f"{self.label}: {step.what}")
        if step.left_s is None or step.done_ratio is None or self.spent_s is None or self.later_s is None:
            return step
        left_s = step.left_s + self.later_s
        own_s = step.left_s / (1 - step.done_ratio) if step.done_ratio < 1 else 0.0
        whole_s = self.spent_s + own_s + self.later_s
        done = 1 - left_s / whole_s if whole_s else 1.0
        return replace(step, done_ratio=min(1.0, max(0.0, done)), left_s=left_s)


@dataclass(frozen=True, kw_only=True)
class Done:
    """A completed job with its document or error.

    Attributes:
        answer: The job's document, or its error.
        spent_s: Duration of the job, without waiting for another ortune process or preparing an environment.
    """

    job: Job
    answer: Envelope[Any] | OrtuneError
    spent_s: float


class Jobs(Protocol):
    """Queue of jobs that have not started; a job is taken when it can run, because its budget is determined then."""

    @property
    def n_left(self) -> int:
        """Number of jobs that have not started and for which time is left."""
        ...

    @property
    def kinds(self) -> Collection[str]:
        """Names of the hosts that have jobs which have not started."""
        ...

    def take(self, host: str | None = None, places: int = 1) -> Job | None:
        """Take the next job; None if no job or no time is left, or the user stopped the command.

        Args:
            host: Name of the host that runs the job; None for any host.
            places: Number of jobs that run on such hosts at the same time.
        """
        ...


JobExecutor = Callable[[Jobs, Watcher], Iterator[Done]]
"""Runs jobs, and yields each with its document or error, in any order; raises KeyboardInterrupt if the user stopped the
command immediately."""


def here(jobs: Jobs, watcher: Watcher) -> Iterator[Done]:
    """Run the jobs in this process, one after another."""
    while (job := jobs.take()) is not None:
        yield run_one(job, watcher)


def run_one(job: Job, watcher: Watcher) -> Done:
    """Run a job in this thread, on the thread's assigned host; an ``OrtuneError`` becomes the job's answer."""
    clock = Stopwatch()
    answer = result_or_error(partial(_run, job, watcher, clock), watcher.say)
    return Done(job=job, answer=answer, spent_s=clock.spent_s)


def _run(job: Job, watcher: Watcher, clock: Stopwatch) -> Envelope[Any]:
    """Run a job, or resume its newest interrupted session if the job requests this and the session is stored.

    Raises:
        OrtuneError: The job failed.
    """
    if job.error is not None:
        raise job.error
    told = replace(
        watcher,
        configured=job.configured,
        step=lambda step: watcher.step(job.of_all(step)),
    )
    modules = module_of(job.verb, "run"), module_of(job.verb, "options")
    if job.resumes and issubclass(modules[1].Options, ResumeOptions):
        try:
            return verbs.run_verb(
                modules[0], modules[1].Options(**job.values, resume="newest"), told, clock=clock
            )
        except UsageError as error:
            if error.where != "--resume":
                raise
    return verbs.run_verb(modules[0], modules[1].Options(**job.values), told, clock=clock)
