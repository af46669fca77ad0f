"""Nodes that run on the CPU instead of WebGPU.

What it is: names of nodes, separated by semicolons, that run in WebAssembly although the GPU has a kernel for them.
    Only the native builds (asyncify, jspi) read this setting.
Why it costs: values are copied to the CPU and back while the GPU waits. This is still faster for a
    node between shape computations, for which a few numbers would be copied to the GPU and back.
Evidence: copies in the optimised graph; latency.
Fix and its safety: the nodes that measure faster on the CPU; exact.
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
