"""Facts for rules about a model that has not run: its file, its plan and the machine."""

from __future__ import annotations

from collections.abc import Sequence

from ortune import targets
from ortune.graph.model.open import OpenModel
from ortune.records import Host, Plan
from ortune.rules import Facts


def facts_of(model: OpenModel, plan: Plan, host: Host | None, fed: Sequence[str] = ()) -> Facts:
    """Return the facts of a model file, without guessed input sizes, because no finding should depend on guesses.

    Args:
        model: The opened model, after its rewrites.
        plan: The plan with which the model would run.
        host: The machine on which the model would run; None if unknown.
        fed: The user's input options, which the commands of fixes repeat.
    """
    return Facts(model=model, plan=plan, fed=fed, target=targets.target_of(plan).name, host=host)
