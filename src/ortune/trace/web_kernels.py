"""Kernels printed by onnxruntime-web, as a separate trace or matched with the nodes of a host profile."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ortune.catalogue.providers import WEBGPU
from ortune.trace.bodies import NodeKey
from ortune.trace.builder import TraceBuilder
from ortune.trace.columns import Numbered, column, labels
from ortune.trace.table import (
    ABSENT,
    NO_PARENT,
    NO_RUN,
    Kernels,
    Labels,
    Nodes,
    Numbers,
    Trace,
    numbers_of,
)

FORMAT = "web-console"
LONGEST_FIRST = 3
"""Maximum ratio of the first run's number of kernels to that of a later run; the first run also prepares weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebKernel:
    """Execution of a WebGPU kernel, from a line that onnxruntime-web prints.

    Attributes:
        name: Name of the node.
        op_type: Operator of the node.
        program: Name of the shader; a node can run several.
        inputs, outputs: Types and shapes as JSON text; "" if not printed.
        start_ns: Start since the first kernel of the page; None if the version does not print it.
    """

    name: str
    op_type: str
    program: str
    inputs: str
    outputs: str
    start_ns: int | None
    duration_ns: int


def kernels_trace(builder: TraceBuilder, kernels: Sequence[WebKernel]) -> Trace:
    """Return a trace with the kernels as rows, for logs without host events."""
    node: Numbered[NodeKey] = Numbered()
    op_type: Numbered[str] = Numbered()
    provider: Numbered[str] = Numbered()
    node.add([_key(k) for k in kernels])
    op_type.add([k.op_type for k in kernels])
    provider.add([WEBGPU.name] * len(kernels))
    # Reversed, so the first kernel of each key is kept.
    first = {_key(k): k for k in reversed(kernels)}
    start, duration, has_starts = _times(kernels)
    borders = runs_by_repetition([(k.name, k.program) for k in kernels])
    run = np.full(len(kernels), NO_RUN, dtype=np.int64)
    spans = list(pairwise(borders))
    for number, (begin, end) in enumerate(spans):
        run[begin:end] = number
    run_start = column([int(start[begin:end].min()) for begin, end in spans])
    run_end = column([int((start + duration)[begin:end].max()) for begin, end in spans])
    absent = np.full(len(kernels), ABSENT, dtype=np.int64)
    missing = ["no host events: times are those of the kernels on the GPU"]
    if not has_starts:
        missing.append("no start times of kernels: this version prints only durations, drawn end to end here")
    if not spans:
        missing.append("no runs: the kernels do not repeat")
    return Trace(
        format=FORMAT,
        device_only=True,
        resolution_ns=1,
        name=Labels(codes=node.done(), texts=tuple(name for name, _, _, _ in node.numbers)),
        op_type=labels(op_type),
        provider=labels(provider),
        start_ns=start,
        duration_ns=duration,
        self_ns=duration.copy(),
        parent=np.full(len(kernels), NO_PARENT, dtype=np.int64),
        run=run,
        thread=np.zeros(len(kernels), dtype=np.int64),
        wait_ns=absent,
        imbalance_ns=absent.copy(),
        helpers=absent.copy(),
        output_bytes=absent.copy(),
        parameter_bytes=absent.copy(),
        activation_bytes=absent.copy(),
        in_use_bytes=absent.copy(),
        held_bytes=absent.copy(),
        nodes=Nodes(
            op_type=tuple(op_type for _, op_type, _, _ in node.numbers),
            provider=(WEBGPU.name,) * len(node.numbers),
            index=(ABSENT,) * len(node.numbers),
            inputs=tuple(first[key].inputs for key in node.numbers),
            outputs=tuple(first[key].outputs for key in node.numbers),
        ),
        kernels=_columns(kernels, start, np.arange(len(kernels), dtype=np.int64)),
        run_start_ns=run_start,
        run_ns=run_end - run_start,
        executor_ns=np.full(len(spans), ABSENT, dtype=np.int64),
        session_ns={},
        n_events=len(kernels),
        n_unreadable=builder.n_unreadable,
        lost=np.zeros(len(spans), dtype=np.bool_),
        complete=True,
        missing=tuple(missing),
    )


