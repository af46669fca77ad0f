"""``ortune compare``: compares the speed and outputs of two or more sides on this machine, in interleaved trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from ortune import rules, targets
from ortune.engines.profiling.gpu import kernels_by_side
from ortune.engines.profiling.operators import differing_operators
from ortune.engines.profiling.why import explain_difference
from ortune.errors import MeasurementError, OrtuneError, UsageError
from ortune.graph.outputs import random_outputs
from ortune.measuring.document import document
from ortune.measuring.opening import Experiment
from ortune.measuring.scratch import scratch_folder
from ortune.measuring.sides import ResolvedSide
from ortune.measuring.watcher import Watcher
from ortune.outputs import pairing
from ortune.records import Block, Envelope, Finding, ModelRef, Runtime, VerdictName
from ortune.runtimes import runtimes
from ortune.search import duel
from ortune.search.blocks import BASE, LETTERS, awake_warning, failures, measured
from ortune.search.controls import INVALID
from ortune.search.figures import STATISTICS, TIMES, describe, require_objective
from ortune.show.difference_tables import shows_reason
from ortune.show.difference_words import reason_unknown, worded
from ortune.show.finding_words import functional_only
from ortune.show.message_words import texts
from ortune.show.placement_words import frames_lost, kernels_not_counted, kernels_there
from ortune.show.sides import compared_ns
from ortune.targets.machine import Machine
from ortune.verbs._shared.common import NON_FINITE, require_allowed
from ortune.verbs._shared.facts import facts_of
from ortune.verbs._shared.remote_browser import remote_browser
from ortune.verbs._shared.session import begin_or_resume, experiment, store_result
from ortune.verbs._shared.spelling import command
from ortune.verbs._shared.watching import with_words
from ortune.verbs.compare import phone, phone_words, source_words
from ortune.verbs.compare.all_sides import resolve_all
from ortune.verbs.compare.comparing import Comparing
from ortune.verbs.compare.headline import is_wrong
from ortune.verbs.compare.options import Options
from ortune.verbs.compare.ranking import Contender, MeasuredSides, rank, wrong_sides
from ortune.verbs.compare.result import CompareResult
from ortune.verbs.compare.words import machine


def run(options: Options, watcher: Watcher | None = None) -> Envelope[CompareResult]:
    """Compare two or more sides and return the result document.

    Raises:
        OrtuneError: Nothing could be compared; the error has the exit code.
    """
    watch = with_words(watcher)
    require_objective(options.objective)
    require_allowed(options.allow, (NON_FINITE,), NON_FINITE)
    if options.app is not None or options.b_with is not None:
        from ortune.verbs.compare import app  # few comparisons need it

        return app.run(options, watch)
    if not str(options.a):
        raise UsageError("pass a model, or --app with a command", do="ortune compare old.onnx new.onnx")
    if phone.is_phone_result(Path(str(options.a))):
        return _on_a_phone(options, watch)
    options.require_difference(same=options.wait_ratio > 0)
    with experiment("compare", options, watch) as opened:
        base, others, left_out = resolve_all(options, opened)
        if len(others) >= len(LETTERS):
            raise UsageError(
                f"{1 + len(others)} sides are more than {len(LETTERS)}", do="compare fewer sides"
            )
        arms = [arm for arm in LETTERS if arm != BASE]
        news = [Contender(arm=arm, side=side) for arm, side in zip(arms, others, strict=False)]
        watch.say(_measuring_with(base, news))
        names = [targets.target_of(side.plan).name for side in (base, *(new.side for new in news))]
        options.require_there(names, options.objective, pod=options.feeds.pod is not None)
        sides = [base, *(new.side for new in news)]
        labels = {"a": base.label, **{new.name.lower(): new.side.label for new in news}}
        there = remote_browser(options, names, opened.scratch, watch) if options.serve else None
        with opened.measuring(base.label, machine=there):
            begin_or_resume(opened, options, sides, options.resume, **labels)
            envelope = _Run(options, opened, base, news, left_out).go()
        return store_result(opened, options, envelope)


def _on_a_phone(options: Options, watch: Watcher) -> Envelope[CompareResult]:
    """Return the comparison of results measured on a phone; nothing runs on this machine."""
    if options.b is not None:
        raise UsageError(
            "the result of a phone already contains all measured sides",
            where=str(options.b),
            do=command("compare", replace(options, b=None, more=())),
        )
    result = phone.read(Path(str(options.a)))
    watch.say(phone_words.measured_on(result.device, result.ort_version))
    with scratch_folder() as scratch:
        compared = phone.compared(result, scratch)
    ref = ModelRef(path=result.matrix.model, sha256="")
    verdict = compared.comparison.verdict if compared.comparison else "wrong-output"
    return document("compare", compared, model=ref, verdict=verdict)


def _measuring_with(a: ResolvedSide, news: Sequence[Contender]) -> str:
    with_a = runtimes.describe(a.runtime)
    others = [f"{n.name} with {_described(n.side.runtime, a)}" for n in news if n.side.runtime != a.runtime]
    return ", ".join([f"measuring A with {with_a}", *others]) if others else f"measuring with {with_a}"


def _described(runtime: Runtime, a: ResolvedSide) -> str:
    """Return the description of a runtime that differs from A's; for a browser, only the onnxruntime-web version."""
    pages = runtime.ort_web_dist and runtime.python == a.runtime.python
    return runtime.build if pages else runtimes.describe(runtime)


