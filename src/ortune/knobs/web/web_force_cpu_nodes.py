"""Nodes that WebGPU leaves to the CPU.

What it is: names of nodes, separated by semicolons, that run in WebAssembly although the GPU has a kernel for them.
    Only the native builds (asyncify, jspi) read it.
Why it costs: a copy there and back, in which the GPU waits; that pays where a node between shape arithmetic would go
    to the GPU for a few numbers.
Evidence: copies in the optimised graph; latency.
Fix and its safety: the nodes where it is measured to pay; exact.
Example: ``--target web-webgpu --set web_force_cpu_nodes=/head/Gather``
References: onnxruntime-common, ``forceCpuNodeNames``; microsoft/onnxruntime#23154.
"""

from ortune.knobs.knob import Knob
from ortune.providers.web_webgpu import PROVIDER as WEB_WEBGPU

KNOB = Knob(
    name="web_force_cpu_nodes",
    since="1.24",
    channel="provider_option",
    key="forceCpuNodeNames",
    provider=WEB_WEBGPU.name,
    builds=("asyncify", "jspi"),
    kind="text",
    pattern=r"[^;\x00-\x1f]+(;[^;\x00-\x1f]+)*",
    parts="list",
    joined_by=";",
    default="none",
    summary="nodes forced to the CPU",
)
