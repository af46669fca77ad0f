"""Which GPU the page requests from the browser.

What it is: ``high-performance`` or ``low-power``, for machines with two GPUs; the browser may ignore the preference. It
    has an effect only with jsep: the native builds (asyncify, jspi) request such a GPU and then use another (version
    1.30).
Why it costs: the integrated GPU is several times slower than a discrete one, which uses more power and takes time to
    wake up.
Evidence: the adapter's vendor and architecture; latency.
Fix and its safety: ``high-performance`` where speed matters; behaviour, since it uses more power.
Example: ``--target web-webgpu --set web_power_preference=high-performance``
References: onnxruntime-web, ``env.webgpu.powerPreference``; microsoft/onnxruntime#17167.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.web_webgpu import PROVIDER as WEB_WEBGPU

KNOB = Knob(
    name="web_power_preference",
    since="1.17",
    channel="web_env",
    key="webgpu.powerPreference",
    provider=WEB_WEBGPU.name,
    builds=("jsep",),
    kind="choice",
    choices=("low-power", "high-performance"),
    default="the browser's choice",
    safety="behaviour",
    summary="which of two GPUs is requested",
    tries=("high-performance",),
    prior=SELDOM,
)
