"""One thread pool for every session of the process.

What it is: the number of threads of a pool that is created once; sessions must be configured without their own pool.
Why it costs: with one pool per session, two models in a process have more threads than CPUs, and spinning pools take
    CPUs from each other.
Evidence: threads counted when the pool is created; the session adds none.
Fix and its safety: for processes with several sessions; behaviour: every session must then be configured to use it,
    and a session with the default settings fails.
Example: ``--set pool=4``
References: microsoft/onnxruntime#5363, #10273, #20494.
"""

from ortune.knobs.knob import Knob

KNOB = Knob(
    name="global_thread_pool",
    aliases=("pool",),
    since="1.23",
    channel="global_pool",
    key="intra_op_num_threads",
    kind="int",
    minimum=1,
    default="one pool per session",
    probe="pool",
    conflicts=(
        "allow_spinning",
        "dynamic_block_base",
        "force_spinning_stop",
        "inter_op_allow_spinning",
        "inter_op_num_threads",
        "intra_op_num_threads",
        "intra_op_thread_affinities",
        "ort_intra_op_num_threads",
        "spin_duration_us",
    ),
    safety="behaviour",
    summary="threads of one pool shared by all sessions",
    under_load=True,
    threads="intra",
)
