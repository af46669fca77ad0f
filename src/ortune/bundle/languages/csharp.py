"""``Load.cs``: loading code in C# 8 or later for ``Microsoft.ML.OnnxRuntime``."""

from __future__ import annotations

import json

from ortune.bundle.languages._source import BY_NAME, LEVELS, MODES, OPTIONS_CLASS, Language
from ortune.bundle.settings import HUGE_PAGES

LANGUAGE = Language(
    name="C#",
    file="Load.cs",
    default="Load.default.cs",
    quote=json.dumps,  # ASCII JSON is a valid literal
    count="Threads({})",
    text="({}).ToString()",
    when="if ({})\n{{\n    {}\n}}",
    tuned="tunedModel",
    enough="tunedHere && Cpus() >= TunedCpus",
    allocator="!WithoutAllocator()",
    options={
        "intra_op_num_threads": "options.IntraOpNumThreads = {}",
        "inter_op_num_threads": "options.InterOpNumThreads = {}",
        "execution_mode": "options.ExecutionMode = {}",
        "graph_optimization_level": "options.GraphOptimizationLevel = {}",
        "enable_cpu_mem_arena": "options.EnableCpuMemArena = {}",
        "enable_mem_pattern": "options.EnableMemoryPattern = {}",
    },
    words={
        **{name: f"GraphOptimizationLevel.{name}" for name in LEVELS},
        **{name: f"ExecutionMode.{name}" for name in MODES},
    },
    stored="cache ?? {}",
    within="{} + JsonEscaped({}) + {}",
    config="options.AddSessionConfigEntry({}, {})",
    run_config="run.AddRunConfigEntry({}, {})",
    custom_ops="options.RegisterCustomOpLibrary(Path.Combine(folder, {}))",
    variable="wanted[{}] = {}",
    local_pool="options.DisablePerSessionThreads()",
    providers={
        "name": BY_NAME,
        "class": OPTIONS_CLASS,
    },
    lacks=frozenset({HUGE_PAGES}),
    binds=True,
    plugs=True,
    instead={
        "call_style": "keep one session.CreateIoBinding(), bind each call's values to it, and call "
        "session.RunWithBinding(run, binding)",
    },
)