class _Run:
    """A running comparison and its result."""

    def __init__(
        self,
        options: Options,
        opened: Experiment,
        a: ResolvedSide,
        news: list[Contender],
        left_out: Sequence[str],
    ) -> None:
        self.options, self.experiment, self.a, self.news = options, opened, a, news
        self.left_out = left_out
        self.sources = [side for side in (a, *(new.side for new in news)) if side.onnx is not None]
        # A framework has no profile comparable with ONNX Runtime's.
        self.tells_why = not options.no_why and options.objective in TIMES and not self.sources
        for new in news:
            new.pairs = pairing.pair_inputs(a.model.ir, new.side.model.ir, options.mapped, new.name)
        self.comparing = Comparing(
            opened,
            a,
            news,
            duel.Rules(
                max_blocks=options.most_blocks,
                threshold_ratio=options.threshold_ratio,
                statistic=STATISTICS[options.objective],
            ),
            objective=options.objective,
            seed=options.seed,
            wait_ratio=options.wait_ratio,
            tells_why=self.tells_why,
        )
        self.baseline = self.comparing.baseline
        if self.sources:
            self.baseline.comparer.random = random_outputs(a.model.ir)

    def go(self) -> Envelope[CompareResult]:
        comparing, baseline = self.comparing, self.baseline
        comparing.begin()
        self.a = baseline.side
        self._note_frameworks()
        if comparing.timed and not comparing.functional_only:
            self._race()
        elif comparing.timed:
            arms = {new.name: new.contestant for new in comparing.timed if new.contestant is not None}
            counts, trouble = kernels_by_side(baseline, {"A": baseline.arm(BASE), **arms})
            baseline.notes += [kernels_not_counted(name, why) for name, why in trouble.items()]
            baseline.notes += kernels_there(counts)
        envelope = self._envelope()
        return self._with_operators(self._with_why(envelope)) if comparing.state is not None else envelope

    def _race(self) -> None:
        """Race the sides; if a side is known to be wrong, failed controls are noted instead of raised."""
        try:
            self.comparing.race()
        except MeasurementError as error:
            if error.code != INVALID or not self._wrong_sides():
                raise
            self.baseline.note(error.what)

    def _wrong_sides(self) -> tuple[str, ...]:
        """Return the names of the sides whose outputs are known to be wrong."""
        allow = self.options.feeds.allow_nonfinite
        return tuple(wrong_sides(self.news, base_wrong=self.comparing.base_wrong, allow_nonfinite=allow))

    def _with_operators(self, envelope: Envelope[CompareResult]) -> Envelope[CompareResult]:
        """Add the operators that differ between the optimised graphs, if times show no reason for a difference."""
        result = envelope.result
        shown = (
            envelope.verdict in ("faster", "slower") and result.why is not None and shows_reason(result.why)
        )
        # Two graphs are made and saved, which takes about as long as a trial of each.
        fits = self.experiment.budget.reserve(self.experiment.answer_s).holds(2, self.baseline.pilot.trial_ns)
        if (
            not self.tells_why
            or shown
            or result.comparison is None
            or not fits
            or envelope.status == "interrupted"
        ):
            return envelope
        new = next(new for new in self.news if new.name == result.name)
        try:
            differing = differing_operators(
                self.a, new.side, self.baseline.work.custom_ops, self.baseline.scratch / "operators"
            )
        except (OrtuneError, OSError):
            return envelope
        return msgspec.structs.replace(envelope, result=msgspec.structs.replace(result, operators=differing))

    def _note_frameworks(self) -> None:
        """Note the threads of each side and the skipped modes of a framework, if a framework runs one of the sides."""
        if not self.sources:
            return
        alone = [(self.a, [self.baseline.pilot.first]), *((new.side, new.trials) for new in self.news)]
        counts = {
            side.runtime.build: source_words.threads(side.plan, trials) for side, trials in alone if trials
        }
        self.baseline.note(source_words.same_threads(counts))
        for text in self.left_out:
            self.baseline.note(text)

    def _with_why(self, envelope: Envelope[CompareResult]) -> Envelope[CompareResult]:
        """Add profiles that locate a confirmed difference in run time; other differences cannot be located."""
        result = envelope.result
        # A third side with wrong outputs does not invalidate the comparison of these two.
        proven = envelope.status != "interrupted" and envelope.verdict in ("faster", "slower")
        if not (self.tells_why and proven and result.base_figures and result.new_figures):
            return envelope
        a, b = result.base_figures, result.new_figures
        # The profiles show typical runs, so they cannot explain a p95 or a throughput.
        plain = compared_ns(b) - compared_ns(a) if self.options.objective == "latency" else None
        new = next(new for new in self.news if new.name == result.name)
        assert new.contestant is not None
        sides = (self.a, new.side)
        result = msgspec.structs.replace(
            result, causes=self._causes(*(sides if envelope.verdict == "faster" else sides[::-1]))
        )
        try:
            difference = explain_difference(
                self.baseline,
                sides,
                (self.baseline.arm(BASE), new.contestant),
                (a.latency_ns, b.latency_ns),
                plain,
                trial_ns=self.baseline.pilot.trial_ns,
                budget=self.experiment.budget.reserve(self.experiment.answer_s),
            )
            result = msgspec.structs.replace(result, why=worded(difference, result.name))
        except (OrtuneError, OSError) as error:
            # An answer is returned even if its reason is lost, for example because the disk fills up.
            reason = error.what if isinstance(error, OrtuneError) else str(error)
            result = msgspec.structs.replace(result, notes=(*result.notes, reason_unknown(reason)))
        return msgspec.structs.replace(envelope, result=result)

    def _causes(self, slower: ResolvedSide, faster: ResolvedSide) -> tuple[Finding, ...]:
        """Return the rules' findings that apply only to the slower side."""
        about_models = rules.Selection().rules(rules.ABOUT_MODELS)
        causes, healthy = (
            rules.found_by(
                about_models,
                facts_of(
                    side.opened(),
                    side.plan,
                    self.baseline.host,
                    self.options.feeds.words,
                ),
            )
            for side in (slower, faster)
        )
        on_both = {finding.code for finding in healthy}
        return tuple(finding for finding in causes if finding.code not in on_both)

    def _frames(self, blocks: Sequence[Block]) -> list[str]:
        """Return a note on the frames that the page drops because its main thread is busy; [] for other objectives."""
        if self.options.objective != "main-thread":
            return []
        arms = {"A": BASE, **{new.name: new.arm for new in self.news}}
        return frames_lost({name: [t.done for t in measured(blocks, arm)] for name, arm in arms.items()})

    def _machines(self) -> tuple[str, ...]:
        """Return a description of each side's machine if machines are compared, or an empty tuple."""
        named = self.options.machines
        sides = {"A": self.a, **{new.name: new.side for new in self.news}} if named else {}
        return tuple(
            machine(
                name,
                named[name.lower()].name if name.lower() in named else "",
                side.runtime.host or Machine().host,
            )
            for name, side in sides.items()
        )

    def _envelope(self) -> Envelope[CompareResult]:
        comparing, state, baseline = self.comparing, self.comparing.state, self.baseline
        blocks = state.blocks if state else []
        statistic = state.statistic if state else "median"
        raced = MeasuredSides(
            work=baseline.work,
            objective=self.options.objective,
            rules=comparing.rules,
            counts_as=self.options.counts_as,
            base=self.a.plan,
            host=baseline.host,
            state=state,
        )
        base, base_figures = measured(blocks, BASE), None
        if base:
            written = baseline.executor.first_load_ns(BASE)
            base_figures = describe(base, statistic, comparing.starts, written)
        ranked = rank(raced, self.news, base_figures)
        first = ranked[0]
        assert first.outputs is not None
        result = CompareResult(
            base=self.a.placed_record(base),
            new=first.side,
            comparison=first.comparison,
            outputs=first.outputs,
            base_figures=base_figures,
            new_figures=first.figures,
            cases=first.cases,
            controls=tuple(state.controls) if state else (),
            findings=tuple(baseline.findings),
            read_back=first.read_back,
            mapped_inputs=first.mapped_inputs,
            notes=(
                *baseline.work.notes,
                *texts(baseline.notes),
                *self._frames(blocks),
                *texts(awake_warning(blocks)),
                *texts(self.experiment.notes),
            ),
            failures=(*failures(blocks, BASE), *first.failures),
            gate=first.gate,
            name=first.name,
            exact=first.exact,
            wrong_sides=self._wrong_sides(),
            candidates=tuple(ranked) if len(ranked) > 1 else (),
            session=self.experiment.log.id,
            elapsed_s=self.experiment.elapsed_s,
            budget_s=comparing.given_s,
            enough_s=comparing.enough_s(),
            machines=self._machines(),
            reproduce=command("compare", self.options),
        )
        interrupted = state is not None and state.ended == "stopped"
        return self.experiment.document(
            result, status="interrupted" if interrupted else "ok", verdict=_verdict(result)
        )


def _verdict(result: CompareResult) -> VerdictName:
    """Return the verdict of the whole comparison: that of the side in the headline, or "wrong-output"."""
    if is_wrong(result):
        return "wrong-output"
    if result.comparison is not None:
        return result.comparison.verdict
    if not result.outputs.comparable:
        return "wrong-output"
    return "functional-only" if functional_only(result.findings) else "inconclusive"


def exit_code(envelope: Envelope[CompareResult]) -> int:
    """Return the exit code: 1 for a failed gate or wrong outputs, 3 for a budget too small for the gate, else 0."""
    result = envelope.result
    sides = [(c.outputs, c.gate) for c in result.candidates] or [(result.outputs, result.gate)]
    if any(outputs is not None and not outputs.comparable for outputs, _ in sides):
        return 1
    if result.wrong_sides:
        return 1
    answers = [gate.counted for _, gate in sides if gate]
    if "fail" in answers:
        return 1
    return MeasurementError.exit_code if "no-answer" in answers else 0
