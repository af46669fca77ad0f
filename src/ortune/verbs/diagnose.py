"""``ortune diagnose``: why a model is slow, each reason with its fix measured."""

from __future__ import annotations

import os
import random
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

import msgspec

from ortune import rules
from ortune.errors import OrtuneError, UsageError
from ortune.experiment.baseline import Baseline
from ortune.experiment.fixed_blocks import controlled, fit, held, holds
from ortune.experiment.limits import patience_s
from ortune.experiment.opening import Experiment
from ortune.experiment.watcher import Watcher
from ortune.profiling.nodes import origins
from ortune.profiling.peaks import load_peak
from ortune.profiling.processes import NOT_HELD, base_arm, profile, runs_within
from ortune.profiling.result import result_of
from ortune.records import (
    FUNCTIONAL_ONLY,
    Block,
    Comparison,
    Control,
    DiagnoseResult,
    Envelope,
    Failed,
    Finding,
    OutputDifference,
    Plan,
    ProfileResult,
    TriedFix,
)
from ortune.report import diagnose_words, finding_words, headroom_words
from ortune.report.answer_commands import plan_options
from ortune.report.finding_words import measurable
from ortune.rules import Facts
from ortune.search import confirm
from ortune.search.blocks import BASE, awake, measured
from ortune.search.figures import OBJECTIVES, WORDS, describe, figure, require_objective
from ortune.search.phases import PROFILE_BEFORE_FIXES_SHARE
from ortune.search.plan_edits import merge, together
from ortune.trials.failures import describe as failure
from ortune.trials.rewriting import Models
from ortune.trials.sides import Resolved, SideText, require_unchanged
from ortune.verbs._first_run import settle
from ortune.verbs._options import (
    GATE,
    MODEL,
    NON_FINITE,
    RUN,
    AnyPath,
    Argument,
    Budget,
    Load,
    Objective,
    OnePlan,
    Option,
    Resumable,
    Tolerance,
    command,
    named,
    option_fields,
    seconds,
    words,
)
from ortune.verbs._session import experiment, go_on, keep
from ortune.verbs._watched import watched

FORMATS = ("text", "json", "github", "markdown", "html")
STOPPING = "stopping after this block, then telling what is known; Ctrl-C again stops at once"

TOGETHER = "together"
SEVERITIES = ("error", "warning", "note")
OF_A_PAGE = ("page", "watch", "browser", "headful", "fail_on", "report", "store")
"""What can be said of a page that is watched."""
LONGEST_WATCH_S = 3600
MOST_FIXES = 8
"""Raced at once; findings of less weight wait for another call."""


