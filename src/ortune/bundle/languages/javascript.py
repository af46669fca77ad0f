"""``load.mjs``: for onnxruntime-node 1.20 and later."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ortune.bundle.languages._source import Language, spelled
from ortune.bundle.settings import HUGE_PAGES

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
    """Config entries by the first word of their keys, as onnxruntime-node takes them."""
    groups: dict[str, list[str]] = {}
    for key, value in entries:
        group, _, rest = key.partition(".")
        groups.setdefault(group, []).append(f"{json.dumps(rest)}: {value}")
    return groups


# Settings are entries of an object; config entries lie in one of their own, which the template writes.
LANGUAGE = Language(
    name="Node",
    file="load.mjs",
    default="load.default.mjs",
    quote=json.dumps,  # a subset of JavaScript, and with ASCII alone line separators are escaped too
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
