"""How many threads oneDNN computes with.

What it is: the OpenMP threads that oneDNN starts, in addition to ONNX Runtime's pool.
Why it costs: two pools compete for the cores.
Evidence: threads counted in the process; latency.
Fix and its safety: the number of cores, with ONNX Runtime's own pool at one thread; exact. Builds of oneDNN that use
    ONNX Runtime's pool reject this setting.
Example: ``--target dnnl --set dnnl_threads=4``
References: ONNX Runtime, ``num_of_threads`` in onnxruntime_pybind_state.cc of 1.16. Untested by ortune.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.dnnl import PROVIDER as DNNL

KNOB = Knob(
    name="dnnl_threads",
    since="1.16",
    channel="provider_option",
    provider=DNNL.name,
    key="num_of_threads",
    kind="int",
    minimum=0,
    maximum=4096,
    default="provider's default",
    summary="threads of oneDNN",
    under_load=True,
    threads="intra",
    tries=("{cpus}",),
    prior=SELDOM,
)
