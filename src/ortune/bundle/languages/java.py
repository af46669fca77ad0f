"""``Load.java``: loading code in Java 11 or later for ``com.microsoft.onnxruntime:onnxruntime``."""

from __future__ import annotations

from ortune.bundle.languages._literals import QUOTES, Quote, utf16
from ortune.bundle.languages._source import OPTIONS_CLASS, EmittedProvider, Language, spelled
from ortune.bundle.settings import HUGE_PAGES
from ortune.catalogue.providers import all_providers, find

# Control characters in octal, since Java reads Unicode escapes before quotes.
CONTROLS = {chr(code): f"\\{code:03o}" for code in (*range(32), 127)}


def flags(provider: EmittedProvider) -> list[str]:
    """Return the enabled flags of a provider's options in Java: "NNAPIFlags.USE_FP16"."""
    _, kind, start = find(provider.name).bindings.java_flags or ("", "", "")
    return [f"{kind}.{key.removeprefix(start)}" for key, value in provider.options.items() if value == "1"]


KEPT = (
    "the {{}} binding has no I/O binding; if shapes are fixed, keep a tensor for each output and call "
    "session.run(inputs, {}, outputs, run)"
)

LANGUAGE = Language(
    name="Java",
    file="Load.java",
    default="Load.default.java",
    quote=Quote(utf16, "\\u{:04x}", {**CONTROLS, **QUOTES, "\n": "\\n", "\r": "\\r", "\t": "\\t"}),
    text="String.valueOf({})",
    when="if ({}) {{\n  {}\n}}",
    tuned="tunedModel",
    enough="tunedHere && cpus() >= TUNED_CPUS",
    allocator="!withoutAllocator()",
    options={
        "intra_op_num_threads": "options.setIntraOpNumThreads({})",
        "inter_op_num_threads": "options.setInterOpNumThreads({})",
        "execution_mode": "options.setExecutionMode({})",
        "graph_optimization_level": "options.setOptimizationLevel({})",
        "enable_cpu_mem_arena": "options.setCPUArenaAllocator({})",
        "enable_mem_pattern": "options.setMemoryPatternOptimization({})",
    },
    words={
        "ORT_DISABLE_ALL": "OrtSession.SessionOptions.OptLevel.NO_OPT",
        "ORT_ENABLE_BASIC": "OrtSession.SessionOptions.OptLevel.BASIC_OPT",
        "ORT_ENABLE_EXTENDED": "OrtSession.SessionOptions.OptLevel.EXTENDED_OPT",
        "ORT_ENABLE_LAYOUT": "OrtSession.SessionOptions.OptLevel.LAYOUT_OPT",
        "ORT_ENABLE_ALL": "OrtSession.SessionOptions.OptLevel.ALL_OPT",
        "ORT_SEQUENTIAL": "OrtSession.SessionOptions.ExecutionMode.SEQUENTIAL",
        "ORT_PARALLEL": "OrtSession.SessionOptions.ExecutionMode.PARALLEL",
    },
    stored="cache == null ? {} : cache",
    within="{} + jsonEscaped({}) + {}",
    config="options.addConfigEntry({}, {})",
    run_config="run.addRunConfigEntry({}, {})",
    custom_ops="options.registerCustomOpLibrary(folder.resolve({}).toString())",
    variable="wanted.put({}, {})",
    local_pool="options.disablePerSessionThreads()",
    providers={
        "map": spelled(lambda b: b.java_map),
        "class": OPTIONS_CLASS,
        "device": spelled(lambda b: b.java_device[0] if b.java_device else ""),
        "flags": spelled(lambda b: b.java_flags[0] if b.java_flags else ""),
    },
    takes={p.name: p.bindings.java_device[1:] for p in all_providers() if p.bindings.java_device},
    more={"flags": flags},
    binds=True,
    plugs=True,
    instead={"call_style": KEPT.format("Set.of()")},
    lacks=frozenset({"env_allocator", HUGE_PAGES}),
)
