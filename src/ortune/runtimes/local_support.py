"""Reasons why a build of ONNX Runtime cannot work on this machine, as far as known before the download."""

from __future__ import annotations

import os
import platform

from ortune.catalogue.provider import Build, Provider
from ortune.platform import cpu_vendor, cuda_driver, host

SOFTWARE_GPU = "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER"
"""Environment variable that lets the WebGPU plug-in use a software Vulkan device."""

_SYSTEM_NAMES = {"Darwin": "macOS"}


def lacking(provider: Provider, build: Build | None = None) -> str:
    """Return why a provider's build cannot work on this machine; "" if no reason is known."""
    if platform.system() not in provider.systems:
        return f"{systems(provider)} only"
    gpus = host().gpus
    maker = build.vendor if build else ""
    if maker and maker not in cpu_vendor() and not any(maker in gpu for gpu in gpus):
        return f"it needs hardware from {maker}, and none was found"
    if build and build.cuda:
        return lacking_driver(build.cuda)
    if provider.vendor and provider.hardware == "gpu" and not any(provider.vendor in gpu for gpu in gpus):
        return f"no {provider.vendor} GPU was found"
    if provider.hardware == "gpu" and not gpus and os.environ.get(SOFTWARE_GPU) != "1":
        return f"no GPU was found; {SOFTWARE_GPU}=1 allows a software GPU, whose times mean nothing"
    return ""


def lacking_driver(cuda: int) -> str:
    """Return why the NVIDIA driver does not support a major version of CUDA; "" if it does."""
    driver = cuda_driver()
    if driver is None:
        return "no NVIDIA driver was found (libcuda.so.1 is missing)"
    newest = ".".join(map(str, driver))
    return (
        f"the NVIDIA driver supports CUDA {newest}, but CUDA {cuda} is needed" if driver < (cuda, 0) else ""
    )


def systems(provider: Provider) -> str:
    """Return the names of the operating systems with wheels for a provider, in words."""
    return " and ".join(_SYSTEM_NAMES.get(place, place) for place in provider.systems)
