"""``ortune history``: one model under the last releases of ONNX Runtime, in the same blocks."""

from __future__ import annotations

import itertools
import random
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

from ortune.errors import MeasurementError, RuntimeNotFound, UsageError
from ortune.experiment.baseline import Baseline
from ortune.experiment.first_run import settle
from ortune.experiment.fixed_blocks import controlled, held, holds
from ortune.experiment.opening import Experiment
from ortune.experiment.watcher import Watcher
from ortune.fleet import made
from ortune.fleet.packages import RELEASES, require_recipes
from ortune.knobs import parse_settings, version
from ortune.records import (
    Block,
    Comparison,
    Control,
    Envelope,
    Failed,
    Figures,
    HistoryResult,
    Measured,
    OutputDifference,
    Plan,
    ReleaseRow,
    Runtime,
)
from ortune.report import history_words
from ortune.search import confirm
from ortune.search.blocks import BASE, awake, measured
from ortune.search.figures import OBJECTIVES, WORDS, describe, require_objective
from ortune.trials.failures import describe as failure
from ortune.trials.sides import SideText, require_unchanged, resolve
from ortune.verbs._options import (
    MODEL,
    AnyPath,
    Argument,
    Budget,
    Objective,
    Option,
    Resumable,
    Settings,
    Tolerance,
    command,
    words,
)
from ortune.verbs._session import experiment, go_on, keep

FORMATS = ("text", "json", "markdown", "html")
STOPPING = "stopping after this block, then telling what is known; Ctrl-C again stops at once"


@dataclass(frozen=True, kw_only=True)
class Options(Resumable):
    """Which release of ONNX Runtime made this model faster or slower here?

    Runs the last six releases in the same blocks, each in its own cached environment, and reports the release where
    the speed changed.
    """

    model: Annotated[AnyPath, Argument("MODEL", "model.onnx, model.ort or model.onnx@git-revision.")]
    release: Annotated[
        Sequence[str],
        Option("--release", "1.31.1", "A release to test instead of the last six. Pass at least two.", MODEL),
    ] = ()
    set: Settings = ()
    objective: Objective = "latency"
    tolerance: Tolerance = None
    budget: Budget = "4m"

    @cached_property
    def releases(self) -> tuple[str, ...]:
        """The releases to run, newest first."""
        if len(self.release) == 1:
            raise UsageError(
                "one release is not a history", where="--release", do="pass two or more releases"
            )
        require_objective(self.objective)
        releases = sorted(dict.fromkeys(self.release or RELEASES), key=version, reverse=True)
        for release in releases:
            require_recipes(f"onnxruntime=={release}")
        return tuple(releases)

    @cached_property
    def plan(self) -> Plan:
        """What every release runs with."""
        return Plan(settings=parse_settings(list(self.set)))


def run(options: Options, watcher: Watcher | None = None) -> Envelope[HistoryResult]:
    """Measures the releases and names those where it changed.

    Raises:
        RuntimeNotFound: Fewer than two of the releases could be made.
        OrtuneError: Nothing could be measured.
    """
    watch = watcher or Watcher()
    with experiment("history", options, watch) as opened:
        with watch.clock.stopped():  # made once, and so of no budget
            runtimes, missing = _runtimes(options, watch)
        text = SideText(text=str(options.model), runtime=f"onnxruntime=={next(iter(runtimes))}")
        side = resolve(text, common=options.plan, scratch=opened.scratch, say=watch.say)
        with opened.measuring(side.label):
            go_on(
                opened,
                options,
                [replace(side, runtime=runtime) for runtime in runtimes.values()],
                model=side.label,
            )
            envelope = _History(options, opened, opened.base(side), runtimes, missing).go()
        return keep(opened, options, envelope)


def _runtimes(options: Options, watch: Watcher) -> tuple[dict[str, Runtime], dict[str, str]]:
    """The releases that are there or could be made, newest first; and of the others, why not."""
    runtimes, missing = {}, {}
    for release in options.releases:
        try:
            runtimes[release] = made.require(f"onnxruntime=={release}", watch.say).runtime
        except RuntimeNotFound as error:
            missing[release] = error.what
            watch.say(str(error))
    if len(runtimes) < 2:
        why = next(iter(missing.values()))
        raise RuntimeNotFound(f"a history needs two releases: {why}", do="ortune runtime add, with a network")
    return runtimes, missing


