"""Names of the GPUs on Linux, from the drivers' files in /proc and /sys."""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path

from ortune import launcher
from ortune.platform.reading import read_text

_NVIDIA_SMI_TIMEOUT_S = 2.0

_VENDORS = {
    "0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel", "0x1af4": "virtio", "0x15ad": "VMware",
    "0x1414": "Microsoft", "0x5143": "Qualcomm", "0x13b5": "Arm", "0x14e4": "Broadcom",
}  # fmt: skip


def gpu_names(root: Path = Path("/")) -> tuple[str, ...]:
    """Return the names of the GPUs that a process on this machine could open.

    NVIDIA's driver provides names; others are identified by vendor and PCI id of their render node. ``nvidia-smi`` is
    run only if the driver's files are hidden (WSL, some containers).
    """
    nvidia = _nvidia_proc(root) or (_nvidia_smi() if root == Path("/") else ())
    others = [
        name
        for node in sorted((root / "dev/dri").glob("renderD*"))
        if (name := _render_node(root, node.name)) and not (nvidia and name.startswith("NVIDIA"))
    ]
    return (*nvidia, *others)


def cuda_driver() -> tuple[int, int] | None:
    """Return the newest CUDA version that NVIDIA's driver supports, as (major, minor); None without a driver."""
    version = ctypes.c_int()
    try:
        library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        failed = library.cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    # CUDA 12.4 is 12040.
    return None if failed else (version.value // 1000, version.value % 1000 // 10)


def _nvidia_proc(root: Path) -> tuple[str, ...]:
    names: list[str] = []
    for information in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")):
        match = re.search(r"^Model:\s*(.+)$", read_text(information) or "", re.MULTILINE)
        names.append(match[1].strip() if match else "NVIDIA GPU")
    return tuple(names)


def _nvidia_smi() -> tuple[str, ...]:
    tool = launcher.program("nvidia-smi")
    if not tool:
        return ()
    command = [tool, "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = launcher.run(command, limit_s=_NVIDIA_SMI_TIMEOUT_S)
    except OSError:
        return ()
    # A driver that hangs or a stub counts as no usable GPU.
    lines = done.output.decode("utf-8", "replace").splitlines() if done.code == 0 else []
    return tuple(line.strip() for line in lines if line.strip())


def _render_node(root: Path, node: str) -> str:
    device = root / "sys/class/drm" / node / "device"
    vendor = read_text(device / "vendor")
    if vendor is None:
        # Arm GPUs are platform devices without a PCI id; only the driver's name is known.
        match = re.search(r"^DRIVER=(.+)$", read_text(device / "uevent") or "", re.MULTILINE)
        return f"{match[1]} GPU ({node})" if match else ""
    product = (read_text(device / "device") or "").removeprefix("0x")
    return (
        f"{_VENDORS.get(vendor, 'GPU vendor ' + vendor)} GPU {vendor.removeprefix('0x')}:{product} ({node})"
    )
