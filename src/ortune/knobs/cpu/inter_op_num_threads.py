"""Number of operators that may run at the same time in parallel mode.

What it is: the size of the inter-op pool, including the calling thread.
Why it costs: in sequential mode, the default, this setting is silently ignored. In parallel mode the default is one
    thread per core, in addition to the intra-op pool.
Evidence: threads counted at session creation.
Fix and its safety: as many as the graph has branches, with the intra-op pool made smaller; exact.
Example: ``--set inter=2``
References: ONNX Runtime documentation, "Thread management"; microsoft/onnxruntime#10330, #12819.
"""

from ortune.knobs.cpu.execution_mode import wide
from ortune.knobs.knob import MOST_THREADS, SELDOM, Knob

KNOB = Knob(
    name="inter_op_num_threads",
    aliases=("inter",),
    channel="session_option",
    key="inter_op_num_threads",
    kind="int",
    minimum=0,
    maximum=MOST_THREADS,
    default="the machine's physical cores, in parallel mode only",
    probe="threads",
    summary="operators that run concurrently in parallel mode",
    under_load=True,
    threads="inter",
    tries=("{cpus/2}",),
    prior=SELDOM,
    applies=wide,
    needs=("execution_mode=parallel",),
    triton="inter_op_thread_count",
)
