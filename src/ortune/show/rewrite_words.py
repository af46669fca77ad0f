"""Rewrites in the command line's notation."""

from __future__ import annotations

from ortune.records import RewriteSpec


def spec(rewrite: RewriteSpec) -> str:
    """Return a rewrite as users write it on the command line: "NAME:PARAMETER=VALUE,..."."""
    params = ",".join(f"{name}={value}" for name, value in rewrite.params.items())
    return f"{rewrite.name}:{params}" if params else rewrite.name
