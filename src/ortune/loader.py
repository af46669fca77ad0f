"""``ortune.load``: a bundle's model with its settings, for programs that have onnxruntime and need nothing else.

Only the standard library, ``ortune.errors``, ``files``, ``printable``, ``bundle.digests``, ``machine`` and ``shared``
are imported, and onnxruntime when a bundle is loaded. Code in the bundle is not run. Only the plan of ``ortune.json``
is used, and ortune's own list of settings defines the effect of the plan's settings.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ortune import files
from ortune.bundle import digests
from ortune.bundle.machine import (
    OTHER_TYPES,
    allocator_library,
    cpus,
    forbid_huge_pages,
    is_preloaded,
    other_build,
    other_hardware,
    threads,
    without_allocator,
    without_instructions,
    without_providers,
)
from ortune.bundle.shared import (
    INDEX,
    allowed,
    applied,
    as_text,
    is_inside,
    pip_words,
    put_option,
    refused_option,
    require_no_way_out,
    require_schema,
    thread_cap,
)
from ortune.catalogue.providers import CPU, find
from ortune.errors import UsageError
from ortune.printable import visible
from ortune.worker import nvidia, plugins

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_PRELOAD = "DYLD_INSERT_LIBRARIES" if sys.platform == "darwin" else "LD_PRELOAD"
_once_done: set[str] = set()  # settings of the process, which ONNX Runtime accepts only once

Provider = str | tuple[str, dict[str, str]]


def load(
    path: str | os.PathLike[str],
    *,
    providers: Sequence[Provider] | None = None,
    custom_ops: Sequence[str | os.PathLike[str]] = (),
    fallback: bool = False,
    cache: str | os.PathLike[str] | None = None,
) -> InferenceSession:
    """Create the session of a bundle, configured as it was measured.

    Warns if this CPU differs from the CPU of the tuning, if the process was started without a required variable or
    allocator, and about settings of a call, which a session cannot store. A model that is bound to its CPU and ONNX
    Runtime version is replaced by the original one if either differs. Transparent huge pages are disabled for the whole
    process if the plan has that setting.

    Args:
        path: The folder ``NAME.ortune``.
        providers: Execution providers to use instead of the bundle's.
        custom_ops: Libraries with custom operators to register. Those in the bundle are native code, so they
            are loaded only if you name them here.
        fallback: If an execution provider is not available, warn and run the original model with ONNX Runtime's
            defaults on the CPU.
        cache: The folder for compiled models, if the plan has a setting that stores them. The default is a folder in
            the working directory, with the name that the setting's documentation gives.

    Raises:
        UsageError: The folder is not a bundle or is damaged, onnxruntime is missing, this version lacks a setting, or
            an execution provider is not available and ``fallback`` is False.
    """
    folder = Path(path)
    info = _index(folder)
    version = info.get("ort_version")
    try:
        import onnxruntime as ort
    except ImportError as error:
        raise UsageError(
            f"onnxruntime cannot be imported: {error}",
            where=sys.executable,
            do=f"pip install {pip_words([f'onnxruntime=={version}']) or 'onnxruntime'}",
        ) from error
    try:
        return _session(ort, folder, info, providers, custom_ops, fallback, cache)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Without the original error, whose text may come from the bundle and would be printed unescaped.
        raise UsageError(
            f"a setting cannot be applied with onnxruntime {ort.__version__}: {error}",
            where=str(folder / INDEX),
            do=f"use onnxruntime {visible(str(version))}, or create the bundle again",
        ) from None


def _session(
    ort: ModuleType,
    folder: Path,
    info: dict[str, Any],
    providers: Sequence[Provider] | None,
    custom_ops: Sequence[str | os.PathLike[str]],
    fallback: bool,
    cache: str | os.PathLike[str] | None,
) -> InferenceSession:
    if _is_of_a_page(info):
        raise UsageError(
            "the bundle is for a browser", where=str(folder), do="import its load.web.mjs in your page"
        )
    host = info.get("host") or {}
    other = other_hardware(host)
    bound = bool(info.get("hardware_bound"))
    build = other_build(info.get("ort_version") or "", ort.__version__) if bound else ""
    plain = info.get("plain_model") or "" if bound and (other or build) else ""
    tuned_cpus = host["effective_cpus"] if host else 1
    settings = [
        {**s, "value": _limited_to_cpus(s["value"], tuned_cpus)} for s in applied(info["plan"]["settings"])
    ]
    if cache is not None:
        settings = [{**s, "value": os.fspath(cache)} if _is_cache(s["knob"]) else s for s in settings]
    if other:
        use = "the original model is used" if plain else "other settings may be faster here"
        use += "; 8-bit results differ between processors" if info.get("calibration") else ""
        _warn(f"tuned on another CPU ({other}): {use}; run ortune tune on this machine")
    elif plain:
        _warn(
            f"the model was optimised for another ONNX Runtime ({build}): the original model is used; "
            "rerun ortune tune with this version"
        )
    lacking = without_instructions(info.get("instructions") or {})
    _warn(lacking and f"{lacking}, which this processor lacks: {OTHER_TYPES}")
    if other or cpus() < tuned_cpus:
        # CPU numbers are not valid on another machine.
        settings = [s for s in settings if "affinit" not in s["key"]]
    if plain:
        settings = [s for s in settings if s["knob"] not in info.get("model_settings", ())]
    line = _start_line(settings)
    _warn(line and f"start the process with: {line}")
    settings, lost = _with_allocator(settings)
    _warn(lost)
    never = {"key": "transparent_huge_pages", "value": "never"}.items()
    _warn(forbid_huge_pages() if any(never <= s.items() for s in settings) else "")
    calls = [f"{s['knob']}={as_text(s['value'])}" for s in settings if _is_of_the_call(s)]
    if calls:
        _warn(
            f"not applied: {', '.join(calls)}; a session cannot store it, so call run() of the bundle's load.py"
        )
    if (folder / "custom_ops").is_dir() and not custom_ops:
        names = [str(p) for p in sorted((folder / "custom_ops").iterdir())]
        raise UsageError(
            "the model needs custom operator libraries, and they are loaded only if you name them",
            where=str(folder),
            do=f"load(..., custom_ops={names})",
        )
    options = _options(ort, settings)
    for library in custom_ops:
        options.register_custom_ops_library(os.fspath(library))
    model = folder / (plain or info["model"])
    chosen = _providers(info, settings) if providers is None else list(providers)
    _load_libraries(ort, chosen)
    session = _created(ort, model, options, _arguments(ort, options, chosen))
    missing = without_providers(chosen, session.get_providers())
    return _on_the_cpu(ort, folder, info, missing, custom_ops, fallback=fallback) if missing else session


def _on_the_cpu(
    ort: ModuleType,
    folder: Path,
    info: dict[str, Any],
    missing: str,
    custom_ops: Sequence[str | os.PathLike[str]],
    *,
    fallback: bool,
) -> InferenceSession:
    """Return a CPU session of the original model with ONNX Runtime's defaults; raise UsageError if not ``fallback``."""
    if not fallback:
        needed = pip_words(info.get("requirements"))
        install = f"pip install {needed}, or " if needed else ""
        raise UsageError(
            missing,
            where=str(folder),
            do=f"{install}use load(..., fallback=True) to run the original model on the CPU",
        )
    _warn(f"{missing}: the original model runs on the CPU")
    options = ort.SessionOptions()
    for library in custom_ops:
        options.register_custom_ops_library(os.fspath(library))
    model = folder / (info.get("plain_model") or info["model"])
    return _created(ort, model, options, {"providers": [CPU.name]})


