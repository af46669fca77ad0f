"""Verification of applied settings: whether each took effect, and how certain that is.

Levels: ``effect`` (observed in the process: threads, maps), ``echo`` (ORT returns it and, for keys, the build's library
contains the key as a string: ORT also stores and returns unknown keys silently), ``none``.
"""

from __future__ import annotations

import importlib
import mmap
import os
from typing import Any, Dict, List, Optional, Set, Tuple

import numpy as np

from . import plugins
from .channels import Settings, option, text, thread_count
from .protocol import Stop

__all__ = ["check_known_keys", "check_known_options", "read_back", "thread_count"]

OPTIMIZERS = "optimization.disable_specified_optimizers"
BLOB = ".blob"  # suffix of a model that OpenVINO compiled
STILL_NS = 10**8  # a file unchanged for this long is complete; a process takes longer to start
QUIET = 0.1  # ratio of CPU to wall time below which no thread spins; one spinning thread gives about 1

Found = Tuple[str, bool, str]
"""Level of an observation, whether it agrees with the plan, and the observed value."""


def check_known_keys(ort: Any, applied: List[Dict[str, Any]]) -> None:
    """Raise Stop for a config key, or the name of an optimiser, that this build's library does not contain."""
    wanted = {}
    for item in applied:
        if item["channel"] in ("session_config", "run_config"):
            wanted[item["key"]] = (item["knob"], "the key %r" % item["key"])
        if item["key"] == OPTIMIZERS:
            for name in str(item["value"]).split(";"):
                wanted[name] = (item["knob"], "an optimiser %r (names are separated by ';')" % name)
    missing = _not_in_library(_capi(ort), list(wanted))
    if missing:
        knob, what = wanted[missing[0]]
        raise Stop("unknown-key", "onnxruntime %s does not know %s" % (ort.__version__, what), knob)


def check_known_options(ort: Any, applied: List[Dict[str, Any]], requested: List[Dict[str, Any]]) -> None:
    """Raise Stop for an option that its provider's library does not contain; plug-ins accept any silently."""
    for provider in requested:
        name = provider["name"]
        knob_of = dict.fromkeys(provider.get("options") or {}, "")
        own = [i for i in applied if i["channel"] == "provider_option" and i["provider"] == name]
        knob_of.update({i["key"].partition("/")[0]: i["knob"] for i in own})
        if name in ort.get_available_providers():
            folder, what = _capi(ort), "onnxruntime %s" % ort.__version__
        elif name in plugins.wheels():
            what, package = plugins.wheels()[name]
            folder = os.path.dirname(importlib.import_module(package).get_library_path())
            knob_of.pop("device_type", None)  # chooses the device, and is not passed on
        else:
            continue  # a fallback for lack of the provider is an error of its own
        unknown = _not_in_library(folder, [key for key in knob_of if _plain(key)])
        if unknown:
            raise Stop(
                "unknown-key", "%s does not know the option %r" % (what, unknown[0]), knob_of[unknown[0]]
            )


def _capi(ort: Any) -> str:
    """Return the folder with the libraries of the build."""
    return os.path.join(os.path.dirname(ort.__file__), "capi")


def _not_in_library(folder: str, names: List[str]) -> List[str]:
    missing = [name for name in names if not _plain(name)]
    sought = [name for name in names if _plain(name)]
    # A known key is a string in one of the build's libraries.
    for file in sorted(os.listdir(folder)):
        if not sought:
            break
        if not (".so" in file or file.endswith((".pyd", ".dll", ".dylib"))):
            continue
        with open(os.path.join(folder, file), "rb") as f:  # noqa: SIM117  (Python 3.8 has no parentheses here)
            with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
                # Strings follow the code, which is ten times as long: a search from the end takes 2 ms instead of 20.
                sought = [name for name in sought if m.rfind(_literal(name).encode()) < 0]
    return missing + sought


def _literal(name: str) -> str:
    """Return the literal part of a name, since ONNX Runtime appends a provider's name at run time."""
    stem, joined, rest = name.partition("_")
    return stem + joined if rest.endswith("ExecutionProvider") else name


def _plain(name: str) -> bool:
    """Return whether a text can be a key or a name; shorter ones would be found in any library."""
    return len(name) > 7 and name.replace("_", "").replace(".", "").isalnum()


