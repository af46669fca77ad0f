"""Decides whether a plan changes outputs by more than rounding, and whether its gain justifies that."""

from __future__ import annotations

from ortune.catalogue.knobs import strict_settings
from ortune.records import ROUNDING_L2, Comparison, OutputDifference, Plan
from ortune.search.plan_edits import safety_classes

WORTH_LOSS = 0.05
"""Smallest gain that justifies outputs beyond rounding, as a fraction; the whole interval must show it.

The error is known for a sample of inputs only, and whoever adopts such a plan has to check the task again. Two sessions
also differ by as much: confirmed gains of 1.02x and 1.09x were 1.01x and 1.05x when they were measured again.
"""


def is_lossy(plan: Plan, outputs: OutputDifference | None, *accepted: Plan) -> bool:
    """Return whether a plan lowers the precision, and its outputs differ by more than rounding or were not compared.

    Args:
        plan: The plan.
        outputs: The difference of its outputs from the default's; None if they were not compared.
        accepted: Plans that the user runs or requires. What they lower is no loss of this plan.
    """
    added = Plan(
        rewrites=tuple(spec for spec in plan.rewrites if all(spec not in own.rewrites for own in accepted)),
        settings={
            name: value
            for name, value in plan.settings.items()
            if all(own.settings.get(name) != value for own in accepted)
        },
    )
    if "numerics" not in safety_classes(added) and not _in_types_of_provider(plan, accepted):
        return False
    if outputs is None or not outputs.comparable:
        return True
    return outputs.relative_l2 > ROUNDING_L2 or any(change.n_differing for change in outputs.accepted)


def justifies_loss(comparison: Comparison | None) -> bool:
    """Return whether the whole interval of a comparison shows the gain that justifies a loss."""
    if comparison is None or comparison.verdict != "faster" or comparison.ratio_high is None:
        return False
    return comparison.ratio_high <= 1 - WORTH_LOSS


def _in_types_of_provider(plan: Plan, accepted: tuple[Plan, ...]) -> bool:
    """Return whether a provider that no accepted plan has may lower the precision by default, as CUDA does (TF32)."""
    known = {name for own in accepted for name in own.provider_names}
    return any(
        not strict_settings(name).keys() <= plan.settings.keys()
        for name in plan.provider_names
        if name not in known
    )
