"""Whether MIGraphX times every kernel when it compiles.

What it is: each candidate for a convolution or product is run, and the fastest is kept.
Why it costs: the search takes minutes at every start, unless compiled models are kept.
Evidence: load time and latency.
Fix and its safety: on together with ``migraphx_cache``; numerics, since other kernels run.
Example: ``--target migraphx --set migraphx_exhaustive_tune=1``
References: onnxruntime-migraphx 1.27.1, ``migraphx_exhaustive_tune``. Untested by ortune.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.migraphx import PROVIDER as MIGRAPHX

KNOB = Knob(
    name="migraphx_exhaustive_tune",
    channel="provider_option",
    provider=MIGRAPHX.name,
    key="migraphx_exhaustive_tune",
    kind="choice",
    choices=("0", "1"),
    default="0",
    safety="numerics",
    summary="kernels timed while compiling",
    tries=("1",),
    prior=SELDOM,
    priors={"cold-start": 0.0, "memory": 0.0},
)
