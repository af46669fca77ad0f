"""An execution provider is asked for, and runs nothing.

What it is: the first provider of the plan, which took no node of the model.
Why it costs: everything runs on the CPU, as it would without; and a provider in the list can keep ONNX Runtime from
    optimising for the CPU, so that it is slower than without.
Evidence: which provider ran each node, in a profile. ``get_providers()`` lists it all the same, and the warning that
    nodes were not assigned is not printed where the CPU is listed too.
Fix and its safety: advice: leave the provider out; or give the model the types and fixed sizes that it takes.
Example: ``ortune compare model.onnx --a-target openvino --b-target cpu``
References: microsoft/onnxruntime#8812, #15027, #10831, #26781; openvinotoolkit/openvino#22401.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.providers import CPU
from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "PLC006"


def find(facts: Facts) -> Iterator[Finding]:
    """In a profiled run."""
    asked, nodes = facts.plan.provider_names[0], facts.nodes()
    ran = {node.provider for node in nodes if node.provider}
    if asked != CPU.name and not facts.plan.is_web and ran == {CPU.name}:
        yield Finding(
            code=CODE,
            what=f"{asked} runs none of the {len(nodes)} nodes: all are on the CPU",
            fix="leave it out, or give it what it can run",
        )
