"""Runtimes that targets can be tried on, and small models."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

import pytest

import made_runtimes
from ortune.platform import host
from ortune.records import ProviderReport, Runtime
from ortune.runtimes.local_support import SOFTWARE_GPU
from ortune.runtimes.runtimes import probe
from ortune.targets import Target


@functools.cache
def runtimes_here() -> tuple[Runtime, ...]:
    """The tests' own interpreter, and those that ``$ORTUNE_TEST_RUNTIMES`` names besides."""
    others = os.environ.get("ORTUNE_TEST_RUNTIMES", "").split(os.pathsep)
    return tuple(probe(python) for python in (sys.executable, *filter(None, others)))


SWIFTSHADER = ("/usr/lib/chromium", "/opt/google/chrome")


def allow_software_gpu() -> None:
    """Lets native WebGPU run on the Vulkan in software that a browser brings, where no GPU is here."""
    drivers = [file for file in (Path(f, "vk_swiftshader_icd.json") for f in SWIFTSHADER) if file.is_file()]
    if drivers and not host().gpus:
        os.environ.setdefault(SOFTWARE_GPU, "1")
        os.environ.setdefault("VK_DRIVER_FILES", str(drivers[0]))


@functools.cache
def discovered(target: Target) -> tuple[Runtime | None, ProviderReport]:
    """The first runtime that a target can be used on, or one that ortune makes; None with what the last one lacks."""
    if target.name == "webgpu":
        allow_software_gpu()
    for runtime in runtimes_here():
        report = target.discover(runtime)
        if report.usable:
            return runtime, report
    if target.provider.builds:
        runtime = made_runtimes.require(target.name).runtime
        return runtime, target.discover(runtime)
    return None, report


def usable(target: Target) -> Runtime:
    """A runtime that a target can be used on; where there is none, the test is skipped with the reason."""
    runtime, report = discovered(target)
    if runtime is None or not report.usable:
        pytest.skip(report.why)
    return runtime
