"""Whether NNAPI runs only on its reference kernels.

What it is: all nodes run on the CPU, in float32.
Why it costs: these kernels are many times slower than ONNX Runtime's own.
Evidence: the outputs, without the rounding of a driver.
Fix and its safety: for checking outputs, never for speed; behaviour.
Example: ``--target nnapi --set nnapi_cpu_only=1``
References: ONNX Runtime 1.31, ``NNAPI_FLAG_CPU_ONLY`` in nnapi_provider_factory.h; microsoft/onnxruntime#9066. Untested
    by ortune.
"""

from ortune.knobs.knob import Knob
from ortune.providers.nnapi import PROVIDER as NNAPI

KNOB = Knob(
    name="nnapi_cpu_only",
    since="1.10",
    channel="provider_option",
    provider=NNAPI.name,
    key="NNAPI_FLAG_CPU_ONLY",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="behaviour",
    summary="only reference kernels",
)