class _History:
    """One history while it is measured; the newest release is the base of every block."""

    def __init__(
        self,
        options: Options,
        opened: Experiment,
        baseline: Baseline,
        runtimes: dict[str, Runtime],
        missing: dict[str, str],
    ) -> None:
        self.options, self.experiment, self.baseline, self.runtimes = options, opened, baseline, runtimes
        self.missing, self.watch, self.clock = missing, opened.watch, opened.clock
        self.outputs: dict[str, OutputDifference] = {}
        self.looked: dict[str, Measured] = {}  # of each release, the trial that showed that it runs
        self.blocks: list[Block] = []
        self.rng = random.Random(f"history-{options.seed}")

    def go(self) -> Envelope[HistoryResult]:
        baseline, executor = self.baseline, self.baseline.executor
        settle(baseline, self.options.budget_s, lambda: self.clock.left_s, self.watch.line)
        baseline.pilot.run(
            self.options.objective,
            lambda: self.clock.left_s,
            lambda trial_ns: holds(self.clock, trial_ns),
        )
        baseline.pilot.require_real_times()
        newest, *others = self.runtimes
        arms = baseline.controls()
        for release in others:
            arms[release] = baseline.arm(release, side=replace(baseline.side, runtime=self.runtimes[release]))
            outcome = executor.trial(arms[release], runs=baseline.pilot.look_runs, keep_outputs=True)
            if isinstance(outcome, Failed):
                self.missing[release] = failure(outcome)
                del arms[release]
                continue
            baseline.live_with(outcome)
            self.looked[release] = outcome
            self.outputs[release] = baseline.check.difference(outcome, key=release, again=arms[release])
        ran = [release for release in others if release in arms]
        if not ran:
            raise MeasurementError(f"only {newest} runs the model: {next(iter(self.missing.values()))}")
        self.looked[newest] = baseline.pilot.first
        executor.arms = arms
        kept = self._held(ran)
        if not kept:
            self.missing[newest] = self.missing[ran[0]]
            return self._envelope([newest], OBJECTIVES[self.options.objective] or "median", ())
        schedule = controlled(
            baseline,
            kept,
            self.watch,
            self.experiment.replay,
            fixed=OBJECTIVES[self.options.objective],
            rng=self.rng,
            clock=self.clock,
        )
        require_unchanged(baseline.side)
        assert schedule.judgement is not None
        self.blocks = schedule.blocks
        return self._envelope([newest, *kept], schedule.judgement.estimand, schedule.controls)

    def _held(self, ran: Sequence[str]) -> list[str]:
        """The releases that the budget holds: of too many the oldest are left out, and it is said why."""
        kept, needed_s = held(self.baseline, ran, self.clock)
        if len(kept) < len(ran):
            why = history_words.no_time(needed_s)
            left = ran[len(kept) :]
            self.missing.update(dict.fromkeys(left, why))
            self.watch.say(f"{', '.join(left)}: {why}")
        return kept

    def _envelope(
        self, releases: Sequence[str], estimand: str, controls: Sequence[Control]
    ) -> Envelope[HistoryResult]:
        baseline, newest = self.baseline, releases[0]
        # Every release but the oldest is held against one other: as many claims, one error.
        level = 1 - 0.05 / max(1, len(releases) - 1)

        def against(release: str, older: str) -> Comparison | None:
            arm, base = (BASE if each == newest else each for each in (release, older))
            return confirm.compare(self.blocks, arm, estimand, base=base, level=level)

        older = dict(itertools.pairwise(releases))
        rows = []
        for release, runtime in self.runtimes.items():
            trials = measured(self.blocks, BASE if release == newest else release)
            looked = [self.looked[release]] if release in self.looked else []
            figures: Figures | None = describe(trials or looked, estimand, []) if trials or looked else None
            rows.append(
                ReleaseRow(
                    release=release,
                    runtime=runtime,
                    figures=figures,
                    outputs=self.outputs.get(release),
                    since_previous=against(release, older[release]) if release in older else None,
                    failed=self.missing.get(release, "" if trials else history_words.NO_BLOCK),
                )
            )
        rows += [
            ReleaseRow(release=release, failed=why)
            for release, why in self.missing.items()
            if release not in self.runtimes
        ]
        rows.sort(key=lambda row: version(row.release), reverse=True)
        side = baseline.side
        claims = {row.release: row.since_previous for row in rows if row.since_previous is not None}
        changed = [release for release, each in claims.items() if each.verdict in ("faster", "slower")]
        why = ""
        if changed:
            most = max(changed, key=lambda release: max(claims[release].ratio, 1 / claims[release].ratio))
            pair = ["--a-runtime", f"onnxruntime=={older[most]}", "--b-runtime", f"onnxruntime=={most}"]
            asked = words(self.options, without=("release", "budget"))
            why = shlex.join(["ortune", "compare", *asked, *pair])
        whole = against(newest, releases[-1]) if len(releases) > 1 else None
        result = HistoryResult(
            side=side.record,
            estimand=WORDS[estimand],
            rows=tuple(rows),
            changed=tuple(changed),
            whole=whole,
            controls=tuple(controls),
            findings=tuple(baseline.findings),
            notes=(
                *baseline.work.notes,
                *baseline.notes,
                *awake(self.blocks),
                *self.experiment.played_notes,
            ),
            why=why,
            reproduce=command("history", self.options),
            session=self.experiment.log.id,
            elapsed_s=self.experiment.elapsed_s,
        )
        return self.experiment.document(
            result,
            status="interrupted" if self.watch.stop() else "ok",
            verdict=whole.verdict if whole else "inconclusive",
        )
