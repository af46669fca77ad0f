"""The state of a measuring verb, from resolving its sides to storing its document."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ortune import monotonic
from ortune.errors import OrtuneError, StoreError, UsageError
from ortune.measuring import replay
from ortune.measuring.budget import Budget
from ortune.measuring.document import Status, document
from ortune.measuring.exclusive import exclusive
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.pace import Pace
from ortune.measuring.quiet import wait_for_quiet
from ortune.measuring.scratch import scratch_folder
from ortune.measuring.sides import ResolvedSide, SideText, resolve
from ortune.measuring.terms import Terms
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope, ErrorInfo, ModelRef, Plan, Record, Runtime, Workload, messages
from ortune.rules import EVERY_RULE
from ortune.runtimes.environment import clean_environment, recorded
from ortune.search.phases import DELIVERY_SHARE
from ortune.store.db import SessionLog, Store
from ortune.store.reading import FAILED, UNREADABLE
from ortune.targets import named_runtimes
from ortune.targets.machine import Machine

R = TypeVar("R", bound=Record)

_LONG_START_SHARE = 0.5
"""Fraction of the budget above which a long start is reported, since little time is left to measure."""


class Experiment:
    """One measurement of a verb.

    Attributes:
        verb: Name of the verb.
        terms: Terms from the verb's options.
        watch: Progress and cancellation callbacks.
        scratch: Folder of this invocation, removed at its end.
        log: The journal; it stores nothing before ``begin`` or ``resume``.
        replay: The trials of an interrupted session, and the clock of all decisions.
        baselines: Measurements of the sides that were run, in order.
        answer_s: Seconds of the budget reserved for the result, which takes as long to write as the first steps take.
    """

    def __init__(self, verb: str, terms: Terms, watch: Watcher, scratch: Path) -> None:
        self.verb, self.terms, self.scratch, self.log = verb, terms, scratch, SessionLog(None, "")
        self.watch = watch.with_budget(terms.budget_s)
        self.replay = replay.Replay()
        self.baselines: list[Measuring] = []
        self.answer_s = 0.0
        self._store: Store | None = None
        self._trouble_said, self._unwritable = "", False
        self._elsewhere: Machine | None = None
        self._place: str | None = None
        self._waited: list[messages.Message] = []

    @cached_property
    def machine(self) -> Machine:
        """The machine, which is read on first use; the simulated machine in a simulation."""
        make = self.watch.machine or Machine
        return self._elsewhere or make(self.terms.feeds.pod, self.terms.browser)

    @cached_property
    def budget(self) -> Budget:
        """The time of this session; infinite if the verb has no budget."""
        return Budget(
            total_s=math.inf if self.terms.budget_s is None else self.terms.budget_s,
            # Read on each call, since beginning a journal replaces the replay.
            spent_ns=lambda: self.replay.decision_time_ns(),  # noqa: PLW0108
            elapsed_ns=lambda: self.replay.clock(),  # noqa: PLW0108
        )

    @property
    def elapsed_s(self) -> float:
        """Seconds that the session has taken so far, including the time before an interruption."""
        return 1e-9 * self.replay.clock()

    def pace(self, keep_s: float = 0.0, *, least_s: float = 0.0) -> Pace:
        """Return a pace for work between trials that leaves time for the result, and ``keep_s`` seconds of the budget.

        Args:
            keep_s: Seconds reserved for later steps.
            least_s: Seconds available even if less is left of the budget.
        """
        end_s = (self.terms.budget_s or math.inf) - self.answer_s - keep_s  # infinite without a budget
        # Reading every rule takes half as long as an answer: 0.14 s and 0.3 s on a quiet machine.
        return Pace(lambda: end_s - self.elapsed_s, least_s, EVERY_RULE, self.answer_s / 2)

    def skipped(self, pace: Pace, enough_s: int = 0) -> list[messages.Message]:
        """Return a message with the skipped units and a sufficient budget, in a list; [] if none was skipped.

        Args:
            pace: The pace of the skipped work.
            enough_s: The sufficient budget in seconds, if it is known; otherwise 0.
        """
        if not pace.left_out:
            return []
        enough_s = enough_s or self.budget.enough_s(pace.needed_s(self.terms.budget_s or self.elapsed_s))
        return [messages.SkippedChecks(checks=tuple(pace.left_out), enough_s=enough_s)]

    @property
    def notes(self) -> list[messages.Message]:
        """Messages about a resumed session and about waiting for a quiet machine; [] if there was neither."""
        resumed = (messages.Resumed(n_trials=n) for n in [self.replay.played] if n)
        return [*resumed, *self._waited]

    def resolve(self, side: SideText, *, runs: bool = True, **more: Any) -> ResolvedSide:
        """Open a side with the settings that all sides of the verb share.

        Args:
            side: The side as written by the user.
            runs: Whether the side is run on this machine.
            more: Further arguments of ``sides.resolve``.

        Raises:
            OrtuneError: Raised by ``sides.resolve``.
        """
        watch, terms = self.watch, self.terms
        if side.runtime is not None:
            with watch.clock.stopped():  # made or sent once, so it costs no budget
                named_runtimes.prepare(side.runtime, watch.say)
        watch.line(messages.Reading(side=side.text))
        resolved = resolve(
            side,
            common=terms.common,
            scratch=self.scratch,
            custom_ops=terms.feeds.custom_ops,
            limits=terms.rewriting,
            browser=terms.browser if runs else None,
            say=watch.say,
            # Rewriting would disturb a measurement of another ortune.
            alone=lambda: self._machine_lock("rewriting a model", wait=terms.wait),
            **more,
        )
        self.measure_at(resolved.runtime, resolved.plan)
        watch.line(messages.FirstRun(side=resolved.label))
        return resolved

    def measure_at(self, runtime: Runtime, plan: Plan) -> None:
        """Measure on the machine of a remote runtime, which all sides must share.

        Args:
            runtime: The runtime of a side.
            plan: The plan of the side.

        Raises:
            UsageError: Another side runs on a different machine, or a container would be emulated on that machine.
        """
        host = None if plan.is_web else runtime.host  # pages are here
        place = host.fingerprint if host is not None else ""
        compares = self.terms.machines and self._place is not None  # the machine of A is read
        self._place = place if self._place is None else self._place
        if place != self._place and not compares:
            raise UsageError(
                "runs on a different machine from the previous side",
                where=f"--runtime {runtime.python}",
                do="pass one --runtime for all sides, a release for that machine (--b-runtime RELEASE@SCRIPT), or "
                "compare machines: --b-host NAME=SCRIPT",
            )
        if host is None or self._elsewhere is not None or compares:
            return
        if self.terms.feeds.pod is not None:
            raise UsageError("runs on another machine", where="--cpus, --memory", do="set limits there")
        self._elsewhere = Machine(browser=self.terms.browser, elsewhere=host)

    @contextlib.contextmanager
    def measuring(
        self,
        label: str,
        key: str = "",
        *,
        machine: contextlib.AbstractContextManager[Machine] | None = None,
        names: Mapping[str, str] | None = None,
        wait: bool | None = None,
    ) -> Iterator[None]:
        """Hold the machine's lock for this verb and begin its journal, since two measurements disturb each other.

        A verb that measures no time (``Terms.timed``) does not hold the lock.

        Args:
            label: Name of the measured model, which waiting invocations show.
            key: Key by which the session is found again.
            machine: Context with a remote browser's machine to measure instead; None for this machine.
            names: Names of the sides for the journal's header; None if ``begin`` is called separately.
            wait: Whether to wait while another ortune measures; None for the option's value.

        Raises:
            BusyError: Another ortune measures, and ``wait`` is False.
            StoreError: The requested store is not writable.
        """
        with contextlib.ExitStack() as stack:
            if machine is not None:
                self._elsewhere = stack.enter_context(machine)
            self._open_store()
            what = f"{self.verb} {label}".rstrip()
            wait = self.terms.wait if wait is None else wait
            stack.enter_context(self._machine_lock(what, wait=wait))
            self._waited = wait_for_quiet(self.machine, self.terms.wait_quiet_s, self.watch)
            if names is not None:
                self.begin(key, names)
            yield

    def _machine_lock(self, what: str, *, wait: bool) -> contextlib.AbstractContextManager[None]:
        """Return the machine's lock for a verb that measures times; an empty context for other verbs."""
        if not self.terms.timed:
            return contextlib.nullcontext()
        return exclusive(what, self.watch, wait=wait, budget_s=self.terms.budget_s)

    def begin(self, key: str, names: Mapping[str, str], *, here: bool = True) -> SessionLog:
        """Open the store, and begin the session's journal with a header.

        Args:
            key: Key by which the session is found again.
            names: Names of the sides, for the header.
            here: Whether the header contains this machine and the workers' environment.
        """
        self._open_store()
        if self._store:
            header: dict[str, object] = dict(names)
            if here:
                header |= {"host": self.machine.host, "environment": recorded(clean_environment())}
            self.log = self._store.begin(self.verb, f"{self.verb} {key}", header)
            self.report_storage_failures()
        # The session began with the invocation, not here: reading the model is part of its time.
        began_ns = int(1e9 * (monotonic.now_s() - self.watch.clock.spent_s))
        self.replay = replay.Replay(since_ns=began_ns, log=self.log)
        self._began()
        budget_s, start_s = self.terms.budget_s, self.elapsed_s
        if budget_s and start_s > _LONG_START_SHARE * budget_s:
            self.watch.tell(messages.LongStart(start_s=start_s, budget_s=budget_s))
        return self.log

    def _began(self) -> None:
        """Journal the time spent before the journal began, or restore it, since later decisions depend on it."""
        self.replay.set_clock(self.replay.once("began", int, self.replay.clock))

    def resume(self, key: str, session: str) -> None:
        """Continue the journal of an interrupted session, without repeating its measurements.

        Args:
            key: Key of the session.
            session: Id of the session, or "newest" for the latest session that was killed or stopped early.

        Raises:
            UsageError: There is no such session, or the session cannot be read.
        """
        store = self._store
        if store is None:
            do = "pass its location with --store PATH"
            raise UsageError("there is no stored session to resume", where="--resume", do=do)
        damaged = ""
        for head in store.sessions(f"{self.verb} {key}"):
            if session not in ("newest", head.id):
                continue
            try:
                events = store.events(head.id)
                # A completed session is continued only by its id, for a bundle that could not be written then.
                if session == "newest" and replay.complete(events):
                    continue
                self.replay = replay.read(events)
            except UNREADABLE as error:
                damaged = damaged or f"session {head.id} cannot be read ({error})"
                continue
            self.log = self.replay.log = store.resume(head.id)
            self.log.add(replay.RESUMED, {"trials": len(self.replay.trials)})
            self._began()
            return
        raise UsageError(
            damaged or "no interrupted session with this model and these options is stored",
            where="--resume",
            do="omit --resume, or repeat the options of the interrupted session",
        )

    def _open_store(self) -> None:
        """Open the store for results; if the default store cannot be written, report that and store nothing."""
        if not self.terms.stored or self._store is not None or self._unwritable:
            return
        try:
            self._store = Store(self.terms.folder)
        except StoreError as error:
            if self.terms.folder is not None:
                raise
            self._unwritable = True
            self.watch.tell(messages.NotStored(where=error.where, what=error.what))

    def base_measuring(
        self,
        side: ResolvedSide,
        *,
        feeds: InputOptions | None = None,
        scratch: Path | None = None,
        say: Callable[[messages.Message | str], None] | None = None,
        load: Callable[[Workload], Workload] = lambda work: work,
    ) -> Measuring:
        """Return a new measurement of a side, with proposed inputs.

        Args:
            side: The side to run.
            feeds: Options for the inputs; None for the verb's.
            scratch: Folder for the side; None for the session's.
            say: Callback for messages; None for the session's.
            load: Changes the proposed workload.
        """
        # Writing the answer is similar work to the steps so far, and takes as long.
        if not self.answer_s:  # a resumed session keeps its first value, so its decisions are the same
            usual_s = DELIVERY_SHARE * self.watch.clock.spent_s
            self.answer_s = self.replay.once("after", float, lambda: usual_s)
        baseline = Measuring(
            side,
            feeds or self.terms.feeds,
            scratch or self.scratch,
            self.log,
            say or self.watch.tell,
            self.machine,
            load,
            self.watch.line,
        )
        baseline.executor.recorded, baseline.executor.ended = self.replay.next, self.replay.record_end
        baseline.executor.passed = self.replay.record_other_work
        baseline.check.known_differences = self.replay.differences
        self.baselines.append(baseline)
        for setting, missing in side.unmet.items():
            baseline.note(messages.Unmet(setting=setting, missing=tuple(missing)))
        return baseline

    def document(
        self,
        result: R,
        *,
        model: ModelRef | None = None,
        workload: Workload | None = None,
        status: Status = "ok",
        verdict: str | None = None,
        error: ErrorInfo | None = None,
    ) -> Envelope[R]:
        """Return the document of a result, about the first side by default, with the alerts of all sides."""
        first = self.baselines[0] if self.baselines else None
        return document(
            self.verb,
            result,
            host=self.machine.trial_host,
            model=model or (first.side.model.ref if first else None),
            workload=workload or (first.work if first else None),
            status=status,
            verdict=verdict,
            error=error,
            store=str(self.terms.folder or ""),
            alerts=(alert for baseline in self.baselines for alert in baseline.alerts),
            exact=first.check.exact if first else None,
            configured=self.watch.configured,
        )

    def store_answer(self, envelope: Envelope[R]) -> Envelope[R]:
        """Add the result's document to the journal, and report storage failures."""
        self.log.add("result", envelope)
        self.report_storage_failures()
        return envelope

    def report_storage_failures(self) -> None:
        """Report storage failures that were not reported yet."""
        if self.log.trouble not in ("", self._trouble_said):
            self._trouble_said = self.log.trouble
            self.watch.say(self._trouble_said)

    def close(self) -> None:
        """Release the resources that outlive a trial."""
        # The machine is read on first use; closing must not read it.
        if "machine" in self.__dict__:
            self.machine.close()
        if self._store:
            self._store.close()


@contextlib.contextmanager
def open_experiment(verb: str, terms: Terms, watch: Watcher) -> Iterator[Experiment]:
    """Open an experiment with its scratch folder, for the duration of a ``with`` block.

    Raises:
        UsageError: No temporary folder can be created, or the requested container cannot be emulated on this machine.
        MeasurementError: The disk filled up during a write.
    """
    with scratch_folder() as scratch:
        experiment = Experiment(verb, terms, watch, scratch)
        try:
            yield experiment
        except OrtuneError as error:
            experiment.log.add(FAILED, {"what": error.what})
            raise
        finally:
            experiment.close()
