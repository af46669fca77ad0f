"""A profile and its document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ortune.records.base import Record
from ortune.records.difference import ProfileDifference
from ortune.records.finding import Finding
from ortune.records.machine import MachinePeak, Sensors, Side
from ortune.records.memory import MemoryProfile
from ortune.records.protocol import GpuRun
from ortune.records.timeline import Timeline
from ortune.records.trace import TraceInfo


class OperatorTime(Record, frozen=True, kw_only=True):
    """One operator in a profile, on one execution provider.

    Attributes:
        n_nodes: Nodes of it in the optimised graph that ran.
        time_ns: Time of all of them together in a run (median over the profiled runs), bodies not counted twice.
        share_ratio: Of the time of all operators.
    """

    op_type: str
    provider: str = ""
    n_nodes: int
    time_ns: float
    share_ratio: float


CategoryName = Literal[
    "kernels",
    "thread-wait",
    "device-copies",
    "device-wait",
    "casts-and-layout",
    "shape-arithmetic",
    "control-flow",
    "between-nodes",
    "device-idle",
    "outside-run",
    "unexplained",
]
"""Where the time of a run can go, and nowhere else. Each nanosecond is in one of them:

kernels: what the operators compute, without what thread-wait, copies, casts, shapes and control flow take from them.
thread-wait: the thread that runs a node waits for the pool's others, or shares out their work.
device-copies: values copied between devices (Memcpy nodes).
device-wait: in a run with nodes on a device, before and after the executor: inputs on their way there, waiting until it
    is done, outputs on their way back. Only where the profile says when the executor ran.
