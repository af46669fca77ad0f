"""Shared libraries that a build of ONNX Runtime needs and a machine lacks: their packages, and the fix."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from ortune.runtimes.local_support import lacking_driver

_SONAME = re.compile(r"lib(\w+)\.so\.(\d+)")
_DRIVER = "libcuda.so.1"
_OF_CUDA = ("cudart", "cublas")
"""Prefixes of libraries whose version number is that of CUDA."""

# Wheels by the first part of a library's name; {} is "-cu12" for CUDA 12 and empty from CUDA 13 on.
_WHEELS = {
    "cublas": "nvidia-cublas{}",
    "cudart": "nvidia-cuda-runtime{}",
    "cufft": "nvidia-cufft{}",
    "curand": "nvidia-curand{}",
    "cusparse": "nvidia-cusparse{}",
    "cusolver": "nvidia-cusolver{}",
    "nvrtc": "nvidia-cuda-nvrtc{}",
    "nvjitlink": "nvidia-nvjitlink{}",
    "cudnn": "nvidia-cudnn-cu{cuda}",
    "nvinfer": "tensorrt-cu{cuda}",
    "nvonnxparser": "tensorrt-cu{cuda}",
}
_PACKAGES = {
    "libvulkan.so.1": "libvulkan1",
    "libOpenCL.so.1": "ocl-icd-libopencl1",
    "libgomp.so.1": "libgomp1",
}
"""Debian packages with libraries that no wheel contains, by library."""


def cuda_of(needed: Sequence[str]) -> int:
    """Return the major version of CUDA from the names of the libraries that a library needs; 0 for none."""
    matches = (_SONAME.fullmatch(name) for name in needed)
    return next((int(match[2]) for match in matches if match and match[1].startswith(_OF_CUDA)), 0)


def lacking(needed: Sequence[str], missing: Sequence[str], python: str) -> tuple[str, str]:
    """Return why a provider's library does not load, and a command that fixes this, "" if there is none.

    Args:
        needed: Names of all libraries that the provider's library is linked to.
        missing: The needed libraries that the system does not find.
        python: Interpreter of the environment that the command changes.
    """
    cuda = cuda_of(needed)
    driver = lacking_driver(cuda) if cuda else ""
    names = [name for name in missing if name != _DRIVER]
    sources = {name: _source(name, cuda) for name in names}
    listed = ", ".join(f"{name} ({source})" if source else name for name, source in sources.items())
    one = len(names) == 1
    why = "; ".join(filter(None, (driver, f"{listed} {'is' if one else 'are'} missing" if names else "")))
    wheels = dict.fromkeys(source for name, source in sources.items() if name not in _PACKAGES and source)
    debian = dict.fromkeys(_PACKAGES[name] for name in names if name in _PACKAGES)
    if driver or not all(sources.values()):
        return why, ""
    if debian:
        return why, f"sudo apt install {' '.join(debian)}"
    return why, f"{shlex.join([python, '-m', 'pip', 'install', *wheels])}" if wheels else ""


def _source(name: str, cuda: int) -> str:
    """Return the package that contains a library, with the version from the library's name; "" if unknown."""
    if name in _PACKAGES:
        return _PACKAGES[name]
    match = _SONAME.fullmatch(name)
    if match is None or not cuda:
        return ""
    stem = next((stem for stem in _WHEELS if match[1].lower().startswith(stem)), "")
    suffix = "-cu12" if cuda == 12 else ""
    return f"{_WHEELS[stem].format(suffix, cuda=cuda)}=={match[2]}.*" if stem else ""
