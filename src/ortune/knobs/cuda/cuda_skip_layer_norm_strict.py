"""Whether SkipLayerNormalization sums in float32.

What it is: in float16 models the sum of input and skip is rounded to float16 before the mean and variance, or kept in
    float32.
Why it costs: strict mode is slower; the rounding costs accuracy where values are large.
Evidence: the output error relative to float32.
Fix and its safety: on where the output error of a float16 model is too large; numerics.
Example: ``--target cuda --set cuda_skip_layer_norm_strict=1``
References: ONNX Runtime documentation, "CUDA Execution Provider", ``enable_skip_layer_norm_strict_mode``.
"""

from ortune.knobs.knob import Knob
from ortune.providers.cuda import PROVIDER as CUDA

KNOB = Knob(
    name="cuda_skip_layer_norm_strict",
    since="1.16",
    channel="provider_option",
    provider=CUDA.name,
    key="enable_skip_layer_norm_strict_mode",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="numerics",
    summary="SkipLayerNormalization in float32",
)
