"""Whether cuDNN fuses bias, residual sum and activation into the convolution.

What it is: the convolution's graph in cuDNN includes the following operators, if cuDNN has an engine for them.
Why it costs: each separate operator reads and writes the whole output once more.
Evidence: latency. onnxruntime 1.31.1 with cuDNN 9 on an H100 computed NaN with this setting and was slower, so check
    the outputs.
Fix and its safety: on where outputs stay correct and it measures faster; numerics.
Example: ``--target cuda --set cuda_fuse_conv_bias=1``
References: ONNX Runtime documentation, "CUDA Execution Provider", ``fuse_conv_bias``.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.cuda import PROVIDER as CUDA

KNOB = Knob(
    name="cuda_fuse_conv_bias",
    since="1.18",
    channel="provider_option",
    provider=CUDA.name,
    key="fuse_conv_bias",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="numerics",
    summary="bias and activation fused into the convolution",
    tries=("1",),
    prior=SELDOM,
    applies=lambda model: model.has("Conv"),
)
