"""The most memory that the GPU's arena may hold, in bytes.

What it is: an allocation beyond it fails the run.
Why it costs: without a limit one session can take what others on the GPU need.
Evidence: the GPU's memory, and runs that fail with an out-of-memory error.
Fix and its safety: a limit above the measured peak where several programs share a GPU; behaviour.
Example: ``--target migraphx --set migraphx_mem_limit=2147483648``
References: onnxruntime-migraphx 1.27.1, ``migraphx_mem_limit``. Untested by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.migraphx import PROVIDER as MIGRAPHX

KNOB = Knob(
    name="migraphx_mem_limit",
    channel="provider_option",
    provider=MIGRAPHX.name,
    key="migraphx_mem_limit",
    kind="int",
    beyond=True,
    minimum=268435456,
    maximum=1125899906842624,
    default="no limit",
    safety="behaviour",
    summary="limit of the GPU arena, in bytes",
)
