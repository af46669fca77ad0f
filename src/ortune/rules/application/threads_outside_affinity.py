"""Threads of a session are pinned to CPUs that the process may not use.

What it is: a thread pool of the default size in a process that is restricted to some of the CPUs (taskset, cpuset,
    Kubernetes with a static CPU policy).
Why it costs: ONNX Runtime sizes the pool by the machine and pins each thread to a CPU of its own, also outside of the
    CPUs that the process was given. The threads take CPUs from other programs, and several processes pin theirs to the
    same CPUs.
Evidence: the CPUs of the process and of each thread, as recorded.
Fix and its safety: advice: set the number of threads; threads of an explicit number are not pinned.
Example: ``taskset -c 0 python app.py``
References: ONNX Runtime documentation, "Thread management".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rules._recordings import frames_of, model_name, stack
from ortune.rules.facts import Facts

CODE = "APP006"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each model of a recording with threads on CPUs outside of the process's affinity."""
    recording = facts.recording
    if recording is None:
        return
    said: set[int] = set()
    for session in recording.sessions:
        cpus = set(recording.processes[session.process].cpus)
        outside = [own for own in session.thread_cpus if cpus.isdisjoint(own)]
        if not cpus or not outside or session.model in said:
            continue
        said.add(session.model)
        model = model_name(recording.models[session.model])
        several = len(outside) > 1
        threads = (
            f"{len(outside)} threads of a session of {model} run"
            if several
            else f"1 thread of a session of {model} runs"
        )
        away = sorted({cpu for own in outside for cpu in own})
        yield Finding(
            code=CODE,
            what=f"{threads} on CPUs that the process may not use",
            where=stack(frames_of(recording, session)),
            evidence=f"allowed CPUs: {_listed(sorted(cpus))}; CPUs of these threads: {_listed(away)}",
            fix=f"set intra_op_num_threads={len(cpus)}",
        )


def _listed(cpus: list[int]) -> str:
    return ", ".join(map(str, cpus[:8])) + (", ..." if len(cpus) > 8 else "")
