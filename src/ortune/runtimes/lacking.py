"""Advice about an execution provider that an interpreter's ONNX Runtime lacks."""

from __future__ import annotations

from ortune.catalogue.provider import Provider
from ortune.runtimes import made
from ortune.runtimes.local_support import lacking


def remedy(provider: Provider) -> str:
    """Return how to get a provider, or the obstacle to its use here; "" if no runtime can be added for it."""
    target = provider.target
    if any(runtime.name == target for runtime in made.installed()):
        return f"use the runtime {target}, which is installed: add --runtime {target}"
    hindrances = [lacking(provider, build) for build in provider.builds]
    if not all(hindrances):
        return f"run ortune runtime add {target} once; --target {target} uses that runtime from then on"
    return f"omit this execution provider: {hindrances[0]}" if hindrances else ""
