"""Whether NNAPI's own reference kernels on the CPU are disabled.

What it is: with the value 1, nodes that no driver supports stay with ONNX Runtime.
Why it costs: NNAPI's reference kernels are many times slower than ONNX Runtime's own.
Evidence: placement: ``ortune partition`` shows the regions; latency on the device.
Fix and its safety: on; exact. It needs Android 10, and fails where a driver refuses a node that it had accepted.
Example: ``--target nnapi --set nnapi_cpu_disabled=1``
References: ONNX Runtime 1.31, ``NNAPI_FLAG_CPU_DISABLED`` in nnapi_provider_factory.h; microsoft/onnxruntime#6593.
    Untested by ortune.
"""

from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.nnapi import PROVIDER as NNAPI

KNOB = Knob(
    name="nnapi_cpu_disabled",
    since="1.7",
    channel="provider_option",
    provider=NNAPI.name,
    key="NNAPI_FLAG_CPU_DISABLED",
    kind="choice",
    choices=("0", "1"),
    default="0",
    conflicts=("nnapi_cpu_only",),
    summary="no reference kernels on the CPU",
    tries=("1",),
    prior=OFTEN,
)
