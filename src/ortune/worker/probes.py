"""Reading settings back: what really arrived, and how sure that is.

Levels: ``effect`` (seen in the process: threads, maps), ``echo`` (ORT returns it and, for keys, the build's
library holds the key as a string: ORT stores and returns nonsense keys without a word), ``none``.
"""

from __future__ import annotations

import mmap
import os
from typing import Any, Dict, List, Optional

from .channels import ENUMS, Settings, text
from .protocol import Stop


def thread_count() -> Optional[int]:
    """Threads of this process, None where the system does not tell."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return None


def check_known_keys(ort: Any, applied: List[Dict[str, Any]]) -> None:
    """Fails on a config key that this build's library does not contain."""
    keys = [i for i in applied if i["channel"] in ("session_config", "run_config")]
    if not keys:
        return
    folder = os.path.join(os.path.dirname(ort.__file__), "capi")
    missing = {i["key"]: i for i in keys}
    for name in sorted(os.listdir(folder)):
        if not (".so" in name or name.endswith((".pyd", ".dll", ".dylib"))):
            continue
        with open(os.path.join(folder, name), "rb") as f:  # noqa: SIM117  (Python 3.8 has no parentheses here)
            with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
                for key in list(missing):
                    if m.find(key.encode()) >= 0:
                        del missing[key]
        if not missing:
            return
    key, item = next(iter(missing.items()))
    raise Stop(
        "unknown-key", "onnxruntime %s does not know the key %r" % (ort.__version__, key), item["knob"]
    )


def read_back(
    applied: List[Dict[str, Any]],
    settings: Settings,
    session: Any,
    added_threads: Optional[int],
    idle_cpu_ratio: Optional[float],
) -> List[Dict[str, Any]]:
    """One entry a setting: level, whether it agrees with the plan, and what was seen."""
    found = []
    for item in applied:
        level, ok, seen = _probe(item, settings, session, added_threads, idle_cpu_ratio)
        found.append({"knob": item["knob"], "level": level, "ok": ok, "seen": seen})
    return found


def _probe(
    item: Dict[str, Any],
    settings: Settings,
    session: Any,
    added_threads: Optional[int],
    idle_cpu_ratio: Optional[float],
) -> Any:
    channel, key, value = item["channel"], item["key"], item["value"]
    probe = item.get("probe") or ""
    if probe == "threads" and added_threads is not None and int(value) > 0:
        return _threads(settings, session, int(value), added_threads)
    if channel == "session_option":
        seen = getattr(session.get_session_options(), key)
        wanted = getattr(getattr(settings.ort, ENUMS[key]), value) if key in ENUMS else value
        return "echo", seen == wanted, str(seen)
    if channel == "session_config":
        seen = session.get_session_options().get_session_config_entry(key)
        if probe == "idle" and text(value) == "0" and idle_cpu_ratio is not None and idle_cpu_ratio < 0.1:
            return "effect", seen == text(value), "idle CPU %.2f" % idle_cpu_ratio
        return "echo", seen == text(value), seen
    if channel == "run_config":
        seen = settings.run.get_run_config_entry(key)
        return "echo", seen == text(value), seen
    if channel == "provider_option":
        first = session.get_providers()[0]
        seen = str(session.get_provider_options().get(first, {}).get(key, ""))
        return ("echo", True, seen) if seen == text(value) else ("none", True, seen)
    if channel == "preload":
        return _mapped(str(value))
    if channel == "env":
        return "echo", os.environ.get(key) == text(value), os.environ.get(key, "")
    if channel == "process" and key == "affinity":
        seen = ",".join(str(c) for c in sorted(os.sched_getaffinity(0)))
        return "effect", set(seen.split(",")) == set(str(value).split(",")), seen
    return "none", True, ""


def _threads(settings: Settings, session: Any, wanted: int, added: int) -> Any:
    alone = session.get_providers() == ["CPUExecutionProvider"]
    sequential = settings.session.execution_mode == settings.ort.ExecutionMode.ORT_SEQUENTIAL
    if alone and sequential and settings.session.use_per_session_threads:
        # The calling thread is one of the pool, so n threads add n - 1.
        return "effect", added == wanted - 1, "%d threads added" % added
    return "echo", session.get_session_options().intra_op_num_threads == wanted, "%d threads added" % added


def _mapped(library: str) -> Any:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as f:
            there = os.path.realpath(library) in f.read()
    except OSError:
        return "none", True, ""
    return "effect", there, library if there else "not mapped"
