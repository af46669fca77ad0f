"""Whether OpenVINO pins its threads to cores.

What it is: each thread stays on one core, or the system may move it.
Why it costs: a thread that moves loses its caches; a pinned thread waits if another program uses its core.
Evidence: latency and its spread. OpenVINO does not return the value.
Fix and its safety: the value that measures faster; behaviour, since other programs on the machine are
    affected.
Example: ``--target openvino --set openvino_cpu_pinning=0``
References: OpenVINO, ``ENABLE_CPU_PINNING``, given as ``load_config``.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.openvino import PROVIDER as OPENVINO

KNOB = Knob(
    name="openvino_cpu_pinning",
    aliases=("ov_pin",),
    since="1.21",
    channel="provider_option",
    provider=OPENVINO.name,
    key="load_config/CPU/ENABLE_CPU_PINNING",
    kind="choice",
    choices=("0", "1"),
    spelled=(("0", "NO"), ("1", "YES")),
    default="OpenVINO's choice, depending on the system",
    safety="behaviour",
    summary="OpenVINO threads pinned to cores",
    under_load=True,
    tries=("1",),
    prior=SELDOM,
)
