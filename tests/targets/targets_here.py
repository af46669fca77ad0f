"""Runtimes that targets can be tried on, and small models."""

from __future__ import annotations

import functools
import os
import sys

import made_runtimes
from ortune.fleet.runtimes import probe
from ortune.records import ProviderReport, Runtime
from ortune.targets import Target


@functools.cache
def runtimes_here() -> tuple[Runtime, ...]:
    """The tests' own interpreter, and those that ``$ORTUNE_TEST_RUNTIMES`` names besides."""
    others = os.environ.get("ORTUNE_TEST_RUNTIMES", "").split(os.pathsep)
    return tuple(probe(python) for python in (sys.executable, *filter(None, others)))


@functools.cache
def discovered(target: Target) -> tuple[Runtime | None, ProviderReport]:
    """The first runtime that a target can be used on, or one that ortune makes; None with what the last one lacks."""
    built = (made_runtimes.require(target.name).runtime,) if target.provider.build else ()
    for runtime in (*runtimes_here(), *built):
        report = target.discover(runtime)
        if report.usable:
            return runtime, report
    return None, report
