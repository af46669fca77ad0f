"""Environment variables that other interpreters are started with, and variables that may be recorded.

Stray variables change speed (a preloaded allocator, a thread count), so a program gets only the variables that it needs
to start, find its libraries and access its device. Settings under test are added by name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

_PASSED = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP",
    "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "PYENV_VERSION",
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_HOME", "CUDA_PATH",
    "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ROCM_PATH", "QNN_SDK_ROOT", "INTEL_OPENVINO_DIR",
    "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER",
    # Windows starts no process without these variables.
    "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
    "PROGRAMDATA", "PROGRAMFILES", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE",
})  # fmt: skip
_PASSED_PREFIXES = ("LC_", "DYLD_", "XDG_", "NVIDIA_", "VK_")

_SET: Mapping[str, str] = {
    "ORT_DISABLE_TELEMETRY": "1",
    # numpy's own thread pool would be counted among ONNX Runtime's threads and compete with them.
    "OPENBLAS_NUM_THREADS": "1",
}

_FOLDERS = frozenset({"PYTHONPATH", "LD_LIBRARY_PATH"})

_RECORDED = frozenset({
    "LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "LD_BIND_NOW", "GLIBC_TUNABLES",
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING",
    "NVIDIA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
    "VK_ICD_FILENAMES", "VK_DRIVER_FILES",
})  # fmt: skip
_RECORDED_PREFIXES = (
    "ORT_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "MALLOC_", "MIMALLOC_", "TCMALLOC_", "OV_",
)  # fmt: skip
_SECRET_WORDS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "_KEY", "APIKEY", "AUTH")


def clean_environment(
    extra: Mapping[str, str] | None = None, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment for a probe or a trial.

    Args:
        extra: Settings under test, which override everything else.
        base: Environment to use instead of this process's.
    """
    source = os.environ if base is None else base
    environment = {name: value for name, value in source.items() if _passes(name)}
    environment.update(_SET)
    environment.update(extra or {})
    for name in _FOLDERS & environment.keys():
        environment[name] = _absolute(environment[name])
    return environment


def _absolute(folders: str) -> str:
    """Make the folders in a search path absolute, and drop empty parts, which would mean the current folder.

    Relative folders refer to the user's working directory, from which that of a started process may differ.
    """
    parts = [part for part in folders.split(os.pathsep) if part not in ("", os.curdir)]
    return os.pathsep.join(os.path.abspath(part) for part in parts)  # noqa: PTH100  (keeps links)


def recorded(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of an environment that may be stored and shown: variables that affect speed, sorted by name.

    Everything else is left out, so that a report never contains a secret or personal paths.
    """
    return {name: environment[name] for name in sorted(environment) if _is_recorded(name)}


def _passes(name: str) -> bool:
    upper = name.upper()
    return (upper in _PASSED or upper.startswith(_PASSED_PREFIXES)) and not _looks_secret(upper)


def _is_recorded(name: str) -> bool:
    upper = name.upper()
    return (upper in _RECORDED or upper.startswith(_RECORDED_PREFIXES)) and not _looks_secret(upper)


def _looks_secret(upper: str) -> bool:
    return any(word in upper for word in _SECRET_WORDS)
