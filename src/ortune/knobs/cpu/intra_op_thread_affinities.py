"""The CPUs that each thread of the intra-op pool is pinned to.

What it is: one entry for each pool thread except the caller (n - 1 entries), separated by semicolons; an entry lists
    CPUs counted from 1, as ``1,2`` or ``1-4``.
Why it costs: threads that move between sockets or to slow cores lose their caches and make the others wait.
Evidence: ``Cpus_allowed_list`` of each thread of the process.
Fix and its safety: one NUMA node, or only the fast cores; exact.
Example: ``--set affinities=1 --set intra=2``
References: ONNX Runtime documentation, "Thread management"; microsoft/onnxruntime#897, #10104.
"""

from ortune.knobs.knob import Knob

KNOB = Knob(
    name="intra_op_thread_affinities",
    aliases=("affinities",),
    channel="session_config",
    key="session.intra_op_thread_affinities",
    kind="text",
    pattern="[0-9][0-9,;-]*",
    default="one core each if ONNX Runtime chooses the number of threads, otherwise none",
    probe="affinities",
    summary="CPUs of each pool thread, counted from 1",
    under_load=True,
    cpu_numbers=True,
    needs=("intra_op_num_threads=2",),
)
