"""How many threads OpenVINO computes with.

What it is: the size of OpenVINO's own pool; ONNX Runtime's pool serves only the nodes that stay on the CPU provider.
Why it costs: small layers end before the last thread has started; under a CPU quota threads wait for each other.
Evidence: latency by number of threads. OpenVINO does not return the value.
Fix and its safety: the count that measures fastest; exact (sums may be reassociated).
Example: ``--target openvino --set openvino_threads=1``
References: OpenVINO, ``INFERENCE_NUM_THREADS``, given as ``load_config``: onnxruntime-ep-openvino ignores the option
    ``num_of_threads``.
"""

from ortune.knobs.knob import MOST_THREADS, OFTEN, Knob
from ortune.providers.openvino import PROVIDER as OPENVINO

KNOB = Knob(
    name="openvino_threads",
    aliases=("ov_threads",),
    since="1.21",
    channel="provider_option",
    provider=OPENVINO.name,
    key="load_config/CPU/INFERENCE_NUM_THREADS",
    kind="int",
    minimum=1,
    maximum=MOST_THREADS,
    default="OpenVINO's choice: one per core",
    summary="threads of OpenVINO's pool",
    under_load=True,
    threads="intra",
    tries=("1", "{cpus/2}"),
    prior=OFTEN,
)
