"""The layout in which WebGPU runs convolutions and similar operators.

What it is: NHWC puts channels last; NCHW keeps the layout that most exporters write.
Why it costs: Transpose nodes are added where the layout changes, and each layout has its own kernels, including fused
    ones.
Evidence: Transpose and FusedConv in the optimised graph; latency.
Fix and its safety: the layout that measures faster; exact (sums are reassociated).
Example: ``--target web-webgpu --set web_layout=NCHW``
References: onnxruntime-common, ``preferredLayout``.
"""

from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.web_webgpu import PROVIDER as WEB_WEBGPU

KNOB = Knob(
    name="web_preferred_layout",
    aliases=("web_layout",),
    since="1.17",
    channel="provider_option",
    key="preferredLayout",
    provider=WEB_WEBGPU.name,
    kind="choice",
    choices=("nchw", "nhwc"),
    spelled=(("nchw", "NCHW"), ("nhwc", "NHWC")),
    default="nhwc",
    summary="channels first or last on WebGPU",
    tries=("nchw",),
    prior=OFTEN,
    applies=lambda model: model.has("Conv", "ConvTranspose", "FusedConv", "MaxPool", "AveragePool", "Resize"),
)
