"""Sentences about the execution providers that are compared in addition to the side's own, and those that are not."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.catalogue.providers import CPU

EMULATED = "emulated on this machine"


def also_compared(name: str, wheel: str) -> str:
    """Return the sentence that a provider is also compared, with the option that excludes it."""
    return f"{name} is also compared, with {wheel}; to exclude it: --targets {CPU.target}"


def skipped(name: str, why: str) -> str:
    """Return the sentence that a provider is skipped because it could not be installed."""
    return f"{name} is skipped: {why}"


def not_compared(names: Sequence[str], why: str) -> str:
    """Return the sentence that providers are not compared, with the reason."""
    return f"not compared: {', '.join(names)} ({why})"
