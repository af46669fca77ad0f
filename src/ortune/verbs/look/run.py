"""``ortune MODEL``: a first look at a model, in about ten seconds."""

from __future__ import annotations

import math
import os
import shlex
from pathlib import Path

import msgspec

from ortune import errors, rules, targets
from ortune.bundle import format as bundle_format
from ortune.durations import as_option
from ortune.errors import OrtuneError, RuntimeNotFound
from ortune.graph.model import from_git
from ortune.graph.model.open import OpenModel, open_model
from ortune.measuring.opening import Experiment
from ortune.measuring.pace import Pace
from ortune.measuring.sides import ResolvedSide, SideText
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope, Finding, LevelCheck, Plan
from ortune.search.phases import LEAST_CHECKS_S
from ortune.show import headroom_words
from ortune.show.finding_words import measurable
from ortune.verbs._shared.attempt import error_info
from ortune.verbs._shared.session import experiment, store_result
from ortune.verbs._shared.spelling import named, words
from ortune.verbs._shared.watching import with_words
from ortune.verbs.look import words as look_words
from ortune.verbs.look.contents import estimated, repeated_regions
from ortune.verbs.look.first_look import TIMED_NS, FirstLook
from ortune.verbs.look.options import Options
from ortune.verbs.look.result import LookResult, OperatorEstimate

MOST_CHECKS_S = 60.0
"""Maximum expected time for skipped checks in seconds, because a slow check does not predict the others."""
BUSY_MOST_S = 120.0
"""Maximum suggested budget on a busy machine in seconds, because the times of a busy machine are inflated."""


def run(options: Options, watcher: Watcher | None = None) -> Envelope[LookResult]:
    """Take a first look at a model.

    If the model can be opened but does not run, the document contains the results for the file and the error.

    Raises:
        OrtuneError: The model cannot be opened, or an option cannot be used.
    """
    watch = with_words(watcher)
    with experiment("look", options, watch) as opened:
        try:
            text = SideText(
                text=str(options.model),
                settings=tuple(options.set),
                rewrites=options.rewrite,
                runtime=named(options.runtime),
            )
            side = opened.resolve(text)
        except RuntimeNotFound as error:
            return _Look(options, opened, _unrun(str(options.model), opened.scratch), None).envelope(error)
        return _Look(options, opened, side.model, side).go()


def _unrun(text: str, scratch: Path) -> OpenModel:
    """Open the model without a runtime."""
    git = from_git.split(text)
    if git:
        return open_model(from_git.checkout(*git, scratch / "git"), called=text)
    path = Path(text)
    return open_model(path / bundle_format.read(path).model if bundle_format.is_bundle(path) else path)


def exit_code(envelope: Envelope[LookResult]) -> int:
    """Return 0, or the exit code of the error that prevented a run."""
    if envelope.error is None:
        return 0
    kinds = (
        errors.UsageError, errors.ModelError, errors.InputError, errors.RuntimeNotFound, errors.BusyError,
        errors.StoreError,
    )  # fmt: skip
    usage = {kind.default_code: kind.exit_code for kind in kinds}
    return usage.get(envelope.error.code, errors.MeasurementError.exit_code)


