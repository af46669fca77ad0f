"""Reader for onnxruntime-web's console output: profiles of the WebAssembly runtime, and WebGPU kernels.

With ``enableProfiling`` the profile is printed as one console message per line, with the usual events; the console
adds the source position, a time or a level to each. With ``env.webgpu.profiling`` the JSEP builds print one line per
GPU kernel, after ``[profiling]``, in a form that depends on the version:

    kernel "7|Add" execution time: 5 ns                                               1.15
    kernel "7|[Add] /add" input[0]: [2,3] | float32, ... execution time: 5 ns         1.16
    kernel "7|[Add] /add|Add" input[0]: ..., kernel "7|/add|Add" input[0]: ...        before 1.17
    kernel "7|Add|/add|Add" input[0]: ... execution time: 5 ns                        1.17
    kernel "7|Add|/add|Add" input[0]: ... start time: 9 ns, execution time: 5 ns      1.23

With ``env.trace``, 1.30 prints the time of each run and of handling its inputs and outputs, in the form of
``console.timeEnd`` (1.22 does not):

    ORT::wasm prepareInputOutputTensor: 0.125 ms
    ORT::InferenceSession.run: 12.5 ms

The same record as JSON, as passed to ``env.webgpu.profiling.ondata``, is also read. Without a profile, the kernels are
the rows of the trace, and runs are found by the kernels' repetition, since nothing else separates them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Annotated, BinaryIO

import msgspec
from msgspec import Meta

from ortune import files
from ortune.errors import UsageError
from ortune.trace.builder import TraceBuilder
from ortune.trace.events import BROKEN, ProfilerEvent, one_event
from ortune.trace.ort_profile import is_first
from ortune.trace.table import PageRun, Trace
from ortune.trace.web_kernels import WebKernel, host_trace, kernels_trace

KERNEL_MARK = b"[profiling] kernel "
HOW = (
    "create the session with enableProfiling: true, call session.endProfiling() after the runs, save the console; "
    "with JSEP (ort.min, ort.all) set ort.env.webgpu.profiling = {mode: 'default'} first, for the kernels on the GPU"
)
"""Advice on how to record a log with node names."""
LONGEST_LINE = 1 << 16
LONGEST_EVENT = 1 << 26
MOST_DIMS = 64
FARTHEST_NS = 1 << 60
BLOCK_EVENTS = 4096

_EVENT = re.compile(rb'\{\s*"cat"\s*:')
_RECORD = re.compile(rb'\{\s*"version"\s*:\s*1\s*,')
_LINE = re.compile(
    rb'\[profiling\] kernel "(?P<kernel>.*)" '
    rb"(?P<tensors>(?:(?:in|out)put\[\d+\]: \[(?:\d{1,18}(?:,\d{1,18})*)?\] \| [\w?]+, )*)"
    rb"(?:start time: (?P<start>-?\d{1,18}) ns, )?execution time: (?P<took>\d{1,18}) ns"
)
_MARK = re.compile(
    rb"ORT::(?P<what>InferenceSession\.run|wasm \w+): (?P<took>\d{1,9}(?:\.\d{1,20})?(?:e-\d{1,2})?) ?(?P<unit>ms|s)\b"
)
_INPUTS, _OUTPUTS = (b"wasm prepareInputOutputTensor", b"wasm bindInputsOutputs"), b"wasm ProcessOutputTensor"
_TENSOR = re.compile(r"(in|out)put\[\d+\]: \[((?:\d{1,18}(?:,\d{1,18})*)?)\] \| ([\w?]+), ")
_TYPES = {"float32": "float", "float64": "double"}


class _Tensor(msgspec.Struct, gc=False):
    dims: list[Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]] = []
    dtype: str = msgspec.field(default="", name="dataType")


class _Record(msgspec.Struct, gc=False):
    """The record that is passed to the callback ``env.webgpu.profiling.ondata``."""

    kernel: int = msgspec.field(name="kernelId")
    op_type: str = msgspec.field(name="kernelType")
    start: int = msgspec.field(name="startTime")
    end: int = msgspec.field(name="endTime")
    name: str = msgspec.field(default="", name="kernelName")
    program: str = msgspec.field(default="", name="programName")
    inputs: list[_Tensor] = msgspec.field(default_factory=list, name="inputsMetadata")
    outputs: list[_Tensor] = msgspec.field(default_factory=list, name="outputsMetadata")


_record = msgspec.json.Decoder(_Record)


@dataclass(slots=True)
class _Log:
    """The parts of a console log that belong to a profile."""

    builder: TraceBuilder
    kernels: list[WebKernel]
    runs: list[PageRun]
    n_unreadable: int = 0
    n_earlier: int = 0


def read_console(path: Path) -> Trace:
    """Read a browser's console log, which may contain other messages.

    Raises:
        UsageError: If the file cannot be read, or has no profile of onnxruntime-web.
    """
    try:
        with files.open_file(path) as file:
            log = _read(pieces(file))
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error
    builder, kernels = log.builder, log.kernels
    if not builder.n_known and not kernels:
        what = "holds no profile of onnxruntime-web: neither its events nor its [profiling] lines"
        if log.runs:
            middle_ms = median(run.whole_ns for run in log.runs) / 1e6
            what = (
                f"holds onnxruntime-web's trace marks alone: {len(log.runs)} runs, p50 {middle_ms:.3g} ms, "
                "without any details inside them"
            )
        raise UsageError(what, where=str(path), do=HOW)
    builder.n_unreadable += log.n_unreadable
    missing = []
    if log.n_earlier:
        missing.append(f"earlier profiles in the same log, which are ignored: {log.n_earlier}")
    trace = host_trace(builder, kernels, missing) if builder.n_known else kernels_trace(builder, kernels)
    return replace(trace, page_runs=tuple(log.runs))


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """Return an iterator over lines; a line longer than any event is split into pieces that are not valid events."""
    return iter(lambda: file.readline(LONGEST_EVENT), b"")


def _read(lines: Iterable[bytes]) -> _Log:
    log = _Log(builder=TraceBuilder(), kernels=[], runs=[])
    events: list[ProfilerEvent] = []
    since = runs_since = inputs = outputs = 0
    for line in lines:
        if kernel := _kernel(line):
            log.kernels.append(kernel)
            continue
        if (mark := _MARK.search(line[:LONGEST_LINE])) is not None:
            took = round(float(mark["took"]) * (1e6 if mark["unit"] == b"ms" else 1e9))
            inputs += took if mark["what"] in _INPUTS else 0
            outputs += took if mark["what"] == _OUTPUTS else 0
            if not mark["what"].startswith(b"wasm"):  # includes all of them
                log.runs.append(PageRun(whole_ns=took, inputs_ns=inputs, outputs_ns=outputs))
                inputs = outputs = 0
            continue
        place = _EVENT.search(line)
        if place is None:
            log.n_unreadable += KERNEL_MARK in line
            continue
        text, last = _object(line[place.start() :])
        decoded = one_event(text)
        if decoded is None:
            log.builder.take(events)
            events = []
            log.builder.lose(text)
            continue
        if is_first(decoded.event) and (events or log.builder.n_events):
            # Another session, with its own clock. A profile is printed at the end of its session, after the kernels
            # of its runs.
            del log.kernels[:since], log.runs[:runs_since]
            log.builder, events = TraceBuilder(), []
            log.n_earlier += 1
        since, runs_since = len(log.kernels), len(log.runs)
        events.append(decoded.event)
        log.builder.n_damaged += not decoded.whole
        log.builder.n_mended += decoded.mended
        log.builder.complete = last
        if len(events) >= BLOCK_EVENTS:
            log.builder.take(events)
            events = []
    log.builder.take(events)
    return log


def _object(text: bytes) -> tuple[bytes, bool]:
    """Return (text up to the last closing brace, whether the array ends there, because no comma follows)."""
    end = text.rfind(b"}") + 1
    return text[:end], not text[end:].lstrip().startswith(b",")


def _kernel(line: bytes) -> WebKernel | None:
    """Return the kernel printed in a line, in any version's form, or as a JSON record; else None."""
    if KERNEL_MARK in line:
        if len(line) > LONGEST_LINE or (match := _LINE.search(line)) is None:
            return None
        number, op_type, name, program = _named(match["kernel"].decode("utf-8", "replace"))
        tensors = _TENSOR.findall(match["tensors"].decode("utf-8", "replace"))
        return WebKernel(
            name=name or f"{op_type} {number}",
            op_type=op_type,
            program=program or op_type,
            inputs=_shapes([(dims, dtype) for which, dims, dtype in tensors if which == "in"]),
            outputs=_shapes([(dims, dtype) for which, dims, dtype in tensors if which == "out"]),
            start_ns=int(match["start"]) if match["start"] else None,
            duration_ns=int(match["took"]),
        )
    place = _RECORD.search(line)
    if place is None or b'"kernelType"' not in line:
        return None
    try:
        record = _record.decode(_object(line[place.start() :])[0])
    except BROKEN:
        return None
    if not abs(record.start) <= FARTHEST_NS or not 0 <= record.end - record.start <= FARTHEST_NS:
        return None
    return WebKernel(
        name=record.name or f"{record.op_type} {record.kernel}",
        op_type=record.op_type,
        program=record.program or record.op_type,
        inputs=_shapes([(",".join(map(str, t.dims)), t.dtype) for t in record.inputs]),
        outputs=_shapes([(",".join(map(str, t.dims)), t.dtype) for t in record.outputs]),
        start_ns=record.start,
        duration_ns=record.end - record.start,
    )


def _named(kernel: str) -> tuple[str, str, str, str]:
    """Return (number, operator, node, program) of a kernel; "" for each part that the version does not print."""
    number, _, rest = kernel.partition("|")
    if rest.startswith("[") and "] " in rest:
        op_type, _, name = rest[1:].partition("] ")
        node, bar, program = name.rpartition("|")
        return (number, op_type, node, program) if bar else (number, op_type, name, "")
    parts = rest.split("|")
    if len(parts) == 1:
        return number, rest, "", ""
    if len(parts) == 2:
        return number, parts[1], parts[0], parts[1]
    return number, parts[0], "|".join(parts[1:-1]), parts[-1]


def _shapes(tensors: list[tuple[str, str]]) -> str:
    """Return types and shapes as JSON in the form of ONNX Runtime's profile; "" if there are none."""
    described = [
        {_TYPES.get(dtype, dtype): [int(size) for size in dims.split(",")[:MOST_DIMS] if size]}
        for dims, dtype in tensors
    ]
    return json.dumps(described, separators=(",", ":")) if described else ""
