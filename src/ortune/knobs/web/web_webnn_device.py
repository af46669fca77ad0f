"""The kind of device that WebNN runs on.

What it is: the CPU, the GPU or a neural processing unit (NPU), if the browser's backend supports it.
Why it costs: each has its own operators and precision; operators that the device lacks run in WebAssembly.
Evidence: latency; nodes that WebNN does not run.
Fix and its safety: the device that measures fastest; numerics, since GPU and NPU may compute in float16.
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
