"""Compares one model under several releases of ONNX Runtime in the same blocks, with the newest release as base."""

from __future__ import annotations

import itertools
import random
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ortune.catalogue.knobs import parse_version
from ortune.errors import MeasurementError
from ortune.measuring import base_checks, output_check
from ortune.measuring.executor import Arm
from ortune.measuring.failures import describe as failure
from ortune.measuring.first_run import find_checked_inputs
from ortune.measuring.fixed_blocks import AffordableArms, affordable_arms, fits, needed_s, race
from ortune.measuring.measuring import Measuring
from ortune.measuring.opening import Experiment
from ortune.measuring.right_outputs import check_against_float64, evaluated, evaluation_limit_s
from ortune.measuring.run_pilot import run_pilot
from ortune.measuring.sides import require_unchanged
from ortune.objectives import Objective
from ortune.outputs.exact import ExactOutputs
from ortune.records import Block, Comparison, Control, ExactCheck, Failed, Measured, OutputDifference, Runtime
from ortune.records.messages import FirstRun
from ortune.search import confirm
from ortune.search.blocks import BASE, awake_warning, measured
from ortune.search.controls import INVALID
from ortune.search.figures import STATISTICS, WORDS, describe
from ortune.show.message_words import texts
from ortune.verbs._shared.other_programs import with_others
from ortune.verbs._shared.steps_words import PLANNING
from ortune.verbs.history import words as history_words
from ortune.verbs.history.result import HistoryResult, ReleaseRow


