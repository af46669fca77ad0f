"""What doctor says about a machine, its runtimes and its environment: facts that cost speed everywhere.

Pure functions on what others have read: the same machine and environment always give the same findings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortune.fleet.runtimes import TWO_BUILDS
from ortune.platform import Snapshot, Topology
from ortune.records import Finding, Host, RuntimeReport

_INT8_FEATURES = frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"})
_MIB = 1 << 20
# A few idle pages stay swapped out on machines that have all the memory they need.
_SWAP_WORTH_SAYING_BYTES = 64 * _MIB
_THROTTLED_WORTH_SAYING_RATIO = 0.01


def findings(
    host: Host,
    runtimes: Sequence[RuntimeReport],
    environment: Mapping[str, str],
    *,
    topology: Topology | None = None,
    now: Snapshot | None = None,
) -> list[Finding]:
    """Everything worth saying, in order of code.

    Args:
        host: The machine.
        runtimes: The runtimes found on it, as reported.
        environment: The user's environment, by name; only names that affect ONNX Runtime are looked at.
        topology: Kinds of core, memory nodes and governor, where known.
        now: A reading of the sensors, where there is one.
    """
    topology = topology or Topology()
    now = now or Snapshot()
    found = [
        *(_two_wheels(report) for report in runtimes),
        *(_unusable_providers(report) for report in runtimes),
        _governor(topology.governor or now.governor),
        _throttled(now),
        _swap(now),
        _int8(host),
        _omp(host, environment),
        _mixed_cores(host, topology),
        _numa(topology),
        _threads(host, environment),
    ]
    return sorted((each for each in found if each is not None), key=lambda finding: finding.code)


def _two_wheels(report: RuntimeReport) -> Finding | None:
    problems = [problem for problem in report.problems if TWO_BUILDS in problem]
    if not problems:
        return None
    what, _, fix = problems[0].partition(": ")
    return Finding(
        code="ENV001",
        what="two builds of ONNX Runtime are installed over each other: which one runs is an accident",
        where=(report.runtime.python,),
        evidence=what,
        fix=fix,
    )


def _unusable_providers(report: RuntimeReport) -> Finding | None:
    unusable = [provider for provider in report.providers if provider.in_build and not provider.usable]
    if not unusable:
        return None
    names = ", ".join(provider.name for provider in unusable)
    return Finding(
        code="ENV006",
        what=f"{names} is in the build and cannot be used: sessions that ask for it fall back to the CPU",
        where=(report.runtime.python,),
        evidence="; ".join(f"{provider.name}: {provider.why}" for provider in unusable),
        fix="install what is missing, or use a build without it",
    )


def _governor(governor: str) -> Finding | None:
    if governor in ("", "performance"):
        return None
    return Finding(
        code="ENV002",
        what=f'the clock governor is "{governor}": clocks rise late and latencies spread',
        evidence=f"scaling_governor reads {governor}",
        fix="while measuring: sudo cpupower frequency-set -g performance",
    )


def _throttled(now: Snapshot) -> Finding | None:
    groups = [
        level
        for level in now.throttling
        if level.nr_periods > 0 and level.nr_throttled / level.nr_periods >= _THROTTLED_WORTH_SAYING_RATIO
    ]
    heat = now.thermal_throttles or 0
    if not groups and not heat:
        return None
    evidence = [
        f"{level.group}: stopped in {level.nr_throttled} of {level.nr_periods} periods, "
        f"{level.throttled_us / 1e6:.1f} s in all"
        for level in groups
    ]
    fixes = []
    if groups:
        fixes.append("use no more threads than the quota has CPUs, or raise the quota")
    if heat:
        evidence.append(f"heat has lowered the clock {heat} times since start")
        fixes.append("better cooling, or a lower fixed clock while measuring")
    cause = " and ".join(name for name, there in (("its CPU quota", groups), ("heat", heat)) if there)
    return Finding(
        code="ENV009",
        what=f"this process's CPUs have been held back by {cause}",
        evidence="; ".join(evidence),
        fix="; ".join(fixes),
    )


def _swap(now: Snapshot) -> Finding | None:
    if now.swap_bytes is None or now.swap_bytes < _SWAP_WORTH_SAYING_BYTES:
        return None
    return Finding(
        code="ENV003",
        what="the machine is swapping or has swapped: weights that were paged out come back during a run",
        evidence=f"{now.swap_bytes / _MIB:.0f} MiB of swap in use",
        fix="free memory, then: sudo swapoff -a while measuring",
    )


def _int8(host: Host) -> Finding | None:
    # Without any feature read, nothing is known; that is not the same as having none.
    if not host.features or _INT8_FEATURES & set(host.features):
        return None
    return Finding(
        code="ENV004",
        what="this processor has no 8-bit dot product (VNNI, AMX, dotprod): int8 models seldom pay on its CPU",
        where=(host.cpu,),
        evidence=f"it has {', '.join(host.features)}",
        fix="measure before quantizing for this machine; 4-bit weights may still pay where memory is the limit",
    )


def _omp(host: Host, environment: Mapping[str, str]) -> Finding | None:
    value = environment.get("OMP_NUM_THREADS")
    if not value or environment.get("ORT_INTRA_OP_NUM_THREADS"):
        return None
    return Finding(
        code="ENV005",
        what="OMP_NUM_THREADS is set, and ONNX Runtime does not read it: it has its own thread pool",
        where=("OMP_NUM_THREADS",),
        evidence=f"OMP_NUM_THREADS={value}; a default session takes one thread a core, {host.cores} here",
        fix="set intra_op_num_threads, or ORT_INTRA_OP_NUM_THREADS from ONNX Runtime 1.29 on",
    )


def _mixed_cores(host: Host, topology: Topology) -> Finding | None:
    if not topology.efficiency_cpus:
        return None
    return Finding(
        code="ENV007",
        what="the cores are of different speeds: one share of work each ends when the slowest core ends",
        where=(host.cpu,),
        evidence=topology.note,
        fix="try a thread a fast core (intra_op_num_threads) and pinning to the fast ones "
        "(session.intra_op_thread_affinities)",
    )


def _numa(topology: Topology) -> Finding | None:
    if len(topology.numa_nodes) < 2:
        return None
    return Finding(
        code="ENV008",
        what="the machine has several memory nodes: threads of one session on two of them read remote memory",
        evidence=f"{len(topology.numa_nodes)} nodes of "
        f"{', '.join(str(len(node)) for node in topology.numa_nodes)} CPUs",
        fix="one session a node: numactl --cpunodebind=0 --membind=0, and threads to match",
    )


def _threads(host: Host, environment: Mapping[str, str]) -> Finding | None:
    asked = environment.get("ORT_INTRA_OP_NUM_THREADS", "")
    by_variable = asked.isdigit() and int(asked) > 0
    threads = int(asked) if by_variable else host.cores
    if threads <= host.effective_cpus:
        return None
    source = f"ORT_INTRA_OP_NUM_THREADS={asked}" if by_variable else f"{host.cores} cores in the machine"
    limits = [f"affinity allows {host.affinity}"] if host.affinity < host.cores else []
    if host.quota is not None:
        limits.append(f"the CPU quota allows {host.quota:g}")
    return Finding(
        code="THR001",
        what=f"ONNX Runtime would start {threads} threads where {host.effective_cpus} can run: its default "
        "counts the machine's cores and looks at neither quota nor affinity",
        evidence=", ".join((source, *limits)),
        fix=f"set intra_op_num_threads to {host.effective_cpus}",
    )
