"""``deploy/config.pbtxt``: the model under Triton's ONNX Runtime backend, which has settings for part of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

import onnx_ir as ir

from ortune import knobs
from ortune.bundle.languages._literals import QUOTES, Quote, comment, utf8
from ortune.bundle.settings import named, needs_allocator, of
from ortune.bundle.shared import as_text
from ortune.graph.shapes.symbols import feedable
from ortune.providers import CPU, find
from ortune.providers.cuda import PROVIDER as CUDA
from ortune.records import Applied, BundleInfo

SAME = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "BOOL", "STRING")
TYPES = {
    **{ir.DataType[name]: f"TYPE_{name}" for name in SAME},
    ir.DataType.FLOAT: "TYPE_FP32",
    ir.DataType.FLOAT16: "TYPE_FP16",
    ir.DataType.BFLOAT16: "TYPE_BF16",
    ir.DataType.DOUBLE: "TYPE_FP64",
}
GRAPH_LEVEL = "optimization.graph.level"
"""What a setting calls the field of that block; all others are parameters."""

_ON_GPU = "gpu_execution_accelerator"
_quoted = Quote(utf8, "\\{:03o}", QUOTES)
"""A literal of protobuf's text format: UTF-8 bytes, those beyond ASCII in octal."""


def config(info: BundleInfo, model: ir.Model, custom_ops: tuple[str, ...]) -> str:
    """The text of ``config.pbtxt``.

    What the backend has no setting for, and inputs or outputs that it cannot take, are named in comments and left
    out.
    """
    names = [p.name for p in info.plan.providers]
    accelerators = {name: accelerator for name in names if (accelerator := find(name).bindings.triton)}
    gpu = any(kind == _ON_GPU for kind, _ in accelerators.values())
    values, lost = _values(model)
    lost += [named(s) for s in info.applied if _spelled(s) is None]
    lost += [f"provider {name}" for name in names if name != CPU.name and name not in accelerators]
    lost += [f"options of {p.name}" for p in info.plan.providers if p.options]
    if info.model.lower().endswith(".ort"):
        lost.append("a model in ORT format, which the backend may refuse: give it the .onnx file")
    lines = [
        "# For Triton's onnxruntime backend: put this file at REPOSITORY/NAME/config.pbtxt and the model, with its",
        "# external data, at REPOSITORY/NAME/1/. Triton takes NAME from the folder.",
        "# Measured without Triton, whose queues and copies come on top. Written by ortune.",
        *(["# The model is made for the CPU that it was tuned on."] if info.hardware_bound else []),
        *(f"# Triton cannot set: {comment(one)}" for one in lost),
        'backend: "onnxruntime"',
        f"default_model_filename: {_quoted(PurePosixPath(info.model).name)}",
        "max_batch_size: 0",
        *values,
        f"instance_group [ {{ count: 1 kind: {'KIND_GPU' if gpu else 'KIND_CPU'} }} ]",
        *_optimization(info, accelerators.values()),
        *_parameters(info.applied),
    ]
    if custom_ops:
        libraries = ", ".join(_quoted(PurePosixPath(name).name) for name in custom_ops)
        lines.append(f"model_operations {{ op_library_filename: [ {libraries} ] }}")
    return "\n".join(lines) + "\n"


def _values(model: ir.Model) -> tuple[list[str], list[str]]:
    """The blocks of inputs and outputs, and in words what must be left out."""
    lines: list[str] = []
    lost: list[str] = []
    for kind, values in (("input", feedable(model)), ("output", model.graph.outputs)):
        for value in values:
            name, dtype = value.name or "", TYPES.get(value.dtype or ir.DataType.UNDEFINED)
            if not isinstance(value.type, ir.TensorType) or dtype is None:
                lost.append(f"{kind} {name}: not a tensor of a type that Triton has")
            elif value.shape is None:
                # Triton completes what the configuration leaves out from the model itself.
                lost.append(f"{kind} {name}: its rank is not declared")
            else:
                lines += _value(kind, name, dtype, value.shape)
    return lines, lost


def _value(kind: str, name: str, dtype: str, shape: ir.Shape) -> list[str]:
    sizes = [dim if isinstance(dim, int) and dim >= 0 else -1 for dim in shape.dims]
    lines = [f"{kind} [", "  {", f"    name: {_quoted(name)}", f"    data_type: {dtype}"]
    if sizes:
        lines.append(f"    dims: [ {', '.join(map(str, sizes))} ]")
    else:
        # Triton has no tensors without dimensions: it takes one element and drops its dimension.
        lines += ["    dims: [ 1 ]", "    reshape: { shape: [ ] }"]
    return [*lines, "  }", "]"]


def _optimization(info: BundleInfo, accelerators: Iterable[tuple[str, str]]) -> list[str]:
    # CUDA is what an instance on a GPU has anyway.
    inner = [
        f"  execution_accelerators {{ {kind}: [ {{ name: {_quoted(name)} }} ] }}"
        for kind, name in accelerators
        if (kind, name) != CUDA.bindings.triton
    ]
    inner += [f"  graph {{ level: {text} }}" for name, text in _set(info.applied) if name == GRAPH_LEVEL]
    return ["optimization {", *inner, "}"] if inner else []


def _parameters(applied: tuple[Applied, ...]) -> list[str]:
    return [
        f"parameters {{ key: {_quoted(name)} value: {{ string_value: {_quoted(text)} }} }}"
        for name, text in _set([s for s in applied if not needs_allocator(s, applied)])
        if name != GRAPH_LEVEL
    ] + _with_allocator(applied)


def _with_allocator(applied: tuple[Applied, ...]) -> list[str]:
    """Parameters that are right only with the plan's allocator, which Triton's own process must be started with."""
    for_allocator = [s for s in applied if needs_allocator(s, applied)]
    allocators = ", ".join(as_text(s.value) for s in of(applied, "preload"))
    return [
        line
        for name, text in _set(for_allocator)
        for line in (
            f"# Only where Triton is started with {allocators} preloaded (deploy/env); without it this is slower:",
            f"# parameters {{ key: {_quoted(name)} value: {{ string_value: {_quoted(text)} }} }}",
        )
    ]


def _set(applied: Sequence[Applied]) -> list[tuple[str, str]]:
    """What must be written of the settings, by the backend's names."""
    return [(knobs.find(s.knob).triton, text) for s in applied if (text := _spelled(s))]


def _spelled(setting: Applied) -> str | None:
    """A value as the backend spells it, "" where nothing must be written, None where it cannot be set."""
    if setting.channel in ("env", "preload"):
        return ""  # of Triton's own process: deploy/env has them
    if (setting.channel, setting.value) == ("call_style", "run"):
        return ""
    knob, text = knobs.find(setting.knob), as_text(setting.value)
    if not knob.triton:
        return None
    return knob.triton_values.get(text) if knob.triton_values else text
