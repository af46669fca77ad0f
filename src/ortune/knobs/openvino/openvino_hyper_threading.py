"""Whether OpenVINO uses both hardware threads of a core.

What it is: one thread per hardware thread, or one per core.
Why it costs: two threads on a core share its execution units, and help only where one waits for memory.
Evidence: latency. OpenVINO does not return the value.
Fix and its safety: the value that measures faster; exact.
Example: ``--target openvino --set openvino_hyper_threading=0``
References: OpenVINO, ``ENABLE_HYPER_THREADING``, given as ``load_config``.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.openvino import PROVIDER as OPENVINO

KNOB = Knob(
    name="openvino_hyper_threading",
    aliases=("ov_ht",),
    since="1.21",
    channel="provider_option",
    provider=OPENVINO.name,
    key="load_config/CPU/ENABLE_HYPER_THREADING",
    kind="choice",
    choices=("0", "1"),
    spelled=(("0", "NO"), ("1", "YES")),
    default="OpenVINO's choice, depending on the hint",
    summary="use both hardware threads of a core",
    under_load=True,
    tries=("1",),
    prior=SELDOM,
)
