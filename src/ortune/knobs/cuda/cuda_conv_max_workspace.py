"""Whether cuDNN may use as much memory as its fastest algorithm needs.

What it is: with 1, algorithms with any workspace size are tried; with 0, only those that need at most 32 MB.
Why it costs: a convolution without enough workspace for the fast algorithm falls back to a slower one; an unlimited
    workspace can take gigabytes for large inputs.
Evidence: latency, and the GPU's memory.
Fix and its safety: 0 where the GPU is shared and memory matters; numerics, since another algorithm may run.
Example: ``--target cuda --set cuda_conv_max_workspace=0``
References: ONNX Runtime documentation, "CUDA Execution Provider", ``cudnn_conv_use_max_workspace``.
"""

from ortune.knobs.knob import Knob
from ortune.providers.cuda import PROVIDER as CUDA

KNOB = Knob(
    name="cuda_conv_max_workspace",
    since="1.13",
    channel="provider_option",
    provider=CUDA.name,
    key="cudnn_conv_use_max_workspace",
    kind="choice",
    choices=("0", "1"),
    default="1 since 1.14, 0 before",
    safety="numerics",
    summary="unlimited workspace for convolutions",
    tries=("0",),
    applies=lambda model: model.has("Conv", "ConvTranspose"),
    priors={"latency": 0.02, "memory": 0.3},
)
