"""A setting disables graph optimisations.

What it is: graph_optimization_level below "all", or a list of disabled optimisers.
Why it costs: operators that are not fused run separately. Many models take twice as long, and quantized models far
    longer, because their 8-bit kernels are created at level "extended".
Evidence: the settings.
Fix and its safety: exact: set the level to "all". Measure the change, because a lower level is faster for some models.
    Advice for disabled optimisers: measure without the setting.
Example: ``--set graph_optimization_level=all``
References: microsoft/onnxruntime#20142, #10538.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.named import DISABLED_OPTIMIZERS as WITHOUT
from ortune.catalogue.named import GRAPH_OPTIMIZATION_LEVEL as LEVEL
from ortune.catalogue.named import WEB_GRAPH_OPTIMIZATION_LEVEL as WEB_LEVEL
from ortune.records import Finding, Plan
from ortune.rules.facts import Facts

CODE = "SES002"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if settings limit graph optimizations, unless full optimization makes outputs wrong."""
    if facts.wrong_when_optimised:
        return
    settings, without = facts.plan.settings, facts.plan.settings.get(WITHOUT.name)
    name = WEB_LEVEL.name if facts.plan.is_web else LEVEL.name
    level = settings.get(name, "all")
    if level != "all":
        yield Finding(
            code=CODE,
            severity="note",
            what=f"graph optimisations are limited to level {level}",
            plan=Plan(settings={name: "all"}),
            safety="exact",
        )
    elif without:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"optimisers are disabled: {str(without).replace(';', ', ')}",
            fix=f"measure without the setting {WITHOUT.name}",
        )
