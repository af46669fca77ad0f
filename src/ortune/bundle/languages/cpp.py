"""``load.cpp``: loading code in C++17 for ``onnxruntime_cxx_api.h``."""

from __future__ import annotations

import re

from ortune.bundle.languages._literals import QUOTES, Quote, file_bytes
from ortune.bundle.languages._source import BY_NAME, LEVELS, MODES, OPTIONS_CLASS, Language


def cpu_sets(text: str | None) -> list[list[int]]:
    """Parse ONNX Runtime's thread affinities, such as "1,2;3-4", into the CPUs of each thread; [] if invalid.

    The text counts CPUs from 1, the result from 0.
    """
    if not re.fullmatch(r"\d+(-\d+)?([,;]\d+(-\d+)?)*", text or "", flags=re.ASCII):
        return []
    return [[cpu for part in one.split(",") for cpu in _span(part)] for one in (text or "").split(";")]


def _span(part: str) -> range:
    first, _, last = part.partition("-")
    # ONNX Runtime counts CPUs from 1; the limit is above any machine's CPUs, for any file.
    return range(int(first) - 1, min(int(last or first), int(first) + 4095))


LANGUAGE = Language(
    name="C++",
    file="load.cpp",
    default="load.default.cpp",
    # Bytes in octal with three digits, which end before any following digit; no trigraphs.
    quote=Quote(file_bytes, "\\{:03o}", {**QUOTES, "?": "\\?"}),
    text="std::to_string({}).c_str()",
    when="if ({}) {{\n  {}\n}}",
    tuned="tuned_model",
    enough="tuned_here && cpus() >= TUNED_CPUS",
    allocator="!without_allocator()",
    options={
        "intra_op_num_threads": "options.SetIntraOpNumThreads({})",
        "inter_op_num_threads": "options.SetInterOpNumThreads({})",
        "execution_mode": "options.SetExecutionMode({})",
        "graph_optimization_level": "options.SetGraphOptimizationLevel({})",
        "enable_cpu_mem_arena": ("options.DisableCpuMemArena()", "options.EnableCpuMemArena()"),
        "enable_mem_pattern": ("options.DisableMemPattern()", "options.EnableMemPattern()"),
    },
    words={name: name for name in (*LEVELS, *MODES)},
    stored="(cache.empty() ? std::string({}) : cache)",
    within="{} + json_escaped({}) + {}",
    config="options.AddConfigEntry({}, {})",
    run_config="run.AddConfigEntry({}, {})",
    custom_ops="options.RegisterCustomOpsLibrary((folder / std::filesystem::u8path({})).c_str())",
    variable="wanted.emplace_back({}, {})",
    local_pool="options.DisablePerSessionThreads()",
    providers={
        "name": BY_NAME,
        "class": OPTIONS_CLASS,
    },
    binds=True,
    plugs=True,
    instead={
        "call_style": "keep one Ort::IoBinding binding(session), bind each call's values to it, and call "
        "session.Run(run, binding)",
    },
    more={"cpu_sets": cpu_sets},
)
