"""Graph optimisations are left out by a setting.

What it is: graph_optimization_level below "all", or optimisers that are named to be left out.
Why it costs: what is not fused runs node by node: twice the time for many models, and far more for quantized ones,
    whose 8-bit kernels come with the level "extended".
Evidence: the settings.
Fix and its safety: exact: the level "all", measured, since for some models a lower one is faster.
Example: ``--set graph_optimization_level=all``
References: microsoft/onnxruntime#20142, #10538.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.knobs.cpu.disabled_optimizers import KNOB as WITHOUT
from ortune.knobs.cpu.graph_optimization_level import KNOB as LEVEL
from ortune.knobs.web.web_graph_optimization_level import KNOB as WEB_LEVEL
from ortune.records import Finding, Plan
from ortune.rules.facts import Facts

CODE = "SES002"


def find(facts: Facts) -> Iterator[Finding]:
    """In the settings."""
    settings, without = facts.plan.settings, facts.plan.settings.get(WITHOUT.name)
    name = WEB_LEVEL.name if facts.plan.is_web else LEVEL.name
    level = settings.get(name, "all")
    if level != "all":
        yield Finding(
            code=CODE,
            severity="note",
            what=f"graph optimisations end at the level {level}",
            plan=Plan(settings={name: "all"}),
            safety="exact",
        )
    elif without:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"optimisers are left out: {str(without).replace(';', ', ')}",
            fix=f"measure without {WITHOUT.name}",
        )
