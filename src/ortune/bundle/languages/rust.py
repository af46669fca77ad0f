"""``load.rs``: for the release of the crate ``ort`` that the table of names was made from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ortune.bundle.languages._source import Language, as_json, escaped, table
from ortune.records import BundleInfo

PROVIDERS = {
    "AzureExecutionProvider": "Azure",
    "CUDAExecutionProvider": "CUDA",
    "CoreMLExecutionProvider": "CoreML",
    "DnnlExecutionProvider": "OneDNN",
    "NvTensorRTRTXExecutionProvider": "NVRTX",
    "OpenVINOExecutionProvider": "OpenVINO",
    "QNNExecutionProvider": "QNN",
    "ROCMExecutionProvider": "ROCm",
    "TensorrtExecutionProvider": "TensorRT",
    "VitisAIExecutionProvider": "Vitis",
    "WebGpuExecutionProvider": "WebGPU",
    "XnnpackExecutionProvider": "XNNPACK",
}
"""Providers to which the crate passes any option."""


class Rust(Language):
    """The words of Rust."""

    NAME = "Rust"
    FILE = "load.rs"
    COUNT = "threads({})"
    TEXT = "({}).to_string()"
    IF = "if {} {{\n    {}\n}}"
    TUNED = "tuned_model"
    ENOUGH = "tuned_here && cpus() >= TUNED_CPUS"
    OPTIONS: ClassVar[Mapping[str, str]] = {
        "intra_op_num_threads": "options = options.with_intra_threads({})?;",
        "inter_op_num_threads": "options = options.with_inter_threads({})?;",
        "execution_mode": "options = options.with_parallel_execution({})?;",
        "graph_optimization_level": "options = options.with_optimization_level({})?;",
        "enable_mem_pattern": "options = options.with_memory_pattern({})?;",
    }
    SWITCHES: ClassVar[Mapping[str, tuple[str, str]]] = {
        # The crate's CPU provider stands for the arena's switch, off by default there; without it the arena is on.
        "enable_cpu_mem_arena": (
            "let cpu = ort::ep::CPU::default();\n"
            "let built = cpu.build();\n"
            "let built = built.error_on_failure();\n"
            "options = options.with_execution_providers([built])?;",
            "",
        ),
    }
    WORDS: ClassVar[Mapping[str, str]] = {
        "ORT_DISABLE_ALL": "GraphOptimizationLevel::Disable",
        "ORT_ENABLE_BASIC": "GraphOptimizationLevel::Level1",
        "ORT_ENABLE_EXTENDED": "GraphOptimizationLevel::Level2",
        "ORT_ENABLE_LAYOUT": "GraphOptimizationLevel::Level3",
        "ORT_ENABLE_ALL": "GraphOptimizationLevel::All",
        "ORT_SEQUENTIAL": "false",
        "ORT_PARALLEL": "true",
    }
    CONFIG = "options = options.with_config_entry({}, {})?;"
    RUN_CONFIG = "run.set({}, {})?;"
    CUSTOM_OPS = "options = options.with_operator_library(folder.join({}))?;"
    VARIABLE = "wanted.push(({}.to_string(), {}.to_string()));"
    POOL = (
        "let pool = GlobalThreadPoolOptions::default();\n"
        "let pool = pool.with_intra_threads({})?;\n"
        "let pool = pool.with_inter_threads(1)?;\n"
        "let environment = ort::init();\n"
        "let environment = environment.with_global_thread_pool(pool);\n"
        "if !environment.commit() {{\n"
        '    return Err(Error::new("the program has an ort environment without the pool: call load() first"));\n'
        "}}"
    )
    BINDING = (
        "keep one session.create_binding(), bind each call's values to it, and call "
        "session.run_binding_with_options(binding, run)"
    )
    LIST = "&[{}]"
    PAIR = "({}, {})"
    INDENT = 4

    def quote(self, text: str) -> str:
        """A literal; half of a surrogate pair is no character of Rust."""
        special = {'"': '\\"', "\\": "\\\\"}
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return '"' + escaped(whole, special, "\\u{{{:x}}}") + '"'

    def provider(self, name: str, options: Mapping[str, str]) -> list[str] | None:
        """Statements that append an execution provider."""
        if name not in PROVIDERS:
            return None
        lines = [f"let provider = ort::ep::{PROVIDERS[name]}::default();"]
        lines += [
            f"let provider = provider.with_arbitrary_config({self.quote(key)}, {self.quote(value)});"
            for key, value in options.items()
        ]
        # Else the crate logs what failed and goes on with the CPU.
        lines += ["let built = provider.build();", "let built = built.error_on_failure();"]
        return [*lines, "options = options.with_execution_providers([built])?;"]

    def extra(self) -> dict[str, str]:
        """Imports that only some plans need."""
        optional = any(options for name, options in self.providers() if name in PROVIDERS)
        lines = ["use ort::ep::ArbitrarilyConfigurableExecutionProvider;"] if optional else []
        lines += (
            ["use ort::environment::GlobalThreadPoolOptions;", "use ort::Error;"]
            if self.of("global_pool")
            else []
        )
        levels = any(s.key == "graph_optimization_level" for s in self.of("session_option"))
        lines += ["use ort::session::builder::GraphOptimizationLevel;"] if levels else []
        used = sorted({PROVIDERS[name].lower() for name, _ in self.providers() if name in PROVIDERS})
        # Cargo takes a pre-release only where it is named.
        crate = f'"={crate_version()}"'
        if used:
            crate = f"{{ version = {crate}, features = [{', '.join(map(as_json, used))}] }}"
        return {"IMPORTS": self.block(lines, 0), "CRATE": f"ort = {crate}"}


def crate_version() -> str:
    """The release of the crate that the code is written for and checked against."""
    return str(table()["ort"]["release"])


def emit(info: BundleInfo, custom_ops: tuple[str, ...]) -> dict[str, str]:
    """The file ``load.rs``."""
    return Rust(info, custom_ops).files()