casts-and-layout: Cast, Transpose, reordering to and from blocked layouts, quantizing and dequantizing.
shape-arithmetic: nodes that only compute shapes and indices.
control-flow: If, Loop, Scan themselves, without the nodes of their bodies.
between-nodes: inside the run and in no node: the executor, allocation, the profiler's own writing.
device-idle: between the kernels on a device, where the trace holds nothing else: the device waits for the host.
outside-run: around ONNX Runtime's run: the language binding, copies of inputs and outputs.
unexplained: what is left; negative where the parts add up to more than the whole.
"""


class Category(Record, frozen=True, kw_only=True):
    """One share of a run, nanoseconds of the mean steady run."""

    name: CategoryName
    ns: float


class ProfiledNode(Record, frozen=True, kw_only=True):
    """One node of the optimised graph, in the mean steady run.

    Attributes:
        name: As the optimised graph has it.
        layer: Its place in the hierarchy of names, outermost first, joined by "/"; "" where names tell none.
        inside: The control-flow node whose body it is in, "" in the main graph.
        time_ns: Its own, without the nodes of its bodies. The sum over nodes is the run without ``between-nodes``.
        wait_ns: The part of it that is thread-wait.
        imbalance_ns: The part of that at the end of parallel work, when other threads were not done: uneven parts, or
            threads that began late. The rest is sharing the work out.
        fast_ns: What its executions take when nothing disturbs them: the fastest twentieth of each over the runs, at
            least one. This is set against the floor; ``time_ns`` beyond it is interference. None in older documents.
        fast_wait_ns: The part of that which is thread-wait.
        calls: Executions in a run; a body of a loop has many.
        originals: Nodes of the user's own model that it stands for; () where not known, or inserted.
        flops, bytes: Work of all its executions in a run; None where not known.
        remark: What people should know about that work: "17 output channels are padded to 32" is time that no work
            needs.
        floor_ns: The least time that this machine needs for that work with the threads that it may use; None without a
            measured peak.
        bound: What the floor is made of: "compute", or "memory" (moving its bytes, from memory or through the caches);
            "overhead" where an execution is so short, and so far from its floor, that starting it is most of what it
            costs.
        purpose: What a node that the optimiser inserted is for ("into blocked layout for conv1"), "" for all others.
        output_bytes: Of all its outputs, from the profile.
        device_ns: Time of its kernels on a device, beside the host's; None where the profile has none of any node.
        reads: Nodes whose outputs it reads, by name; () where the graph that ran is not known.
    """

    name: str
    op_type: str
    provider: str = ""
    layer: str = ""
    inside: str = ""
    category: CategoryName = "kernels"
    time_ns: float
    wait_ns: float = 0.0
    imbalance_ns: float = 0.0
    fast_ns: float | None = None
    fast_wait_ns: float = 0.0
    share_ratio: float
    calls: float = 1.0
    originals: tuple[str, ...] = ()
    flops: float | None = None
    bytes: float | None = None
    remark: str = ""
    floor_ns: float | None = None
    bound: Literal["compute", "memory", "overhead", ""] = ""
    purpose: str = ""
    output_bytes: int | None = None
    device_ns: float | None = None
    reads: tuple[str, ...] = ()

    @property
    def least_ns(self) -> float:
        """``fast_ns``, or ``time_ns`` where it is not known."""
        return self.time_ns if self.fast_ns is None else self.fast_ns

    @property
    def least_wait_ns(self) -> float:
        """The part of ``least_ns`` that is thread-wait."""
        return self.wait_ns if self.fast_ns is None else self.fast_wait_ns


def fused_with(originals: Sequence[str]) -> str:
    """What else a node stands for beside the first of these, innermost names alone: "fused with Relu_1 and 2 more"."""
    others = originals[1:]
    if not others:
        return ""
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return f"fused with {others[0].rpartition('/')[2] or others[0]}{more}"


class Transfer(Record, frozen=True, kw_only=True):
    """Copies of one kind in the mean steady run, as the GPU made them.

    Attributes:
        way: From the host's memory to the device's, back, or within the device.
        of_nodes: Nodes of the graph made them (Memcpy); else they bring inputs and outputs.
        count: How many a run.
        bytes: Of all of them.
        time_ns: That the device was at them.
    """

    way: Literal["to-device", "to-host", "on-device"]
    of_nodes: bool
    count: float
    bytes: float
    time_ns: float


class LayerTime(Record, frozen=True, kw_only=True):
    """All nodes below one place in the hierarchy of names."""

    layer: str
    depth: int
    n_nodes: int
    time_ns: float
    share_ratio: float


class NodeVariance(Record, frozen=True, kw_only=True):
    """How much longer a node, or a category, takes in slow runs; ``share_ratio`` of all that takes longer."""

    name: str
    op_type: str = ""
    extra_ns: float
    share_ratio: float


class RunVariance(Record, frozen=True, kw_only=True):
    """How runs differ from each other within the profiled process.

    Attributes:
        warmup_runs: Runs at the start that are not like the later ones, found by ``trace.steady``.
        left_out_runs: Runs at the start that are in no other figure: those that warm up, and at least the first and
            the warm-up that ortune asked for where it ran the model.
        runs_ns: Every run, in order, by ONNX Runtime's own clock: without what lies outside the run.
        spread_ratio: p90 / p10 of the steady runs.
        slow_runs: How many the slowest tenth of the steady runs are; 0 where there are too few to tell.
        usual_ns: Mean of the middle half of the steady runs, which the slow ones are held against.
        extra_ns: Mean of the slow runs minus ``usual_ns``.
        less_ns: What parts of the run took less in the slow ones; what took longer is ``extra_ns`` and this.
        owners: What took longer, the largest share first.
    """

    warmup_runs: int
    left_out_runs: int = 0
    runs_ns: tuple[float, ...]
    spread_ratio: float | None = None
    slow_runs: int = 0
    usual_ns: float | None = None
    extra_ns: float | None = None
    less_ns: float = 0.0
    owners: tuple[NodeVariance, ...] = ()


class LostTime(Record, frozen=True, kw_only=True):
    """A node, by the user's own name, and its share of the time that all kernels take beyond what they need."""

    name: str
    op_type: str
    share_ratio: float


class Headroom(Record, frozen=True, kw_only=True):
    """What can still be won, and by what, in a run that nothing disturbs: every part at its fast end.

    Attributes:
        settings_ratio: Share of the profiled run that lies outside its kernels (thread wait, overhead, copies, casts),
            what the profiler itself costs included: it bounds what can be won there, and nothing that reaches into
            kernels (threads, layout, rewrites). None where the profiler costs so much that the parts do not tell.
        parts: That share by category.
        kernels_ratio: Time floor over kernel time: how near the kernels are to the peak of the threads that they may
            use; None where not known, or ``settings_ratio`` is None.
        kernels_least: In older documents: the ratio is the least that it can be, as other programs had the CPUs.
        plain_kernels_ratio: The same at least, if the run without the profiler were kernels alone; 0.0 where that run
            is not known.
        unbounded: Why nothing bounds what can be won (weights among the inputs, optimisation off), "" where the floors
            do for the nodes that there are.
        covered_ratio: Share of the kernel time with a floor that can be trusted.
        overhead_ratio: Share of that time in nodes whose ``bound`` is "overhead": the peak says nothing of them.
        overhead_calls, overhead_ns: Their executions in a run, and what these take.
        device_ratio: Share of the run that waits for a device.
        memory_bound, int8: Most of what the kernels need is for memory; most of their time is in int8 already.
        dearest: The nodes that lose most.
        slowdown_ratio: How much longer the profiler makes the run, at most; None where that is not known.
        threads, cpus: Threads that an operator may use, and CPUs that there are for them; 0 where not known.
        busy: Which other programs had the CPUs meanwhile, in words.
        no_peak, peak_of: Why the peak is not known; with what it was measured, where that is not what ran.
        beyond_peak: Kernels are faster than the stored peak allows, so that nothing can be held against it.
        sentence: All of it in one sentence.
    """

    settings_ratio: float | None
    parts: dict[str, float] = {}
    kernels_ratio: float | None = None
    kernels_least: bool = False
    unbounded: str = ""
    covered_ratio: float = 0.0
    overhead_ratio: float = 0.0
    plain_kernels_ratio: float = 0.0
    overhead_calls: float = 0.0
    overhead_ns: float = 0.0
    device_ratio: float = 0.0
    memory_bound: bool = False
    int8: bool = False
    dearest: tuple[LostTime, ...] = ()
    slowdown_ratio: float | None = None
    threads: int = 0
    cpus: int = 0
    busy: str = ""
    no_peak: str = ""
    peak_of: str = ""
    beyond_peak: bool = False
    sentence: str = ""


