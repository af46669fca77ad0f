"""Whether convolutions run with channels last.

What it is: ONNX Runtime moves Conv, pooling and normalisation into NHWC, and transposes at the boundaries of that part.
Why it costs: tensor cores read channels last: cuDNN otherwise transposes inside each convolution.
Evidence: latency, and Transpose nodes in the profile.
Fix and its safety: on where it measures faster; numerics, since other algorithms run.
Example: ``--target cuda --set cuda_nhwc=1``
References: ONNX Runtime documentation, "CUDA Execution Provider", ``prefer_nhwc``.
"""

from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.cuda import PROVIDER as CUDA

KNOB = Knob(
    name="cuda_nhwc",
    since="1.17",
    channel="provider_option",
    provider=CUDA.name,
    key="prefer_nhwc",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="numerics",
    summary="convolutions with channels last (NHWC)",
    tries=("1",),
    prior=OFTEN,
    applies=lambda model: model.has("Conv", "ConvTranspose"),
    priors={"latency": 0.4},
)
