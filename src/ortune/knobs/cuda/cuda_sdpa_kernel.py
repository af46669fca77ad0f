"""Which kernels attention may use.

What it is: a bit mask: 1 flash attention, 2 memory-efficient attention, 4 TensorRT's fused attention, 8 cuDNN's flash
    attention, 16 unfused attention. 32, 64 and 128 are TensorRT's flash, cross and causal attention; 256 is lean
    attention.
Why it costs: which is fastest depends on lengths, heads and the GPU; by default ONNX Runtime decides by heuristics.
Evidence: latency of models with fused attention (MultiHeadAttention, GroupQueryAttention).
Fix and its safety: the mask that measures fastest; numerics.
Example: ``--target cuda --set cuda_sdpa_kernel=8``
References: ONNX Runtime, ``AttentionBackend`` and ``sdpa_kernel``.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.cuda import PROVIDER as CUDA

KNOB = Knob(
    name="cuda_sdpa_kernel",
    since="1.20",
    channel="provider_option",
    provider=CUDA.name,
    key="sdpa_kernel",
    kind="int",
    minimum=0,
    maximum=511,
    default="0: by heuristics",
    safety="numerics",
    summary="kernels for attention",
    tries=("8", "1"),
    prior=SELDOM,
    applies=lambda model: model.has("MultiHeadAttention", "GroupQueryAttention", "Attention"),
)