def _arguments(ort: ModuleType, options: Any, chosen: list[Provider]) -> dict[str, Any]:
    """Return the provider arguments of a session; empty if provider plugins were attached to its options."""
    try:
        return {} if plugins.attached(ort, options, chosen) else {"providers": chosen}
    except plugins.Unusable as error:
        _warn(str(error))
        return {"providers": chosen}


def _load_libraries(ort: ModuleType, chosen: Sequence[Provider]) -> None:
    """Load the libraries of NVIDIA's providers, if the system does not find them."""
    names = [entry if isinstance(entry, str) else entry[0] for entry in chosen]
    if any(find(name).vendor == "NVIDIA" for name in names):
        nvidia.load_nvidia_libraries(ort)


def _warn(text: str) -> None:
    """Warn at the caller of ``load`` if the text is not empty; it may contain text from the bundle."""
    if text:
        warnings.warn(visible(text), stacklevel=4)


def _index(folder: Path) -> dict[str, Any]:
    """Return the content of ``ortune.json``, with the checks that loading requires."""
    index = folder / INDEX
    again = "create the bundle again"
    require_no_way_out(folder, INDEX)
    try:
        read = json.loads(files.read(index).decode())
    except OSError as error:
        raise UsageError(
            f"not a bundle: {error.strerror}", where=str(index), do="pass the folder NAME.ortune"
        ) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"cannot be read: {error}", where=str(index), do=again) from None
    info: dict[str, Any] = read if isinstance(read, dict) else {}
    require_schema(info.get("schema"), index)
    names = [info.get("model"), *filter(None, [info.get("plain_model")])]
    plan = info.get("plan")
    settings = plan.get("settings") if isinstance(plan, dict) else None
    if not all(isinstance(name, str) and name for name in names) or not isinstance(settings, dict):
        raise UsageError("the model name or the settings are missing", where=str(index), do=again)
    for name in names:
        if not is_inside(name):
            raise UsageError(f"the model is outside the bundle: {name!r}", where=str(index))
        if not os.path.isfile(folder / name):  # noqa: PTH113 -- Path.is_file raises for a name that is too long
            raise UsageError(f"the model {name} is missing", where=str(folder), do=again)
    digests.require_intact_model(folder, info["model"], info.get("plain_model"))
    return info