class _Look:
    """A first look in progress."""

    def __init__(
        self, options: Options, opened: Experiment, model: OpenModel, side: ResolvedSide | None
    ) -> None:
        self.options, self.experiment, self.model, self.side = options, opened, model, side
        self.look = FirstLook(opened, model, options.folder)

    def go(self) -> Envelope[LookResult]:
        """Run the model and return the document; an error that prevents a run becomes part of the document."""
        assert self.side is not None
        opened, label = self.experiment, self.side.label
        failure: OrtuneError | None = None
        try:
            log = opened.begin(f"{self.model.info.sha256} {self.side.plan.id}", {"model": label})
            try:
                with opened.measuring(label):
                    self.look.run(self.side)
            except errors.Interrupted:
                raise
            except OrtuneError as error:
                failure = error
            self.look.result = msgspec.structs.replace(self.look.result, session=log.id)
            return store_result(opened, self.options, self.envelope(failure))
        except errors.StoreError as error:
            return self.envelope(error)

    def envelope(self, error: OrtuneError | None) -> Envelope[LookResult]:
        """Return the document with the results so far."""
        side = self.side = self.look.side or self.side
        pace = self.experiment.pace(least_s=LEAST_CHECKS_S)
        findings = measurable(self._findings(pace), words(self.options, without=("budget",)))
        regions = (
            repeated_regions(self.model, self.look.times, self.look.cost, self.look.profile)
            if pace.begins("regions")
            else ()
        )
        left_out = list(self.look.left_out)
        if pace.left_out:
            needed_s = min(pace.needed_s(self.look.budget.spent_s), self.look.budget.spent_s + MOST_CHECKS_S)
            more_s = needed_s - self.look.budget.spent_s
            left_out.append(look_words.no_time_for(look_words.checks(pace.left_out), more_s, self.look.busy))
            self.look.needed_s = max(self.look.needed_s, needed_s)
        result = msgspec.structs.replace(
            self.look.result,
            runtime=side.runtime if side else None,
            plan=side.plan if side else Plan(),
            timing=self.look.timing,
            profile=self.look.profile,
            estimate=self._estimate(),
            regions=regions,
            headroom=self.look.headroom and headroom_words.worded(self.look.headroom),
            findings=findings,
            left_out=tuple(left_out),
            busy=self.look.busy,
            next_commands=tuple(self._next(error, {finding.name for finding in findings})),
            elapsed_s=self.look.budget.spent_s,
        )
        return self.experiment.document(
            result,
            model=self.model.ref,
            workload=self.look.work,
            status="error" if error else "ok",
            error=error_info(error) if error else None,
        )

    def _findings(self, pace: Pace) -> tuple[Finding, ...]:
        """Return the findings on the model and its run, without findings on the machine, which ``doctor`` reports."""
        facts = rules.Facts(
            model=self.model,
            work=self.look.work,
            fed=self.options.feeds.words,
            plan=self.side.plan if self.side else Plan(),
            target=targets.target_of(self.side.plan).name if self.side else self.options.target,
            ort_version=self.side.runtime.ort_version if self.side else "",
            operators=self.look.profile,
            host=self.experiment.machine.host,
            environment=os.environ,
            level_check=self._right_level(),
            wrong_when_optimised=self.look.wrong_when_optimised,
            row_check=self.look.row_check,
            clipped=self.look.clipped,
            emulated=self.look.emulated,
            begins=pace.begins,
        )
        # Findings that were printed before the answer are not repeated.
        said = {alert.code for baseline in self.experiment.baselines for alert in baseline.alerts}
        return tuple(f for f in rules.findings(facts, without=("ENV",)) if f.code not in said)

    def _estimate(self) -> tuple[OperatorEstimate, ...]:
        """Return the estimated shares of the operators if a run was timed but not profiled; () otherwise."""
        cost = self.look.cost
        missing = self.look.timing is not None and self.look.profile is None and not self.look.emulated
        return estimated(cost) if missing and cost is not None else ()

    def _right_level(self) -> LevelCheck | None:
        """Return the check of the optimisation level; None if it failed, because a failure is reported separately."""
        check = self.look.level_check
        return None if check is None or check.wrong else check

    def _next(self, error: OrtuneError | None, names: set[str]) -> list[str]:
        if error is not None:
            return ["ortune doctor"] if error.code == RuntimeNotFound.default_code else []
        if self.look.emulated:
            return []
        # A bundle is tuned already; alone, compare proves it again. The search is for the CPU.
        bundle = bundle_format.is_bundle(Path(str(self.options.model)))
        verb = (
            "compare" if bundle else "tune" if targets.find(self.options.target).provider.ships else "profile"
        )
        again = words(self.options, without=("budget",))
        commands = [shlex.join(["ortune", verb, *again])]
        if self.look.needed_s:
            most_s = BUSY_MOST_S if self.look.busy else math.inf
            commands.append(shlex.join(["ortune", *again, "--budget", _budget(self.look.needed_s, most_s)]))
        if "too-many-threads" in names:
            commands.append("ortune doctor")
        return commands


def _budget(needed_s: float, most_s: float) -> str:
    """Return a sufficient budget in command-line notation, with a margin and rounded up to 10 s."""
    # More time is more timed runs and a longer warm-up.
    seconds = min(1.2 * needed_s + 2 * TIMED_NS / 1e9, most_s)
    return as_option(math.ceil(seconds / 10) * 10)
