"""Every execution provider, one file of plain data each: its names, its target, and what is true of it.

Found by walking the folder. Every room may ask here, for nothing is imported or started: ``targets`` makes of each what
runs a trial. Code asks for what is true of a provider, not for its name; what is about one provider imports its file.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache

from ortune.providers.cpu import PROVIDER as CPU
from ortune.providers.provider import Provider

__all__ = [
    "CPU",
    "ON_CPU",
    "SUFFIX",
    "Provider",
    "every",
    "find",
    "of_profile",
    "of_target",
    "profiled",
    "short",
    "targets",
    "that",
]

SUFFIX = "ExecutionProvider"
"""How ONNX Runtime ends the names of its own."""

ON_CPU = frozenset({CPU.name, ""})
"""What a profile says of nodes that ONNX Runtime's own kernels for the CPU ran."""


@cache
def every() -> tuple[Provider, ...]:
    """Every provider, the CPU's first: all others are held against it."""
    modules = [importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    all_providers = [p for module in modules for p in getattr(module, "PROVIDERS", ())]
    all_providers += [module.PROVIDER for module in modules if hasattr(module, "PROVIDER")]
    return tuple(sorted(all_providers, key=lambda p: (p is not CPU, p.target, p.name)))


def that(trait: Callable[[Provider], object]) -> tuple[Provider, ...]:
    """The providers of which something is true."""
    return tuple(p for p in every() if trait(p))


def find(name: str) -> Provider:
    """The provider that a session is told by this name; of one that is nobody's nothing is known."""
    return next((p for p in every() if p.name == name), None) or Provider(name=name)


def of_target(target: str) -> Provider:
    """The provider of the target with this name; of one that is nobody's nothing is known."""
    return next((p for p in every() if target and p.target == target), None) or Provider(name="")


def targets(trait: Callable[[Provider], object]) -> tuple[str, ...]:
    """The names of the targets of which something is true."""
    return tuple(p.target for p in that(trait) if p.target)


def of_profile(name: str) -> Provider:
    """The provider with a target whose nodes a profile says to be run by this one."""
    runs = that(lambda p: p.target and name in p.profiled_as)
    return next((p for p in runs if p.name == name), runs[0] if runs else Provider(name=name))


def profiled(trait: Callable[[Provider], object]) -> frozenset[str]:
    """What profiles call the providers of which something is true."""
    return frozenset(name for p in that(trait) for name in p.profiled_as)


def short(name: str) -> str:
    """A provider's name for people: "CUDA" of "CUDAExecutionProvider"."""
    return name.removesuffix(SUFFIX)
