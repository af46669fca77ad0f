"""An experiment: the state of a measuring verb, from resolving its sides to storing its document."""

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
from ortune.measuring.quiet import waited_for_quiet
from ortune.measuring.scratch import scratch_folder
from ortune.measuring.sides import Resolved, SideText, resolve
from ortune.measuring.terms import Terms
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope, ErrorInfo, ModelRef, Plan, Record, Runtime, Workload
from ortune.rules import EVERY_RULE
from ortune.runtimes import made
from ortune.runtimes.environment import clean_environment, recorded
from ortune.runtimes.packages import recipes
from ortune.search.phases import DELIVERY_SHARE
from ortune.show import finding_words
from ortune.store.db import SessionLog, Store
from ortune.store.reading import FAILED, UNREADABLE
from ortune.targets.machine import Machine

R = TypeVar("R", bound=Record)

_LONG_START_SHARE = 0.5
"""Share of the budget from which on a long start is reported, since little time is left to measure."""


class Experiment:
    """One measurement of a verb.

    Attributes:
        verb: Who measures.
        terms: As its options have them.
        watch: Progress and cancellation callbacks.
        scratch: Folder of this invocation, gone at its end.
        log: The journal; one that keeps nothing until ``begin`` or ``resume``.
        replay: What an interrupted session measured, and the clock of all decisions.
        baselines: Sides that were run, in order.
        answer_s: Of the budget, what is kept for the answer: writing it takes as long as the work before the first run.
    """

    def __init__(self, verb: str, terms: Terms, watch: Watcher, scratch: Path) -> None:
        self.verb, self.terms, self.watch, self.scratch = verb, terms, watch.within(terms.budget_s), scratch
        self.log = SessionLog(None, "")
        self.replay = replay.Replay()
        self.baselines: list[Measuring] = []
        self.answer_s = 0.0
        self._store: Store | None = None
        self._trouble_said, self._unwritable = "", False
        self._elsewhere: Machine | None = None
        self._place: str | None = None
        self._waited: list[str] = []

    @cached_property
    def machine(self) -> Machine:
        """The machine, or the one that a simulation provides; read on first use."""
        make = self.watch.machine or Machine
        return self._elsewhere or make(self.terms.feeds.pod, self.terms.browser)

    @cached_property
    def budget(self) -> Budget:
        """The time of this session; infinite if the verb has no budget."""
        return Budget(
            total_s=math.inf if self.terms.budget_s is None else self.terms.budget_s,
            # Asked each time, as another replay takes the place of this one when a journal begins.
            spent_ns=lambda: self.replay.decided(),  # noqa: PLW0108
            elapsed_ns=lambda: self.replay.clock(),  # noqa: PLW0108
        )

    @property
    def elapsed_s(self) -> float:
        """Seconds that the session has taken so far, those before an interruption among them."""
        return 1e-9 * self.replay.clock()

    def pace(self, keep_s: float = 0.0, *, least_s: float = 0.0) -> Pace:
        """Return a pace for work between trials, which leaves time for the answer and ``keep_s`` seconds of the budget.

        Args:
            keep_s: Seconds reserved for later steps.
            least_s: Seconds available even if less is left of the budget; rules are then read meanwhile.
        """
        end_s = (self.terms.budget_s or math.inf) - self.answer_s - keep_s  # none at all is no limit either
        # To read every rule takes half of what an answer does: 0.14 s beside 0.3 s on a quiet machine.
        return Pace(lambda: end_s - self.elapsed_s, least_s, EVERY_RULE, self.answer_s / 2)

    def skipped(self, pace: Pace, enough_s: int = 0) -> list[str]:
        """Return what was left out for want of time, in words, with a budget that holds it; [] where nothing was.

        Args:
            pace: Of what was left out.
            enough_s: That budget, if it is known.
        """
        if not pace.left_out:
            return []
        needed_s = pace.needed_s(self.terms.budget_s or self.elapsed_s)
        return [finding_words.no_time_for(pace.left_out, enough_s or self.budget.enough_s(needed_s))]

    @property
    def played_notes(self) -> list[str]:
        """Says that the session went on with an earlier one, or waited for a quiet machine; [] where it did neither."""
        resumed = [f"resumed an earlier session: {n} trials reused" for n in [self.replay.played] if n]
        return [*resumed, *self._waited]

    def resolve(self, side: SideText, *, runs: bool = True, **more: Any) -> Resolved:
        """Open what a side names, with what all sides of the verb have in common.

        Args:
            side: As it was written.
            runs: Whether what is resolved is run here.
            more: Further arguments of ``sides.resolve``.

        Raises:
            OrtuneError: As ``sides.resolve``.
        """
        watch, terms = self.watch, self.terms
        if side.runtime is not None and recipes(side.runtime):
            with watch.clock.stopped():  # made once, and so of no budget
                made.require(side.runtime, watch.say)
        watch.line(f"reading {side.text or 'the same model'}")
        resolved = resolve(
            side,
            common=terms.common,
            scratch=self.scratch,
            custom_ops=terms.feeds.custom_ops,
            limits=terms.rewriting,
            browser=terms.browser if runs else None,
            say=watch.say,
            # Rewriting is work that a measurement of another ortune would see.
            alone=lambda: self._alone("rewriting a model", wait=terms.wait),
            **more,
        )
        self.measure_at(resolved.runtime, resolved.plan)
        watch.line(f"running {resolved.label} for the first time")
        return resolved

    def measure_at(self, runtime: Runtime, plan: Plan) -> None:
        """Measure on the machine of a runtime that sees no files of this one; all sides share one machine.

        Args:
            runtime: Of a side.
            plan: What it runs.

        Raises:
            UsageError: Another side runs elsewhere, or a container is to be emulated there.
        """
        host = None if plan.is_web else runtime.host  # pages are here
        place = host.fingerprint if host is not None else ""
        compares = self.terms.machines and self._place is not None  # the machine of A is read
        self._place = place if self._place is None else self._place
        if place != self._place and not compares:
            raise UsageError(
                "runs on a different machine from the previous side",
                where=f"--runtime {runtime.python}",
                do="pass one --runtime for all sides, or compare machines: --b-host NAME=SCRIPT",
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
        """The machine for this verb alone, and its journal begun: two measurements at once are each other's noise.

        A verb that measures no time (``Terms.timed``) shares the machine.

        Args:
            label: Of what is measured, for those who wait.
            key: What the session is about, for finding it again.
            machine: Another one than this, for as long as it is measured: a browser elsewhere.
            names: Of the sides, for the journal's header, which is begun; None where that is done with ``begin``.
            wait: For another ortune that measures, where that is not as the options have it.

        Raises:
            BusyError: Another ortune measures, and is not waited for.
            StoreError: The store that was named cannot be written.
        """
        with contextlib.ExitStack() as stack:
            if machine is not None:
                self._elsewhere = stack.enter_context(machine)
            self._open_store()
            what = f"{self.verb} {label}".rstrip()
            wait = self.terms.wait if wait is None else wait
            stack.enter_context(self._alone(what, wait=wait))
            self._waited = waited_for_quiet(self.machine, self.terms.wait_quiet_s, self.watch)
            if names is not None:
                self.begin(key, names)
            yield

    def _alone(self, what: str, *, wait: bool) -> contextlib.AbstractContextManager[None]:
        """Return the lock of the machine for a verb that measures times, and nothing for others."""
        if not self.terms.timed:
            return contextlib.nullcontext()
        return exclusive(what, self.watch, wait=wait, budget_s=self.terms.budget_s)

    def begin(self, key: str, names: Mapping[str, str], *, here: bool = True) -> SessionLog:
        """Begin the journal.

        Args:
            key: What the session is about, for finding it again.
            names: Of the sides, for the header.
            here: Whether its header has this machine and the workers' environment.
        """
        self._open_store()
        if self._store:
            header: dict[str, object] = dict(names)
            if here:
                header |= {"host": self.machine.host, "environment": recorded(clean_environment())}
            self.log = self._store.begin(self.verb, f"{self.verb} {key}", header)
            self.say_trouble()
        # The session began with the invocation, not here: reading the model is part of its time.
        began_ns = int(1e9 * (monotonic.now_s() - self.watch.clock.spent_s))
        self.replay = replay.Replay(since_ns=began_ns, log=self.log)
        self._began()
        budget_s, start_s = self.terms.budget_s, self.elapsed_s
        if budget_s and start_s > _LONG_START_SHARE * budget_s:
            self.watch.say(finding_words.long_start(start_s, budget_s))
        return self.log

    def _began(self) -> None:
        """What was spent before the journal began is known to all decisions."""
        self.replay.reached(self.replay.once("began", int, self.replay.clock))

    def resume(self, key: str, session: str) -> None:
        """Go on with the journal of an interrupted session: what it measured is not measured again.

        Args:
            key: What the session is about.
            session: Its id, or "newest" for the newest that was killed or stopped early.

        Raises:
            UsageError: There is no such session, or it cannot be read.
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
                # One that ended is gone on with where it is named: for a bundle, which could not be written then.
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
        """Open the store where what is measured is kept; where the user's own place cannot be written, says so."""
        if not self.terms.stored or self._store is not None or self._unwritable:
            return
        try:
            self._store = Store(self.terms.folder)
        except StoreError as error:
            if self.terms.folder is not None:
                raise
            self._unwritable = True
            self.watch.say(f"results are not stored: {error.where} {error.what}")

    def base(
        self,
        side: Resolved,
        *,
        feeds: InputOptions | None = None,
        scratch: Path | None = None,
        say: Callable[[str], None] | None = None,
        load: Callable[[Workload], Workload] = lambda work: work,
    ) -> Measuring:
        """Return a side that is to be run, with its inputs proposed.

        Args:
            side: What is run.
            feeds: The inputs, if they are not the requested ones.
            scratch: A folder of its own.
            say: Callback for messages, if they are not for everybody.
            load: What becomes of the workload that is proposed.
        """
        # Writing the answer is work of the kind that was done until now, and takes as long.
        if not self.answer_s:  # a session that goes on keeps what it kept before, and so decides the same
            usual_s = DELIVERY_SHARE * self.watch.clock.spent_s
            self.answer_s = self.replay.once("after", float, lambda: usual_s)
        baseline = Measuring(
            side,
            feeds or self.terms.feeds,
            scratch or self.scratch,
            self.log,
            say or self.watch.say,
            self.machine,
            load,
        )
        baseline.executor.recorded = self.replay.next
        baseline.executor.ended = self.replay.ended
        baseline.executor.passed = self.replay.pass_on
        baseline.check.known_differences = self.replay.differences
        self.baselines.append(baseline)
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
        """The answer; of the first side that was run where nothing else is said, with what was alerted of any."""
        first = self.baselines[0] if self.baselines else None
        return document(
            self.verb,
            result,
            host=self.machine.seen,
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

    def keep(self, envelope: Envelope[R]) -> Envelope[R]:
        """Add the answer to the journal, and says what could not be kept."""
        self.log.add("result", envelope)
        self.say_trouble()
        return envelope

    def say_trouble(self) -> None:
        """Says what could not be kept, once."""
        if self.log.trouble not in ("", self._trouble_said):
            self._trouble_said = self.log.trouble
            self.watch.say(self._trouble_said)

    def close(self) -> None:
        """Gives back what outlives a trial."""
        # A cached property that nobody read was not made: closing must not read the machine only to close it.
        if "machine" in self.__dict__:
            self.machine.close()
        if self._store:
            self._store.close()


@contextlib.contextmanager
def open_experiment(verb: str, terms: Terms, watch: Watcher) -> Iterator[Experiment]:
    """An experiment with its scratch folder, for as long as it takes.

    Raises:
        UsageError: No temporary folder can be made, or the requested container cannot be emulated on this machine.
        MeasurementError: The disk filled up while something was written.
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
