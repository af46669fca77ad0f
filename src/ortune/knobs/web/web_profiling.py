"""Whether JSEP reports the time of each kernel on the GPU.

What it is: ``env.webgpu.profiling``: a record, or a line on the console, for every kernel of every run.
Why it costs: each kernel is timed and read back, so kernels do not overlap. The native builds (asyncify, jspi) ignore
    this setting: use the session option ``enableProfiling`` there.
Evidence: lines that begin with "[profiling]" on the console.
Fix and its safety: ``off``, except for a profile; exact.
Example: ``--target web-webgpu --set web_profiling=off``
References: onnxruntime-common, ``env.webgpu.profiling``.
"""

from ortune.knobs.knob import Knob
from ortune.providers.web_webgpu import PROVIDER as WEB_WEBGPU

KNOB = Knob(
    name="web_profiling",
    since="1.17",
    channel="web_env",
    key="webgpu.profiling.mode",
    provider=WEB_WEBGPU.name,
    builds=("jsep",),
    kind="choice",
    choices=("off", "default"),
    default="off",
    summary="JSEP reports the time of each kernel",
)
