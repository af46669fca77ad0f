"""Number of threads that work on one operator.

What it is: the size of the session's intra-op pool, including the calling thread.
Why it costs: the default is the number of physical cores of the *machine*. In a container with a CPU quota or a narrow
    affinity that is too many, and threads wait for each other; for a small model even two can be too many.
Evidence: threads counted at session creation (``/proc/self/task``), cgroup throttling, latency by number of threads.
Fix and its safety: the number of CPUs that the process really has; exact (sums may be reassociated).
Example: ``--set intra=4``
References: ONNX Runtime documentation, "Thread management"; microsoft/onnxruntime#29510.
"""

from ortune.knobs.knob import MOST_THREADS, OFTEN, Knob

KNOB = Knob(
    name="intra_op_num_threads",
    aliases=("intra", "threads"),
    channel="session_option",
    key="intra_op_num_threads",
    kind="int",
    minimum=0,
    maximum=MOST_THREADS,
    default="the machine's physical cores, ignoring quota and affinity",
    probe="threads",
    summary="threads per operator",
    under_load=True,
    threads="intra",
    tries=("1", "{cpus/2}", "{cpus-1}", "{cpus}"),
    prior=OFTEN,
    priors={"latency": 0.35, "throughput": {"1": 0.5}, "cpu": {"1": 0.85}, "memory": {"1": 0.3}},
    triton="intra_op_thread_count",
)