class PageParts(Record, frozen=True, kw_only=True):
    """What a run in a page is made of, as onnxruntime-web's own marks tell it: medians of steady runs, nanoseconds.

    Attributes:
        whole_ns: From the call of ``run()`` to its promise.
        inputs_ns: Until ONNX Runtime has the inputs: copied into WebAssembly's memory, or handed to the GPU.
        operators_ns: ONNX Runtime's operators; on a GPU what it takes to queue them.
        outputs_ns: Handing the outputs over to JavaScript.
        rest_ns: What is neither: calls between JavaScript and WebAssembly, scheduling, promises, the profiler; with a
            GPU also the wait for it and the read-back.
        queued: Operators ran on a GPU.
    """

    whole_ns: float
    inputs_ns: float
    operators_ns: float
    outputs_ns: float
    rest_ns: float
    n_runs: int
    queued: bool = False


class ProfileResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune profile --json``. Times are those of the mean steady run, while profiling.

    Attributes:
        wall_ns: The whole run, which ``categories`` sum to; around ``run()`` where ortune ran it, ONNX Runtime's own
            ``model_run`` where only a trace was given.
        slowdown_ratio: A profiled run over one that is not profiled; None for a trace.
        fast_ns: A run in which every part takes what it does at its fast end; what ``wall_ns`` is beyond it is
            interference: other programs, interrupts, clocks. None in older documents.
        sensors: What was read around the profiled process: load, pressure. None for a trace.
        device_ns: Time of kernels on a device, by provider, beside the host's time and not part of the sum.
        transfers: Copies to, from and on the device; () where the profile tells none.
        layers: Places in the hierarchy of names; in a very large one without the deepest and cheapest.
        layers_left_out: How many these are.
        pieces: How many parts of parallel work each other thread of the pool took in the whole profile, the most first.
        gpu_run: What a run is made of, in a page on WebGPU; None elsewhere.
        page_parts: The parts of a run in a page; None elsewhere, and of versions that do not tell.
        software: It ran on a browser's GPU that is software: its times are no GPU's.
        unmapped: Nodes of the optimised graph whose origin in the model is not known.
        stands_out: Findings, the weightiest first; () in older documents.
        findings: The same in one sentence each.
        timeline: What ran when, where a page is to show it; it is stored beside the document, not in it.
    """

    trace: TraceInfo
    side: Side | None = None
    n_runs: int
    wall_ns: float
    slowdown_ratio: float | None = None
    fast_ns: float | None = None
    sensors: Sensors | None = None
    categories: tuple[Category, ...]
    operators: tuple[OperatorTime, ...] = ()
    nodes: tuple[ProfiledNode, ...] = ()
    layers: tuple[LayerTime, ...] = ()
    layers_left_out: int = 0
    providers: dict[str, float] = {}
    pieces: tuple[int, ...] = ()
    device_ns: dict[str, float] = {}
    transfers: tuple[Transfer, ...] = ()
    variance: RunVariance | None = None
    memory: MemoryProfile | None = None
    peak: MachinePeak | None = None
    headroom: Headroom | None = None
    gpu_run: GpuRun | None = None
    page_parts: PageParts | None = None
    software: bool = False
    unmapped: tuple[str, ...] = ()
    stands_out: tuple[Finding, ...] = ()
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    exports: dict[str, str] = {}
    against: ProfileDifference | None = None
    timeline: Timeline | None = None
    session: str = ""
    elapsed_s: float = 0.0