def host_trace(builder: TraceBuilder, kernels: Sequence[WebKernel], missing: Sequence[str]) -> Trace:
    """Return a host profile in which the kernels are matched with its nodes.

    Times of the GPU's separate clock are shifted so that the first kernel starts with its node.
    """
    if not kernels:
        return builder.trace(FORMAT, missing)
    trace = builder.trace(FORMAT)
    start, _, _ = _times(kernels)
    rows = _rows(trace, kernels)
    matched = np.flatnonzero(rows != NO_PARENT)
    shift = int(trace.start_ns[rows[matched[0]]] - start[matched[0]]) if len(matched) else 0
    lost = len(kernels) - len(matched)
    notes = [f"no node for {lost} of {len(kernels)} kernels on the GPU"] if lost else []
    return replace(
        trace,
        n_events=trace.n_events + len(kernels),
        kernels=_columns(kernels, start + shift, rows),
        missing=(*trace.missing, *notes, *missing),
    )


def runs_by_repetition(keys: Sequence[Hashable]) -> list[int]:
    """Return the boundaries of runs as indices, from the shortest sequence of keys that repeats to the end.

    The first run may be longer or different. The result is empty if no sequence repeats.
    """
    items = list(reversed(keys))
    # For each prefix, the length of its longest proper prefix that is also its suffix (Knuth, Morris, Pratt).
    again = [0] * len(items)
    for i in range(1, len(items)):
        k = again[i - 1]
        while k and items[i] != items[k]:
            k = again[k - 1]
        again[i] = k + (items[i] == items[k])
    for length in range(len(items), 1, -1):
        # Period of the sequence, if it occurs at least twice.
        period = length - again[length - 1]
        if 2 * period > length:
            continue
        rest = len(items) - length // period * period
        if rest > LONGEST_FIRST * period:
            return []
        return [*([0] if rest else []), *range(rest, len(items) + 1, period)]
    return []


def _rows(trace: Trace, kernels: Sequence[WebKernel]) -> Numbers:
    """Return the row of each kernel's node; executions of a node get equal numbers of the node's kernels, in order.

    If the kernels cannot be divided equally, they are assigned from the end, since only the first run has extra work.
    """
    rows = np.full(len(kernels), NO_PARENT, dtype=np.int64)
    mine: dict[str, list[int]] = {}
    for i, kernel in enumerate(kernels):
        mine.setdefault(kernel.name, []).append(i)
    numbers = numbers_of(trace.name)
    for name, places in mine.items():
        if name not in numbers:
            continue
        there = np.flatnonzero(np.isin(trace.name.codes, numbers[name]))
        # Equal numbers of kernels per execution, in order; the remainder belongs to the first run.
        per_node = max(1, len(places) // len(there))
        back = np.arange(len(places) - 1, -1, -1) // per_node
        rows[places] = there[np.maximum(len(there) - 1 - back, 0)]
    return rows


def _key(kernel: WebKernel) -> NodeKey:
    return kernel.name, kernel.op_type, WEBGPU.name, ABSENT


def _times(kernels: Sequence[WebKernel]) -> tuple[Numbers, Numbers, bool]:
    """Return (starts, durations, whether starts were printed); if they were not, kernels are placed end to end."""
    duration = column([k.duration_ns for k in kernels])
    starts = [k.start_ns for k in kernels if k.start_ns is not None]
    if len(starts) == len(kernels):
        return column(starts), duration, True
    return np.cumsum(duration) - duration, duration, False


def _columns(kernels: Sequence[WebKernel], start: Numbers, rows: Numbers) -> Kernels:
    programs: Numbered[str] = Numbered()
    programs.add([k.program for k in kernels])
    return Kernels(
        name=labels(programs),
        row=rows,
        start_ns=start,
        duration_ns=column([k.duration_ns for k in kernels]),
        bytes=column([ABSENT] * len(kernels)),
    )