@dataclass(frozen=True, kw_only=True)
class Options(Resumable, Load, OnePlan):
    """Why is this model slow? What stands out is found, and each fix is measured before it is recommended.

    Runs the model, profiles it, asks every rule, and races what they would change, alone and together, against the
    model as it is. A fix that does not help is said to not help.
    """

    model: Annotated[
        AnyPath | None, Argument("[MODEL]", "model.onnx, model.ort, NAME.ortune or model.onnx@revision.")
    ] = None
    page: Annotated[
        str,
        Option("--page", "URL", "In place of a model, your page: what it does with onnxruntime-web.", MODEL),
    ] = ""
    watch: Annotated[
        str | float, Option("--watch", "15s", "How long the page is watched once it has loaded.", RUN)
    ] = "15s"
    rewrite: Annotated[
        Sequence[str],
        Option("--rewrite", "NAME[:k=v]", "A rewrite that is there already. Repeatable.", MODEL),
    ] = ()
    objective: Objective = "latency"
    tolerance: Tolerance = None
    budget: Budget = "2m"
    allow: Annotated[
        Sequence[str],
        Option(
            "--allow",
            "WHAT",
            "Measure fixes that are not exact too: numerics, behaviour; or outputs that are non-finite. Repeatable.",
            RUN,
        ),
    ] = ()
    fail_on: Annotated[
        str, Option("--fail-on", "SEVERITY", "Exit with 1 from here on: error, warning or note.", GATE)
    ] = "never"

    @cached_property
    def allowed(self) -> frozenset[str]:
        """The safety classes of fixes that are measured."""
        for name in self.allow:
            if name not in ("numerics", "behaviour", NON_FINITE):
                raise UsageError(
                    f"{name!r} is nothing that can be allowed",
                    where="--allow",
                    do=f"numerics, behaviour or {NON_FINITE}",
                )
        return frozenset({"exact", *self.allow})

    @cached_property
    def watch_s(self) -> float:
        """How long a page is watched."""
        if bool(self.page) == (self.model is not None):
            raise UsageError(
                "a model or a page is diagnosed, one of them",
                where="diagnose",
                do="ortune diagnose MODEL, or ortune diagnose --page http://localhost:5173",
            )
        for each in option_fields(type(self)) if self.page else ():
            if isinstance(each.spelling, Option) and each.name not in OF_A_PAGE and each.given(self):
                raise UsageError(
                    "says nothing of a page", where=each.spelling.flag.partition("/")[0], do="leave it out"
                )
        found = seconds(self.watch, "--watch")
        if not 0 < found <= LONGEST_WATCH_S:
            raise UsageError(
                f"{self.watch} is no time to watch a page", where="--watch", do="e.g. 15s; an hour at most"
            )
        return found

    @cached_property
    def severity(self) -> str:
        """From which on findings fail."""
        require_objective(self.objective)
        if self.fail_on not in (*SEVERITIES, "never"):
            raise UsageError(
                f"{self.fail_on!r} is no severity", where="--fail-on", do="error, warning, note or never"
            )
        return self.fail_on


def run(options: Options, watcher: Watcher | None = None) -> Envelope[DiagnoseResult]:
    """Finds what slows a model down, and measures what its fixes bring.

    Raises:
        OrtuneError: The model does not run, or nothing can be measured on this machine now.
    """
    watch = watcher or Watcher()
    if options.page:
        return _page(options, watch)
    with experiment("diagnose", options, watch) as opened:
        text = SideText(
            text=str(options.model), rewrites=tuple(options.rewrite), runtime=named(options.runtime)
        )
        side = opened.resolve(text)
        with opened.measuring(side.label):
            go_on(opened, options, [side], model=side.label)
            envelope = _Diagnosis(options, opened, opened.base(side)).go()
        return keep(opened, options, envelope)


def _page(options: Options, watch: Watcher) -> Envelope[DiagnoseResult]:
    """The user's own page, watched."""
    with experiment("diagnose", options, watch) as opened:
        opened.begin(options.page, {"model": options.page})
        return keep(opened, options, _watch(options, opened))


def _watch(options: Options, opened: Experiment) -> Envelope[DiagnoseResult]:
    watch = opened.watch
    began_s = watch.clock.now_s()
    watch.line(f"watching {options.page}")
    page, first = watched(options.page, options.in_browser, options.watch_s, opened.scratch, watch.stop)
    findings = tuple({(f.code, f.what): f for each in page.sessions for f in each.findings}.values())
    result = DiagnoseResult(
        side=first,
        findings=findings,
        fail_on=options.severity,
        failed=_fails(findings, options.severity),
        reproduce=command("diagnose", options),
        page=page,
        session=opened.log.id,
        elapsed_s=watch.clock.now_s() - began_s,
    )
    return opened.document(result, status="interrupted" if watch.stop() else "ok")


def _fails(findings: Sequence[Finding], severity: str) -> bool:
    """Whether any is as bad as that."""
    worst = SEVERITIES[: SEVERITIES.index(severity) + 1] if severity != "never" else ()
    return any(finding.severity in worst for finding in findings)


def exit_code(envelope: Envelope[DiagnoseResult]) -> int:
    """1 where findings are left that fail the gate."""
    return int(envelope.result is not None and envelope.result.failed)


