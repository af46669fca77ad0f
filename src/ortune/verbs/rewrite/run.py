"""``ortune rewrite``: applies the rewrites that the user names, and lists those that apply to a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from ortune import rewrites, targets
from ortune.engines import verification
from ortune.engines.quantizing.quantizing import unsaturated
from ortune.errors import InputError, ModelError, OrtuneError
from ortune.graph.model.open import OpenModel, open_model
from ortune.graph.model.save import deliver_model, staged_model
from ortune.graph.outputs import random_ops, value_dependent_ops
from ortune.inputs import calibrating
from ortune.inputs.feed_files import read_feeds
from ortune.measuring.measuring import Measuring
from ortune.measuring.opening import Experiment
from ortune.measuring.rewriting import runtime_with, usable_packages
from ortune.measuring.sides import USUAL_LIMITS, ResolvedSide, SideText
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope, FeedRef, OutputDifference, Plan
from ortune.rewrites import RewrittenFile
from ortune.runtimes import runtimes
from ortune.show.message_words import texts
from ortune.targets.tool import ToolProcess
from ortune.verbs._shared.session import experiment
from ortune.verbs._shared.spelling import named
from ortune.verbs._shared.watching import with_words
from ortune.verbs.rewrite import words as rewrite_words
from ortune.verbs.rewrite.options import Options
from ortune.verbs.rewrite.result import CalledFor, NearMiss, RewriteStep, RewritingResult


def run(options: Options, watcher: Watcher | None = None) -> Envelope[RewritingResult]:
    """Rewrite a model, or list the rewrites that apply to it.

    Returns:
        The document, with a RewritingResult as ``result`` and the ``verdict`` "written", "unchanged", "listed",
        "dry-run", or "wrong-output" if outputs differ too much, so that nothing was written.

    Raises:
        OrtuneError: The model, a rewrite or a parameter cannot be used.
    """
    watch = with_words(watcher)
    with experiment("rewrite", options, watch, timed=False) as opened:
        text = SideText(text=str(options.model), settings=tuple(options.set), runtime=named(options.runtime))
        # Listing rewrites needs no onnxruntime-web and has to work without a network.
        side = opened.resolve(text, runs=bool(options.asked) and not options.dry_run)
        # The base is the unchanged model, without the rewrites of the plan.
        plain = msgspec.structs.replace(side.plan, rewrites=())
        side = replace(side, runs=side.model.path, plan=plain)
        if side.model.in_ort_format:
            raise ModelError(
                "The model is in ORT format, which cannot be rewritten.",
                where=str(side.model.path),
                do="Pass the .onnx that it was converted from.",
            )
        place = options.place(side.model.path) if options.asked and not options.dry_run else None
        baseline = opened.base_measuring(side)
        if not options.asked:
            with rewrites.remembering():
                return _envelope(opened, _listed(baseline), "listed")
        watch.say(f"rewriting with {runtimes.describe(side.runtime)}")
        with opened.measuring(side.label):
            return _rewritten(options, opened, place)


def _listed(baseline: Measuring) -> RewritingResult:
    """Return a result with the rewrites that apply to the model, and the other rewrites with reasons."""
    model, work = baseline.side.model.ir, baseline.work
    target = targets.target_of(baseline.side.plan).name
    row = rewrites.pipeline(model, workload=work, target=target)
    called = []
    packages = usable_packages(baseline.side.runtime)
    for spec, reason in rewrites.proposals(
        model, ("numerics", "behaviour"), workload=work, target=target, packages=packages
    ):
        safety, in_row = rewrites.find(spec.name).safety, spec in row
        fitting = unsaturated(spec, model, baseline.host)
        called.append(CalledFor(rewrite=fitting, safety=safety, reason=reason, in_row=in_row))
    listed = [entry.rewrite for entry in called]
    # What one rewrite leaves another may take up, which alone would find nothing.
    called += [
        CalledFor(
            rewrite=spec,
            safety="exact",
            reason=rewrite_words.CLEAN_UP
            if rewrites.find(spec.name).stage == rewrites.CLEAN_UP
            else rewrite_words.AFTER_OTHERS,
            in_row=True,
        )
        for spec in row
        if spec not in listed
    ]
    called.sort(key=lambda entry: row.index(entry.rewrite) if entry.in_row else len(row))
    names = {entry.rewrite.name for entry in called}
    missed = []
    for rewrite in rewrites.all_rewrites().values():
        if rewrite.name in names or not rewrite.pays(None, target):
            continue
        if rewrite.needs and rewrite.needs not in packages:
            missed.append(NearMiss(name=rewrite.name, reasons=(rewrite_words.not_installed(rewrite.needs),)))
            continue
        reasons = _near_miss(rewrite, baseline.side.model)
        if not reasons and rewrite.lacks_feature(target, ()):
            reasons = (rewrite_words.unseen_feature(rewrite.adapter_feature),)
        if reasons:
            missed.append(NearMiss(name=rewrite.name, reasons=reasons))
    return RewritingResult(base=baseline.side.record, called_for=tuple(called), near_misses=tuple(missed))


def _near_miss(rewrite: rewrites.Rewrite, model: OpenModel) -> tuple[str, ...]:
    if rewrite.change is None:
        return rewrite.refuses(model.ir) if rewrite.refuses else ()
    try:
        return rewrite.apply(model.ir.clone()).reasons
    except OrtuneError as error:  # the error names the parameters that are required
        return (error.what,)


def _rewritten(options: Options, opened: Experiment, place: Path | None) -> Envelope[RewritingResult]:
    (baseline,), watch = opened.baselines, opened.watch
    side = baseline.side
    specs = tuple(rewrites.completed(spec, side.model.ir, baseline.work) for spec in options.asked)
    feeds: tuple[FeedRef, ...] = ()
    if calibrated := [spec.name for spec in specs if rewrites.find(spec.name).calibrated]:
        baseline.find_inputs(verification.LIMIT_S)
        feeds = tuple(baseline.refs)
        if not baseline.work.inputs_path:
            baseline.note(rewrite_words.calibrated_on_synthetic(calibrated))
        hidden = calibrating.masks(side.model.ir)
        why = next(filter(None, (calibrating.fault(read_feeds(Path(ref.path)), hidden) for ref in feeds)), "")
        if why:
            raise InputError(
                f"these inputs cannot be used for calibration: {why}",
                where=str(baseline.work.inputs_path or side.model.path),
                do="pass inputs with rows of finite values",
            )
    tool = ToolProcess(
        runtime=runtime_with(side.runtime, specs),
        folder=baseline.scratch,
        plan=Plan(providers=side.plan.providers),
        custom_ops=tuple(options.feeds.custom_ops),
        feeds=feeds,
        limits=USUAL_LIMITS,
    )
    watch.line(f"rewriting {side.label}")
    rewritten = rewrites.rewrite_model(side.model, specs, baseline.scratch / "by-hand", tool)
    result = _compared(options, side, rewritten)
    if options.dry_run or not rewritten.modified:
        return _envelope(opened, result, "dry-run" if options.dry_run else "unchanged")
    assert place is not None
    model = rewritten.path if rewritten.path.suffix == rewrites.ORT else open_model(rewritten.path).ir
    with staged_model(model, place, external=bool(side.model.external)) as staged:
        outputs = verification.outputs_difference(baseline, staged, specs, rewritten.settings)
        result = msgspec.structs.replace(result, outputs=outputs)
        # A requested rewrite that is not exact may change the outputs, unless the user passed a tolerance.
        moves = any(s.modified and s.safety == "numerics" for s in result.steps) and options.tolerance is None
        if not (outputs.ok or (moves and outputs.comparable)):
            baseline.notes += filter(None, [_may_differ(side.model, outputs)])
            return _envelope(opened, result, "wrong-output")
        deliver_model(staged, place, typed=options.output is not None, replace=options.force)
    return _envelope(opened, msgspec.structs.replace(result, path=str(place)), "written")


def _compared(options: Options, side: ResolvedSide, rewritten: RewrittenFile) -> RewritingResult:
    """Return a result with the changes that the rewrites made to the graph."""
    before, after = side.model, open_model(rewritten.path)
    changed = after.op_counts.copy()
    changed.subtract(before.op_counts)
    return RewritingResult(
        base=side.record,
        dry_run=options.dry_run,
        steps=tuple(
            RewriteStep(
                rewrite=step.spec,
                safety=rewrites.find(step.spec.name).safety,
                modified=step.result.modified,
                what=step.result.what,
                reasons=step.result.reasons,
            )
            for step in rewritten.steps
        ),
        settings=dict(rewritten.settings),
        hardware_bound=rewritten.hardware_bound,
        nodes_before=before.op_counts.total(),
        nodes_after=after.op_counts.total(),
        operators={name: n for name, n in sorted(changed.items(), key=lambda item: item[1]) if n},
        bytes_before=before.size_bytes,
        bytes_after=after.size_bytes,
    )


def _may_differ(model: OpenModel, difference: OutputDifference) -> str:
    """Return a sentence on why the model's outputs may differ regardless of rewrites; "" if there is no reason."""
    random = {op for _, op in random_ops(model.ir)}
    by_values = set() if difference.comparable else {op for _, op in value_dependent_ops(model.ir)}
    return rewrite_words.may_differ(random, by_values)


def _envelope(opened: Experiment, result: RewritingResult, verdict: str) -> Envelope[RewritingResult]:
    (baseline,), headline = opened.baselines, rewrite_words.headline(result)
    result = msgspec.structs.replace(result, headline=headline, notes=tuple(texts(baseline.notes)))
    return opened.document(result, verdict=verdict)


def exit_code(envelope: Envelope[RewritingResult]) -> int:
    """Return 1 if outputs differ too much, so that nothing was written, or else 0."""
    return 1 if envelope.verdict == "wrong-output" else 0
