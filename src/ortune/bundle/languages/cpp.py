"""``load.cpp``: for ``onnxruntime_cxx_api.h``, C++17."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from ortune.bundle.languages import fill
from ortune.bundle.languages._source import Language, by_name, escaped
from ortune.bundle.settings import as_text, is_bound, no_huge_pages
from ortune.records import BundleInfo

BY_CLASS = {
    "CUDAExecutionProvider": ("CUDAProviderOptions", "AppendExecutionProvider_CUDA_V2", "cuda"),
    "TensorrtExecutionProvider": (
        "TensorRTProviderOptions",
        "AppendExecutionProvider_TensorRT_V2",
        "tensorrt",
    ),
}
TEXTS = "std::unordered_map<std::string, std::string>"


class Cpp(Language):
    """The words of C++."""

    NAME = "C++"
    FILE = "load.cpp"
    COUNT = "threads({})"
    TEXT = "std::to_string({}).c_str()"
    IF = "if ({}) {{\n  {}\n}}"
    TUNED = "tuned_model"
    ENOUGH = "tuned_here && cpus() >= TUNED_CPUS"
    OPTIONS: ClassVar[Mapping[str, str]] = {
        "intra_op_num_threads": "options.SetIntraOpNumThreads({});",
        "inter_op_num_threads": "options.SetInterOpNumThreads({});",
        "execution_mode": "options.SetExecutionMode({});",
        "graph_optimization_level": "options.SetGraphOptimizationLevel({});",
    }
    SWITCHES: ClassVar[Mapping[str, tuple[str, str]]] = {
        "enable_cpu_mem_arena": ("options.DisableCpuMemArena();", "options.EnableCpuMemArena();"),
        "enable_mem_pattern": ("options.DisableMemPattern();", "options.EnableMemPattern();"),
    }
    WORDS: ClassVar[Mapping[str, str]] = {
        name: name
        for name in (
            "ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_LAYOUT", "ORT_ENABLE_ALL",
            "ORT_SEQUENTIAL", "ORT_PARALLEL",
        )
    }  # fmt: skip
    CONFIG = "options.AddConfigEntry({}, {});"
    RUN_CONFIG = "run.AddConfigEntry({}, {});"
    CUSTOM_OPS = "options.RegisterCustomOpsLibrary((folder / std::filesystem::u8path({})).c_str());"
    VARIABLE = "wanted.emplace_back({}, {});"
    POOL = (
        "Ort::ThreadingOptions threading;\n"
        "threading.SetGlobalIntraOpNumThreads({});\n"
        "threading.SetGlobalInterOpNumThreads(1);\n"
        "if (hooks.create != nullptr) {{\n"
        "  threading.SetGlobalCustomCreateThreadFn(hooks.create);\n"
        "  threading.SetGlobalCustomThreadCreationOptions(hooks.options);\n"
        "  threading.SetGlobalCustomJoinThreadFn(hooks.join);\n"
        "}}"
    )
    LOCAL_POOL = "options.DisablePerSessionThreads();"
    BINDING = (
        "keep one Ort::IoBinding binding(session), bind each call's values to it, and call "
        "session.Run(run, binding)"
    )
    HUGE_PAGES = "prctl"
    PAIR = "{{{}, {}}}"

    def quote(self, text: str) -> str:
        """A literal of UTF-8: bytes in octal, which never runs on into what follows; no trigraphs."""
        special = {'"': '\\"', "\\": "\\\\", "?": "\\?"}
        data = text.encode("utf-8", "surrogateescape" if _escaped_bytes(text) else "replace")
        return '"' + escaped(data.decode("latin-1"), special, "\\{:03o}") + '"'

    def provider(self, name: str, options: Mapping[str, str]) -> list[str] | None:
        """Statements that append an execution provider."""
        texts = f"{TEXTS}{{{self.mapping(options)}}}"
        if name in by_name():
            return [f"options.AppendExecutionProvider({self.quote(by_name()[name])}, {texts});"]
        if name in BY_CLASS:
            kind, method, own = BY_CLASS[name]
            lines = [f"Ort::{kind} {own};"] + ([f"{own}.Update({texts});"] if options else [])
            return [*lines, f"options.{method}(*{own});"]
        return None

    def arena(self, options: Mapping[str, int]) -> list[str]:
        """Statements that register an arena."""
        figures = ", ".join(f"{{{self.quote(key)}, {value}}}" for key, value in options.items())
        return [
            'Ort::MemoryInfo memory("Cpu", OrtArenaAllocator, 0, OrtMemTypeDefault);',
            f"Ort::ArenaCfg arena(std::unordered_map<std::string, size_t>{{{figures}}});",
            "env.CreateAndRegisterAllocator(memory, arena);",
        ]

    def once(self) -> list[str]:
        """The environment, with its pool where there is one."""
        pool = [self.POOL.format(self.number(s.value)) for s in self.of("global_pool")]
        given = "threading, " if pool else ""
        return [*pool, f'Ort::Env env({given}ORT_LOGGING_LEVEL_WARNING, "ort");', *self.arena_lines()]

    def extra(self) -> dict[str, str]:
        """Thread hooks where the plan has a pool or affinities, and huge pages."""
        bound = [s for s in self.info.applied if s.channel == "session_config" and is_bound(s)]
        hooked = bool(bound or self.of("global_pool"))
        sets = _cpu_sets(as_text(bound[0].value)) if bound else ()
        places = {"CPU_SETS": ", ".join("{" + ", ".join(map(str, one)) + "}" for one in sets)}
        own = [
            "if (hooks.create != nullptr) {\n"
            "  options.SetCustomCreateThreadFn(hooks.create);\n"
            "  options.SetCustomThreadCreationOptions(hooks.options);\n"
            "  options.SetCustomJoinThreadFn(hooks.join);\n"
            "}"
        ]
        return {
            "HOOKS": fill("hooks.cpp.tmpl", places) if hooked else "",
            "HOOKS_INCLUDES": "#include <atomic>\n#include <memory>\n" if hooked else "",
            "WITH_HOOKS": ", const ThreadHooks& hooks = {}" if hooked else "",
            "ONLY_HOOKS": "const ThreadHooks& hooks" if hooked else "",
            "GIVE_HOOKS": "hooks" if hooked else "",
            "ALSO_HOOKS": ", hooks" if hooked else "",
            "OWN_HOOKS": self.block((["(void)hooks;"] if self.of("global_pool") else own) if hooked else []),
            "UNUSED_HOOKS": self.block(["(void)hooks;"] if hooked and not self.of("global_pool") else []),
            "HUGE_PAGES": "#ifdef __linux__\n  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);\n#endif\n"
            if no_huge_pages(self.info.applied)
            else "",
        }


def _escaped_bytes(text: str) -> bool:
    """Whether every lone surrogate stands for a byte of a file name that is not UTF-8."""
    return all("\udc80" <= sign <= "\udcff" for sign in text if "\ud800" <= sign <= "\udfff")


def _cpu_sets(text: str) -> tuple[tuple[int, ...], ...]:
    """The CPUs of each thread, from 0; ONNX Runtime's "1,2;3-4" counts from 1. Empty where the text is another."""
    if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*(;\d+(-\d+)?(,\d+(-\d+)?)*)*", text, flags=re.ASCII):
        return ()
    return tuple(tuple(cpu for part in one.split(",") for cpu in _span(part)) for one in text.split(";"))


def _span(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first) - 1, min(int(last or first), int(first) + 4095))


def emit(info: BundleInfo, custom_ops: tuple[str, ...]) -> dict[str, str]:
    """The file ``load.cpp``."""
    return Cpp(info, custom_ops).files()
