"""``load.mjs``: loading code for onnxruntime-node 1.20 and later."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ortune.bundle.languages._source import Language, spelled
from ortune.bundle.settings import HUGE_PAGES, measured, of_channel, resolve
from ortune.bundle.shared import as_text
from ortune.records import Plan

PROVIDERS = spelled(lambda b: b.node)
WORDS = {
    "ORT_DISABLE_ALL": "disabled",
    "ORT_ENABLE_BASIC": "basic",
    "ORT_ENABLE_EXTENDED": "extended",
    "ORT_ENABLE_LAYOUT": "layout",
    "ORT_ENABLE_ALL": "all",
    "ORT_SEQUENTIAL": "sequential",
    "ORT_PARALLEL": "parallel",
}


def grouped(entries: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Group config entries by the first part of their keys, as onnxruntime-node expects them."""
    groups: dict[str, list[str]] = {}
    for key, value in entries:
        group, _, rest = key.partition(".")
        groups.setdefault(group, []).append(f"{json.dumps(rest)}: {value}")
    return groups


# Settings are entries of an object; config entries are in a nested one that the template writes.
LANGUAGE = Language(
    name="Node",
    file="load.mjs",
    default="load.default.mjs",
    quote=json.dumps,  # ASCII JSON is valid JavaScript, with line separators escaped
    text="String({})",
    when="...({} ? {{ {} }} : {{}})",
    tuned="tunedModel",
    allocator="!withoutAllocator()",
    options={
        "intra_op_num_threads": "intraOpNumThreads: {}",
        "inter_op_num_threads": "interOpNumThreads: {}",
        "execution_mode": "executionMode: {}",
        "graph_optimization_level": "graphOptimizationLevel: {}",
        "enable_cpu_mem_arena": "enableCpuMemArena: {}",
        "enable_mem_pattern": "enableMemPattern: {}",
    },
    words={name: json.dumps(word) for name, word in WORDS.items()},
    variable="{}: {}",
    end="",
    providers={"name": PROVIDERS},
    takes=dict.fromkeys(PROVIDERS, ()),
    lacks=frozenset({"affinities", "run_config", "env_allocator", "global_pool", "custom_ops", HUGE_PAGES}),
    more={"grouped": grouped},
    instead={
        "call_style": "the {} binding has no I/O binding, and copies each output again into a tensor of its own; call "
        "session.run(feeds)",
        "custom_ops": "the Node binding cannot load operator libraries; load.py can",
    },
)


def node_lines(plan: Plan, model: str = "model.onnx") -> str:
    """Return the plan as the lines of code to use where the model is loaded today.

    Args:
        plan: The plan. Its thread counts may be numbers or ``min(n, cpus)``; they become the numbers for this machine.
        model: Path of the model as the user writes it.
    """
    applied = measured(resolve(plan))
    start = [f"{s.key}={as_text(s.value)}" for s in of_channel(applied, "env")]
    options = [line for s in applied if (line := LANGUAGE.statement(s))]
    entries = grouped((s.key, json.dumps(as_text(s.value))) for s in of_channel(applied, "session_config"))
    if entries:
        groups = ", ".join(f"{json.dumps(name)}: {{ {', '.join(own)} }}" for name, own in entries.items())
        options.append(f"extra: {{ {groups} }}")
    given = f", {{ {', '.join(options)} }}" if options else ""
    lines = [f"// start the process with: {' '.join(start)}"] if start else []
    lines += [f"// preload {as_text(s.value)}" for s in of_channel(applied, "preload")]
    return "\n".join(
        [
            *lines,
            'import ort from "onnxruntime-node";',
            "",
            f"const session = await ort.InferenceSession.create({json.dumps(model)}{given});",
        ]
    )
