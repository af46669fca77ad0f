"""``load.rs``: loading code for one release of the crate ``ort``, in which all names that the code uses exist."""

from __future__ import annotations

from ortune.bundle.languages._literals import QUOTES, Quote, characters
from ortune.bundle.languages._source import Language, spelled
from ortune.bundle.settings import HUGE_PAGES

CRATE = "2.0.0-rc.13"

LANGUAGE = Language(
    name="Rust",
    file="load.rs",
    default="load.default.rs",
    quote=Quote(characters, "\\u{{{:x}}}", QUOTES),
    text="({}).to_string()",
    when="if {} {{\n    {}\n}}",
    tuned="tuned_model",
    enough="tuned_here && cpus() >= TUNED_CPUS",
    allocator="!without_allocator()",
    options={
        "intra_op_num_threads": "options = options.with_intra_threads({})?",
        "inter_op_num_threads": "options = options.with_inter_threads({})?",
        "execution_mode": "options = options.with_parallel_execution({})?",
        "graph_optimization_level": "options = options.with_optimization_level({})?",
        "enable_mem_pattern": "options = options.with_memory_pattern({})?",
        # Setting the CPU provider turns the arena off, its default in the crate; without it the arena is on.
        "enable_cpu_mem_arena": (
            "let cpu = ort::ep::CPU::default();\n"
            "let built = cpu.build();\n"
            "let built = built.error_on_failure();\n"
            "options = options.with_execution_providers([built])?",
            "",
        ),
    },
    words={
        "ORT_DISABLE_ALL": "GraphOptimizationLevel::Disable",
        "ORT_ENABLE_BASIC": "GraphOptimizationLevel::Level1",
        "ORT_ENABLE_EXTENDED": "GraphOptimizationLevel::Level2",
        "ORT_ENABLE_LAYOUT": "GraphOptimizationLevel::Level3",
        "ORT_ENABLE_ALL": "GraphOptimizationLevel::All",
        "ORT_SEQUENTIAL": "false",
        "ORT_PARALLEL": "true",
    },
    stored="cache.unwrap_or({})",
    within="[{}, &json_escaped({}), {}].concat()",
    config="options = options.with_config_entry({}, {})?",
    run_config="run.set({}, {})?",
    custom_ops="options = options.with_operator_library(folder.join({}))?",
    variable="wanted.push(({}.to_string(), {}.to_string()))",
    providers={
        # Providers for which the crate supports any option.
        "ep": spelled(lambda b: b.rust),
    },
    lacks=frozenset({"env_allocator", HUGE_PAGES}),
    instead={
        "call_style": "keep one session.create_binding(), bind each call's values to it, and call "
        "session.run_binding_with_options(binding, run)",
    },
    more={"crate": CRATE},
)
