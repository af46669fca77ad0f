"""How long TensorRT searches for fast kernels.

What it is: 0 builds fastest, 3 is the default, 5 tries most.
Why it costs: a deeper search can find faster kernels, but building takes many times as long.
Evidence: latency, and load time.
Fix and its safety: 5 where engines are cached, 2 where each start builds one; numerics.
Example: ``--target tensorrt --set trt_builder_level=5``
References: ONNX Runtime documentation, "TensorRT Execution Provider", ``trt_builder_optimization_level``. Untested by
    ortune.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.tensorrt import PROVIDER as TENSORRT

KNOB = Knob(
    name="trt_builder_level",
    since="1.15",
    channel="provider_option",
    provider=TENSORRT.name,
    key="trt_builder_optimization_level",
    kind="int",
    minimum=0,
    maximum=5,
    default="3",
    safety="numerics",
    summary="depth of TensorRT's search",
    tries=("5", "2"),
    prior=SELDOM,
    priors={"cold-start": {"2": 0.4, "5": 0.0}},
)
