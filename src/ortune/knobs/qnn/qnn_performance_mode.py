"""How high the NPU's clocks are while a session exists.

What it is: a vote for clocks, voltage and sleep states, from ``burst`` to ``extreme_power_saver``.
Why it costs: in default mode the clocks follow the load, and short runs start on a slow NPU; high-performance
    modes use power all the time.
Evidence: latency of short runs, and heat. The x86-64 emulator has no clocks, so nothing changes there.
Fix and its safety: ``burst`` where runs are short and latency matters, ``balanced`` for long work; behaviour, since it
    uses more power.
Example: ``--target qnn --set qnn_performance_mode=burst``
References: ONNX Runtime documentation, "QNN Execution Provider", ``htp_performance_mode``.
"""

from ortune.knobs.knob import OFTEN, Knob
from ortune.providers.qnn import PROVIDER as QNN

KNOB = Knob(
    name="qnn_performance_mode",
    since="1.18",
    channel="provider_option",
    provider=QNN.name,
    key="htp_performance_mode",
    kind="choice",
    choices=(
        "burst",
        "balanced",
        "default",
        "high_performance",
        "high_power_saver",
        "low_balanced",
        "low_power_saver",
        "power_saver",
        "extreme_power_saver",
        "sustained_high_performance",
    ),
    default="default",
    safety="behaviour",
    summary="clocks of the NPU",
    tries=("burst", "sustained_high_performance"),
    prior=OFTEN,
)
