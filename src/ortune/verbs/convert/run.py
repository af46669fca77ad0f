"""``ortune convert``: converts a framework's model to ONNX, and compares it with its source."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from ortune.engines.conversion import axes, blame
from ortune.engines.conversion.check import Checked, ConversionCheck
from ortune.engines.conversion.kinds import SourceKind, kind_of
from ortune.engines.conversion.opening import OpenedSource, opened_source, python_of, require_fence
from ortune.engines.conversion.origin import origin
from ortune.errors import MeasurementError, ModelError, OrtuneError, UsageError
from ortune.graph.model.open import open_model
from ortune.graph.model.origin import labelled
from ortune.graph.model.save import deliver_model, staged_model
from ortune.measuring.clock import Stopwatch
from ortune.measuring.opening import Experiment
from ortune.measuring.sides import ResolvedSide, SideText
from ortune.measuring.watcher import Watcher
from ortune.records import Conversion, Envelope, ExportSource, SourceExported
from ortune.show import markdown
from ortune.targets.source import SourceProcessFailed
from ortune.verbs._shared.quantities import seconds
from ortune.verbs._shared.session import experiment
from ortune.verbs._shared.spelling import named, path
from ortune.verbs._shared.watching import with_words
from ortune.verbs.compare import run as compare
from ortune.verbs.compare.options import Options as CompareOptions
from ortune.verbs.compare.result import CompareResult
from ortune.verbs.convert import export_words, set_words
from ortune.verbs.convert import exported as _exported
from ortune.verbs.convert import to_ort as _to_ort
from ortune.verbs.convert import words as convert_words
from ortune.verbs.convert.options import AUTO, Options
from ortune.verbs.convert.result import ConvertResult
from ortune.verbs.tune import run as tune
from ortune.verbs.tune.options import BUDGET as TUNE_BUDGET
from ortune.verbs.tune.options import Options as TuneOptions

README = "README.md"
RACE_SHARE, LEAST_RACE_S = 0.25, 20.0
"""Fraction of the --tune time for comparing the models of two exporters, and its minimum in seconds."""


def run(options: Options, watcher: Watcher | None = None) -> Envelope[ConvertResult]:
    """Convert a model, or check a conversion.

    Returns:
        The document; ``result`` is a ConvertResult, ``verdict`` "written", "equal" (``--verify``),
        "wrong-output", or "not-converted" if every exporter failed.

    Raises:
        OrtuneError: The source, its environment or an option cannot be used.
    """
    watch = with_words(watcher)
    if options.to == "ort":
        with experiment("convert", options, watch, timed=False) as opened:
            envelope = _to_ort.run(_wish(options), opened)
        return _set_measured(options, envelope, watch) if envelope.result.matrix is not None else envelope
    kind = kind_of(options.source, options.framework)
    require_fence(kind, trusted=options.trust_source)
    place = None if options.verify else options.place(kind)
    with experiment("convert", options, watch, timed=False) as opened:
        python = python_of(kind, named(options.source_python), "--source-python", watch)
        watch.line(export_words.opening(options.source, kind.converter.framework))
        own, feeds = opened.scratch / "source", opened.scratch / "checks"
        feeds.mkdir()
        shapes, trusted = options.feeds.shapes, options.trust_source
        with (
            opened.measuring(kind.stem),
            opened_source(kind, python, own, shapes, trusted=trusted, feeds=feeds) as source,
        ):
            run_ = _Run(options, kind, opened, source, feeds)
            attempts = run_.verified() if place is None else run_.converted()
        envelope = run_.checked(attempts) if place is None else run_.written(attempts, place)
    return _tuned(options, envelope, watch) if options.tune and envelope.verdict == "written" else envelope


def _wish(options: Options) -> _to_ort.Wish:
    """Return the options that apply to ORT format."""
    return _to_ort.Wish(
        source=options.source,
        choice=_to_ort.choice_of(
            options.runs_on,
            level=options.level,
            style=options.style,
            needed=options.needed,
            aware=options.aware,
            matrix=options.matrix,
            force=options.force,
        ),
        aware=options.aware,
        matrix=options.matrix,
        runtime=named(options.runtime),
        custom_ops=tuple(options.feeds.custom_ops),
        output=path(options.output),
        replace=options.force,
    )


def _set_measured(
    options: Options, envelope: Envelope[ConvertResult], watch: Watcher
) -> Envelope[ConvertResult]:
    """Compare the set's files on this CPU, write the README, and return the document with the comparison."""
    result = envelope.result
    assert result.matrix is not None
    folder = Path(result.path)
    if options.set_budget_s:
        watch.line(set_words.COMPARING)
        watch.begin()
        files = [folder / entry.file for entry in result.matrix.entries]
        try:
            measured = _compared(options, files, options.set_budget_s, watch)
            result = msgspec.structs.replace(result, on_cpu=measured.result)
        except MeasurementError as error:
            note = set_words.not_measured(error.what)
            result = msgspec.structs.replace(result, notes=(*result.notes, note))
    (folder / README).write_text(markdown.render(set_words.readme(result)), encoding="utf-8")
    return msgspec.structs.replace(envelope, result=result)


