"""Whether WebGL stores four values in each texel.

What it is: a texel has four channels; with packing, all four are used.
Why it costs: without packing, three quarters of the data that is read and written is empty; packing and unpacking are
    separate kernels.
Evidence: latency.
Fix and its safety: the value that measures faster; exact.
Example: ``--target web-webgl --set web_webgl_pack=1``
References: onnxruntime-common, ``env.webgl.pack``.
"""

from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.web_webgl import PROVIDER as WEB_WEBGL

KNOB = Knob(
    name="web_webgl_pack",
    channel="web_env",
    key="webgl.pack",
    provider=WEB_WEBGL.name,
    kind="bool",
    default="off",
    summary="four values in each texel",
    tries=("1",),
    prior=OFTEN,
)
