"""The size of the default thread pool, from the environment.

What it is: the variable ``ORT_INTRA_OP_NUM_THREADS``, for programs whose code does not expose session options.
Why it costs: the same as for ``intra_op_num_threads``. The variable changes only the default; a value set in the
    session takes precedence.
Evidence: threads counted at session creation.
Fix and its safety: set the variable where the program starts; exact (sums may be reassociated).
Example: ``--set env_intra=4``
References: microsoft/onnxruntime#29510, #29688.
"""

from ortune.knobs.knob import MOST_THREADS, Knob

KNOB = Knob(
    name="ort_intra_op_num_threads",
    aliases=("env_intra",),
    since="1.29",
    channel="env",
    key="ORT_INTRA_OP_NUM_THREADS",
    kind="int",
    minimum=1,
    maximum=MOST_THREADS,
    default="the machine's physical cores",
    probe="threads",
    conflicts=("intra_op_num_threads", "intra_op_thread_affinities"),
    summary="size of the default thread pool, by environment variable",
    under_load=True,
    threads="intra",
)
