"""The number format in which OpenVINO computes float32 models on the CPU.

What it is: a hint that allows bfloat16 or float16 if the CPU has instructions for them. Without the hint, OpenVINO
    computes in bfloat16 on CPUs with AMX or AVX-512 BF16, and in float32 on others.
Why it costs: both types have half the bytes and at least twice the multiplications per instruction. Without such
    instructions the hint changes nothing.
Evidence: latency, and outputs that differ by more than reassociation explains. OpenVINO does not return the value.
Fix and its safety: ``f32`` keeps the outputs equal to those of the CPU provider (exact); ``bf16`` where they stay
    within the tolerance (numerics).
Example: ``--target openvino --set openvino_precision=bf16``
References: OpenVINO, ``INFERENCE_PRECISION_HINT``, given as ``load_config``.
"""

from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.openvino import PROVIDER as OPENVINO

KNOB = Knob(
    name="openvino_precision",
    aliases=("ov_precision",),
    since="1.21",
    channel="provider_option",
    provider=OPENVINO.name,
    key="load_config/CPU/INFERENCE_PRECISION_HINT",
    kind="choice",
    choices=("f32", "bf16", "f16"),
    default="bf16 on a processor that has it, else f32",
    safety="numerics",
    strict="f32",
    summary="numeric type that OpenVINO computes in",
    tries=("bf16",),
    prior=OFTEN,
    priors={"latency": 0.5},
)
