"""What a provider's library needs, read from it, and the package with what is missing."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import onnxruntime
import pytest

from ortune.platform import cuda_driver
from ortune.runtimes import libraries
from ortune.runtimes.elf import needed

BUILD = next((Path(onnxruntime.__file__).parent / "capi").glob("onnxruntime_pybind11_state*.so"), None)
CUDA_13 = (
    "libcublas.so.13",
    "libcublasLt.so.13",
    "libcudart.so.13",
    "libcudnn.so.9",
    "libcuda.so.1",
    "libc.so.6",
)
CUDA_12 = ("libcublas.so.12", "libcudart.so.12", "libcufft.so.11", "libnvinfer.so.10", "libcuda.so.1")


@pytest.mark.skipif(sys.platform != "linux" or BUILD is None, reason="a library of Linux")
def test_what_a_library_needs_is_read_from_it(tmp_path: Path) -> None:
    assert BUILD is not None
    found = needed(BUILD)
    assert {"libc.so.6", "libstdc++.so.6"} <= set(found)
    data = BUILD.read_bytes()[: 1 << 16]
    damaged = tmp_path / "damaged.so"
    rng = random.Random(0)
    for length in (0, 5, 63, 64, 200, 4096):
        damaged.write_bytes(data[:length])
        assert needed(damaged) == ()
    for _ in range(200):
        changed = bytearray(data)
        for _ in range(8):
            changed[rng.randrange(64, 1024)] = rng.randrange(256)
        damaged.write_bytes(changed)
        assert isinstance(needed(damaged), tuple)
    assert needed(tmp_path / "none.so") == ()


def test_cuda_is_the_number_of_its_own_libraries() -> None:
    assert [libraries.cuda_of(names) for names in (CUDA_13, CUDA_12, ("libc.so.6",))] == [13, 12, 0]


@pytest.mark.skipif(cuda_driver() is not None, reason="a driver of NVIDIA is here")
def test_without_a_driver_no_command_helps_and_the_libraries_are_named() -> None:
    why, do = libraries.lacking(CUDA_13, ("libcudnn.so.9", "libcublas.so.13", "libcuda.so.1"), "/p/python")
    assert why == (
        "no NVIDIA driver was found (libcuda.so.1 is missing); "
        "libcudnn.so.9 (nvidia-cudnn-cu13==9.*), libcublas.so.13 (nvidia-cublas==13.*) are missing"
    )
    assert do == ""


def test_with_a_driver_one_command_brings_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "lacking_driver", lambda cuda: "")
    why, do = libraries.lacking(CUDA_12, ("libcublas.so.12", "libnvinfer.so.10"), "/p/python")
    assert why.endswith("(nvidia-cublas-cu12==12.*), libnvinfer.so.10 (tensorrt-cu12==10.*) are missing")
    assert do == "/p/python -m pip install 'nvidia-cublas-cu12==12.*' 'tensorrt-cu12==10.*'"
    assert libraries.lacking((), ("libvulkan.so.1",), "python") == (
        "libvulkan.so.1 (libvulkan1) is missing",
        "sudo apt install libvulkan1",
    )
    # Of a library that nobody here knows no package is guessed.
    assert libraries.lacking((), ("libodd.so.3",), "python") == ("libodd.so.3 is missing", "")