@dataclass
class _Fix:
    """One change, and what became of it."""

    arm: str
    plan: Plan
    change: Plan
    codes: list[str] = field(default_factory=list)
    outputs: OutputDifference | None = None
    failed: str = ""

    @property
    def runs(self) -> bool:
        """Whether it can be raced: it runs, and its outputs are the model's own."""
        return not self.failed


class _Diagnosis:
    """One diagnosis while it is made."""

    def __init__(self, options: Options, opened: Experiment, baseline: Baseline) -> None:
        self.options, self.experiment, self.baseline = options, opened, baseline
        self.watch, self.clock = opened.watch, opened.clock
        self.asked = words(options, without=("budget", "allow", "fail_on"))
        self.side: Resolved = baseline.side
        self.models = Models(self.side, baseline.scratch, tuple(options.feeds.custom_ops), self.watch.say)
        self.rng = random.Random(f"diagnose-{options.seed}")
        self.blocks: list[Block] = []
        self.controls: list[Control] = []
        self.estimand = ""
        self.no_time = ""  # why nothing was raced, where the budget does not hold it

    def go(self) -> Envelope[DiagnoseResult]:
        """From the first run to the document."""
        self.watch.line("running the model for the first time")
        settle(self.baseline, self.options.budget_s, lambda: self.clock.left_s, self.watch.line)
        self.baseline.check.step_down()
        self.side = self.baseline.side
        self.watch.line("timing a few runs, to plan the session")
        self.baseline.pilot.run(self.options.objective, lambda: self.clock.left_s, self._holds)
        # What a profile tells, and what follows from it, would not come out the same again.
        once = self.experiment.replay.once
        told = once("profile", ProfileResult | None, self._profile)
        found = once("findings", tuple[Finding, ...], lambda: self._findings(told))
        fixes, not_tried = self._fixes(found)
        # What could not be raced is not even tried: that takes time too. On a GPU that is software nothing is.
        if not self.baseline.check.claims:
            self.no_time = finding_words.NO_CLAIMS
        elif self.baseline.pilot.functional_only:
            self.no_time = diagnose_words.NOT_TIMED
            for fix in fixes:
                self._try(fix)
        elif fixes and not self._held([fix.arm for fix in fixes]):
            self.watch.say(f"{len(fixes)} of {len(fixes)} fixes: {self.no_time}")
        elif fixes:
            for fix in fixes:
                self._try(fix)
            everything = self._together([fix for fix in fixes if fix.runs])
            if everything is not None:
                self._try(everything)
                fixes.append(everything)
            self._race([fix.arm for fix in fixes if fix.runs])
        require_unchanged(self.side)
        return self._envelope(found, fixes, not_tried, told)

    def _holds(self, trial_ns: float) -> bool:
        return holds(self.clock, trial_ns)

    def _profile(self) -> ProfileResult | None:
        """One process under the profiler; None where it does not run there, or the budget does not hold it."""
        self.watch.line("profiling")
        side, machine = self.side, self.experiment.machine
        latency = (
            figure(self.baseline.pilot.first, "median") or self.baseline.pilot.first.done.cases[0].first_ns
        )
        # Where no fix can be raced, nothing else needs the time.
        left_ns = self.clock.left_s * 1e9
        races = (
            fit(self.baseline, 3, (1 - PROFILE_BEFORE_FIXES_SHARE) * left_ns)
            <= (1 - PROFILE_BEFORE_FIXES_SHARE) * left_ns
        )
        runs = runs_within(self.baseline, latency, (PROFILE_BEFORE_FIXES_SHARE if races else 1.0) * left_ns)
        if not runs:
            self.baseline.note(NOT_HELD)
            return None
        try:
            (process,) = profile(
                self.baseline, [base_arm(self.baseline)], runs, [self.baseline.scratch / "trace.json"]
            )
        except OrtuneError as error:
            self.watch.say(f"not profiled: {error.what}")
            return None
        known = origins(side, self.baseline.work, self.baseline.scratch, process.trace, process.graph)
        peak = load_peak(machine.host, self.options.folder, side.runtime.ort_version)
        found = result_of(
            "", process.trace, process.found, process.warmup, known, peak, side,
            slowdown=process.slowdown, cpus=machine.host.effective_cpus, seen=process.seen, resident=process.resident,
        )  # fmt: skip
        return msgspec.structs.replace(
            found, headroom=found.headroom and headroom_words.worded(found.headroom)
        )

    def _findings(self, told: ProfileResult | None) -> tuple[Finding, ...]:
        machine = self.experiment.machine
        facts = Facts(
            model=self.side.model,
            work=self.baseline.work,
            # Of a level that was stepped down from nothing else is to be said.
            plan=self.baseline.check.wrong_plan or self.side.plan,
            target=self.options.target,
            ort_version=self.side.runtime.ort_version,
            profile=told,
            host=machine.host,
            topology=machine.topology,
            sensors=machine.sensors(),
            environment=os.environ,
        )
        return (*rules.findings(facts, measured=True), *self.baseline.findings)

    def _fixes(self, found: Sequence[Finding]) -> tuple[list[_Fix], list[str]]:
        """What can be raced, each plan once; and the codes of fixes that nobody has allowed."""
        fixes: dict[str, _Fix] = {}
        not_tried: list[str] = []
        for finding in found:
            if finding.plan is None:
                continue
            if finding.safety not in self.options.allowed:
                not_tried.append(finding.code)
                continue
            plan = merge(self.side.plan, finding.plan)
            if plan.id in fixes or len(fixes) < MOST_FIXES:
                fix = fixes.setdefault(
                    plan.id, _Fix(arm=f"fix-{len(fixes) + 1}", plan=plan, change=finding.plan)
                )
                fix.codes.append(finding.code)
        return list(fixes.values()), not_tried

    def _together(self, fixes: Sequence[_Fix]) -> _Fix | None:
        """All fixes as one plan: gains do not add."""
        if len(fixes) < 2:
            return None
        change = together([fix.change for fix in fixes], Plan())
        if change is None:
            self.watch.say("the fixes contradict each other, so they are measured one by one alone")
            return None
        plan = merge(self.side.plan, change)
        return _Fix(
            arm=TOGETHER, plan=plan, change=change, codes=[code for fix in fixes for code in fix.codes]
        )

    def _try(self, fix: _Fix) -> None:
        """Makes the changed model and runs it once: it must run, and give the same."""
        self.watch.line(f"trying the fix of {', '.join(fix.codes)}")
        try:
            model = (
                self.models.path(
                    fix.plan, patience_s(self.baseline.pilot.trial_ns, max(0.0, self.clock.left_s * 1e9))
                )
                if fix.plan.rewrites
                else None
            )
        except OrtuneError as error:
            fix.failed = diagnose_words.not_made(error.what)
            return
        arm = self.baseline.arm(fix.arm, plan=fix.plan, model=model)
        outcome = self.baseline.executor.trial(arm, runs=self.baseline.pilot.look_runs, keep_outputs=True)
        if isinstance(outcome, Failed):
            fix.failed = diagnose_words.does_not_run(failure(outcome))
            return
        self.baseline.live_with(outcome)
        fix.outputs = self.baseline.check.difference(outcome, key=fix.arm, again=arm)
        if not fix.outputs.ok:
            fix.failed = diagnose_words.moves_outputs(fix.outputs.what)
            return
        self.baseline.executor.arms = {**self.baseline.executor.arms, fix.arm: arm}

    def _held(self, arms: Sequence[str]) -> list[str]:
        """Those that the budget holds: of too many fixes the last are left out, which are worth least."""

        def drop(kept: list[str]) -> None:
            alone = [arm for arm in kept if arm != TOGETHER]
            kept.remove(alone[-1] if len(alone) > 1 else kept[-1])

        kept, needed_s = held(self.baseline, arms, self.clock, drop)
        self.no_time = diagnose_words.no_time(needed_s) if len(kept) < len(arms) else ""
        return kept

    def _race(self, wanted: Sequence[str]) -> None:
        baseline, executor = self.baseline, self.baseline.executor
        arms = self._held(wanted)
        if len(arms) < len(wanted):
            self.watch.say(f"{len(wanted) - len(arms)} of {len(wanted)} fixes: {self.no_time}")
        if not arms:
            return
        executor.arms = {
            **baseline.controls(),
            **{arm: executor.arms[arm] for arm in arms},
        }
        schedule = controlled(
            baseline,
            arms,
            self.watch,
            self.experiment.replay,
            fixed=OBJECTIVES[self.options.objective],
            rng=self.rng,
            clock=self.clock,
        )
        assert schedule.judgement is not None
        self.estimand, self.blocks = schedule.judgement.estimand, schedule.blocks
        self.controls = schedule.controls

    def _tried(self, fix: _Fix, n_claims: int) -> TriedFix:
        """A fix with what was measured; as many claims as fixes, one error."""
        trials = measured(self.blocks, fix.arm) if fix.runs else []
        found: Comparison | None = None
        if trials:
            found = confirm.compare(self.blocks, fix.arm, self.estimand, level=1 - 0.05 / n_claims)
        return TriedFix(
            codes=tuple(fix.codes),
            plan=fix.change,
            command=shlex.join(["ortune", "compare", *self.asked, *plan_options(fix.change, "--b-")]),
            figures=describe(trials, self.estimand) if trials else None,
            outputs=fix.outputs,
            comparison=found,
            failed=fix.failed or ("" if found else self.no_time or diagnose_words.STOPPED),
        )

    def _envelope(
        self,
        found: Sequence[Finding],
        fixes: Sequence[_Fix],
        not_tried: Sequence[str],
        told: ProfileResult | None,
    ) -> Envelope[DiagnoseResult]:
        n_claims = max(1, sum(fix.runs for fix in fixes))
        tried = [self._tried(fix, n_claims) for fix in fixes]
        alone = [each for each, fix in zip(tried, fixes, strict=True) if fix.arm != TOGETHER]
        whole = next((each for each, fix in zip(tried, fixes, strict=True) if fix.arm == TOGETHER), None)
        proven = {
            code: each.comparison for each in alone for code in each.codes if each.comparison is not None
        }
        findings = tuple(msgspec.structs.replace(f, verified=proven.get(f.code)) for f in found)
        ordered = tuple(sorted(measurable(findings, self.asked), key=_order))
        base = measured(self.blocks, BASE)
        claims = [each.comparison for each in alone if each.comparison is not None]
        result = DiagnoseResult(
            side=self.side.record,
            estimand=WORDS[self.estimand] if self.estimand else "",
            figures=None
            if self.baseline.pilot.functional_only
            else describe(base or [self.baseline.pilot.first], self.estimand or "median"),
            findings=ordered,
            tried=tuple(alone),
            together=whole,
            not_tried=tuple(not_tried),
            profile=told,
            controls=tuple(self.controls),
            notes=(
                *self.baseline.work.notes,
                *self.baseline.notes,
                *awake(self.blocks),
                *self.experiment.played_notes,
            ),
            fail_on=self.options.severity,
            failed=_fails((*self.baseline.alerts, *ordered), self.options.severity),
            reproduce=command("diagnose", self.options),
            tune=shlex.join(["ortune", "tune", *self.asked]),
            session=self.experiment.log.id,
            elapsed_s=self.experiment.elapsed_s,
        )
        return self.experiment.document(
            result,
            status="interrupted" if self.watch.stop() else "ok",
            verdict="functional-only"
            if self.baseline.pilot.functional_only
            else "faster"
            if any(c.verdict == "faster" for c in claims)
            else None,
        )


def _order(finding: Finding) -> tuple[int, float, float]:
    """That times mean nothing, then proven gains, the largest first; what was measured and does not pay last."""
    found = finding.verified
    if finding.code == FUNCTIONAL_ONLY:
        return -1, 0.0, 0.0
    if found is not None:
        return (0, found.ratio, 0.0) if found.verdict == "faster" else (2, found.ratio, 0.0)
    return 1, 0.0, -(finding.share_ratio or 0.0)
