"""How many requests OpenVINO computes at the same time.

What it is: the pool is divided into that many parts, and each processes its own request.
Why it costs: one request cannot keep all cores busy. With more streams, each request has fewer cores, so a single
    caller waits longer.
Evidence: throughput by number of streams, with several callers. OpenVINO does not return the value.
Fix and its safety: as many as there are callers, where throughput is the aim; exact.
Example: ``--target openvino --callers 2 --set openvino_streams=2``
References: OpenVINO, ``NUM_STREAMS``, given as ``load_config``: onnxruntime-ep-openvino ignores the option
    ``num_streams``.
"""

from ortune.knobs.knob import MOST_THREADS, Knob
from ortune.providers.openvino import PROVIDER as OPENVINO

KNOB = Knob(
    name="openvino_streams",
    aliases=("ov_streams",),
    since="1.21",
    channel="provider_option",
    provider=OPENVINO.name,
    key="load_config/CPU/NUM_STREAMS",
    kind="int",
    minimum=1,
    maximum=MOST_THREADS,
    default="1",
    summary="requests that OpenVINO processes concurrently",
    under_load=True,
    tries=("{cpus}", "{cpus/2}"),
    priors={"latency": 0.0, "throughput": 0.3},
)
