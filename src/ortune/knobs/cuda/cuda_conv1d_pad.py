"""How a one-dimensional convolution is padded to two dimensions.

What it is: cuDNN has no one-dimensional convolution. With 0, [N,C,D] is padded to [N,C,D,1]; with 1, to [N,C,1,D].
Why it costs: kernels are written for wide innermost axes; with an innermost axis of 1 most of each tile is wasted.
Evidence: latency of models with Conv over three-dimensional tensors: speech and audio.
Fix and its safety: the value that measures faster; numerics, since another algorithm may run.
Example: ``--target cuda --set cuda_conv1d_pad=1``
References: ONNX Runtime documentation, "CUDA Execution Provider", ``cudnn_conv1d_pad_to_nc1d``.
"""

from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.cuda import PROVIDER as CUDA

KNOB = Knob(
    name="cuda_conv1d_pad",
    since="1.13",
    channel="provider_option",
    provider=CUDA.name,
    key="cudnn_conv1d_pad_to_nc1d",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="numerics",
    summary="one-dimensional convolutions padded as [N,C,1,D]",
    tries=("1",),
    prior=OFTEN,
    applies=lambda model: model.conv1d,
)
