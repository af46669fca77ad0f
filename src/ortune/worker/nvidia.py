"""Loads NVIDIA's libraries for ONNX Runtime, if the system's loader does not find them.

Trials, ``ortune.load`` and every ``load.py`` for a GPU of NVIDIA's run this file's one function.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any


def load_nvidia_libraries(ort: Any) -> None:
    """Load CUDA and cuDNN from pip packages, if the system's loader does not find them for ONNX Runtime.

    If it finds them, nothing is preloaded, so the measured libraries are those that any program gets.
    """
    if not hasattr(ort, "preload_dlls"):
        return
    folder = Path(ort.__file__).parent / "capi"
    try:
        # The provider's library takes symbols from the first, which ONNX Runtime loads before it.
        ctypes.CDLL(str(folder / "libonnxruntime_providers_shared.so"), mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(folder / "libonnxruntime_providers_cuda.so"))
    except OSError:
        ort.preload_dlls()
