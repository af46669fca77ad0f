"""The latency requested for remote procedure calls (RPC) to the NPU, in microseconds.

What it is: a vote for the latency of the remote procedure calls that start each run.
Why it costs: without it, leaving the CPU's power states adds up to several milliseconds to each run.
Evidence: latency of short runs. The x86-64 emulator makes no such calls.
Fix and its safety: 100 where runs are short; behaviour, since the CPU saves less power.
Example: ``--target qnn --set qnn_rpc_latency=100``
References: ONNX Runtime documentation, "QNN Execution Provider", ``rpc_control_latency``.
"""

from ortune.knobs.knob import SELDOM, Knob
from ortune.providers.qnn import PROVIDER as QNN

KNOB = Knob(
    name="qnn_rpc_latency",
    since="1.18",
    channel="provider_option",
    provider=QNN.name,
    key="rpc_control_latency",
    kind="int",
    minimum=1,
    maximum=1000000,
    default="off",
    safety="behaviour",
    summary="latency of remote procedure calls (RPC) to the NPU, in microseconds",
    tries=("100",),
    prior=SELDOM,
)