def _created(ort: ModuleType, model: Path, options: Any, arguments: dict[str, Any]) -> InferenceSession:
    """Return a session of a model; raise UsageError for ONNX Runtime's errors, whose text may contain model names."""
    kinds = [kind for kind in vars(ort.capi.onnxruntime_pybind11_state).values() if isinstance(kind, type)]
    refusals: tuple[type[Exception], ...] = tuple(kind for kind in kinds if issubclass(kind, Exception))
    refusals += (ArithmeticError, LookupError, MemoryError, RuntimeError, ValueError)  # of C++ in Python
    try:
        session: InferenceSession = ort.InferenceSession(str(model), options, **arguments)
    except refusals as error:
        raise UsageError(
            f"onnxruntime {ort.__version__} cannot load the model: {error}",
            where=str(model),
            do="create the bundle again, or use the onnxruntime that it was tuned with",
        ) from None
    return session


def _with_allocator(settings: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """Return the settings without those that need a missing allocator, and a note about it."""
    names = [s["value"] for s in settings if s["channel"] == "preload"]
    missing = without_allocator(names, os.environ.get(_PRELOAD, ""))
    if not missing:
        return settings, ""
    # With the C library's malloc, ONNX Runtime is slower without its arena.
    kept = [s for s in settings if s["key"] != "enable_cpu_mem_arena" or s["value"]]
    return kept, missing + ("; the arena stays on" if kept != settings else "")


def _is_cache(knob: str) -> bool:
    """Return whether a setting's value is a folder of compiled models."""
    return bool(allowed()["settings"][knob].get("cache"))


def _is_of_a_page(info: dict[str, Any]) -> bool:
    """Return whether the plan runs in a browser."""
    named = [entry.get("name", "") for entry in info["plan"].get("providers") or ()]
    return bool(named) and find(named[0]).in_page


def _is_of_the_call(setting: dict[str, Any]) -> bool:
    if _captures(setting):
        return as_text(setting["value"]) == "1"
    if setting["channel"] == "call_style":
        return bool(setting["value"] != "run")
    return bool(setting["channel"] == "run_config")


def _captures(setting: dict[str, Any]) -> bool:
    """Return whether a setting replays a captured run, which is correct only with buffers that stay on the device."""
    return bool(setting["provider"] and setting["key"] == find(setting["provider"]).graph_option)


def _options(ort: ModuleType, settings: list[dict[str, Any]]) -> Any:
    """Return SessionOptions with every setting that a session accepts."""
    options = ort.SessionOptions()
    arena = {s["key"]: int(s["value"]) for s in settings if s["channel"] == "env_allocator"}
    if arena:
        if "env_allocator" not in _once_done:
            memory = ort.OrtMemoryInfo(
                "Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
            )
            ort.create_and_register_allocator(memory, ort.OrtArenaCfg(arena))
            _once_done.add("env_allocator")
        options.add_session_config_entry("session.use_env_allocators", "1")
    for setting in settings:
        channel, key, value = setting["channel"], setting["key"], setting["value"]
        if channel == "session_option":
            if not hasattr(options, key):
                raise AttributeError(f"SessionOptions has no {key}")
            now = getattr(options, key)
            if isinstance(value, str) and not isinstance(now, str):
                value = getattr(type(now), value)  # a name in the option's enumeration
            setattr(options, key, value)
        elif channel == "session_config" and not _captures(setting):
            options.add_session_config_entry(key, as_text(value))
        elif channel == "global_pool":
            if "global_pool" not in _once_done:
                ort.set_global_thread_pool_sizes(int(value), 1)
                _once_done.add("global_pool")
            options.use_per_session_threads = False
    return options


def _providers(info: dict[str, Any], settings: list[dict[str, Any]]) -> list[Provider]:
    """Return the plan's providers with their options, including those among the settings."""
    specs = [(p["name"], dict(p.get("options") or {})) for p in info["plan"]["providers"]]
    for name, own in specs:
        if not (isinstance(name, str) and name.isascii() and name.isidentifier()):
            raise ValueError(f"{name!r} is not an execution provider")
        refused = refused_option(own, allowed()["providers"].get(name, ()))
        if refused:
            raise ValueError(f"a bundle cannot set {refused} of {name}")
    specs = specs or [(CPU.name, {})]
    for name, own in specs:
        for setting in settings:
            if setting["channel"] == "provider_option" and setting["provider"] == name:
                put_option(own, setting["key"], as_text(setting["value"]))
        # Replaying a graph is correct only with buffers that stay on the device, which a plain call does not keep.
        own.pop(find(name).graph_option, None)
    return [(name, options) if options else name for name, options in specs]


def _start_line(settings: list[dict[str, Any]]) -> str:
    """Return the words missing before the program's command, such as environment variables; "" if there are none."""
    words = []
    for setting in settings:
        key, value = setting["key"], as_text(setting["value"])
        if setting["channel"] == "env" and os.environ.get(key) != value:
            words.append(f"{key}={value}")
        elif setting["channel"] == "preload":
            library = allocator_library(value)
            if library and not is_preloaded(library, os.environ.get(_PRELOAD, "")):
                words.append(f"{_PRELOAD}={library}")
        elif setting["channel"] == "process":
            words += _process_words(key, value)
    return " ".join(words)


def _process_words(key: str, value: str) -> list[str]:
    if key == "affinity" and hasattr(os, "sched_getaffinity"):
        return [f"taskset -c {value}"] if os.sched_getaffinity(0) != _cpu_numbers(value) else []
    if key == "nice" and hasattr(os, "getpriority"):
        return [f"nice -n {value}"] if os.getpriority(os.PRIO_PROCESS, 0) != int(value) else []
    return []


def _cpu_numbers(text: str) -> set[int]:
    """Parse a list of CPUs such as "0,2-3"."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def _limited_to_cpus(value: Any, tuned_cpus: int) -> Any:
    """Return a stored value for this machine: a thread count is limited if this machine has fewer CPUs."""
    count = thread_cap(value)
    return value if count is None else threads(count, tuned_cpus)
