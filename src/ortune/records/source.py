"""Messages between ortune and a framework's process: one JSON object per line."""

from __future__ import annotations

from typing import Literal

import msgspec

from ortune.records.base import PROTOCOL_VERSION, Record
from ortune.records.fence import Fence
from ortune.records.protocol import FeedRef, TrialRequest

SourceFormat = Literal["torch", "tensorflow", "tflite", "fitted"]


class OpenSource(Record, frozen=True, kw_only=True, tag="open", tag_field="do"):
    """First request to a framework's process: open a source model; the answer is ``opened`` or ``failed``.

    Attributes:
        kind: Format of the source.
        source: A file, a folder, or ``module:function``.
        factory: Whether it is ``module:function``.
        folder: The user's folder, for imports of modules and relative paths.
        shapes: Shapes of the inputs that the source does not define.
        threads: Number of threads of the framework; 0 for its default.
        example: Path of the ``.npz`` file to write with the source's own inputs.
        fence: Limits of the process; None if the user trusts the source.
    """

    version: int = PROTOCOL_VERSION
    kind: SourceFormat
    source: str
    factory: bool
    folder: str
    shapes: dict[str, tuple[int, ...]] = {}
    threads: int = 0
    example: str
    fence: Fence | None


class ExportSource(Record, frozen=True, kw_only=True, tag="export", tag_field="do"):
    """Request to a framework's process: write an ONNX model; the answer is ``exported`` or ``failed``.

    Attributes:
        exporter: One of ``SourceOpened.exporters``.
        dynamic: Names of the dynamic axes, by input and number of the axis.
        opset: The opset; 0 for the exporter's default.
        output: The file to write.
    """

    exporter: str
    dynamic: dict[str, dict[int, str]] = {}
    opset: int = 0
    output: str


class SourceSide(Record, frozen=True, kw_only=True):
    """A framework's model as a side of a comparison; it can only come from the command line, never from a file.

    Attributes:
        framework: The framework that runs it, with its version.
        kind, source, factory, folder, shapes: As in ``OpenSource``.
        style: One of the ways in which the framework runs it (``SourceOpened.styles``).
        inputs: Names of the source's inputs, by the names of the ONNX model's inputs.
        outputs: Names of the ONNX model's outputs, in order.
        trusted: Whether it is not confined, because of ``--trust-source``.
        compiles: Whether the model is compiled before its first run, in addition to a first run of the usual style.
    """

    framework: str
    kind: SourceFormat
    source: str
    factory: bool
    folder: str
    shapes: dict[str, tuple[int, ...]] = {}
    style: str = ""
    inputs: dict[str, str] = {}
    outputs: tuple[str, ...] = ()
    trusted: bool = False
    compiles: bool = False

    @property
    def called(self) -> str:
        """The framework and the style as text: "PyTorch 2.13.0 (eager)"."""
        return f"{self.framework} ({self.style})" if self.style else self.framework


class TimeSource(Record, frozen=True, kw_only=True, tag="time", tag_field="do"):
    """First request to a framework's process: run a trial of a source; commands follow, as for a worker.

    Attributes:
        side: The source, with the style in which to run it.
        threads: As in ``OpenSource``.
        trial: Feeds and timing, as for a worker.
        fence: As in ``OpenSource``.
    """

    version: int = PROTOCOL_VERSION
    side: SourceSide
    threads: int
    trial: TrialRequest
    fence: Fence | None


class RunSource(Record, frozen=True, kw_only=True, tag="run", tag_field="do"):
    """Request to a framework's process: compute the outputs for these inputs; the answer is ``ran`` or ``failed``.

    Attributes:
        inputs: Names of the source's inputs, by the names of the feeds, if they differ.
        output: Folder in which a folder with the outputs is created for each feed.
    """

    feeds: tuple[FeedRef, ...]
    inputs: dict[str, str] = {}
    output: str


class SourceReady(Record, frozen=True, kw_only=True, tag="ready", tag_field="message"):
    """First message of a framework's process: it has started and accepts requests."""

    version: int
    pid: int


class SourceInput(Record, frozen=True, kw_only=True):
    """One input of a source model; the size of a dynamic dimension is None."""

    name: str
    type: str
    shape: tuple[int | None, ...]


class SourceOpened(Record, frozen=True, kw_only=True, tag="opened", tag_field="message"):
    """A source model was opened.

    Attributes:
        kind: The kind of source, as text.
        framework: The framework that runs it, with its version.
        styles: Ways in which the framework runs it, the usual one first.
        left_out: Why a style is missing; "" if none is.
        versions: Versions of its framework and converters.
        exporters: Exporters that can convert it, the preferred one first.
        example: Whether it has its own inputs, which were written.
    """

    kind: str
    framework: str = ""
    styles: tuple[str, ...] = ("",)
    left_out: str = ""
    versions: dict[str, str]
    exporters: tuple[str, ...]
    inputs: tuple[SourceInput, ...]
    example: bool
    elapsed_s: float = 0.0


class SourceExported(Record, frozen=True, kw_only=True, tag="exported", tag_field="message"):
    """An ONNX model was written.

    Attributes:
        inputs: Names of the ONNX model's inputs, by the names of the source's inputs.
        messages: Warnings of the exporter.
    """

    inputs: dict[str, str] = {}
    messages: tuple[str, ...] = ()
    elapsed_s: float = 0.0


class SourceRan(Record, frozen=True, kw_only=True, tag="ran", tag_field="message"):
    """Outputs were written; ``outputs`` are their names, in order."""

    outputs: tuple[str, ...] = ()
    elapsed_s: float = 0.0


class SourceFailed(Record, frozen=True, kw_only=True, tag="failed", tag_field="message"):
    """Answer to a failed request; the process accepts further requests, unless ``reason`` is that it ended.

    Attributes:
        reason: "refused": the source is unsafe or not a model; "failed": an error of the framework; "unfenced": this
            system cannot confine the process; "out-of-memory", "disk-full": the machine lacks memory or disk space;
            "timeout", "crash": the process ended.
        do: The remedy; "" if unknown.
    """

    reason: Literal["refused", "failed", "unfenced", "out-of-memory", "disk-full", "timeout", "crash"]
    what: str
    do: str = ""


SourceRequest = OpenSource | ExportSource | RunSource
SourceAnswer = SourceReady | SourceOpened | SourceExported | SourceRan | SourceFailed
"""Answers of a framework's process."""

source_answers = msgspec.json.Decoder(SourceAnswer)
