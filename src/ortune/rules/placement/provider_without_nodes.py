"""An execution provider is requested but runs no node.

What it is: the first provider of the configuration took no node of the model.
Why it costs: everything runs on the CPU anyway. A provider in the list can also keep ONNX Runtime from optimising for
    the CPU, which makes the run slower than without it.
Evidence: the provider that ran each node, in a profile. ``get_providers()`` lists the provider all the same, and ONNX
    Runtime prints no warning about unassigned nodes when the CPU is listed too.
Fix and its safety: advice: remove the provider, or give the model the types and fixed sizes that the provider
    supports.
Example: ``ortune compare model.onnx --a-target openvino --b-target cpu``
References: microsoft/onnxruntime#8812, #15027, #10831, #26781; openvinotoolkit/openvino#22401.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import CPU
from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "PLC006"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the plan's first provider ran none of the nodes."""
    asked, nodes = facts.plan.provider_names[0], facts.nodes()
    ran = {node.provider for node in nodes if node.provider}
    if asked != CPU.name and not facts.plan.is_web and ran == {CPU.name}:
        yield Finding(
            code=CODE,
            what=f"{asked} runs none of the model's nodes; all run on the CPU",
            fix="remove the provider, or export the model with operators and types that the provider supports",
        )
