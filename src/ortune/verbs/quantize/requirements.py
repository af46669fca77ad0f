"""What a quantization needs before anything is measured: a method that applies to the model, and enough memory."""

from __future__ import annotations

from collections.abc import Sequence

from ortune import rewrites, rules
from ortune.errors import UsageError
from ortune.measuring.sides import ResolvedSide
from ortune.records import Host, Plan
from ortune.targets.machine import Machine
from ortune.targets.task import Limits
from ortune.targets.tool import peak_bytes
from ortune.verbs._shared.facts import facts_of
from ortune.verbs.quantize import words as quantize_words

LARGE_BYTES = 1 << 28
"""Model size from which the required memory is shown first."""


def nothing_to_quantize(side: ResolvedSide, host: Host) -> UsageError:
    """Return the error for a model without a method worth testing, with findings about existing quantization."""
    family = [rewrite for rewrite in rewrites.all_rewrites().values() if rewrite.family == rewrites.FAMILY]
    refusals = [rewrite.refuses(side.model.ir) for rewrite in family if rewrite.refuses]
    # Refusals are the reason only if all methods refuse; otherwise one accepts the model but has nothing to gain.
    reasons = dict.fromkeys(why for refused in refusals for why in refused) if all(refusals) else {}
    facts = facts_of(side.model, side.plan, host)
    wrong = rules.found_by(rules.Selection(select=("QNT",), ignore=("QNT001",)).rules(), facts)
    do = "run ortune tune to find what else makes it faster"
    if wrong:
        do = f"run ortune quantize on the float model instead; ortune explain {wrong[0].code} explains the fault"
    return UsageError(
        "; ".join([*reasons, *(f"{fault.code} {fault.what}" for fault in wrong)])
        or "no layer has weights worth quantizing",
        where=str(side.model.path),
        do=do,
    )


def needed_memory(side: ResolvedSide, plans: Sequence[Plan], machine: Machine) -> str:
    """Return a sentence on the memory needed to quantize a large model; "" for other models.

    Raises:
        UsageError: The free memory is not enough for any method.
    """
    model, left = side.model, machine.memory_left_bytes()
    if model.size_bytes < LARGE_BYTES or left is None or side.runtime.host is not None:
        return ""
    by_plan = [[rewrites.find(spec.name) for spec in plan.rewrites] for plan in plans]
    needed = sorted(
        max(
            peak_bytes(task, model.size_bytes) for rewrite in each for task in (rewrite.prepare, rewrite.task)
        )
        for each in by_plan
    )
    if needed[0] > Limits().memory_share * left:
        raise UsageError(
            quantize_words.memory(model.size_bytes, needed[0], needed[0], left),
            where=str(model.path),
            do="free memory, or run on a machine that has more",
        )
    return quantize_words.memory(model.size_bytes, needed[0], needed[-1], left)
