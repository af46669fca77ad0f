"""Whether idle threads of OpenMP spin or sleep.

What it is: the variable ``OMP_WAIT_POLICY``: ``active`` spins, ``passive`` sleeps.
Why it costs: waking up takes tens of microseconds at each operator; spinning takes cores from other programs.
Evidence: latency, and CPU time. Builds without OpenMP ignore it.
Fix and its safety: ``active`` where the cores are free, ``passive`` where they are shared; behaviour.
Example: ``--set omp_wait_policy=passive``
References: ONNX Runtime documentation, "ONNX Runtime Performance Tuning" of 1.6; OpenMP 5.2, section 21.4; GNU libgomp,
    OMP_WAIT_POLICY.
"""

from ortune.knobs.knob import Knob

KNOB = Knob(
    name="omp_wait_policy",
    channel="env",
    key="OMP_WAIT_POLICY",
    kind="choice",
    choices=("active", "passive"),
    spelled=(("active", "ACTIVE"), ("passive", "PASSIVE")),
    default="active for a short time, then passive",
    safety="behaviour",
    summary="whether idle threads of OpenMP spin, for old builds and oneDNN",
    under_load=True,
)