def _compared(
    options: Options, files: Sequence[Path], budget_s: float, watch: Watcher
) -> Envelope[CompareResult]:
    """Compare each file of a model with the first file, in the same blocks and with the user's inputs."""
    first, second, *more = files
    asked = CompareOptions(
        a=first,
        b=second,
        more=more,
        shape=options.shape,
        dim=options.dim,
        inputs=options.inputs,
        custom_ops=options.custom_ops,
        runtime=options.runtime,
        tolerance=options.tolerance,
        budget=budget_s,
        seed=options.seed,
        no_wait=options.no_wait,
        no_why=True,
    )
    # The comparison gets a new clock: the conversion is not part of its budget.
    return compare.run(asked, replace(watch, clock=Stopwatch()))


def _tuned(options: Options, envelope: Envelope[ConvertResult], watch: Watcher) -> Envelope[ConvertResult]:
    """Tune the written model and return the document with the result of the tuning."""
    asked = TuneOptions(
        model=envelope.result.path,
        shape=options.shape,
        dim=options.dim,
        inputs=options.inputs,
        custom_ops=options.custom_ops,
        data=options.data,
        runtime=options.runtime,
        tolerance=options.tolerance,
        budget=options.budget,
        seed=options.seed,
        no_wait=options.no_wait,
        force=options.force,
        output=Path(envelope.result.path).parent,
    )
    done = tune.run(asked, watch)
    return msgspec.structs.replace(
        envelope,
        result=msgspec.structs.replace(envelope.result, tuned=done.result),
        workload=done.workload,
        alerts=done.alerts,
        error=done.error,
    )


def exit_code(envelope: Envelope[ConvertResult]) -> int:
    """Return 1 if the outputs differ from the source's, 2 if nothing could be converted, else 0."""
    return {"wrong-output": 1, "not-converted": 2}.get(envelope.verdict or "", 0)


@dataclass(frozen=True, kw_only=True)
class _Attempt:
    """One exporter's model with the result of its check; ``side`` is None if the export failed."""

    record: Conversion
    side: ResolvedSide | None = None
    checked: Checked | None = None
    exported: Path | None = None

    @property
    def ok(self) -> bool:
        """Whether the outputs match the source's."""
        return self.checked is not None and self.checked.ok


