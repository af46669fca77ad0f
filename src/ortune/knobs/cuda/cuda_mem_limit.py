"""The most memory that the GPU's arena may hold, in bytes.

What it is: an allocation beyond it fails the run. Weights, activations and cuDNN's workspaces all count towards it.
Why it costs: without a limit one session can take what others on the GPU need.
Evidence: the GPU's memory, and runs that fail with an out-of-memory error.
Fix and its safety: a limit above the measured peak where several programs share a GPU; behaviour.
Example: ``--target cuda --set cuda_mem_limit=2147483648``
References: ONNX Runtime documentation, "CUDA Execution Provider", ``gpu_mem_limit``.
"""

from ortune.knobs.knob import Knob
from ortune.providers.cuda import PROVIDER as CUDA

KNOB = Knob(
    name="cuda_mem_limit",
    channel="provider_option",
    provider=CUDA.name,
    key="gpu_mem_limit",
    kind="int",
    beyond=True,
    minimum=256 << 20,
    maximum=1 << 50,
    default="no limit",
    safety="behaviour",
    summary="limit of the GPU arena, in bytes",
)
