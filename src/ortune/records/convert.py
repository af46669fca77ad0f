"""A conversion to ONNX: what was exported, and how its outputs compare with those of its source."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.bisect import NotFinite, Parting
from ortune.records.compare import CompareResult
from ortune.records.finding import Finding
from ortune.records.measure import OutputDifference
from ortune.records.ort_format import OrtConversion
from ortune.records.phone import Matrix
from ortune.records.tune import TuneResult

FaultKind = Literal[
    "does-not-run", "input-shape", "output-count", "output-shape", "axes-swapped", "overflow", "values", "frozen-size",
    "frozen-branch",
]  # fmt: skip
AxisStatus = Literal["open", "fixed", "frozen", "untested"]


class ConvertedFrom(Record, frozen=True, kw_only=True):
    """Where an ONNX model came from; kept in its metadata as ``ortune.source``.

    Attributes:
        source: The file's or function's name, without its folder.
        kind: What that was, in words.
        exporter: What converted it; "" for a model of somebody else's.
        versions: Of the framework and its converters.
        opset: Of the model.
        checked: What the check saw, one sentence.
    """

    source: str
    kind: str
    exporter: str
    versions: dict[str, str] = {}
    opset: int = 0
    checked: str = ""


class CheckedCase(Record, frozen=True, kw_only=True):
    """The outputs of source and model for one set of inputs.

    Attributes:
        name: What is fed: "example", "inputs 1", "usual", "zeros", ..., or the size that differs ("batch=5").
        sizes: Of the open axes.
        level: Of ONNX Runtime's optimiser.
        outputs: How far apart; None where the model did not run.
        failed: Why it did not run.
    """

    name: str
    sizes: dict[str, int] = {}
    level: Literal["disable", "all"]
    outputs: OutputDifference | None = None
    failed: str = ""


class DynamicAxis(Record, frozen=True, kw_only=True):
    """One name of an open size.

    Attributes:
        name: As asked for, or as the model has it.
        places: "x axis 0", every input and axis.
        status: "open": other sizes give the source's outputs; "fixed": the model declares one size; "frozen": other
            sizes are accepted and give other outputs, or none; "untested": the source itself takes one size alone.
        sizes: Those that were run.
        what: What is wrong, one sentence; "" for "open".
    """

    name: str
    places: tuple[str, ...]
    status: AxisStatus
    sizes: tuple[int, ...] = ()
    what: str = ""


class ConversionFault(Record, frozen=True, kw_only=True):
    """What is wrong with a model, beside its source.

    Attributes:
        output: The first output that differs; "" where none can be named.
        case: Of which inputs.
        what: One sentence.
        node: Where its values part from those of a conversion that is right; None where there is none to compare with.
        not_finite: Of an overflow: the node of this model that gives NaN or infinities first.
        held_against: That conversion's exporter.
    """

    kind: FaultKind
    output: str = ""
    case: str = ""
    what: str
    node: Parting | None = None
    not_finite: NotFinite | None = None
    held_against: str = ""


class Conversion(Record, frozen=True, kw_only=True):
    """One exporter's result, or the model that was given.

    Attributes:
        exporter: Of the converter; "" for a model that was given.
        failed: Why there is none; "" where there is.
        ok: Its outputs are the source's.
        opset: Of the domain of ONNX.
        nodes: Of all graphs.
        size_bytes: Of the file and its weights.
        elapsed_s: What exporting took.
        fault: The first thing that is wrong.
        messages: What the exporter warned of.
    """

    exporter: str
    failed: str = ""
    ok: bool = False
    opset: int = 0
    nodes: int = 0
    size_bytes: int = 0
    elapsed_s: float = 0.0
    cases: tuple[CheckedCase, ...] = ()
    axes: tuple[DynamicAxis, ...] = ()
    fault: ConversionFault | None = None
    messages: tuple[str, ...] = ()


class ConvertResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune convert --json``.

    Attributes:
        source: As it was named.
        kind: What it is, in words.
        framework: With its converter.
        versions: Of both.
        to: What was asked for.
        conversions: Every exporter that was tried, or the model that was given.
        path: The model that was written; "" where none was.
        tuned: What tuning it gave; None where that was not asked for.
        raced: The second exporter's model against the first one's, both right; None where they were not compared.
        findings: What rules find in the model that was written and an exporter can mend.
        headline: The answer in one sentence.
        ort: How a file in ORT format was made; of a set, its first one. None where none was.
        outputs: How far the outputs of what was written in ORT format are from its source's, the worst of a set.
        ort_files: How each file of a set was made.
        matrix: The set; None where one file was asked for.
        on_cpu: Its files measured on the CPU here, each against the first; None where they were not.
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
    notes: tuple[str, ...] = ()
    ort: OrtConversion | None = None
    outputs: OutputDifference | None = None
    ort_files: tuple[OrtConversion, ...] = ()
    matrix: Matrix | None = None
    on_cpu: CompareResult | None = None
