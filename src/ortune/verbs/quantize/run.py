"""``ortune quantize``: finds the layers that can be quantized, and measures the gain of the whole model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
import onnx_ir as ir

from ortune import targets
from ortune.bundle.write import require_replaceable, require_writable
from ortune.engines.quantizing.inputs import write_inputs
from ortune.engines.quantizing.quantizing import with_parameters
from ortune.engines.racing.tuning import Tuning
from ortune.engines.racing.winner_rows import check_winner_rows
from ortune.errors import UsageError
from ortune.graph.dot_products import saturates
from ortune.measuring import output_check
from ortune.measuring.first_run import find_checked_inputs
from ortune.measuring.fixed_blocks import fits
from ortune.measuring.opening import Experiment
from ortune.measuring.rewriting import ModelVariants, usable_packages
from ortune.measuring.right_outputs import check_against_float64, evaluation_limit_s
from ortune.measuring.run_pilot import run_pilot
from ortune.measuring.sides import ResolvedSide, SideText, require_unchanged
from ortune.measuring.watcher import Watcher
from ortune.records import Adoption, Envelope, Plan
from ortune.search.guards import GUARDS
from ortune.search.phases import SATURATION_SHARE, SENSITIVITY_SHARE, STEPS_SHARE
from ortune.search.precision import starts
from ortune.show.message_words import texts
from ortune.verbs._shared import tuned
from ortune.verbs._shared.bundling import with_bundle
from ortune.verbs._shared.common import WORTH_ADOPTING
from ortune.verbs._shared.session import begin_or_resume, experiment, store_result
from ortune.verbs._shared.spelling import command, named, words
from ortune.verbs._shared.steps_words import PLANNING
from ortune.verbs._shared.watching import with_words
from ortune.verbs.quantize import race as precision_race
from ortune.verbs.quantize import words as quantize_words
from ortune.verbs.quantize.document import make_result
from ortune.verbs.quantize.held_out import HeldOut
from ortune.verbs.quantize.layer_times import layer_times
from ortune.verbs.quantize.likely import LikelyMethods
from ortune.verbs.quantize.methods import methods_worth_testing
from ortune.verbs.quantize.options import Options
from ortune.verbs.quantize.other_providers import FIRST, OtherProviders, planned, shippable
from ortune.verbs.quantize.precision import Precision, QuantizedModel, is_right
from ortune.verbs.quantize.requirements import needed_memory, nothing_to_quantize
from ortune.verbs.quantize.result import QuantizeResult
from ortune.verbs.quantize.sensitivity import LayerByLayer, Sensitivity

MOST_WALKS = 3
"""Maximum number of methods that are decided layer by layer."""
MORE_TO_MAKE = 4
"""Factor of the suggested budget if no model could be created in time."""
WORTH = 0.01
"""The smallest gain that is worth a change."""


def run(options: Options, watcher: Watcher | None = None) -> Envelope[QuantizeResult]:
    """Find the fastest quantized model within the tolerance, confirm it, and write its bundle.

    Raises:
        OrtuneError: The model does not run, has nothing to quantize, or nothing can be measured on this machine now.
    """
    watch = with_words(watcher)
    if options.force and not options.bundle:
        raise UsageError(
            "no bundle is written, so --force has no effect", where="--force", do="omit it or --no-bundle"
        )
    if options.directory is not None:
        require_writable(options.directory)
    with experiment("quantize", options, watch) as opened:
        side = opened.resolve(SideText(text=str(options.model), runtime=named(options.runtime)))
        side, absent = options.with_runtimes(replace(side, plan=options.plan), watch.say)
        if options.directory is not None and options.force:
            require_replaceable(options.directory, side.model.path)
        packages = usable_packages(side.runtime)
        plans, model = methods_worth_testing(side.model.ir, side.plan, opened.machine.host, packages)
        if not plans:
            raise nothing_to_quantize(side, opened.machine.host)
        said = needed_memory(side, plans, opened.machine)
        with opened.measuring(side.label):
            if said:
                watch.say(said)
            begin_or_resume(opened, options, [side], options.resume, model=side.label)
            session = _Quantization(options, opened, side, plans, model, absent)
            envelope = session.go()
        return store_result(opened, options, envelope)


class _Quantization:
    """The steps of ``ortune quantize`` on one model, with the state that they share."""

    def __init__(
        self,
        options: Options,
        opened: Experiment,
        side: ResolvedSide,
        plans: Sequence[Plan],
        model: ir.Model,
        absent: Mapping[str, str],
    ) -> None:
        self.absent = absent
        self.options, self.experiment, self.plans, self.model = options, opened, plans, model
        self.watch, self.budget = opened.watch, opened.budget
        self.baseline = opened.base_measuring(side)

    def go(self) -> Envelope[QuantizeResult]:
        """Measure everything from the first run on, write the bundle, and return the result document."""
        baseline, watch, opened = self.baseline, self.watch, self.experiment
        find_checked_inputs(baseline, self.budget)
        check_against_float64(baseline, evaluation_limit_s(self.budget))
        output_check.step_down(baseline)
        watch.line(PLANNING)
        run_pilot(baseline, "latency", self.budget, lambda ns: fits(self.budget, ns))
        inputs = write_inputs(baseline)
        run = self._run()
        run.models.feeds = inputs.calibrating
        precision = Precision(
            baseline, self.model, run.plan_runs, inputs, self.options.limit, watch, self.budget,
            lambda: self._least_race_s(run),
        )  # fmt: skip
        # The task judges the outputs unless the user passed a metric or a tolerance, or the inputs are synthetic.
        asked = self.options.feeds.tolerance is not None or not inputs.summary.source
        task = None if asked else precision.judge_by_task()
        likely = LikelyMethods(precision)
        first, others = likely.split(self.plans)
        elsewhere = OtherProviders(precision, list(baseline.side.elsewhere), self.absent)
        models, walks = self._models(precision, first, elsewhere)
        if others and not any(is_right(model) for model in models):
            # The earlier model was not a good guide, so the other methods are tested too.
            more, more_walks = self._models(precision, others)
            models, walks, others = [*models, *more], [*walks, *more_walks], []
        precision.leave_out(others)
        models += elsewhere.more(models, self.plans)
        if models:  # so that all messages suggest the same budget
            run.checks_s = max(
                run.checks_s, self._untested_s(precision, models), self._confirming_s(run, precision)
            )
        held_out = HeldOut(precision, run)
        raced = precision_race.race(
            run,
            models,
            held_out,
            lambda plan: shippable(plan, self.options.others),
            final=precision.complete,
        )
        require_unchanged(baseline.side)
        models = [raced.get(model.plan.id, model) for model in models]
        rows = [raced[row.plan.id].row if row.plan.id in raced else row for row in precision.rows]
        run.precision = [*rows, *(model.row for model in models if model.kept)]
        check_winner_rows(run)
        no_time, enough_s = self._lack(run, precision, models)
        answer = tuned.with_runtime(tuned.make_result(run, enough_s), baseline.side)
        calibration = held_out.calibration(answer.winner)  # in the bundle too
        answer = msgspec.structs.replace(answer, calibration=calibration)
        result = make_result(
            run, answer, models, walks, rows=rows, calibration=calibration,
            checked_needed=held_out.needed(answer.winner if answer.changes else None),
            tolerance=precision.tolerance,
        )  # fmt: skip
        if precision.tolerance.of_metric:
            result = msgspec.structs.replace(result, judged_by=self.baseline.comparer.metric)
        if task is not None:
            result = msgspec.structs.replace(result, metric=task.metric, metric_reason=task.why)
        if result.changes and result.against_default and result.against_default.verdict == "faster":
            likely.keep(self.plans, models, result.winner)
        result = self._with_better(self._without_vnni(precision, result), answer.adoption)
        if result.checked_needed:
            enough_s = max(enough_s, held_out.enough_s)
        result = msgspec.structs.replace(
            result,
            notes=(
                *result.notes,
                *([quantize_words.left_out(len(others))] if others else []),
                *texts(opened.notes),
            ),
            planned=planned(elsewhere.absent, self.plans, baseline.side.plan.settings),
            budget_s=self.options.budget_s,
            all_float=bool(walks) and all(walk.all_float for walk in walks),
            no_time=no_time,
            all_methods_s=self.budget.enough_s(precision.enough_s) if precision.untested else 0,
            enough_s=enough_s,
            reproduce=command("quantize", self.options),
        )
        result = msgspec.structs.replace(result, headline=quantize_words.headline(result))
        envelope = opened.document(
            result,
            status="interrupted" if watch.stop() else "ok",
            verdict=result.against_default.verdict
            if result.against_default
            else "inconclusive"
            if run.search.confirmation
            else "nothing-tested",
        )
        if self.options.directory is None or not result.changes:
            return envelope
        again = ["ortune", "quantize", *words(self.options)]
        return with_bundle(
            run, envelope, answer, self.options.directory, force=self.options.force, again=again
        )

    @property
    def _emulation_s(self) -> float:
        """Seconds reserved for emulating a processor without VNNI; 0 if this processor has no VNNI."""
        return 0.0 if saturates(self.baseline.host) else SATURATION_SHARE * self.options.budget_s

    def _with_better(self, result: QuantizeResult, adoption: Adoption | None) -> QuantizeResult:
        """Add each model's requirements, and the best model with another package if it is worth adopting."""
        side = self.baseline.side
        front = [
            msgspec.structs.replace(row, adoption=tuned.adoption_of(side, row.plan)) for row in result.front
        ]
        result = msgspec.structs.replace(result, front=tuple(front))
        claim = result.against_default
        now, least = (claim.ratio, claim.ratio_low) if claim is not None and result.changes else (1.0, 1.0)
        rows = [
            (row.comparison.ratio, row)
            for row in result.front
            if row.ok
            and not row.small_gain
            and not shippable(row.plan, self.options.others)
            and row.comparison is not None
            and row.comparison.phase == "confirm"
            and row.comparison.verdict == "faster"
            and row.comparison.ratio <= (1 - WORTH_ADOPTING) * now
            and (row.comparison.ratio_high or 1.0) < least
        ]
        _, best = min(rows, key=lambda row: row[0], default=(0.0, None))
        needs = best.adoption if best is not None else None
        return msgspec.structs.replace(result, adoption=adoption, elsewhere=best, elsewhere_needs=needs)

    def _without_vnni(self, precision: Precision, result: QuantizeResult) -> QuantizeResult:
        """Add the winner's outputs without VNNI, and the 7-bit model, which has equal outputs on all processors."""
        if result.saturation != "elsewhere" or self.watch.stop():
            return result
        portable = precision.compared(with_parameters(result.winner, range="7"))
        return msgspec.structs.replace(
            result,
            saturated=precision.without_vnni(result.winner, self._emulation_s),
            portable=portable.row if portable.outputs is not None and portable.outputs.comparable else None,
        )

    def _run(self) -> Tuning:
        """Return the tuning that runs the race and the confirmation."""
        side, custom_ops = self.baseline.side, tuple(self.options.feeds.custom_ops)
        return Tuning(
            self.baseline,
            self.experiment.replay,
            self.watch,
            objective="latency",
            worth=WORTH,
            # Guards are reported but refuse nothing, because the user requested quantization.
            allowed=GUARDS,
            budget=self.budget,
            current=None,
            answer_s=self.experiment.answer_s + self._emulation_s,
            models=ModelVariants(side, self.baseline.scratch, custom_ops, self.watch.line),
        )

    def _lack(self, run: Tuning, precision: Precision, models: Sequence[QuantizedModel]) -> tuple[str, float]:
        """Return (a sentence on steps that did not fit, a sufficient budget in seconds); ("", 0) if all steps fit."""
        if precision.complete and not any(map(_is_within, models)):
            return "", 0  # a larger budget would only confirm models beyond the tolerance
        trial_ns = self.baseline.pilot.trial_ns
        left_out = len(models) if run.exploring else len(run.entries) - len(run.search.race.entries)
        enough_s = run.enough_s if left_out else 0
        no_time = quantize_words.no_time(left_out, enough_s, exploring=run.exploring) if enough_s else ""
        if precision.late and not models:
            least_s = int(MORE_TO_MAKE * self.options.budget_s)
            enough_s = max(run.budget_for_s(1, trial_ns), least_s)
            no_time = quantize_words.not_made(enough_s)
        elif untested_s := self._untested_s(precision, models):
            enough_s = max(run.budget_for_s(1, trial_ns), untested_s)
            no_time = quantize_words.untested(len(precision.untested), len(precision.rows), enough_s)
        return no_time, enough_s

    def _confirming_s(self, run: Tuning, precision: Precision) -> int:
        """Return a budget, in seconds, with which a model is confirmed, if methods or steps take more of it too."""
        if not (precision.untested or precision.missed_steps):
            return 0
        return self.budget.enough_s(precision.budget_with_steps_s(self._least_race_s(run)))

    def _least_race_s(self, run: Tuning) -> float:
        """Return the seconds from the first block to the end of the session, if one model is compared and confirmed."""
        trials_s = 1e-9 * run.needed_trials(1) * self.baseline.pilot.least_trial_ns
        return trials_s + run.budget.reserved_s

    def _untested_s(self, precision: Precision, models: Sequence[QuantizedModel]) -> int:
        """Return a budget, in seconds, for the untested methods; 0 if there are none or a model is within tolerance."""
        if not precision.untested or any(map(_is_within, models)):
            return 0
        return self.budget.enough_s(precision.enough_s)

    def _models(
        self, precision: Precision, plans: Sequence[Plan], elsewhere: OtherProviders | None = None
    ) -> tuple[list[QuantizedModel], list[Sensitivity]]:
        """Return the created models (fully or partly quantized, on all providers) and the layer sensitivities."""
        # The other providers come early, so that they are tested even if not all methods fit in the budget.
        wholes = precision.whole_models(plans[:1])
        others = elsewhere.floats() if elsewhere is not None else []
        wholes += precision.whole_models(plans[1:FIRST])
        others += elsewhere.first(wholes) if elsewhere is not None else []
        wholes += precision.whole_models(plans[FIRST:])
        walks = self._walks(precision, [*wholes, *(model for model in others if model.plan.rewrites)])
        by_plan = {model.plan.id: model for model in (*wholes, *others)}
        for walk in walks:
            by_plan |= {model.plan.id: model for model in walk.models.values()}
        return list(by_plan.values()), walks

    def _walks(self, precision: Precision, wholes: Sequence[QuantizedModel]) -> list[Sensitivity]:
        """Walk from the most promising quantized models towards float, also on another target if there is time.

        Errors are measured on the provider of the model, because bfloat16 and int8 round differently on each. The first
        walk starts from a model that may win.
        """
        by_layer, walks = LayerByLayer(precision, layer_times), list[Sensitivity]()
        places = starts([precision.walk_start(whole) for whole in wholes])
        places.sort(key=lambda place: not shippable(wholes[place].plan, self.options.others))
        for place in _of_two_targets([wholes[place].plan for place in places], places)[:MOST_WALKS]:
            # Without time for a single step, profiles and questions would decide nothing.
            if precision.spent(SENSITIVITY_SHARE if walks else STEPS_SHARE):
                break
            layers = by_layer.sensitivity(wholes[place])
            if layers is not None:
                by_layer.walk(layers)
                walks.append(layers)
        return walks


def _of_two_targets(plans: Sequence[Plan], places: Sequence[int]) -> list[int]:
    """Return `places`, one for each plan, with that of the first plan for a different target moved to second."""
    first = next(iter(plans), None)
    if first is None:
        return []
    where = targets.target_of(first).name
    other = [
        place for plan, place in zip(plans, places, strict=True) if targets.target_of(plan).name != where
    ][:1]
    return [places[0], *other, *(place for place in places[1:] if place not in other)]


def _is_within(model: QuantizedModel) -> bool:
    """Return whether a model's outputs can be compared and are within the tolerance."""
    return math.isfinite(model.error) and model.outputs is not None and model.outputs.ok


def exit_code(envelope: Envelope[QuantizeResult]) -> int:
    """Return the exit code: 2 if the bundle could not be written (the result is stored nevertheless), else 0."""
    return UsageError.exit_code if envelope.error else 0
