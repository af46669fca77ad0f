"""``Load.cs``: for ``Microsoft.ML.OnnxRuntime``, C# 8 or later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ortune.bundle.languages._source import Language, as_json, by_name
from ortune.records import BundleInfo

BY_CLASS = {
    "CUDAExecutionProvider": ("OrtCUDAProviderOptions", "AppendExecutionProvider_CUDA", "cuda"),
    "TensorrtExecutionProvider": (
        "OrtTensorRTProviderOptions",
        "AppendExecutionProvider_Tensorrt",
        "tensorrt",
    ),
}

ARENA = ("arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk")
"""Behind the memory limit, the arguments of OrtArenaCfg."""


class CSharp(Language):
    """The words of C#."""

    NAME = "C#"
    FILE = "Load.cs"
    COUNT = "Threads({})"
    TEXT = "({}).ToString()"
    IF = "if ({})\n{{\n    {}\n}}"
    TUNED = "tunedModel"
    ENOUGH = "tunedHere && Cpus() >= TunedCpus"
    ALLOCATOR = "!WithoutAllocator()"
    OPTIONS: ClassVar[Mapping[str, str]] = {
        "intra_op_num_threads": "options.IntraOpNumThreads = {};",
        "inter_op_num_threads": "options.InterOpNumThreads = {};",
        "execution_mode": "options.ExecutionMode = {};",
        "graph_optimization_level": "options.GraphOptimizationLevel = {};",
        "enable_cpu_mem_arena": "options.EnableCpuMemArena = {};",
        "enable_mem_pattern": "options.EnableMemoryPattern = {};",
    }
    WORDS: ClassVar[Mapping[str, str]] = {
        **{
            level: f"GraphOptimizationLevel.{level}"
            for level in (
                "ORT_DISABLE_ALL",
                "ORT_ENABLE_BASIC",
                "ORT_ENABLE_EXTENDED",
                "ORT_ENABLE_LAYOUT",
                "ORT_ENABLE_ALL",
            )
        },
        "ORT_SEQUENTIAL": "ExecutionMode.ORT_SEQUENTIAL",
        "ORT_PARALLEL": "ExecutionMode.ORT_PARALLEL",
    }
    CONFIG = "options.AddSessionConfigEntry({}, {});"
    RUN_CONFIG = "run.AddRunConfigEntry({}, {});"
    CUSTOM_OPS = "options.RegisterCustomOpLibrary(Path.Combine(folder, {}));"
    VARIABLE = "wanted[{}] = {};"
    POOL = (
        "var threading = new OrtThreadingOptions();\n"
        "threading.GlobalIntraOpNumThreads = {};\n"
        "threading.GlobalInterOpNumThreads = 1;\n"
        'var creation = new EnvironmentCreationOptions {{ logId = "ort", threadOptions = threading }};\n'
        "var environment = OrtEnv.CreateInstanceWithOptions(ref creation);"
    )
    LOCAL_POOL = "options.DisablePerSessionThreads();"
    BINDING = (
        "keep one session.CreateIoBinding(), bind each call's values to it, and call "
        "session.RunWithBinding(run, binding)"
    )
    PAIR = "({}, {})"
    INDENT = 8

    def quote(self, text: str) -> str:
        """A literal; JSON of ASCII is one."""
        return as_json(text)

    def provider(self, name: str, options: Mapping[str, str]) -> list[str] | None:
        """Statements that append an execution provider."""
        given = "new Dictionary<string, string>"
        entries = ", ".join(f"[{self.quote(key)}] = {self.quote(value)}" for key, value in options.items())
        texts = f"{given} {{ {entries} }}" if entries else f"{given}()"
        if name in by_name():
            return [f"options.AppendExecutionProvider({self.quote(by_name()[name])}, {texts});"]
        if name in BY_CLASS:
            kind, method, own = BY_CLASS[name]
            lines = [f"using var {own} = new {kind}();"]
            lines += [f"{own}.UpdateOptions({texts});"] if options else []
            return [*lines, f"options.{method}({own});"]
        return None

    def arena(self, options: Mapping[str, int]) -> list[str]:
        """Statements that register an arena; what is not given is ONNX Runtime's own choice, 0 or -1."""
        figures = [options.get("max_mem", 0)]
        figures += [options.get(key, -1) for key in ARENA]
        return [
            'using var memory = new OrtMemoryInfo("Cpu", OrtAllocatorType.ArenaAllocator, 0, OrtMemType.Default);',
            f"using var arena = new OrtArenaCfg({', '.join(map(str, figures))});",
            "environment.CreateAndRegisterAllocator(memory, arena);",
        ]

    def once(self) -> list[str]:
        """The environment: made with a pool, or the one there is."""
        return (
            super().once()
            if self.of("global_pool")
            else ["var environment = OrtEnv.Instance();", *super().once()]
        )


def emit(info: BundleInfo, custom_ops: tuple[str, ...]) -> dict[str, str]:
    """The file ``Load.cs``."""
    return CSharp(info, custom_ops).files()
