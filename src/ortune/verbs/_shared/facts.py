"""What rules may know of a model that is not run, or not run yet: its file, its plan and the machine."""

from __future__ import annotations

from collections.abc import Sequence

from ortune import targets
from ortune.graph.model.open import OpenModel
from ortune.records import Host, Plan
from ortune.rules import Facts


def facts_of(model: OpenModel, plan: Plan, host: Host | None, fed: Sequence[str] = ()) -> Facts:
    """Facts of a model as a file. What it is fed is left out: nobody is to blame for sizes that were guessed.

    Args:
        model: As it is opened, rewrites done.
        plan: What it would run with.
        host: The machine where it would run.
        fed: What the user said of its inputs, for commands of fixes.
    """
    return Facts(model=model, plan=plan, fed=fed, target=targets.of(plan).name, host=host)
