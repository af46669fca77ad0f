"""Result of ``ortune convert``: the exported files and their check."""

from __future__ import annotations

from typing import Literal

from ortune.records import Conversion, Finding, Matrix, OrtConversion, OutputDifference
from ortune.records.base import Record
from ortune.verbs.compare.result import CompareResult
from ortune.verbs.tune.result import TuneResult


class ConvertResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune convert --json``.

    Attributes:
        source: The source as given.
        kind: The kind of source, in words.
        framework: The framework with its converter.
        versions: Versions of the framework and of the converter.
        to: The requested format.
        conversions: The result of every exporter that was tried, or of the given model.
        path: The written model; "" if none was written.
        tuned: Result of the tuning; None if it was not requested.
        raced: The second exporter's model against the first one's, if both are correct; None if they were not compared.
        findings: Findings in the written model that an exporter can fix.
        headline: The result in one sentence.
        again: Commands that convert the source of a wrong model again and compare the two models.
        ort: How the ORT-format file was made, or the first file of a set; None if there is none.
        outputs: Distance between the outputs of the ORT-format file and its source, the worst of a set.
        ort_files: How each file of a set was made.
        matrix: The set; None for a single file.
        on_cpu: The files of the set compared on this CPU, each with the first; None if they were not measured.
    """

    source: str
    kind: str = ""
    framework: str = ""
    versions: dict[str, str] = {}
    to: Literal["onnx", "ort"] = "onnx"
    conversions: tuple[Conversion, ...] = ()
    path: str = ""
    tuned: TuneResult | None = None
    raced: CompareResult | None = None
    findings: tuple[Finding, ...] = ()
    headline: str = ""
    again: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    ort: OrtConversion | None = None
    outputs: OutputDifference | None = None
    ort_files: tuple[OrtConversion, ...] = ()
    matrix: Matrix | None = None
    on_cpu: CompareResult | None = None
