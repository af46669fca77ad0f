"""``ortune quantize``: which layers may have fewer bits, and what the whole then gains."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

import msgspec
import onnx_ir as ir

from ortune import rewrites, rules
from ortune.bundle.write import require_replaceable, require_writable, write_bundle
from ortune.errors import OrtuneError, UsageError
from ortune.experiment import quantising
from ortune.experiment.first_run import settle
from ortune.experiment.fixed_blocks import controlled, held, holds
from ortune.experiment.opening import Experiment
from ortune.experiment.precision import Model, Precision, Sensitivity, means
from ortune.experiment.quantize_result import Raced, as_tuned, make_result
from ortune.experiment.watcher import Watcher
from ortune.profiling.layer_times import layer_times
from ortune.records import (
    Envelope,
    ErrorInfo,
    Host,
    Plan,
    QuantizeResult,
)
from ortune.report import quantize_words
from ortune.search.fixed import Fixed
from ortune.search.precision import front
from ortune.trials.rewriting import Models
from ortune.trials.sides import Resolved, SideText, require_unchanged
from ortune.trials.tolerance import Tolerance as Limit
from ortune.verbs._options import (
    MODEL,
    RUN,
    AnyPath,
    Argument,
    BundleFolder,
    Load,
    Metric,
    Option,
    ReplaceBundle,
    Resumable,
    RuntimeOption,
    Settings,
    Tolerance,
    WriteBundle,
    command,
    named,
)
from ortune.verbs._session import experiment, go_on, keep

FORMATS = ("text", "json", "markdown", "html")
STOPPING = "stopping after this step, then telling what is known; Ctrl-C again stops at once"
WITHIN = Limit(text="0.01", number=0.01)
"""What the outputs have to keep where nothing was said."""
MOST_RACED = 6


@dataclass(frozen=True, kw_only=True)
class Options(Resumable, Load):
    """Which layers of a model may have fewer bits, and how much faster is it then?

    Quantizes the whole model by each means, measures what every layer costs in error and saves in time, and keeps in
    float what costs too much. The best models between float and fewer bits are raced; the fastest that keeps the
    tolerance is written as NAME.ortune.
    """

    model: Annotated[AnyPath, Argument("MODEL", "model.onnx.")]
    set: Settings = ()
    runtime: RuntimeOption = None
    data: Annotated[
        AnyPath | None,
        Option(
            "--data",
            "PATH",
            "Real inputs to calibrate on and to see the error: a folder of .npz or test_data_set_*.",
            MODEL,
        ),
    ] = None
    tolerance: Tolerance = None
    metric: Metric = None
    budget: Annotated[str | float, Option("--budget", "5m", "Time for all measuring.", RUN)] = "5m"
    force: ReplaceBundle = False
    bundle: WriteBundle = True
    output: BundleFolder = "."

    @property
    def limit(self) -> Limit:
        """What the outputs have to keep."""
        return self.feeds.tolerance or WITHIN

    @cached_property
    def plan(self) -> Plan:
        """What the float model runs with, and every other one too."""
        from ortune.knobs import parse_settings

        return Plan(settings=parse_settings(list(self.set)))

    @property
    def directory(self) -> Path | None:
        """Where the bundle goes; None makes none."""
        return Path(self.output) if self.bundle else None


def run(options: Options, watcher: Watcher | None = None) -> Envelope[QuantizeResult]:
    """Finds the fastest model in fewer bits that keeps the tolerance, and proves it.

    Raises:
        OrtuneError: The model does not run, holds nothing to quantize, or nothing can be measured on this machine now.
    """
    watch = watcher or Watcher()
    if options.force and not options.bundle:
        raise UsageError(
            "no bundle is written that could replace one", where="--force", do="leave it or --no-bundle out"
        )
    if options.directory is not None:
        require_writable(options.directory)
    with experiment("quantize", options, watch) as opened:
        side = opened.resolve(SideText(text=str(options.model), runtime=named(options.runtime)))
        side = replace(side, plan=options.plan)
        if options.directory is not None and options.force:
            require_replaceable(options.directory, side.model.path)
        plans, model = means(side.model.ir, side.plan, opened.machine.host)
        if not plans:
            raise _nothing_to_quantize(side, opened.machine.host)
        with opened.measuring(side.label):
            go_on(opened, options, [side], model=side.label)
            session = _Quantization(options, opened, side, plans, model)
            envelope = session.go()
        return keep(opened, options, session.with_bundle(envelope))


def _nothing_to_quantize(side: Resolved, host: Host) -> UsageError:
    """Why no means is worth trying on a model; of one that is quantized already, what is wrong with it."""
    family = [each for each in rewrites.all_rewrites().values() if each.family == rewrites.FAMILY]
    reasons = dict.fromkeys(why for each in family if each.refuses for why in each.refuses(side.model.ir))
    facts = rules.Facts(model=side.model, plan=side.plan, host=host)
    wrong = rules.found_by(rules.Selection(select=("QNT",), ignore=("QNT001",)).rules(), facts)
    do = "ortune tune finds what else makes it faster"
    if wrong:
        do = (
            f"quantize its float model with this verb; ortune explain {wrong[0].code} says what is wrong here"
        )
    return UsageError(
        "; ".join([*reasons, *(f"{each.code} {each.what}" for each in wrong)])
        or "no layer has weights that are worth fewer bits",
        where=str(side.model.path),
        do=do,
    )


class _Quantization:
    """One session of the verb."""

    def __init__(
        self, options: Options, opened: Experiment, side: Resolved, plans: Sequence[Plan], model: ir.Model
    ) -> None:
        self.options, self.experiment, self.plans, self.model = options, opened, plans, model
        self.watch, self.clock = opened.watch, opened.clock
        self.baseline = opened.base(side)
        self.models = Models(side, self.baseline.scratch, tuple(options.feeds.custom_ops), self.watch.line)
        self.rng = random.Random(f"quantize-{options.seed}")

    def go(self) -> Envelope[QuantizeResult]:
        """From the first run to the document."""
        baseline, watch = self.baseline, self.watch
        settle(baseline, self.options.budget_s, lambda: self.clock.left_s, watch.line)
        baseline.check.step_down()
        watch.line("timing a few runs, to plan the session")
        baseline.pilot.run("latency", lambda: self.clock.left_s, lambda ns: holds(self.clock, ns))
        inputs = quantising.gather(baseline)
        self.models.feeds = inputs.calibrating
        precision = Precision(
            baseline, self.model, self.models, inputs, self.options.limit, self.experiment.replay, watch,
            self.clock, layer_times,
        )  # fmt: skip
        wholes = precision.whole_models(self.plans)
        layers = self._layers(precision, wholes)
        found = {model.plan.id: model for model in wholes}
        if layers is not None:
            found |= {model.plan.id: model for model in layers.models.values()}
        raced, schedule, no_time = self._race(list(found.values()))
        require_unchanged(baseline.side)
        result = make_result(
            baseline,
            Raced(models=list(found.values()), arms=raced, schedule=schedule),
            layers,
            rows=precision.rows,
            calibration=inputs.told,
            tolerance=self.options.limit,
            models=self.models,
        )
        result = msgspec.structs.replace(
            result,
            notes=(*result.notes, *self.experiment.played_notes),
            budget_s=self.options.budget_s,
            no_time=no_time,
            reproduce=command("quantize", self.options),
            session=self.experiment.log.id,
            elapsed_s=self.experiment.elapsed_s,
        )
        result = msgspec.structs.replace(result, headline=quantize_words.headline(result))
        return self.experiment.document(
            result,
            status="interrupted" if watch.stop() else "ok",
            verdict=result.against_default.verdict
            if result.against_default
            else "inconclusive"
            if raced
            else "nothing-tested",
        )

    def _layers(self, precision: Precision, wholes: Sequence[Model]) -> Sensitivity | None:
        """The walk of the fastest means whose whole model can be compared with float."""
        if not wholes:
            return None
        layers = precision.sensitivity(wholes[0])
        if layers is not None:
            precision.walk(layers)
        return layers

    def _race(self, models: Sequence[Model]) -> tuple[dict[str, Model], Fixed | None, str]:
        """The best models beside float in the same blocks: by arm; and why some were left out."""
        baseline = self.baseline
        wanted = self._contestants(models)
        if not wanted or not baseline.check.claims:
            return {}, None, ""
        kept, needed_s = held(baseline, list(wanted), self.clock)
        no_time = (
            "" if len(kept) == len(wanted) else quantize_words.no_time(len(wanted) - len(kept), needed_s)
        )
        if no_time:
            self.watch.say(no_time)
        if not kept:
            return {}, None, no_time
        baseline.executor.arms = {
            **baseline.controls(),
            **{
                arm: baseline.arm(arm, plan=wanted[arm].plan, model=self.models.made(wanted[arm].plan))
                for arm in kept
            },
        }
        schedule = controlled(
            baseline, kept, self.watch, self.experiment.replay, fixed=None, rng=self.rng, clock=self.clock
        )
        return {arm: wanted[arm] for arm in kept}, schedule, no_time

    def _contestants(self, models: Sequence[Model]) -> dict[str, Model]:
        """What may be the answer: the front of error and time; first what keeps the tolerance, the fastest first."""
        timed = [
            m for m in models if m.time_ns is not None and m.outputs is not None and m.outputs.comparable
        ]
        on_front = [timed[i] for i in front([(m.error, m.time_ns or 0.0) for m in timed])]
        right = [m for m in timed if m.outputs is not None and m.outputs.ok]
        right.sort(key=lambda m: m.time_ns or 0.0)
        order = [*right[:3], *(m for m in on_front if m not in right[:3])]
        return {f"bits-{m.plan.id}": m for m in order[:MOST_RACED]}

    def with_bundle(self, envelope: Envelope[QuantizeResult]) -> Envelope[QuantizeResult]:
        """Writes the bundle while the session's files are still there; an answer is not lost because that fails."""
        from ortune.report.html.pages import render

        result = envelope.result
        if self.options.directory is None or result.against_default is None:
            return envelope
        try:
            path = write_bundle(
                as_tuned(result),
                self.baseline.work,
                self.baseline.host,
                model=self.baseline.side.model.path,
                rewritten=self.models.made(result.winner),
                feeds=Path(self.baseline.refs[0].path),
                outputs=self._reference(),
                report_html=render(envelope),
                directory=self.options.directory,
                force=self.options.force,
            )
        except OrtuneError as error:
            lacking = ErrorInfo(code=error.code, what=error.what, where=error.where, do=error.do)
            return msgspec.structs.replace(envelope, status="error", error=lacking)
        done = msgspec.structs.replace(result, bundle=str(path), report=str(path / "report.html"))
        return msgspec.structs.replace(envelope, result=done)

    def _reference(self) -> Path | None:
        folder = self.baseline.check.reference() / self.baseline.work.cases[0].name
        return folder if folder.is_dir() else None


def exit_code(envelope: Envelope[QuantizeResult]) -> int:
    """2 where the bundle could not be written: what was measured is told and stored all the same."""
    return UsageError.exit_code if envelope.error else 0
