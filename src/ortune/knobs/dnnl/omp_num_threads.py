"""How many threads OpenMP starts, in builds that use OpenMP.

What it is: the variable ``OMP_NUM_THREADS``, which builds with OpenMP (up to 1.7) and oneDNN read when they start.
Why it costs: more threads than cores wait for each other at the end of every operator.
Evidence: threads counted in the process. Later builds of the CPU provider ignore it.
Fix and its safety: the number of physical cores, set before the process starts; exact (sums may be reassociated).
Example: ``--set omp_num_threads=4``
References: ONNX Runtime documentation, "ONNX Runtime Performance Tuning" of 1.6; OpenMP 5.2, section 21.1.
"""

from ortune.knobs.knob import Knob

KNOB = Knob(
    name="omp_num_threads",
    channel="env",
    key="OMP_NUM_THREADS",
    kind="int",
    minimum=1,
    maximum=4096,
    default="all CPUs",
    summary="threads of OpenMP, for old builds and oneDNN",
    under_load=True,
    threads="intra",
)
