"""Whether copies run in the stream of the kernels.

What it is: with 0, copies to and from the GPU have their own stream.
Why it costs: copies in the same stream wait for kernels. In another stream they can overlap with kernels, but missing
    synchronisation has caused wrong results.
Evidence: latency of models with copies between devices.
Fix and its safety: leave it at 1, as ONNX Runtime advises; behaviour.
Example: ``--target cuda --set cuda_copy_in_default_stream=0``
References: ONNX Runtime documentation, "CUDA Execution Provider", ``do_copy_in_default_stream``.
"""

from ortune.knobs.knob import Knob
from ortune.providers.cuda import PROVIDER as CUDA

KNOB = Knob(
    name="cuda_copy_in_default_stream",
    channel="provider_option",
    provider=CUDA.name,
    key="do_copy_in_default_stream",
    kind="choice",
    choices=("0", "1"),
    default="1",
    safety="behaviour",
    summary="copies in the stream of the kernels",
)
