"""The layout in which WebGPU runs convolutions.

What it is: NHWC puts channels last; NCHW keeps the layout that most exporters write.
Why it costs: Transpose nodes are added where the layout changes, and each layout has its own kernels.
Evidence: Transpose and FusedConv in the optimised graph; latency.
Fix and its safety: the layout that measures faster; exact (sums are reassociated).
Example: ``--target webgpu --set webgpu_layout=nchw``
References: onnxruntime-ep-webgpu, ``preferredLayout``.
"""

from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.webgpu import PROVIDER as WEBGPU

KNOB = Knob(
    name="webgpu_layout",
    since="1.24.4",
    channel="provider_option",
    provider=WEBGPU.name,
    key="preferredLayout",
    kind="choice",
    choices=("nchw", "nhwc"),
    spelled=(("nchw", "NCHW"), ("nhwc", "NHWC")),
    default="nhwc",
    summary="channels first or last on WebGPU",
    tries=("nchw",),
    prior=OFTEN,
    applies=lambda model: model.has("Conv", "ConvTranspose", "MaxPool", "AveragePool", "Resize"),
)