class _Run:
    """A running conversion."""

    def __init__(
        self, options: Options, kind: SourceKind, opened: Experiment, source: OpenedSource, feeds: Path
    ) -> None:
        self.options, self.kind, self.opened = options, kind, opened
        self.process, self.source = source.process, source.told
        self.check = ConversionCheck(opened, source, feeds, options.feeds)
        self.asked = axes.requested_axes(options.dynamic, self.source.inputs)
        axes.require_open(self.asked, self.source)
        self.watch = opened.watch
        self._right: _Attempt | None = None

    @property
    def exporters(self) -> Sequence[str]:
        """Exporters to try, in order."""
        if self.options.exporter == AUTO:
            return self.source.exporters
        if self.options.exporter not in self.source.exporters:
            raise UsageError(
                f"{self.options.exporter!r} does not support a {self.source.kind}",
                where="--exporter",
                do=f"one of {', '.join(self.source.exporters)}",
            )
        return (self.options.exporter,)

    @property
    def expected(self) -> axes.Axes:
        """Axes that must be dynamic: the requested axes, and the axes that are dynamic in the source."""
        open_axes = {name: dict(places) for name, places in axes.open_in_source(self.source.inputs).items()}
        for name, places in self.asked.items():
            open_axes.setdefault(name, {}).update(places)
        return open_axes

    def converted(self) -> list[_Attempt]:
        """Export and check models until one is correct, or with every exporter if the correct models are raced."""
        attempts: list[_Attempt] = []
        for exporter in self.exporters:
            attempts.append(self._attempt(exporter))
            if attempts[-1].ok and not self.options.tune:
                break
        good = next((attempt for attempt in attempts if attempt.ok), None)
        return [self._blamed(attempt, good) for attempt in attempts]

    def written(self, attempts: Sequence[_Attempt], place: Path) -> Envelope[ConvertResult]:
        """Write the correct model (the faster if two are correct) and return the result document."""
        good = [attempt for attempt in attempts if attempt.ok]
        if not good:
            wrong = any(attempt.side is not None for attempt in attempts)
            return self._envelope(attempts, "wrong-output" if wrong else "not-converted")
        raced = self._raced(good) if len(good) > 1 else None
        best = good[1] if raced is not None and raced.verdict == "faster" else good[0]
        assert best.side is not None
        text = self.options.source
        fixed = _exported.fixed_axes(best.side.model, self.options.dynamic, self.source, text)
        findings = _exported.findings(best.side.model, self.source, text)
        if findings or fixed:
            self.watch.say(convert_words.fix_first(findings, fixed, place.name))
        model = labelled(best.side.model.ir, origin(self.kind, self.source, best.record))
        with staged_model(model, place, external=bool(best.side.model.external)) as staged:
            deliver_model(staged, place, typed=self.options.output is not None, replace=self.options.force)
        # The answer is about the last conversion.
        ordered = [attempt for attempt in attempts if attempt is not best] + [best]
        envelope = self._envelope(ordered, "written", place)
        result = msgspec.structs.replace(
            envelope.result,
            raced=None if raced is None else raced.result,
            findings=findings,
            notes=(*envelope.result.notes, *([fixed] if fixed else [])),
        )
        return msgspec.structs.replace(envelope, result=result)

    def _raced(self, good: Sequence[_Attempt]) -> Envelope[CompareResult] | None:
        """Compare two exporters' correct models in the same blocks and return the result; None if that fails."""
        files = [attempt.exported for attempt in good if attempt.exported is not None]
        self.watch.line(export_words.racing(good[0].record.exporter, good[1].record.exporter))
        budget_s = seconds(self.options.budget or TUNE_BUDGET, "--budget")
        try:
            return _compared(self.options, files, max(LEAST_RACE_S, RACE_SHARE * budget_s), self.watch)
        except OrtuneError as error:
            self.watch.say(export_words.not_raced(error.what))
            return None

    def verified(self) -> list[_Attempt]:
        """Check the model passed with ``--verify`` and, if it is wrong, export a correct model to locate the fault."""
        assert self.options.model is not None
        attempt = self._checked(Path(self.options.model), "", SourceExported(), self.asked or self.expected)
        if attempt.ok:
            return [attempt]
        self._right = next(
            (candidate for candidate in map(self._attempt, self.exporters) if candidate.ok), None
        )
        return [self._blamed(attempt, self._right)]

    def checked(self, attempts: Sequence[_Attempt]) -> Envelope[ConvertResult]:
        """Return the result document of ``--verify``, with commands to convert again if the model is wrong."""
        envelope = self._envelope(attempts, "equal" if attempts[0].ok else "wrong-output")
        fault = attempts[0].record.fault
        again = _exported.again(self.options, self.kind, fault) if fault is not None and self._right else ()
        return msgspec.structs.replace(envelope, result=msgspec.structs.replace(envelope.result, again=again))

    def _attempt(self, exporter: str) -> _Attempt:
        """Export and check a model with one exporter."""
        self.watch.line(export_words.exporting(exporter))
        own = Path(tempfile.mkdtemp(prefix="exported-", dir=self.process.folder))
        name = f"{self.kind.stem}.onnx"
        request = ExportSource(
            exporter=exporter, dynamic=self.asked, opset=self.options.opset, output=str(own / name)
        )
        try:
            exported = self.process.ask(request, SourceExported)
            # Copied out of the reach of the process, so that the checked file is the one that is written.
            place = self.opened.scratch / own.name / name
            self.process.copy_out(own, place.parent)
            return self._checked(place, exporter, exported, self.expected)
        except (ModelError, MeasurementError) as error:
            if not error.where.startswith(str(place)):
                raise
            # ONNX Runtime cannot load or run the exported file, for example if an operator was not converted.
            what = error.what.replace(str(place), place.name)
            if error.code == "timeout":
                what = convert_words.endless(what)
            self.watch.say(export_words.exporter_failed(exporter, _first_line(what)))
            return _Attempt(record=Conversion(exporter=exporter, failed=what))
        except SourceProcessFailed as error:
            if error.reason not in ("failed", "refused"):
                raise
            self.watch.say(export_words.exporter_failed(exporter, _first_line(error.what)))
            return _Attempt(record=Conversion(exporter=exporter, failed=error.what))

    def _checked(self, place: Path, exporter: str, exported: SourceExported, expected: axes.Axes) -> _Attempt:
        self.watch.line(export_words.comparing_outputs(place.name, self.options.source))
        side = self.opened.resolve(SideText(text=str(place), runtime=named(self.options.runtime)))
        checked = self.check.check(side, exported.inputs, expected)
        facts = side.model.facts
        record = Conversion(
            exporter=exporter,
            ok=checked.ok,
            opset=facts.opsets.get("", 0),
            nodes=side.model.op_counts.total(),
            size_bytes=facts.size_bytes + facts.external_bytes,
            elapsed_s=exported.elapsed_s,
            cases=checked.cases,
            axes=checked.axes,
            fault=checked.fault,
            messages=exported.messages,
        )
        return _Attempt(record=record, side=side, checked=checked, exported=place)

    def _blamed(self, attempt: _Attempt, right: _Attempt | None) -> _Attempt:
        """Return the attempt with its first wrong node added, if a correct conversion exists to locate that node."""
        fault = attempt.record.fault
        feed = attempt.checked.feed if attempt.checked else None
        if fault is None or right is None or right.side is None or attempt.side is None or feed is None:
            return attempt
        self.watch.line(export_words.LOCATING)
        node, overflow = blame.node_at_fault(
            right.side,
            attempt.side,
            feed,
            self.opened.baselines[0],
            Path(tempfile.mkdtemp(prefix="blame-", dir=self.opened.scratch)),
        )
        fault = msgspec.structs.replace(
            fault, node=node, not_finite=overflow, held_against=right.record.exporter if node else ""
        )
        return replace(attempt, record=msgspec.structs.replace(attempt.record, fault=fault))

    def _envelope(
        self, attempts: Sequence[_Attempt], verdict: str, place: Path | None = None
    ) -> Envelope[ConvertResult]:
        notes = dict.fromkeys(
            note for attempt in attempts if attempt.checked for note in attempt.checked.notes
        )
        asked = None if self.options.verify else self.options.opset
        notes |= dict.fromkeys(
            convert_words.other_opset(attempt.record, asked)
            for attempt in attempts
            if asked and attempt.record.opset not in (0, asked)
        )
        result = ConvertResult(
            source=self.options.source,
            kind=self.source.kind,
            framework=self.kind.converter.framework,
            versions=self.source.versions,
            conversions=tuple(attempt.record for attempt in attempts),
            path=str(place or self.options.model or ""),
            notes=tuple(notes),
        )
        result = msgspec.structs.replace(result, headline=convert_words.headline(result, verdict))
        model = open_model(place).ref if place is not None else next(
            (attempt.side.model.ref for attempt in attempts if attempt.side is not None), None
        )  # fmt: skip
        return self.opened.document(result, model=model, verdict=verdict)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:200]
