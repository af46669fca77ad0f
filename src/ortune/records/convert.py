"""A conversion to ONNX: the exported models, and the comparison of their outputs with those of the source."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.bisect import NotFinite, Parting
from ortune.records.measure import OutputDifference

FaultKind = Literal[
    "does-not-run", "input-shape", "output-count", "output-shape", "axes-swapped", "overflow", "values", "frozen-size",
    "frozen-branch", "not-compared",
]  # fmt: skip
AxisStatus = Literal["open", "fixed", "frozen", "untested"]


class ConvertedFrom(Record, frozen=True, kw_only=True):
    """The origin of an ONNX model, stored in its metadata as ``ortune.source``.

    Attributes:
        source: Name of the file or function, without its folder.
        kind: The kind of source, in words.
        exporter: The converter; "" for a model from elsewhere.
        versions: Versions of the framework and its converters.
        opset: The model's opset.
        checked: Result of the check, one sentence.
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
        name: The inputs: "example", "inputs 1", "usual", "zeros", ..., or the size that differs ("batch=5").
        sizes: Sizes of the dynamic axes.
        level: ONNX Runtime's optimisation level.
        outputs: Distance of the outputs; None if the model did not run.
        failed: Why the model did not run.
    """

    name: str
    sizes: dict[str, int] = {}
    level: Literal["disable", "all"]
    outputs: OutputDifference | None = None
    failed: str = ""


class DynamicAxis(Record, frozen=True, kw_only=True):
    """Test of one dynamic dimension of a converted model with several sizes.

    Attributes:
        name: As requested, or as in the model.
        places: Every input and axis: "x axis 0".
        status: "open": other sizes match the source's outputs; "fixed": the model declares one size; "frozen": other
            sizes are accepted and give wrong outputs or none; "untested": the source itself accepts only one size.
        sizes: The tested sizes.
        what: The problem in one sentence; "" for "open".
    """

    name: str
    places: tuple[str, ...]
    status: AxisStatus
    sizes: tuple[int, ...] = ()
    what: str = ""


class ConversionFault(Record, frozen=True, kw_only=True):
    """A defect of a model compared with its source.

    Attributes:
        output: The first output that differs; "" if none can be named.
        case: The inputs that show it.
        what: The defect in one sentence.
        node: Where its values diverge from a correct conversion; None if there is none to compare with.
        not_finite: For an overflow: the first node with NaN or infinite values.
        held_against: Exporter of the correct conversion that ``node`` compares with; "" for none.
    """

    kind: FaultKind
    output: str = ""
    case: str = ""
    what: str
    node: Parting | None = None
    not_finite: NotFinite | None = None
    held_against: str = ""


class Conversion(Record, frozen=True, kw_only=True):
    """The result of one exporter, or the given model.

    Attributes:
        exporter: The converter; "" for a given model.
        failed: Why the export failed; "" if it did not.
        ok: Whether the outputs match the source's.
        opset: Opset of the ONNX domain.
        nodes: Number of nodes in all graphs.
        size_bytes: Size of the file and its weights.
        elapsed_s: Time of the export, in seconds.
        fault: The first defect.
        messages: Warnings of the exporter.
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
