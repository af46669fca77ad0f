"""``ortune convert MODEL.onnx --to ort``: writes one file for a given place, or a set of files to measure there."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ortune import files, rewrites
from ortune.bundle import phone
from ortune.catalogue.providers import COREML
from ortune.engines import verification
from ortune.engines.ort_format import matrix as sets
from ortune.engines.ort_format import places
from ortune.engines.ort_format.aware import Takes
from ortune.engines.ort_format.convert import CONFIG, convert, require_convertible
from ortune.engines.ort_format.places import DevicePlace, FileChoice
from ortune.engines.partitions import support
from ortune.engines.partitions.partition import partition
from ortune.errors import UsageError
from ortune.graph.model.save import deliver_model, require_place, staged_model
from ortune.inputs.value_files import read_index
from ortune.measuring.measuring import Measuring
from ortune.measuring.opening import Experiment
from ortune.measuring.sides import USUAL_LIMITS, SideText
from ortune.records import Envelope, Matrix, OrtConversion, OutputDifference, Plan, RewriteSpec
from ortune.rewrites.fixed_dimensions import why_not_fixed
from ortune.show.message_words import texts
from ortune.targets.tool import ToolProcess
from ortune.verbs.convert import ort_words
from ortune.verbs.convert.result import ConvertResult

_SPECS = (RewriteSpec(name="ort-format"),)


@dataclass(frozen=True, kw_only=True)
class Wish:
    """The requested files and how to write them.

    Attributes:
        source: Path of the model, as for a side of ``compare``.
        choice: Level, style and place of the file.
        aware: Whether nodes that the place's provider supports are kept unoptimised.
        matrix: Whether all files worth measuring at the place are written, with the benches that measure them.
        runtime: Path or name of the onnxruntime for the conversion.
        custom_ops: Libraries of custom operators.
        output: Path of the output; None for the default.
        replace: Whether existing files may be replaced.
    """

    source: str
    choice: FileChoice
    aware: bool
    matrix: bool
    runtime: str | None
    custom_ops: tuple[str, ...]
    output: Path | None
    replace: bool


def choice_of(
    runs_on: str, *, level: str, style: str, needed: str, aware: bool, matrix: bool, force: bool
) -> FileChoice:
    """Return the level, style and place of the file from the user's options.

    Raises:
        UsageError: The options do not fit the place, or each other.
    """
    if not runs_on:
        raise UsageError(
            "the place where the file will run is missing",
            where="--to ort",
            do=f"add --for {' | '.join(places.PLACES)}",
        )
    place = places.find(runs_on)
    if matrix:
        sets.require_phone(place)
        for option, value in (("--aware", aware), ("--level", level), ("--style", style)):
            if value:
                raise UsageError(
                    "--matrix writes files of every level", where=option, do="omit it with --matrix"
                )
    return places.choose(place, level=level, style=style, needed=needed, aware=aware, force=force)


def run(wish: Wish, opened: Experiment) -> Envelope[ConvertResult]:
    """Convert a model, and compare its outputs with those of the source.

    Returns:
        The document; ``verdict`` is "written", "gains-nothing" (a provider-aware file without advantage over another
        one) or "wrong-output".

    Raises:
        OrtuneError: The model, or an option, cannot be used.
    """
    source = Path(wish.source)
    if source.suffix not in (".onnx", ".ort") and not files.is_file(source):
        raise UsageError(
            f"{wish.source} is not an ONNX model",
            where="--to ort",
            do="convert it to ONNX first (omit --to), then convert that file to ORT format",
        )
    side = opened.resolve(SideText(text=wish.source, runtime=wish.runtime))
    require_convertible(side.model)
    baseline = opened.base_measuring(side)
    run_ = _Run(wish, opened, baseline)
    with opened.measuring(side.label):
        return run_.matrix() if wish.matrix else run_.file()


class _Run:
    """A running conversion."""

    def __init__(self, wish: Wish, opened: Experiment, baseline: Measuring) -> None:
        self.wish, self.choice, self.opened, self.baseline = wish, wish.choice, opened, baseline
        self.model = baseline.side.model
        self.line = opened.watch.line
        self.tool = ToolProcess(
            runtime=baseline.side.runtime,
            folder=baseline.scratch,
            plan=Plan(),
            custom_ops=wish.custom_ops,
            limits=USUAL_LIMITS,
        )

    def file(self) -> Envelope[ConvertResult]:
        """Convert to one file and return the result document."""
        place = self.wish.output or Path(f"{self.model.path.stem}.ort")
        if place.suffix != ".ort":
            raise UsageError(
                "would contain a model in ORT format", where=str(place), do=f"name it {place.stem}.ort"
            )
        require_place(place, replace=self.wish.replace)
        folder = self.baseline.scratch / "to-ort"
        folder.mkdir()
        self.line(f"converting {self.baseline.side.label}")
        takes = _takes(self.choice.place) if self.wish.aware else None
        conversion = convert(self.model, self.choice, folder, self.tool, name=place.stem, takes=takes)
        if conversion.path is None or conversion.record is None:
            assert conversion.aware is not None
            return self._envelope("gains-nothing", aware_refused=ort_words.aware(conversion.aware))
        outputs = self._outputs(conversion.path)
        if not outputs.ok:
            return self._envelope("wrong-output", record=conversion.record, outputs=outputs)
        record = conversion.record
        with staged_model(conversion.path, place, external=False) as staged:
            if record.needed_path:
                config = f"{place.name}{CONFIG}"
                shutil.copyfile(record.needed_path, staged.parent / config)
                record = msgspec.structs.replace(record, needed_path=str(place.with_name(config)))
            deliver_model(staged, place, typed=self.wish.output is not None, replace=self.wish.replace)
        return self._envelope("written", record=record, outputs=outputs, place=place)

    def matrix(self) -> Envelope[ConvertResult]:
        """Write the set of files with the benches that measure it, and return the result document."""
        place = self.choice.place
        goal = self.wish.output or Path(f"{self.model.path.stem}-{place.name}")
        with sets.staged(goal, replace=self.wish.replace) as folder:
            takes = _takes(place)
            entries, left_out = sets.make(
                self.model, place, folder, self.baseline.scratch / "set", self.tool, takes, self.line
            )
            outputs = [self._outputs(folder / entry.file) for entry, _ in entries]
            values = read_index(Path(self.baseline.refs[0].path), "feeds")
            inputs = sets.inputs_of(values, folder)
            description = sets.matrix_of(
                self.model, place, [entry for entry, _ in entries], inputs, folder, left_out
            )
            (folder / sets.MANIFEST).write_bytes(
                msgspec.json.format(msgspec.json.encode(description), indent=2)
            )
            self._add_benches(description, folder)
            worst = max(outputs, key=lambda difference: (not difference.ok, difference.relative_l2))
            if not worst.ok:
                return self._envelope("wrong-output", record=entries[0][1], outputs=worst)
            sets.deliver(folder, goal)
        records = tuple(record for _, record in entries)
        result = self._result(record=records[0], outputs=worst, place=goal, files=records)
        return self._document(msgspec.structs.replace(result, matrix=description), "written")

    def _add_benches(self, description: Matrix, folder: Path) -> None:
        for name, text in phone.benches(description, self.baseline.side.runtime.ort_version):
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
            place.chmod(0o755 if name == phone.GRADLEW else 0o644)
        assets = folder / phone.SETS
        if assets.parent.is_dir():
            assets.mkdir(exist_ok=True)
            names = [entry.file for entry in description.entries]
            for name in [*names, *(value.file for value in description.inputs)]:
                shutil.copyfile(folder / name, assets / name)

    def _outputs(self, model: Path) -> OutputDifference:
        return verification.outputs_difference(self.baseline, model, _SPECS, {})

    def _result(
        self,
        record: OrtConversion | None = None,
        outputs: OutputDifference | None = None,
        place: Path | None = None,
        files: tuple[OrtConversion, ...] = (),
    ) -> ConvertResult:
        runtime = self.baseline.side.runtime
        notes = [*texts(self.baseline.notes), ort_words.of_place(self.choice.place.target)]
        if self.choice.place.provider.fixed_sizes:
            fixing = rewrites.find("fixed-dimensions").proposes(self.model.ir, self.baseline.work)
            notes += [
                ort_words.open_sizes(self.wish.source, self.choice.place.name, p) for p, _ in fixing[:1]
            ]
            notes.append(ort_words.growing(why_not_fixed(self.model.ir), self.choice.place.name))
        if self.choice.place.target == COREML.target and any(file.aware for file in (record, *files) if file):
            notes.append(ort_words.IN_PROGRAM)
        return ConvertResult(
            source=self.wish.source,
            kind="ONNX",
            framework="onnxruntime",
            versions={runtime.package or "onnxruntime": runtime.ort_version},
            to="ort",
            path=str(place or ""),
            ort=record,
            outputs=outputs,
            ort_files=files,
            notes=tuple(filter(None, notes)),
        )

    def _envelope(
        self,
        verdict: str,
        record: OrtConversion | None = None,
        outputs: OutputDifference | None = None,
        place: Path | None = None,
        aware_refused: str = "",
    ) -> Envelope[ConvertResult]:
        result = self._result(record, outputs, place)
        return self._document(msgspec.structs.replace(result, headline=aware_refused), verdict)

    def _document(self, result: ConvertResult, verdict: str) -> Envelope[ConvertResult]:
        headline = result.headline or ort_words.headline(result, verdict)
        return self.opened.document(msgspec.structs.replace(result, headline=headline), verdict=verdict)


def _takes(place: DevicePlace) -> Takes:
    """Return a function that selects the nodes that a place's provider supports according to its operator tables."""
    format_ = support.find(place.name)
    return lambda model: partition(model, format_).taken
