"""A GPU runs the model but computes for less than half of the run.

What it is: a run on a GPU (CUDA, TensorRT, TensorRT for RTX, MIGraphX, DirectML or WebGPU) in which the GPU is idle
    most of the time. The model is then often no faster than on a CPU, or slower.
Why it costs: four causes are possible, alone or together. Nodes without a GPU kernel run on the CPU, with a copy before
    and after. The host needs tens of microseconds to launch the kernels of each node, however short they are. Inputs
    and outputs are transferred in each run. The model has too little work for the GPU to recover this overhead.
Evidence: the kernel time where the profile has it; otherwise the time in which the host may wait for the device, which
    is an upper limit. The finding lists the causes, the largest first, with their shares of the run. It also shows how
    much longer the first run with a shape takes than a steady one. The transfer of inputs and outputs is measured
    without the profiler where values can stay in the device's memory. This finding replaces PLC001, PLC002, PLC003,
    PLC005, GRA005 and WEB007, which each cover one cause. Not reported on a software GPU.
Fix and its safety: advice: remove the largest cause, and compare the same model on the CPU. The finding gives the
    command for this comparison. If a setting or ``ortune tune`` can remove the cause, it also gives the command that
    measures the gain.
Example: ``ortune compare model.onnx --a-target cuda --b-target cpu``, or ``ortune tune model.onnx --targets cpu,cuda``
References: ONNX Runtime documentation, "Why is my model running slower on GPU than CPU?"; microsoft/onnxruntime#20142,
    #8166, #18584, #22425; huggingface/transformers.js#955.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ortune.catalogue.providers import of_profile, profile_names
from ortune.records import Finding, ProfiledNode, ProfileResult
from ortune.rules._gpu_commands import GpuCommands
from ortune.rules._providers import open_inputs
from ortune.rules._words import percent, plural
from ortune.rules.facts import Facts
from ortune.rules.placement import cpu_fallback

CODE = "PLC007"
JOINS = ("GRA005", "PLC001", "PLC002", "PLC003", "PLC005", "WEB007")

_STOPPING = (
    "NonZero",
    "Compress",
    "Unique",
    "NonMaxSuppression",
)  # operators after which the host waits for a count from the device
_MOSTLY = 0.5
_WORTH_SAYING = 0.1
_LITTLE_FLOPS = 1e7  # a CPU computes as many in a millisecond
_FEW = 4  # minimum later runs to compare the first run with
_NEW_SHAPE = 2.0  # minimum ratio of the first run to a steady one


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cause:
    """A cause of the idle time of a GPU: its fraction of the run, its description and the remedy.

    Attributes:
        of_ns: Time to which the fraction refers; 0 for the profiled run.
        measure: Command that measures the remedy; empty if there is none.
    """

    share: float
    words: str
    remedy: str
    of_ns: float = 0.0
    measure: Sequence[str] = ()


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the GPU computes for less than half of the profiled run."""
    run = facts.profile
    devices = profile_names(lambda p: p.target and p.queues)
    nodes = [node for node in facts.nodes() if node.provider in devices]
    if run is None or not (nodes or run.trace.device_only) or facts.in_software:
        return
    computing_ns = _computing_ns(facts, run, nodes)
    # Profiling slows the host down, not the GPU: a run of 6 ms with a slowdown of 1.5 takes 4 ms without the
    # profiler, and the GPU must compute for 2 ms of these.
    plain_ns = run.wall_ns / max(run.slowdown_ratio or 1.0, 1.0)
    if computing_ns is None or computing_ns >= _MOSTLY * plain_ns:
        return
    islands = [*cpu_fallback.find(facts)]
    commands = GpuCommands.from_facts(facts, nodes[0].provider if nodes else "")
    causes = sorted(_causes(facts, run, nodes, islands, commands), key=lambda cause: -cause.share)
    device_timed = run.device_ns or run.trace.device_only
    remedy = f"{causes[0].remedy}; " if causes else ""
    if causes and causes[0].measure:
        remedy = f"{causes[0].remedy}: {shlex.join(causes[0].measure)}; "
    yield Finding(
        code=CODE,
        what=f"the GPU computes for {'' if device_timed else 'at most '}{percent(computing_ns / plain_ns)} of the run, "
        "so the CPU may be faster",
        where=tuple(name for island in islands for name in island.where),
        evidence="; ".join([*(cause.words for cause in causes), *_first_use(facts, run), *_little_work(run)]),
        share_ratio=1 - computing_ns / plain_ns,
        fix=f"{remedy}compare with the CPU: {shlex.join(commands.against_cpu())}",
    )


def _computing_ns(facts: Facts, run: ProfileResult, nodes: Sequence[ProfiledNode]) -> float | None:
    """Return the GPU's computing time in one run in nanoseconds, or an upper bound; None if unknown."""
    if run.trace.device_only:
        return run.wall_ns * (1 - facts.share("device-idle"))
    if run.device_ns:
        return sum(run.device_ns.values())
    waited = facts.share("device-wait")
    # The host time of a compiled part may be that of the GPU.
    if not waited or any(of_profile(node.provider).compiles for node in nodes):
        return None
    stopping = sum(node.time_ns for node in nodes if node.op_type in _STOPPING)
    # An upper bound: the host may wait for the GPU in all of these, but also for other things.
    in_waits = waited + facts.share("device-copies") + facts.share("control-flow")
    return run.wall_ns * in_waits + stopping


