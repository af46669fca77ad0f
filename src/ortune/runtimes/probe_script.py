"""Runs inside another interpreter to report its contents, with the standard library of Python 3.8 only.

Facts are printed as one JSON object per line after a marker, as soon as each is known: if an import ends the process,
the previous lines show how far it got. The script is sent as text on the other interpreter's stdin.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

MARKER = "ortune-probe:"
OTHERS = ("numpy", "onnx", "onnxscript", "onnxsim", "onnxslim")

# One Relu over a float of one element: opset 13, IR version 7, which every release since 1.8 reads.
TINY_MODEL = bytes.fromhex(
    "08073a330a0c0a0178120179220452656c751201675a0f0a0178120a0a08080112040a020801620f0a0179120a0a0808011204"
    "0a02080142040a00100d"
)


plugins: Any = globals().get("plugins")
"""The worker's module ``plugins``, which is sent with this script."""


def say(**facts: Any) -> None:
    """Print facts on a separate line, since libraries may have left the last one unfinished."""
    sys.stdout.write("\n" + MARKER + json.dumps(facts) + "\n")
    sys.stdout.flush()


def on_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report any exception of a foreign package, instead of a traceback."""
    del trace
    say(error=kind.__name__ + ": " + str(error))


def wheels() -> list[tuple[str, str, bool]]:
    """Return relevant installed wheels: name, version, and whether each contains an ``onnxruntime`` package."""
    installed = []
    for wheel in importlib.metadata.distributions():
        name = (wheel.metadata["Name"] or "").lower().replace("_", "-")
        if name.startswith(("onnxruntime", "ort-nightly")) or name in OTHERS:
            paths = [str(path).replace("\\", "/") for path in wheel.files or ()]
            build = any(p.startswith("onnxruntime/capi/onnxruntime_pybind11_state") for p in paths)
            installed.append((name, wheel.version, build))
    return sorted(set(installed))


def import_runtime() -> Any:
    """Report missing packages, then import numpy and onnxruntime, reporting each import first; return onnxruntime."""
    say(absent=[name for name in ("onnxruntime", "numpy") if importlib.util.find_spec(name) is None])
    say(stage="import numpy")
    importlib.import_module("numpy")
    say(stage="import onnxruntime")
    return importlib.import_module("onnxruntime")


def look(token: str = "") -> None:
    """Report everything that is known without creating a session.

    The token contains the path and content of a file on ortune's machine, as JSON. If this file does not exist here
    with this content, this is another machine, and its properties are reported too.
    """
    say(python_version=platform.python_version(), wheels=wheels())
    if token and not sees(*json.loads(token)):
        say(elsewhere=machine())
    ort = import_runtime()
    if not hasattr(ort, "InferenceSession"):
        path = getattr(ort, "__file__", None) or next(iter(ort.__path__))
        say(error="ImportError: " + path + " is not an ONNX Runtime")
        return
    say(stage="look", ort_version=ort.__version__, providers=ort.get_available_providers())
    if importlib.util.find_spec("onnxruntime.capi.build_and_package_info") is not None:
        build = importlib.import_module("onnxruntime.capi.build_and_package_info")
        say(package=build.package_name)
    say(stage="look for plug-in providers")
    say(plugins={name: wheel for name, (wheel, _) in plugins.wheels().items()})


def sees(path: str, text: str) -> bool:
    """Return whether a file exists here with the given content."""
    try:
        return Path(path).read_text(encoding="utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False


def machine() -> dict[str, Any]:
    """Return the properties of this machine that the standard library and Linux report."""
    texts = {}
    siblings = sorted(Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings_list"))
    files = ["proc/cpuinfo", "proc/meminfo", "proc/device-tree/model", "sys/devices/system/cpu/online"]
    for path in [Path("/", name) for name in files] + siblings:
        try:
            texts[str(path)[1:]] = path.read_text(encoding="ascii", errors="replace")
        except OSError:
            continue
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        memory = 0
    return {
        "texts": texts,
        "system": platform.system(),
        "machine": platform.machine(),
        "affinity": affinity,
        "memory_bytes": memory,
    }


def use(task: str) -> None:
    """Report which providers a session with a provider gets, and the loader's error if its library does not load.

    ONNX Runtime skips a provider with a library that cannot be loaded, so only the session's own list of providers is
    reliable.
    """
    provider, own = json.loads(task)
    ort = import_runtime()
    say(stage="create a session with " + provider)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    arguments: dict[str, Any] = {}
    wheel = plugins.wheels().get(provider)
    if wheel is None or provider in ort.get_available_providers():
        first = library_error(ort, provider)
        if first:
            say(library_error=first)
            if hasattr(ort, "preload_dlls"):
                ort.preload_dlls()
                say(preloaded=not library_error(ort, provider))
        # Without this the Python package catches the provider's error and tries again with the CPU alone.
        arguments = {"providers": [(provider, own), "CPUExecutionProvider"], "enable_fallback": 0}
    else:
        try:
            offered = plugins.devices(ort, provider, *wheel)
            say(devices=sorted({kind for device in offered for kind in plugins.kinds(device)}))
            plugins.attach(ort, options, provider, own)
        except plugins.Unusable as error:
            say(error=str(error))
            return
    session = ort.InferenceSession(TINY_MODEL, options, **arguments)
    say(session_providers=session.get_providers())


def absent(names: str) -> None:
    """Report which shared libraries the loader does not find after ONNX Runtime has preloaded libraries from wheels."""
    ort = import_runtime()
    if hasattr(ort, "preload_dlls"):
        ort.preload_dlls()
    missing = []
    for name in json.loads(names):
        try:
            ctypes.CDLL(name)
        except OSError:
            missing.append(name)
    say(not_found=missing)


def library_error(ort: Any, provider: str) -> str:
    """Return the loader's error for the provider's library; "" if it loads or does not exist."""
    stem = "onnxruntime_providers_" + provider.replace("ExecutionProvider", "").lower()
    folder = Path(ort.__file__).parent / "capi"
    prefix, suffix = ("", ".dll") if os.name == "nt" else ("lib", ".so")
    shared = folder / (prefix + "onnxruntime_providers_shared" + suffix)
    own = folder / (prefix + stem + suffix)
    if not own.exists():
        return ""
    say(library=str(own))
    mode = getattr(ctypes, "RTLD_GLOBAL", 0)
    try:
        if shared.exists():
            # The provider's library uses symbols of this library, which ONNX Runtime loads first.
            ctypes.CDLL(str(shared), mode=mode)
        ctypes.CDLL(str(own), mode=mode)
    except OSError as error:
        return str(error)
    return ""


def main(task: str, argument: str) -> None:
    """Run one task, then exit without running the exit handlers of libraries, which may crash."""
    sys.excepthook = on_error
    tasks: dict[str, Any] = {"look": look, "use": use, "absent": absent}
    if argument:
        tasks[task](argument)
    else:
        tasks[task]()
    say(complete=True)
    os._exit(0)
