"""Messages between ortune and a framework's process: one JSON object a line."""

from __future__ import annotations

from typing import Literal

import msgspec

from ortune.records.base import PROTOCOL_VERSION, Record
from ortune.records.fence import Fence
from ortune.records.protocol import FeedRef, TrialRequest

SourceFormat = Literal["torch", "tensorflow", "tflite", "fitted"]


class OpenSource(Record, frozen=True, kw_only=True, tag="open", tag_field="do"):
    """To a framework's process, first of all: open a source model; it answers ``opened`` or ``failed``.

    Attributes:
        kind: What opens it.
        source: A file, a folder, or ``module:function``.
        factory: It is the latter.
        folder: The user's, where modules are looked for and relative paths begin.
        shapes: Of inputs, where the source has none of its own.
        threads: Of the framework; 0 is its own choice.
        example: Where to write the source's own inputs, a ``.npz``.
        fence: What confines the process; None if the user trusts the source.
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
    """To a framework's process: write an ONNX model; it answers ``exported`` or ``failed``.

    Attributes:
        exporter: One of those that it told.
        dynamic: Names of the axes that are to be open, by input and number.
        opset: 0 is the exporter's own choice.
        output: The file to write.
    """

    exporter: str
    dynamic: dict[str, dict[int, str]] = {}
    opset: int = 0
    output: str


class SourceSide(Record, frozen=True, kw_only=True):
    """A source as a side of a comparison; it comes from the command line alone, never out of a file.

    Attributes:
        framework: What runs it, with its version.
        kind, source, factory, folder, shapes: As ``OpenSource`` has them.
        style: One of the ways in which the framework runs it.
        inputs: Names of the source's inputs, by those of the ONNX model.
        outputs: Names of the ONNX model's outputs, in order.
        trusted: It is not confined, as ``--trust-source`` asks.
        compiles: The model is compiled before its first run, which a first run of the usual way does not show.
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
        """What runs it, in words: "PyTorch 2.13.0 (eager)"."""
        return f"{self.framework} ({self.style})" if self.style else self.framework


class TimeSource(Record, frozen=True, kw_only=True, tag="time", tag_field="do"):
    """To a framework's process, first of all: be a trial of a source; commands follow, as to a worker.

    Attributes:
        side: What opens it, and how it is called.
        threads: As ``OpenSource`` has them.
        trial: Feeds and timing, as a worker gets them.
        fence: As ``OpenSource`` has it.
    """

    version: int = PROTOCOL_VERSION
    side: SourceSide
    threads: int
    trial: TrialRequest
    fence: Fence | None


class RunSource(Record, frozen=True, kw_only=True, tag="run", tag_field="do"):
    """To a framework's process: compute the outputs for these inputs; it answers ``ran`` or ``failed``.

    Attributes:
        inputs: Names of the source's inputs, by those of the feeds, where they differ.
        output: Folder that gets one with the outputs for each feed.
    """

    feeds: tuple[FeedRef, ...]
    inputs: dict[str, str] = {}
    output: str


class SourceReady(Record, frozen=True, kw_only=True, tag="ready", tag_field="message"):
    """The process runs."""

    version: int
    pid: int


class SourceInput(Record, frozen=True, kw_only=True):
    """One input of a source model; a size is None if it is open."""

    name: str
    type: str
    shape: tuple[int | None, ...]


class SourceOpened(Record, frozen=True, kw_only=True, tag="opened", tag_field="message"):
    """A source model was opened.

    Attributes:
        kind: What it is, in words.
        framework: What runs it, with its version.
        styles: The ways in which it runs it, the usual one first.
        left_out: Why another way is missing, "" if none is.
        versions: Of its framework and converters.
        exporters: What converts it, the preferred one first.
        example: It has inputs of its own, which were written.
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
        inputs: Its inputs by the source's.
        messages: What the exporter warned of.
    """

    inputs: dict[str, str] = {}
    messages: tuple[str, ...] = ()
    elapsed_s: float = 0.0


class SourceRan(Record, frozen=True, kw_only=True, tag="ran", tag_field="message"):
    """Outputs were written; their names, in order."""

    outputs: tuple[str, ...] = ()
    elapsed_s: float = 0.0


class SourceFailed(Record, frozen=True, kw_only=True, tag="failed", tag_field="message"):
    """A request could not be carried out; the process goes on.

    Attributes:
        reason: "refused": it is unsafe or no model; "failed": the framework's own error; "unfenced": this system
            cannot confine the process; "out-of-memory", "disk-full": of the machine; "timeout", "crash": the process
            ended.
        do: What helps, "" if nothing is known.
    """

    reason: Literal["refused", "failed", "unfenced", "out-of-memory", "disk-full", "timeout", "crash"]
    what: str
    do: str = ""


SourceRequest = OpenSource | ExportSource | RunSource
SourceAnswer = SourceReady | SourceOpened | SourceExported | SourceRan | SourceFailed
"""What a framework's process says."""

source_answers = msgspec.json.Decoder(SourceAnswer)
