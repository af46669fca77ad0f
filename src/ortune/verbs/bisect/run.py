"""``ortune bisect``: the first node from which the outputs of two sides differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec

from ortune.catalogue.named import X64_QUANT_PRECISION as PRECISION
from ortune.engines.bisection.find import BisectedSide, BisectionFindings, find
from ortune.errors import ModelError, UsageError
from ortune.graph.dot_products import saturates
from ortune.graph.grids import grids
from ortune.measuring import output_check
from ortune.measuring.budget import UNLIMITED
from ortune.measuring.first_run import at_level_that_runs, check_side, find_checked_inputs
from ortune.measuring.opening import Experiment
from ortune.measuring.right_outputs import check_against_float64, wrong_of_two
from ortune.measuring.sides import ResolvedSide
from ortune.measuring.watcher import Watcher
from ortune.outputs import pairing
from ortune.outputs.exact import MOST_S
from ortune.outputs.right_side import float_outputs, wrong_side
from ortune.records import Envelope, FeedRef, Measured, OutputDifference
from ortune.runtimes import runtimes
from ortune.search.blocks import BASE, NEW
from ortune.search.phases import LEAST_LOAD_S
from ortune.show.message_words import texts
from ortune.targets.tool import ToolFailed
from ortune.verbs._shared.session import experiment
from ortune.verbs._shared.watching import with_words
from ortune.verbs.bisect import words as bisect_words
from ortune.verbs.bisect.options import Options
from ortune.verbs.bisect.result import BisectResult

_EXPLAINED = 0.1
"""Maximum fraction of a difference that may remain when its presumed cause is removed."""

Judged = tuple[Literal["", "A", "B", "both"], Literal["", "optimiser-off", "float64"]]


def run(options: Options, watcher: Watcher | None = None) -> Envelope[BisectResult]:
    """Find the first place where the values of two sides diverge.

    Returns:
        The document, with a BisectResult as ``result`` and the ``verdict`` "same", "found" or "not-found".

    Raises:
        OrtuneError: A side cannot be read or run.
    """
    watch = with_words(watcher)
    if options.b is None and not (options.alters("a") or options.alters("b")):
        raise UsageError(
            "only one side was given",
            do="pass two models, or change one side with --b-set level=basic or --b-rewrite NAME",
        )
    with experiment("bisect", options, watch, timed=False) as opened:
        a = opened.resolve(options.side("a"))
        b = opened.resolve(options.side("b"), base_model=a.model)
        for side in (a, b):
            if side.model.in_ort_format:
                raise ModelError(
                    "Outputs cannot be added to a model in ORT format.",
                    where=str(side.model.path),
                    do="Pass the .onnx that it was converted from.",
                )
        watch.say(f"using {runtimes.describe(a.runtime)}")
        with opened.measuring(a.label):
            return _Run(options, opened, a, b).go()


class _Run:
    """A running bisection."""

    def __init__(self, options: Options, opened: Experiment, a: ResolvedSide, b: ResolvedSide) -> None:
        self.options, self.experiment, self.a, self.b = options, opened, a, b
        self.watch, self.scratch = opened.watch, opened.scratch
        self.baseline = opened.base_measuring(a)

    def go(self) -> Envelope[BisectResult]:
        baseline = self.baseline
        models = self.a.opened(), self.b.opened()
        ours, theirs = (model.ir for model in models)
        find_checked_inputs(baseline, UNLIMITED, "A", limit_s=LEAST_LOAD_S)
        check_against_float64(baseline, MOST_S, "A")
        self.a = baseline.side
        inputs = pairing.pair_inputs(ours, theirs, self.options.mapped)
        refs_b = pairing.feeds_for(baseline.refs, theirs, inputs, self.scratch / "feeds")
        outputs = pairing.pair_outputs(ours, theirs)
        base = baseline.arm(BASE)
        new = baseline.arm(NEW, side=self.b, refs=refs_b)
        first = baseline.require_measured(base, baseline.executor.untimed(base))
        outcome = baseline.executor.untimed(new)
        given = new
        self.b, new = at_level_that_runs(baseline, self.b, new, outcome, "B", UNLIMITED)
        if new is not given:
            outcome = baseline.executor.untimed(new)
        trial = baseline.require_measured(new, outcome)
        for case in baseline.work.cases:
            pairing.rename_outputs(Path(trial.outputs_path) / case.name, outputs)
        baseline.comparer.labels = pairing.joint_labels(baseline.comparer.labels, ours, theirs, outputs)
        baseline.pilot.first = first
        baseline.check.renames[NEW] = outputs
        # Compared with the outputs of A, whether those are correct or not.
        difference = output_check.difference(
            baseline,
            trial,
            again=new,
            rewritten=self.b.plan.rewrites,
            reference=lambda: Path(first.outputs_path),
        )
        if difference.ok and (wrong := self._both_wrong(refs_b)):
            both = msgspec.structs.replace(difference, reference_wrong=wrong == "float64")
            return self._envelope(both, judged=("both", wrong))
        same = difference.ok and (difference.relative_l2 == 0.0 or self.options.tolerance is not None)
        if same or difference.empty:
            return self._envelope(difference)
        # Both graphs get this one feed: they part because of their nodes, and at the case where that shows
        # most.
        worst = self._worst(first, trial)
        sides = (
            BisectedSide(name="A", resolved=self.a, model=models[0], feed=baseline.refs[worst]),
            BisectedSide(name="B", resolved=self.b, model=models[1], feed=refs_b[worst]),
        )
        joined = {a: b for b, a in (*inputs.items(), *outputs.items())}
        notes = []
        parting = self._found(sides, joined, optimised=False, differ=not difference.ok)
        graphs: Literal["files", "optimised"] = "files"
        # The limits of a quantized model include steps of its quantization grids, so it may differ and be within them.
        # Then only the optimised graphs show where the models differ.
        asked = not difference.ok or any(grids(model.ir) for model in models)
        if not parting.partings and asked and any(side.optimised for side in sides):
            try:
                by_optimiser = self._found(sides, joined, optimised=True, differ=not difference.ok)
                parting, graphs = by_optimiser, "optimised"
            except ToolFailed as error:
                notes.append(bisect_words.not_saved(error.what))
        steps_apart = parting.stepped is not None and parting.stepped.steps.most > 1
        if graphs == "optimised" and (parting.partings or steps_apart) and saturates(baseline.host):
            left = self._with_exact_products(refs_b, outputs)
            if left is not None and left <= _EXPLAINED * difference.relative_l2:
                notes.append(bisect_words.saturating(left))
        same = (
            self.a.model.ref.sha256 == self.b.model.ref.sha256
            and self.a.plan.rewrites == self.b.plan.rewrites
        )
        place = baseline.work.cases[worst].name
        judged: Judged = ("", "")
        # What is rounded on purpose makes no side wrong.
        if parting.partings and not difference.cause and (same or graphs == "optimised"):
            judged = self._judged(sides[0], first, trial, refs_b, place)
        return self._envelope(difference, parting, graphs, notes, judged)

    def _both_wrong(self, refs_b: tuple[FeedRef, ...]) -> Literal["", "optimiser-off", "float64"]:
        """Return the kind of evidence that two equal sides are both wrong; "" if there is no such evidence."""
        check = self.baseline.check
        if check.refuted:
            return "float64"
        # The optimiser may have changed the outputs of both models.
        wrong = check.wrong and check_side(self.baseline, self.b, refs_b, "B")
        return "optimiser-off" if wrong else ""

    def _with_exact_products(self, refs_b: tuple[FeedRef, ...], outputs: Mapping[str, str]) -> float | None:
        """Return the relative L2 distance of the outputs with exact 8-bit arithmetic on both sides; None if unknown."""
        baseline, folders = self.baseline, list[Path]()
        for name, side, refs in (("a", self.a, baseline.refs), ("b", self.b, refs_b)):
            plan = msgspec.structs.replace(side.plan, settings={**side.plan.settings, PRECISION.name: True})
            arm = baseline.arm(f"exact-{name}", side=replace(side, plan=plan), refs=refs)
            trial = baseline.executor.untimed(arm)
            if not isinstance(trial, Measured):
                return None
            folders.append(Path(trial.outputs_path))
        a, b = folders
        for case in baseline.work.cases:
            pairing.rename_outputs(b / case.name, dict(outputs))
        left = [baseline.comparer.difference(a, b, (ref,), None) for ref in baseline.refs]
        return (
            max(output.relative_l2 for output in left) if all(output.comparable for output in left) else None
        )

    def _judged(
        self, side: BisectedSide, first: Measured, trial: Measured, refs_b: tuple[FeedRef, ...], place: str
    ) -> Judged:
        """Return the wrong side and the kind of evidence: A's model in float64 or without ONNX Runtime's optimiser.

        Both are "" if no side was shown to be wrong.
        """
        baseline, a, b = self.baseline, Path(first.outputs_path), Path(trial.outputs_path)
        levels = baseline.outputs_by_level(self.b, refs_b, "levels-b")
        if wrong := wrong_of_two(baseline, (a, b), levels):
            return wrong, "float64"
        a, b = a / place, b / place
        arm = self.baseline.arm("off", plan=side.plan_off, refs=(side.feed,))
        off = self.baseline.executor.untimed(arm)
        if not isinstance(off, Measured):
            return "", ""
        wrong = wrong_side(a, b, float_outputs(Path(off.outputs_path) / side.feed.name))
        return wrong, "optimiser-off" if wrong else ""

    def _worst(self, first: Measured, trial: Measured) -> int:
        """Return the index of the case whose outputs differ most."""
        old, new = Path(first.outputs_path), Path(trial.outputs_path)
        outputs = [self.baseline.comparer.difference(old, new, (ref,), None) for ref in self.baseline.refs]
        return max(range(len(outputs)), key=lambda i: (not outputs[i].comparable, outputs[i].relative_l2))

    def _found(
        self,
        sides: tuple[BisectedSide, BisectedSide],
        joined: dict[str, str],
        *,
        optimised: bool,
        differ: bool,
    ) -> BisectionFindings:
        libraries, limits = self.options.feeds.custom_ops, self.baseline.executor.limits
        graphs = [
            side.as_optimised(self.scratch, tuple(libraries), limits) if optimised else side.as_file()
            for side in sides
        ]
        return find(
            graphs[0],
            graphs[1],
            joined,
            self.baseline.executor,
            self.scratch / ("optimised" if optimised else "files"),
            self.options.seed,
            self.watch.line,
            differ=differ,
        )

    def _envelope(
        self,
        difference: OutputDifference,
        parting: BisectionFindings | None = None,
        graphs: Literal["", "files", "optimised"] = "",
        notes: Sequence[str] = (),
        judged: Judged = ("", ""),
    ) -> Envelope[BisectResult]:
        result = BisectResult(
            base=self.a.record, new=self.b.record, outputs=difference, wrong=judged[0], judged_by=judged[1]
        )
        if parting is not None:
            result = msgspec.structs.replace(
                result,
                graphs=graphs,
                partings=parting.partings,
                first=parting.first,
                stepped=parting.stepped,
                not_finite=parting.not_finite,
                values=parting.values,
                n_values_a=parting.n_values_a,
                n_values_b=parting.n_values_b,
                bodies=parting.bodies,
            )
        notes = (*texts(self.baseline.notes), *notes, *bisect_words.notes(result))
        result = msgspec.structs.replace(result, headline=bisect_words.headline(result), notes=notes)
        return self.experiment.document(
            result,
            status="default-wrong" if result.wrong and result.graphs == "optimised" else "ok",
            verdict="found"
            if result.partings and not difference.cause
            else "same"
            if difference.ok
            else "not-found",
        )