def read_back(
    applied: List[Dict[str, Any]],
    settings: Settings,
    session: Any,
    added_threads: Optional[int],
    idle_cpu_ratio: Optional[float],
) -> List[Dict[str, Any]]:
    """Return one entry per setting: level, whether it agrees with the plan, and the observed value."""
    entries = []
    for item in applied:
        level, ok, actual = _echo(item, settings, session)
        if ok:
            level, ok, actual = _effect(item, settings, session, added_threads, idle_cpu_ratio) or (
                level,
                ok,
                actual,
            )
        entries.append({"knob": item["knob"], "level": level, "ok": ok, "seen": actual})
    return entries


def _echo(item: Dict[str, Any], settings: Settings, session: Any) -> Found:
    """Return level, agreement and value of a setting as ONNX Runtime or the environment reports it."""
    channel, key, value = item["channel"], item["key"], item["value"]
    if channel == "session_option":
        options = session.get_session_options()
        actual = getattr(options, key)
        return "echo", actual == option(options, key, value), str(actual)
    if channel == "session_config":
        actual = session.get_session_options().get_session_config_entry(key)
        return "echo", actual == text(value), actual
    if channel == "run_config":
        actual = settings.run.get_run_config_entry(key)
        return "echo", actual == text(value), actual
    if channel == "provider_option":
        actual = str(session.get_provider_options().get(item["provider"], {}).get(key, ""))
        return ("echo" if actual == text(value) else "none"), True, actual
    if channel == "env":
        return "echo", os.environ.get(key) == text(value), os.environ.get(key, "")
    if channel == "env_allocator":
        used = session.get_session_options().get_session_config_entry("session.use_env_allocators") == "1"
        actual = str(getattr(settings.arena, key, ""))
        return "echo", used and actual == text(value), actual
    if channel == "global_pool":
        shared = not session.get_session_options().use_per_session_threads
        return "echo", shared, "pool of the process" if shared else "pool of the session"
    return "none", True, ""


def files(applied: List[Dict[str, Any]]) -> Optional[Dict[str, int]]:
    """Return the files in the folders that settings name, with their modification times; None without such settings."""
    folders = [str(item["value"]) for item in applied if item.get("probe") == "folder"]
    if not folders:
        return None
    written = {}
    for folder in filter(os.path.isdir, folders):
        for entry in os.scandir(folder):
            try:
                written[entry.path] = entry.stat().st_mtime_ns
            except OSError:  # another process is removing it
                continue
    return written


def _check_cache(before: Dict[str, int], began_ns: int, after: Dict[str, int]) -> Found:
    """Check whether a session read or wrote its folder of compiled models.

    A build of OpenVINO that cannot read its own format treats a complete blob as broken, compiles and writes it again.
    A blob that another process was just writing is not complete.
    """
    whole = [path for path in before if path.endswith(BLOB) and began_ns - before[path] > STILL_NS]
    if any(after.get(path, before[path]) != before[path] for path in whole):
        return "effect", False, "this build wrote its cache again instead of reading it"
    if not after:
        return "effect", False, "no file was written"
    return "effect", True, "its cache was written" if set(after) - set(before) else "read from its cache"


def _effect(
    item: Dict[str, Any],
    settings: Settings,
    session: Any,
    added: Optional[int],
    idle_cpu_ratio: Optional[float],
) -> Optional[Found]:
    """Return the observed effect of the setting in this process; None if it cannot be observed."""
    probe, value = item.get("probe") or "", item["value"]
    if probe == "threads":
        return _threads(item["key"], session, added)
    if probe == "pool" and settings.pool_threads is not None:
        # The calling thread belongs to the pool, so n threads are n - 1 new ones, and the session adds none.
        right = settings.pool_threads == int(value) - 1 and not added
        threads = "thread" if settings.pool_threads == 1 else "threads"
        return "effect", right, "%d %s in the pool, %d added" % (settings.pool_threads, threads, added or 0)
    if probe == "idle" and idle_cpu_ratio is not None and idle_cpu_ratio < QUIET:
        # Other programs can make spinning threads look idle, so an idle reading never contradicts a setting.
        return ("effect", True, "idle CPU %.2f" % idle_cpu_ratio) if _stops(item) else None
    if probe == "folder" and settings.files is not None:
        return _check_cache(*settings.files)
    if probe == "maps":
        return _check_mapped(str(value))
    if probe == "affinity":
        return _check_affinity(str(value))
    if probe == "affinities":
        return _thread_masks(str(value))
    if probe == "denormal":
        with np.errstate(all="ignore"):
            flushed = bool(np.float32(1e-38) * np.float32(0.1) == 0)
        return "effect", flushed == (text(value) == "1"), "denormals %s" % ("flushed" if flushed else "kept")
    if probe == "huge_pages":
        return _huge_pages(str(value))
    if probe == "rows" and settings.rows is not None:
        split = settings.rows.split
        return "effect", split, "calls were split" if split else "no call has more than %s rows" % value
    if probe == "thp":
        enabled = _field("/proc/self/status", "THP_enabled")
        wanted = "0" if value == "never" else "1"
        return ("effect", enabled == wanted, "THP_enabled " + enabled) if enabled else None
    return None


