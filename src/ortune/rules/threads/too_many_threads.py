"""ONNX Runtime would start more threads than there are available CPUs.

What it is: the default is one thread per core of the machine, regardless of a container's CPU quota or the process
    affinity.
Why it costs: threads wait for others that have no CPU, and spinning uses up the quota until the process is throttled.
Evidence: the cores of the machine, the quota, the affinity, and ``ORT_INTRA_OP_NUM_THREADS``.
Fix and its safety: exact: as many threads as available CPUs.
Example: ``--set intra_op_num_threads=2``
References: ONNX Runtime documentation, "Thread management".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.named import INTRA_OP_NUM_THREADS as THREADS
from ortune.catalogue.named import ORT_INTRA_OP_NUM_THREADS as VARIABLE
from ortune.catalogue.versions import why_too_old
from ortune.records import Finding, Plan
from ortune.rules._words import plural
from ortune.rules.facts import Facts

CODE = "THR001"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if a session has more threads than CPUs, by a setting, a variable or the default."""
    host = facts.host
    if host is None or facts.provider.in_page:
        return  # a page has its own threads and another default
    own = facts.plan.settings.get(THREADS.name)
    read = not why_too_old(VARIABLE, facts.ort_version)
    asked = facts.environment.get(VARIABLE.key, "") if read else ""
    by_user = isinstance(own, int) and own > 0
    by_variable = not by_user and asked.isdecimal() and int(asked) > 0
    threads = own if isinstance(own, int) and own > 0 else int(asked) if by_variable else host.cores
    if threads <= host.effective_cpus:
        return
    source = f"the machine has {host.cores} cores"
    if by_user or by_variable:
        source = f"{THREADS.name}={own}" if by_user else f"{VARIABLE.key}={asked}"
    limits = [f"the affinity allows {host.affinity}"] if host.affinity < host.cores else []
    if host.quota is not None:
        limits.append(f"the CPU quota allows {host.quota:g}")
    default = "" if by_user or by_variable else ", because its default ignores quota and affinity"
    yield Finding(
        code=CODE,
        what=f"ONNX Runtime would start {threads} threads for {host.effective_cpus} available "
        f"{plural(host.effective_cpus, 'CPU')}{default}",
        evidence=", ".join((source, *limits)),
        fix=f"set {THREADS.name}={host.effective_cpus}",
        plan=Plan(settings={THREADS.name: host.effective_cpus}),
        safety="exact",
    )
