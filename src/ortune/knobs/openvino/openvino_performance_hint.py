"""What OpenVINO optimises for: latency or throughput.

What it is: OpenVINO chooses the number of streams and threads for latency or for throughput.
Why it costs: settings that suit one caller leave cores idle if there are many callers.
Evidence: latency and throughput by hint. OpenVINO does not return the value.
Fix and its safety: ``throughput`` where many callers share the session; exact.
Example: ``--target openvino --callers 4 --set openvino_performance_hint=throughput``
References: OpenVINO, ``PERFORMANCE_HINT``, given as ``load_config``.
"""

from ortune.knobs.knob import Knob
from ortune.providers.openvino import PROVIDER as OPENVINO

KNOB = Knob(
    name="openvino_performance_hint",
    aliases=("ov_hint",),
    since="1.21",
    channel="provider_option",
    provider=OPENVINO.name,
    key="load_config/CPU/PERFORMANCE_HINT",
    kind="choice",
    choices=("latency", "throughput", "cumulative_throughput"),
    spelled=(
        ("latency", "LATENCY"),
        ("throughput", "THROUGHPUT"),
        ("cumulative_throughput", "CUMULATIVE_THROUGHPUT"),
    ),
    default="latency",
    conflicts=("openvino_streams",),
    summary="what OpenVINO optimises streams and threads for",
    under_load=True,
    tries=("throughput",),
    priors={"latency": 0.0, "throughput": 0.2},
)
