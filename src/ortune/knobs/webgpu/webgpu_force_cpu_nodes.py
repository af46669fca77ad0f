"""Nodes that run on the CPU instead of WebGPU.

What it is: names of nodes, one per line, that run on the CPU although the GPU has a kernel for them.
Why it costs: values are copied to the CPU and back while the GPU waits. This is still faster for a
    node between shape computations, for which a few numbers would be copied to the GPU and back.
Evidence: placement of these nodes, copies; latency.
Fix and its safety: the nodes that measure faster on the CPU; exact.
Example: ``--target webgpu --set webgpu_force_cpu_nodes=/head/Gather``. For several, put a line break between names
    (Enter within quotes in a shell): the provider takes no other separator, since a name may hold a comma.
References: onnxruntime-ep-webgpu, ``forceCpuNodeNames``. microsoft/onnxruntime#23154
"""

from ortune.knobs.knob import Knob
from ortune.providers.webgpu import PROVIDER as WEBGPU

KNOB = Knob(
    name="webgpu_force_cpu_nodes",
    since="1.24.4",
    channel="provider_option",
    provider=WEBGPU.name,
    key="forceCpuNodeNames",
    kind="text",
    pattern="[^;\\x00-\\x1f]+(\\n[^;\\x00-\\x1f]+)*",
    default="none",
    summary="nodes forced to the CPU",
    joined_by="\n",
)
