"""The CPUs that the whole process may run on.

What it is: CPU numbers counted from 0 and separated by commas, set before ONNX Runtime is loaded.
Why it costs: a process spread over sockets, or over fast and slow cores, waits for memory and for its slowest thread.
    ONNX Runtime ignores the affinity when it chooses the number of threads, so set ``intra_op_num_threads`` too.
Evidence: the affinity read back from the process.
Fix and its safety: one NUMA node or the fast cores, with one thread per core; behaviour. Other programs may still use
    these CPUs.
Example: ``--set cpus=0``
References: microsoft/onnxruntime#10104, #29510.
"""

from ortune.knobs.knob import Knob

KNOB = Knob(
    name="process_affinity",
    aliases=("cpus",),
    channel="process",
    key="affinity",
    kind="text",
    pattern="[0-9][0-9,-]*",
    default="every CPU that the system allows",
    probe="affinity",
    system="linux",
    cpu_numbers=True,
    safety="behaviour",
    summary="CPUs of the process, counted from 0",
    under_load=True,
)