def _stops(item: Dict[str, Any]) -> bool:
    """Return whether the setting makes idle threads sleep."""
    if item["key"].endswith(".spin_duration_us"):
        return int(item["value"]) <= 500  # much shorter than the observed interval
    return text(item["value"]) == ("1" if item["key"] == "session.force_spinning_stop" else "0")


def _threads(key: str, session: Any, added: Optional[int]) -> Optional[Found]:
    """Compare the number of threads added by creating the session with its options and the environment."""
    options = session.get_session_options()
    alone = session.get_providers() == ["CPUExecutionProvider"]
    own_pool = getattr(options, "use_per_session_threads", True)  # older releases always have one
    if added is None or not alone or not own_pool:
        return None
    intra = options.intra_op_num_threads or int(os.environ.get("ORT_INTRA_OP_NUM_THREADS", "0"))
    parallel = options.execution_mode.name == "ORT_PARALLEL"
    inter = options.inter_op_num_threads if parallel else 1
    if not intra or not inter or (key == "inter_op_num_threads" and not parallel):
        return None  # ONNX Runtime chooses one of the sizes, so the sum is unknown; or there is no such pool
    # The calling thread is one of each pool, so n threads add n - 1.
    what = "%d thread%s added" % (added, "" if added == 1 else "s")
    return "effect", added == intra - 1 + inter - 1, what + (" by both pools" if parallel else "")


def _check_mapped(library: str) -> Optional[Found]:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as f:
            there = os.path.realpath(library) in f.read()
    except OSError:
        return None
    return "effect", there, library if there else "not mapped"


def _check_affinity(wanted: str) -> Found:
    actual = ",".join(str(c) for c in sorted(os.sched_getaffinity(0)))
    return "effect", set(actual.split(",")) == {str(int(c)) for c in wanted.split(",")}, actual


def _thread_masks(wanted: str) -> Optional[Found]:
    """Check that each requested set of CPUs, numbered from 1, is the affinity of one of this process's threads."""
    try:
        tasks = ["/proc/self/task/%s/status" % task for task in os.listdir("/proc/self/task")]
    except OSError:
        return None
    masks = [_cpus(_field(task, "Cpus_allowed_list"), 0) for task in tasks]
    left = [_cpus(group, 1) for group in wanted.split(";")]
    for mask in masks:
        if mask in left:
            left.remove(mask)
    text = ";".join(",".join(str(c) for c in sorted(mask)) for mask in masks)
    return "effect", not left, "CPUs of the threads, from 0: " + text


def _cpus(ranges: str, first: int) -> Set[int]:
    """Return the CPUs of a list like ``0-3,8``, numbered from ``first`` in the text and from 0 in the result."""
    cpus = set()
    for part in ranges.split(","):
        low, _, high = part.partition("-")
        if low:
            cpus |= set(range(int(low) - first, int(high or low) - first + 1))
    return cpus


def _huge_pages(value: str) -> Optional[Found]:
    """Return whether requested huge pages exist: an older C library ignores the variable, and the system may refuse."""
    huge_kb = _field("/proc/self/smaps_rollup", "AnonHugePages")
    if not huge_kb or not value.endswith("=1"):
        return None
    return "effect", huge_kb != "0", "AnonHugePages %s kB" % huge_kb


def _field(path: str, name: str) -> str:
    """Return the first word after ``name:`` in a file of /proc; "" if there is none."""
    try:
        with open(path, encoding="ascii", errors="replace") as f:
            for line in f:
                if line.startswith(name + ":"):
                    return line.split()[1]
    except OSError:
        pass
    return ""