def _causes(
    facts: Facts,
    run: ProfileResult,
    nodes: Sequence[ProfiledNode],
    islands: Sequence[Finding],
    commands: GpuCommands,
) -> Iterator[_Cause]:
    """Yield the causes that take more than 10 % of the run, described with their fraction of the run."""
    queued = [node for node in nodes if node.category != "device-copies"]
    calls = max(sum(node.calls for node in queued), 1.0)
    computing = sum(run.device_ns.values()) / run.wall_ns
    launching = sum(node.time_ns for node in queued) / run.wall_ns + facts.share("between-nodes")
    per_launch = f"{launching * run.wall_ns / calls / 1e3:.1f} us each" + (
        f", {computing * run.wall_ns / calls / 1e3:.1f} us of computing" if run.device_ns else ""
    )
    idle, copies = facts.share("device-idle"), facts.share("device-copies")
    causes = [
        _Cause(
            share=island.share_ratio or 0.0,
            words=", ".join(filter(None, (island.what, island.evidence))),
            remedy=island.fix,
        )
        for island in islands
    ]
    if copies and not islands:
        causes.append(
            _Cause(
                share=copies,
                words="copies between devices",
                remedy="keep the connected operators on one device",
            )
        )
    if queued and not run.trace.device_only:
        causes.append(
            _Cause(
                share=launching,
                words=f"launching {calls:.0f} {plural(round(calls), 'node')} ({per_launch})",
                remedy="use fewer and larger kernels (fusions, fixed sizes, larger batches, graph capture)",
                measure=commands.capture(),
            )
        )
    causes += [
        *_transfers(facts, run, computing, commands.binding()),
        _Cause(
            share=idle,
            words=f"waiting for the host between {sum(node.calls for node in facts.nodes()):.0f} kernels",
            remedy="use fewer and larger kernels",
        ),
    ]
    for cause in causes:
        if cause.share > _WORTH_SAYING:
            of_ms = (cause.of_ns or run.wall_ns) / 1e6
            words = f"{cause.share * of_ms:.3g} of {of_ms:.3g} ms ({percent(cause.share)}) is {cause.words}"
            yield replace(cause, words=words)


def _transfers(facts: Facts, run: ProfileResult, computing: float, measure: Sequence[str]) -> list[_Cause]:
    """Return the causes that are transfers of inputs and outputs, measured if possible, else bounded by the profile."""
    remedy = "bind inputs and outputs to the device"
    if apart := run.gpu_run:
        words = "the transfer of inputs and outputs, in runs without the profiler"
        share = apart.transfer_ns / apart.whole_ns
        return [_Cause(share=share, words=words, remedy=remedy, of_ns=apart.whole_ns, measure=measure)]
    around = facts.share("device-wait") - computing if run.device_ns else 0.0
    return [
        _Cause(share=share, words=words, remedy=remedy, measure=measure)
        for share, words in (
            (around, "the transfer of inputs and outputs, before and after the nodes"),
            (facts.share("outside-run"), "call overhead, including copies of inputs and outputs"),
        )
    ]


def _first_use(facts: Facts, run: ProfileResult) -> list[str]:
    """Return a clause on the extra time of the first run with a shape, if it is significant."""
    first_ns, *later_ns = run.variance.runs_ns if run.variance else (0.0,)
    if len(later_ns) < _FEW:
        return []
    usual_ns = float(np.median(later_ns))
    if first_ns < _NEW_SHAPE * usual_ns:
        return []
    when = "for each new input shape" if facts.model and open_inputs(facts) else "once"
    return [
        f"the first run takes {(first_ns - usual_ns) / 1e6:.3g} ms more than a steady one, {when} "
        "(kernels are chosen and compiled, memory is allocated)"
    ]


def _little_work(run: ProfileResult) -> list[str]:
    """Return a clause on the number of operations, if it is small or a CPU would need less than half of the time."""
    at_work = [node.flops for node in run.nodes if node.category == "kernels"]
    flops = 0.0 if None in at_work else sum(operations or 0.0 for operations in at_work)
    peak = max(run.peak.flops_per_s.values(), default=0.0) if run.peak else 0.0
    if peak and 0 < flops / peak * 1e9 < _MOSTLY * run.wall_ns:
        share = flops / peak * 1e9 / run.wall_ns
        return [
            f"at its peak this CPU would need only {percent(share)} of the run for the {_millions(flops)} operations"
        ]
    return [f"a run has {_millions(flops)} operations"] if 0 < flops < _LITTLE_FLOPS else []


def _millions(flops: float) -> str:
    return f"{flops / 1e6:,.3g} million"
