"""``load.mjs``: for onnxruntime-node 1.20 and later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from ortune.bundle.languages import fill
from ortune.bundle.languages._source import Language, comments
from ortune.bundle.languages.python import tuned_on
from ortune.bundle.machine import PACKAGES
from ortune.bundle.settings import as_text, is_bound, needs_allocator, threads
from ortune.records import BundleInfo, Value

OPTIONS = {
    "intra_op_num_threads": "intraOpNumThreads",
    "inter_op_num_threads": "interOpNumThreads",
    "execution_mode": "executionMode",
    "graph_optimization_level": "graphOptimizationLevel",
    "enable_cpu_mem_arena": "enableCpuMemArena",
    "enable_mem_pattern": "enableMemPattern",
}
"""Attributes of SessionOptions and what Node calls them; it has no name for the others."""

WORDS = {
    "ORT_DISABLE_ALL": "disabled",
    "ORT_ENABLE_BASIC": "basic",
    "ORT_ENABLE_EXTENDED": "extended",
    "ORT_ENABLE_LAYOUT": "layout",
    "ORT_ENABLE_ALL": "all",
    "ORT_SEQUENTIAL": "sequential",
    "ORT_PARALLEL": "parallel",
}
PROVIDERS = {
    "CPUExecutionProvider": "cpu",
    "CUDAExecutionProvider": "cuda",
    "TensorrtExecutionProvider": "tensorrt",
    "WebGpuExecutionProvider": "webgpu",
    "DmlExecutionProvider": "dml",
    "CoreMLExecutionProvider": "coreml",
    "QNNExecutionProvider": "qnn",
}


class Node(Language):
    """What of a plan Node has no way to set; the code itself is written from the tables above."""

    NAME = "Node"
    OPTIONS: ClassVar[Mapping[str, str]] = OPTIONS
    WORDS: ClassVar[Mapping[str, str]] = WORDS
    LINKED_OPS = "the Node binding loads no library of operators; load.py does"
    ENOUGH = ""  # CPUs by number are never set

    def provider(self, name: str, options: Mapping[str, str]) -> list[str] | None:
        """None for a provider that Node has no name for."""
        return [] if name in PROVIDERS else None

    def options_lost(self, name: str, options: Mapping[str, str]) -> list[str]:
        """A provider is given by its name alone."""
        return list(options) if name in PROVIDERS else []


def emit(info: BundleInfo, custom_ops: tuple[str, ...]) -> dict[str, str]:
    """The file ``load.mjs``."""
    environment = [s for s in info.applied if s.channel == "env"]
    preloads = [str(s.value) for s in info.applied if s.channel == "preload"]
    needs = any(needs_allocator(s, info.applied) for s in info.applied)
    notes = Node(info, custom_ops).notes()
    places = {
        "MODEL": _literal(info.model),
        "PLAIN_MODEL": _literal(info.plain_model if info.hardware_bound else ""),
        "ORT_VERSION": _literal(info.ort_version),
        "PACKAGES": _literal({name: PACKAGES.get(name, name) for name in preloads}),
        "TUNED_ON": _literal(tuned_on(info.host)),
        "PROVIDERS": _literal([PROVIDERS[name] for name in info.plan.provider_names if name in PROVIDERS]),
        "PRELOAD": _literal(preloads),
        # Within a template literal, so of plain words alone.
        "LEFT_OUT": ", so the arena stays on" if needs else "",
        "ENVIRONMENT": ", ".join(f"{_literal(s.key)}: String({_expression(s.value)})" for s in environment),
        "OPTIONS": "".join(_options(info)),
        "CANNOT": _literal([f"{note.setting}: {note.do}" for note in notes]),
        "CANNOT_COMMENTS": "".join(f"{line}\n" for line in comments(notes)),
    }
    return {"load.mjs": fill("load.mjs.tmpl", places)}


def _options(info: BundleInfo) -> list[str]:
    """Entries of the options object, a line each, and the config entries under ``extra``."""
    lines = []
    extra: dict[str, dict[str, str]] = {}
    for setting in info.applied:
        if setting.channel == "session_option" and setting.key in OPTIONS:
            value = WORDS.get(str(setting.value))
            text = _expression(setting.value) if value is None else _literal(value)
            entry = f"{OPTIONS[setting.key]}: {text}"
            if setting.knob in info.model_settings:
                # It belongs to the model that is optimised already; the plain one needs the default.
                entry = f"...(tunedModel ? {{ {entry} }} : {{}})"
            elif needs_allocator(setting, info.applied):
                entry = f"...(withoutAllocator() ? {{}} : {{ {entry} }})"
            lines.append(f"    {entry},\n")
        elif setting.channel == "session_config" and not is_bound(setting):
            group, _, key = setting.key.partition(".")
            count = threads(setting.value)
            text = (
                _literal(as_text(setting.value)) if count is None else f"String({_expression(setting.value)})"
            )
            extra.setdefault(group, {})[key] = text
    if extra:
        groups = (
            f"{_literal(group)}: {{ {', '.join(f'{_literal(k)}: {v}' for k, v in entries.items())} }}"
            for group, entries in extra.items()
        )
        lines.append(f"    extra: {{ {', '.join(groups)} }},\n")
    return lines


def _expression(value: Value) -> str:
    count = threads(value)
    return _literal(value) if count is None else f"threads({count})"


def _literal(value: Any) -> str:
    """A value as JavaScript: JSON is a subset of it, and with ASCII alone line separators are escaped too."""
    return json.dumps(value, ensure_ascii=True)
