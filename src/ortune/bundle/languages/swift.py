"""``load.swift``: loading code for ``onnxruntime-swift-package-manager`` (module ``OnnxRuntimeBindings``)."""

from __future__ import annotations

from ortune.bundle.languages._literals import QUOTES, Quote, characters
from ortune.bundle.languages._source import BY_NAME, Language
from ortune.bundle.settings import HUGE_PAGES

LANGUAGE = Language(
    name="Swift",
    file="load.swift",
    default="load.default.swift",
    quote=Quote(characters, "\\u{{{:x}}}", QUOTES),  # all backslashes are escaped, so nothing is interpolated
    text="String({})",
    when="if {} {{\n    {}\n}}",
    tuned="tunedModel",
    enough="tunedHere && cpus() >= tunedCpus",
    options={
        "intra_op_num_threads": "try options.setIntraOpNumThreads({})",
        "graph_optimization_level": "try options.setGraphOptimizationLevel({})",
    },
    words={
        "ORT_DISABLE_ALL": "ORTGraphOptimizationLevel.none",
        "ORT_ENABLE_BASIC": "ORTGraphOptimizationLevel.basic",
        "ORT_ENABLE_EXTENDED": "ORTGraphOptimizationLevel.extended",
        "ORT_ENABLE_LAYOUT": "ORTGraphOptimizationLevel.layout",
        "ORT_ENABLE_ALL": "ORTGraphOptimizationLevel.all",
    },
    stored="cache ?? {}",
    within="{} + jsonEscaped({}) + {}",
    config="try options.addConfigEntry(withKey: {}, value: {})",
    run_config="try run.addConfigEntry(withKey: {}, value: {})",
    variable="wanted.append(({}, {}))",
    end="",
    providers={"name": BY_NAME},
    # The package is for Apple's systems only, where allocators cannot be preloaded.
    lacks=frozenset({"env_allocator", "global_pool", "preload", "custom_ops", HUGE_PAGES}),
    instead={
        "call_style": "the {} binding has no I/O binding; if shapes are fixed, keep an ORTValue for each output and "
        "call session.run(withInputs: inputs, outputs: outputs, runOptions: run)",
        "custom_ops": "link the library and register it with sessionOptions: "
        'try options.registerCustomOps(usingFunction: "RegisterCustomOps")',
    },
)
