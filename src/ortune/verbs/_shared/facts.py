"""Facts for rules about a model that has not run: its file, its plan and the machine."""

from __future__ import annotations

from collections.abc import Sequence

from ortune import targets
from ortune.graph.model.open import OpenModel
from ortune.records import Host, Plan
from ortune.rules import Facts


def facts_of(model: OpenModel, plan: Plan, host: Host | None, fed: Sequence[str] = ()) -> Facts:
    """Return the facts of a model file; guessed input sizes are left out, since no finding should depend on them.

    Args:
        model: The opened model, after its rewrites.
        plan: The plan that it would run with.
        host: The machine on which it would run.
        fed: The user's input options, for the commands of fixes.
    """
    return Facts(model=model, plan=plan, fed=fed, target=targets.target_of(plan).name, host=host)
