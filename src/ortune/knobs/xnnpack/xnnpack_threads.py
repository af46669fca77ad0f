"""How many threads XNNPACK computes with.

What it is: XNNPACK has its own thread pool, in addition to ONNX Runtime's.
Why it costs: two pools compete for the cores: ONNX Runtime's threads spin while XNNPACK computes.
Evidence: latency on the device, and threads counted at session creation.
Fix and its safety: the number of fast cores, with ONNX Runtime's own pool limited to one thread that does not spin;
    exact.
Example: ``--target xnnpack --set xnnpack_threads=4 --set intra=1 --set spin=0``
References: ONNX Runtime, ``intra_op_num_threads`` in xnnpack_execution_provider.h and .cc; microsoft/onnxruntime#13318,
    which made the size of ONNX Runtime's own pool the default. Untested by ortune.
"""

from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.xnnpack import PROVIDER as XNNPACK

KNOB = Knob(
    name="xnnpack_threads",
    since="1.14",
    channel="provider_option",
    provider=XNNPACK.name,
    key="intra_op_num_threads",
    kind="int",
    beyond=True,
    minimum=1,
    maximum=4096,
    default="as many as ONNX Runtime's own pool",
    summary="threads of XNNPACK",
    under_load=True,
    threads="intra",
    tries=("{cpus}", "{cpus/2}"),
    prior=OFTEN,
    needs=("intra_op_num_threads=1", "allow_spinning=0"),
)
