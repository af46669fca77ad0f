"""Whether WebNN optimises for speed or battery life.

What it is: a hint for the device: ``low-power`` or ``high-performance``.
Why it costs: to save power, the device runs at lower clocks, or another device is used.
Evidence: latency.
Fix and its safety: ``high-performance`` where speed matters; behaviour, since it uses more power.
Example: ``--target web-webnn --set web_webnn_power=high-performance``
References: onnxruntime-common, ``powerPreference`` of WebNN.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.web_webnn import PROVIDER as WEB_WEBNN

KNOB = Knob(
    name="web_webnn_power",
    since="1.17",
    channel="provider_option",
    key="powerPreference",
    provider=WEB_WEBNN.name,
    kind="choice",
    choices=("default", "low-power", "high-performance"),
    default="default",
    safety="behaviour",
    summary="speed or battery, for WebNN",
    tries=("high-performance",),
    prior=SELDOM,
)
