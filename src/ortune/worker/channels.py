"""Settings applied through a closed list of channels, such as session options or the process's affinity.

``env`` and ``preload`` are applied when the process starts, and only verified here. ``page`` belongs to the browser.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional, Tuple

from . import plugins
from .protocol import Stop


class Settings:
    """Options for creating and running the session."""

    def __init__(self, ort: Any) -> None:
        self.ort = ort
        self.session = ort.SessionOptions()
        # RunOptions only if a setting needs them, as in users' calls: with them run_with_iobinding takes 49 us
        # instead of 4.5 us (onnxruntime 1.31).
        self.run: Any = None
        self.provider_options: Dict[str, Dict[str, str]] = {}  # by provider
        self.call_style = "run"
        self.rows: Any = None  # ``rows.InRows``, which splits batches, once the session exists
        self.most_rows: Optional[int] = None  # limit of rows per run
        self.arena: Any = None  # the OrtArenaCfg registered with the environment
        # Files in the folders that settings name: before the session, its start time, and after; None without a folder.
        self.files: Optional[Tuple[Dict[str, int], int, Dict[str, int]]] = None
        self.devices: List[str] = []  # of the first provider, if it comes from a separate wheel
        self.pool_threads: Optional[int] = None  # threads added by creating the global pool


def apply_process(applied: List[Dict[str, Any]]) -> None:
    """Apply the settings of the process itself, before onnxruntime is imported."""
    for item in applied:
        if item["channel"] != "process":
            continue
        key, value = item["key"], item["value"]
        if key == "affinity":
            _set_affinity(item)
        elif key == "nice":
            os.nice(int(value))
        elif key == "transparent_huge_pages":
            import ctypes

            # The number that <linux/prctl.h> gives PR_SET_THP_DISABLE.
            pr_set_thp_disable = 41
            ctypes.CDLL(None).prctl(pr_set_thp_disable, 1 if value == "never" else 0, 0, 0, 0)
        else:
            raise Stop("unknown-key", "no process setting is called %r" % key, item["knob"])


def _set_affinity(item: Dict[str, Any]) -> None:
    try:
        os.sched_setaffinity(0, [int(c) for c in str(item["value"]).split(",")])
    except (AttributeError, ValueError, OSError) as error:
        what = "affinity %r was refused: %s" % (item["value"], error)
        raise Stop("not-applied", what, item["knob"]) from error


def apply(ort: Any, applied: List[Dict[str, Any]]) -> Settings:
    """Apply every setting through its channel; raise Stop with the name of the setting if one cannot be applied."""
    settings = Settings(ort)
    # All options belong to one arena: registering a second one would not add to the first.
    arena = {i["key"]: int(i["value"]) for i in applied if i["channel"] == "env_allocator"}
    for item in applied:
        try:
            if item["channel"] == "env_allocator":
                _register_arena(settings, arena)
            else:
                _apply_one(settings, item)
        except Stop:
            raise
        except (AttributeError, TypeError, ValueError, RuntimeError) as error:
            what = "%s=%r was refused: %s" % (item["key"], item["value"], error)
            raise Stop("not-applied", what, item["knob"]) from error
    return settings


def _apply_one(settings: Settings, item: Dict[str, Any]) -> None:
    ort, channel, key, value = settings.ort, item["channel"], item["key"], item["value"]
    if channel == "session_option":
        if not hasattr(settings.session, key):
            raise Stop(
                "unknown-key",
                "SessionOptions of onnxruntime %s has no %r" % (ort.__version__, key),
                item["knob"],
            )
        setattr(settings.session, key, option(settings.session, key, value))
    elif channel == "session_config":
        settings.session.add_session_config_entry(key, text(value))
    elif channel == "run_config":
        settings.run = settings.run or ort.RunOptions()
        settings.run.add_run_config_entry(key, text(value))
    elif channel == "provider_option":
        _put(settings.provider_options.setdefault(item["provider"], {}), key, text(value))
    elif channel == "global_pool":
        # Its threads can be counted only here: a session that shares the pool adds none.
        before = thread_count()
        ort.set_global_thread_pool_sizes(int(value), 1)
        after = thread_count()
        settings.pool_threads = None if before is None or after is None else after - before
        settings.session.use_per_session_threads = False
    elif channel == "call_style" and key == "rows_per_run":
        settings.most_rows = int(value)
    elif channel == "call_style":
        settings.call_style = str(value)
    elif channel not in ("env", "preload", "process"):
        raise Stop("unsupported", "channel %r does not apply to a native process" % channel, item["knob"])


def _put(options: Dict[str, str], key: str, value: str) -> None:
    """Set a provider option; a key with slashes is a path into the option's JSON text."""
    way = key.split("/")
    if len(way) == 1:
        options[key] = value
        return
    tree = json.loads(options.get(way[0], "{}"))
    node = tree
    for part in way[1:-1]:
        node = node.setdefault(part, {})
    node[way[-1]] = value
    options[way[0]] = json.dumps(tree)


def _register_arena(settings: Settings, options: Dict[str, int]) -> None:
    if settings.arena is not None:
        return
    ort = settings.ort
    memory = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    settings.arena = ort.OrtArenaCfg(options)
    ort.create_and_register_allocator(memory, settings.arena)
    settings.session.add_session_config_entry("session.use_env_allocators", "1")


def thread_count() -> Optional[int]:
    """Return the number of threads of this process; None if unknown."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return None


def option(options: Any, key: str, value: Any) -> Any:
    """Return a value for a session option: a text becomes a member of its enumeration, unless the option is a text."""
    now = getattr(options, key)
    return getattr(type(now), value) if isinstance(value, str) and not isinstance(now, str) else value


def text(value: Any) -> str:
    """Return a value as text for ONNX Runtime's string options."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def session_arguments(ort: Any, settings: Settings, requested: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Return the arguments of InferenceSession other than model and options, for the providers of a plan.

    A provider that the build lacks is added to the session's options from its own wheel, if installed.
    """
    names = [p["name"] for p in requested]
    specs = _providers(requested, settings.provider_options)
    try:
        settings.devices = plugins.attached(ort, settings.session, specs)
        if settings.devices:
            return {}
    except plugins.Unusable as error:
        raise Stop("not-applied", str(error), names[0]) from error
    # Otherwise the Python package catches a provider's errors, here or in a run, and falls back to the CPU.
    strict = {"enable_fallback": 0} if names and set(names) <= set(ort.get_available_providers()) else {}
    return {"providers": specs, **strict}


def _providers(requested: List[Dict[str, Any]], extra: Dict[str, Dict[str, str]]) -> List[Any]:
    """Return the providers for InferenceSession, with their ``extra`` options; by default only the CPU provider."""
    specs: List[Tuple[str, Dict[str, str]]] = [(p["name"], dict(p.get("options") or {})) for p in requested]
    specs = specs or [("CPUExecutionProvider", {})]
    for name, own in specs:
        own.update(extra.get(name, {}))
    return [(name, options) if options else name for name, options in specs]