class Releases:
    """Measurement of several releases: call ``measure``, then ``result``.

    Args:
        opened: The open experiment.
        baseline: The model under the newest release, which has not run yet.
        runtimes: Maps installed releases, newest first, to their runtimes.
        missing: Maps other releases to the reason why they are missing.
        objective: The objective.
        seed: Seed of the random order within blocks.
    """

    def __init__(
        self,
        opened: Experiment,
        baseline: Measuring,
        runtimes: dict[str, Runtime],
        missing: dict[str, str],
        *,
        objective: Objective,
        seed: int,
    ) -> None:
        self.experiment, self.baseline, self.runtimes, self.missing = opened, baseline, runtimes, missing
        self.objective, self.rng = objective, random.Random(f"history-{seed}")
        self.watch, self.budget = opened.watch, opened.budget.reserve(opened.answer_s)
        self.statistic: str = STATISTICS[objective] or "median"
        self.first_trials: dict[str, Measured] = {}
        self.outputs: dict[str, OutputDifference] = {}
        self.exact: dict[str, ExactCheck] = {}
        self.compared: list[str] = []
        self.blocks: list[Block] = []
        self.controls: Sequence[Control] = ()
        self.invalid = False

    def measure(self) -> None:
        """Run each release once, then compare in the same blocks the releases that run and fit in the budget.

        If the controls fail but outputs differ, ``invalid`` is set, and the result contains only the outputs.

        Raises:
            MeasurementError: No older release runs the model, or nothing could be measured.
        """
        baseline, budget, newest = self.baseline, self.budget, next(iter(self.runtimes))
        find_checked_inputs(baseline, budget)
        limit_s = evaluation_limit_s(budget)
        check_against_float64(baseline, limit_s)
        self.watch.line(PLANNING)
        run_pilot(baseline, self.objective, budget, lambda trial_ns: fits(budget, trial_ns))
        base_checks.require_real_times(baseline)
        running = self._run_alone(limit_s)
        if not running:
            raise MeasurementError(f"only {newest} runs the model: {next(iter(self.missing.values()))}")
        self.first_trials[newest] = baseline.pilot.first
        # All releases are compared with the correct outputs, so the newest has a difference too if it is wrong.
        own = baseline.check
        if own.exact is not None:
            self.exact[newest] = own.exact
        if own.refuted and own.exact is not None and own.exact.outputs is not None:
            self.outputs[newest] = own.exact.outputs
        elif own.wrong and own.level_check is not None:
            self.outputs[newest] = own.level_check.outputs
        within = self._within_budget(running)
        self.compared = [newest, *within.arms]
        if not within.arms:
            self.missing[newest] = self.missing[running[0]]
            return
        began_s = budget.spent_s
        try:
            schedule = race(
                baseline,
                within,
                self.watch,
                self.experiment.replay,
                fixed=STATISTICS[self.objective],
                rng=self.rng,
                budget=budget,
            )
        except MeasurementError as error:
            # Wrong outputs are certain, whatever the times.
            if error.code != INVALID or not any(not found.ok for found in self.outputs.values()):
                raise
            self.invalid = True
            self.missing.update(dict.fromkeys(self.compared, error.what))
            self.compared = [newest]
            return
        require_unchanged(baseline.side)
        assert schedule.judgement is not None
        self.statistic = schedule.judgement.statistic
        self.blocks, self.controls = schedule.blocks, schedule.controls
        if not self.blocks and not self.watch.stop():
            self.missing.update(
                dict.fromkeys(within.arms, history_words.no_time(needed_s(schedule, budget, began_s)))
            )

    def _run_alone(self, limit_s: float) -> list[str]:
        """Run the older releases and compare their outputs; return the releases that run the model.

        Args:
            limit_s: Time limit of the evaluation in float64, in seconds.
        """
        baseline, executor = self.baseline, self.baseline.executor
        right = evaluated(baseline, baseline.side, baseline.refs, limit_s)
        # If the newest release is refuted, the others are compared with the evaluation that refutes it.
        reference = right.wide if baseline.check.refuted else None
        _, *older = self.runtimes
        # The control is a copy of the newest release, which shows the differences of equal sides by chance.
        arms = baseline.controls()
        for release in older:
            self.watch.line(FirstRun(side=release))
            arm = baseline.arm(release, side=replace(baseline.side, runtime=self.runtimes[release]))
            outcome = executor.trial(arm, runs=baseline.pilot.look_runs, keep_outputs=True)
            if isinstance(outcome, Failed):
                self.missing[release] = failure(outcome)
                continue
            arms[release] = arm
            baseline.limit_alive(outcome)
            self.first_trials[release] = outcome
            self.outputs[release] = output_check.difference(
                baseline,
                outcome,
                key=release,
                again=arm,
                reference=(lambda: reference) if reference else None,
            )
            self.exact[release] = self.experiment.replay.once(
                f"exact-{release}", ExactCheck, partial(self._exact, arm, outcome, right)
            )
        executor.arms = arms
        return [release for release in older if release in arms]

    def _exact(self, arm: Arm, ran: Measured, right: ExactOutputs) -> ExactCheck:
        """Compare a release's outputs with the model evaluated in float64."""
        baseline = self.baseline
        side = replace(baseline.side, runtime=arm.runtime)
        levels = baseline.outputs_by_level(side, baseline.refs, f"levels-{arm.name}")
        return levels.against_exact(Path(baseline.with_outputs(arm, ran).outputs_path), right)

    def _within_budget(self, running: Sequence[str]) -> AffordableArms:
        """Return the releases that fit in the budget; the oldest releases are left out, and the reason is recorded."""
        # Trials are shortened before a release is left out.
        within = affordable_arms(self.baseline, running, self.budget)
        left = running[len(within.arms) :]
        if left:
            reason = history_words.no_time(within.needed_s)
            self.missing.update(dict.fromkeys(left, reason))
            self.watch.say(f"{', '.join(left)}: {reason}")
        return within

    # --- result

    def result(self, *, again: Sequence[str], reproduce: str) -> HistoryResult:
        """Return the result of the measurement.

        Args:
            again: Command-line arguments that pass the model and settings to another verb.
            reproduce: Command that repeats the measurement.
        """
        baseline, compared = self.baseline, self.compared
        rows = self._rows()
        claims = {row.release: row.since_previous for row in rows if row.since_previous is not None}
        changed = tuple(name for name, claim in claims.items() if claim.verdict in ("faster", "slower"))
        command = ""
        if changed:
            # The largest change, whether faster or slower: 0.5 and 2 are alike.
            most = max(changed, key=lambda release: max(claims[release].ratio, 1 / claims[release].ratio))
            # Releases are ordered from the newest to the oldest.
            before = compared[compared.index(most) + 1]
            pair = ["--a-runtime", f"onnxruntime=={before}", "--b-runtime", f"onnxruntime=={most}"]
            command = shlex.join(["ortune", "compare", *again, *pair])
        return HistoryResult(
            side=baseline.side.record,
            statistic=WORDS[self.statistic],
            rows=rows,
            changed=changed,
            whole=self._against(compared[0], compared[-1]) if len(compared) > 1 else None,
            controls=tuple(self.controls),
            findings=tuple(baseline.findings),
            notes=(
                *baseline.work.notes,
                *texts(baseline.notes),
                *texts(awake_warning(self.blocks)),
                *texts(self.experiment.notes),
            ),
            why=command,
            reproduce=reproduce,
            session=self.experiment.log.id,
            elapsed_s=self.experiment.elapsed_s,
        )

    def _against(self, release: str, older: str) -> Comparison | None:
        """Return the comparison of a release with an older release; None if there are too few blocks."""
        # Each release but the oldest is compared with one other: so many claims share one error.
        level = 1 - 0.05 / max(1, len(self.compared) - 1)
        arm, base = self._arm(release), self._arm(older)
        controlled = bool(self.controls)

        def compare(blocks: Sequence[Block], statistic: str) -> Comparison | None:
            return confirm.compare(blocks, arm, statistic, base=base, level=level, controlled=controlled)

        comparison, same = compare(self.blocks, self.statistic), self.baseline.side.plan
        return comparison and with_others(
            comparison,
            self.blocks,
            self.statistic,
            self.baseline.host,
            compare,
            (same, same),
            arm=arm,
            base=base,
        )

    def _arm(self, release: str) -> str:
        return BASE if release == self.compared[0] else release

    def _rows(self) -> tuple[ReleaseRow, ...]:
        """Return one row per release, newest first, including missing releases."""
        older = dict(itertools.pairwise(self.compared))
        rows = []
        for release in {**self.runtimes, **self.missing}:
            trials = measured(self.blocks, self._arm(release))
            first = [self.first_trials[release]] if release in self.first_trials else []
            rows.append(
                ReleaseRow(
                    release=release,
                    runtime=self.runtimes.get(release),
                    figures=describe(trials or first, self.statistic, []) if trials or first else None,
                    outputs=self.outputs.get(release),
                    exact=self.exact.get(release),
                    since_previous=self._against(release, older[release]) if release in older else None,
                    failed=self.missing.get(release, "" if trials else history_words.NO_BLOCK),
                )
            )
        return tuple(sorted(rows, key=lambda row: parse_version(row.release), reverse=True))
