"""The kind of device that WebNN runs on.

What it is: the processor, the GPU or a neural processing unit, as the browser's backend has them.
Why it costs: each has its own operators and precision; what the device lacks goes back to WebAssembly.
Evidence: latency; nodes that WebNN leaves out.
Fix and its safety: the device that is measured to be fastest; numerics, since GPU and NPU may compute in float16.
Example: ``--target web-webnn --set web_webnn_device=gpu``
References: onnxruntime-common, ``deviceType`` of WebNN; W3C, Web Neural Network API.
"""

from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.web_webnn import PROVIDER as WEB_WEBNN

KNOB = Knob(
    name="web_webnn_device",
    since="1.17",
    channel="provider_option",
    key="deviceType",
    provider=WEB_WEBNN.name,
    kind="choice",
    choices=("cpu", "gpu", "npu"),
    default="cpu",
    safety="numerics",
    summary="the kind of device that WebNN runs on",
    tries=("gpu", "npu"),
    prior=OFTEN,
)
