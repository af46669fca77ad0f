"""``load.py``: loading code that needs only onnxruntime, and runs under any Python that onnxruntime supports."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

from ortune.bundle.languages._source import Language
from ortune.bundle.settings import arena, cache_folder_in, of_channel
from ortune.catalogue.providers import CPU, find
from ortune.records import Applied


def process_statements(settings: Iterable[Applied]) -> list[str]:
    """Return statements for the whole process: the shared allocator and the global thread pool."""
    options = arena(settings)
    allocator = [
        "memory = ort.OrtMemoryInfo('Cpu', ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)",
        f"ort.create_and_register_allocator(memory, ort.OrtArenaCfg({options!r}))",
    ]
    pools = [
        f"ort.set_global_thread_pool_sizes({LANGUAGE.number(s.value)}, 1)"
        for s in of_channel(settings, "global_pool")
    ]
    return [*(allocator if options else []), *pools]


def as_session_takes(specs: Iterable[tuple[str, Mapping[str, str]]]) -> list[object]:
    """Return providers in the form that InferenceSession takes."""
    return [(name, options) if options else name for name, options in specs]


@cache
def source(room: str, module: str) -> str:
    """Return the source of a module that imports nothing from ortune, without its docstring and imports."""
    text = files("ortune").joinpath(room, module).read_text(encoding="utf-8")
    imports = [n for n in ast.parse(text).body if isinstance(n, ast.Import | ast.ImportFrom)]
    return "\n".join(text.splitlines()[imports[-1].end_lineno :]).strip("\n") + "\n"


def cache_folders(caches: Mapping[str, str], specs: Iterable[tuple[str, Mapping[str, str]]]) -> str:
    """Return the plan's folders of compiled models, separated by commas."""
    return ", ".join(
        cache_folder_in(options, caches[name]).folder for name, options in specs if name in caches
    )


def any_plugged_in(specs: Iterable[tuple[str, Mapping[str, str]]]) -> bool:
    """Return whether one of the providers has a plug-in wheel for a plain onnxruntime."""
    return any(find(name).plugin for name, _ in specs)


def cpu_alone(specs: Iterable[tuple[str, Mapping[str, str]]]) -> bool:
    """Return whether the plan has only the CPU execution provider."""
    return all(name == CPU.name for name, _ in specs)


def remedy(requirements: Iterable[str]) -> str:
    """Return a clause with the remedy for an execution provider that is not available."""
    words = " ".join(requirements)
    install = f"pip install {words}, or " if words else ""
    return f": {install}use load(fallback=True) to run the original model on the CPU"


LANGUAGE = Language(
    name="Python",
    file="load.py",
    default="load.default.py",
    quote=repr,
    count="threads({}, TUNED_ON.get('cpus', 1))",
    text="str({})",
    when="if {}:\n    {}",
    tuned="tuned_model",
    enough="tuned_here and cpus() >= TUNED_ON.get('cpus', 1)",
    allocator="not without_allocator(PRELOAD, preloaded())",
    bools=("False", "True"),
    options={
        "graph_optimization_level": "options.graph_optimization_level = ort.GraphOptimizationLevel.{}",
        "execution_mode": "options.execution_mode = ort.ExecutionMode.{}",
        "execution_order": "options.execution_order = ort.ExecutionOrder.{}",
    },
    any_option="options.{key} = {}",
    words={},  # values are ONNX Runtime's own
    config="options.add_session_config_entry({}, {})",
    run_config="options.add_run_config_entry({}, {})",
    variable="{}: {}",
    local_pool="options.use_per_session_threads = False",
    end="",
    keeps_buffers=True,
    splits=True,
    more={
        "once": process_statements,
        "as_session_takes": as_session_takes,
        "source": source,
        "folders": cache_folders,
        "plugged": any_plugged_in,
        "cpu_alone": cpu_alone,
        "remedy": remedy,
    },
)
