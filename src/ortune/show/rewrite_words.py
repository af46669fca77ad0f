"""Rewrites as users write them."""

from __future__ import annotations

from ortune.records import OutputDifference, RewriteSpec
from ortune.show.output_words import outputs


def spec(rewrite: RewriteSpec) -> str:
    """A rewrite as the command line has it."""
    params = ",".join(f"{name}={value}" for name, value in rewrite.params.items())
    return f"{rewrite.name}:{params}" if params else rewrite.name


def own_level(distance: OutputDifference, level: str) -> str:
    """Return what a rewritten model gives at a level at which its source is wrong or does not run."""
    if distance.ok:
        return f"at level {level}, the outputs of the new model are right: the rewrite removed the cause"
    return f"at level {level}, the outputs of the new model are wrong too: {outputs(distance, wrong=True)}"


def own_level_fails(level: str) -> str:
    """Return that a rewritten model does not run at a level, as its source."""
    return f"at level {level}, the new model does not run either"
