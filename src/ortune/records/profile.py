"""The result of ``ortune profile``."""

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
    """One operator on one execution provider in a profile.

    Attributes:
        n_nodes: Number of nodes in the optimised graph that ran.
        time_ns: Their time per run (median over the profiled runs), subgraphs not counted twice.
        share_ratio: Fraction of the time of all operators.
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
"""Categories of the time of a run. Each nanosecond is in exactly one of them:

kernels: computation of the operators, without thread-wait, copies, casts, shape arithmetic and control flow.
thread-wait: the thread that runs a node waits for the other threads of the pool, or distributes their work.
device-copies: values copied between devices (Memcpy nodes).
device-wait: in a run with nodes on a device, before and after the executor: copying inputs to the device, waiting for
    it, copying outputs back. Only if the profile records when the executor ran.
casts-and-layout: Cast, Transpose, reordering to and from blocked layouts, quantizing and dequantizing.
shape-arithmetic: nodes that only compute shapes and indices.
control-flow: If, Loop and Scan themselves, without the nodes of their bodies.
between-nodes: inside the run but outside all nodes: the executor, allocation, writing the profile.
device-idle: between the kernels on a device, if the trace has only kernels: the device waits for the host.
outside-run: around ONNX Runtime's run: the language binding, copies of inputs and outputs.
unexplained: the remaining time; negative if the parts add up to more than the whole.
"""


class Category(Record, frozen=True, kw_only=True):
    """One part of a run, in nanoseconds of the mean steady run."""

    name: CategoryName
    ns: float


class ProfiledNode(Record, frozen=True, kw_only=True):
    """One node of the optimised graph, in the mean steady run.

    Attributes:
        name: Name in the optimised graph.
        layer: Its place in the hierarchy of names, outermost first, joined by "/"; "" if the names show none.
        inside: The control-flow node whose body contains it; "" in the main graph.
        time_ns: Its self time, without the nodes of its bodies. The times of all nodes add up to the run without
            ``between-nodes``.
        share_ratio: Fraction of the time of all nodes.
        wait_ns: The part of ``time_ns`` in the category thread-wait.
        imbalance_ns: The part of ``wait_ns`` at the end of parallel work, waiting for late threads: uneven shares, or
            late starts. The rest is distributing the work.
        fast_ns: Its undisturbed time, from the fastest 5 % of each execution over the runs, at least one. The
            roofline bound is compared with this; ``time_ns`` beyond it is interference.
        fast_wait_ns: The part of ``fast_ns`` in the category thread-wait.
        calls: Number of executions per run; above 1 in the body of a loop.
        originals: The nodes of the original model that it replaces; () if unknown, or if it was inserted.
        flops, bytes: Work of all its executions per run; None if unknown.
        remark: A remark on work that the result does not need, such as "17 output channels are padded to 32".
        floor_ns: The roofline bound: the minimum time that this machine needs for the work with the available threads.
            None without a measured peak.
        bound: The limit of that time: "compute", or "memory" (moving its bytes, from memory or through the caches);
            "overhead" if an execution is so short, and so far from the bound, that starting it is most of its cost.
        precision: The number type that it computes in ("int8"); "" if the profile does not show it.
        purpose: The purpose of a node that the optimiser inserted ("into blocked layout for conv1"); "" for all others.
        output_bytes: Bytes of all its outputs, from the profile.
        device_ns: Time of its kernels on a device, in addition to the host's; None if the profile has no kernels.
        reads: Names of the nodes whose outputs it reads; () if the executed graph is unknown.
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
    precision: str = ""
    floor_ns: float | None = None
    bound: Literal["compute", "memory", "overhead", ""] = ""
    purpose: str = ""
    output_bytes: int | None = None
    device_ns: float | None = None
    reads: tuple[str, ...] = ()

    @property
    def least_ns(self) -> float:
        """``fast_ns``, or ``time_ns`` if ``fast_ns`` is unknown."""
        return self.time_ns if self.fast_ns is None else self.fast_ns

    @property
    def least_wait_ns(self) -> float:
        """The part of ``least_ns`` in the category thread-wait."""
        return self.wait_ns if self.fast_ns is None else self.fast_wait_ns


def fused_with(originals: Sequence[str]) -> str:
    """Return the other originals of a node after the first, by innermost names: "fused with Relu_1 and 2 more"."""
    others = originals[1:]
    if not others:
        return ""
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return f"fused with {others[0].rpartition('/')[2] or others[0]}{more}"


class Transfer(Record, frozen=True, kw_only=True):
    """Copies of one kind in the mean steady run, as recorded on the GPU.

    Attributes:
        way: Direction: from host to device memory, back, or within the device.
        of_nodes: Whether nodes of the graph (Memcpy) copied; otherwise they are copies of inputs and outputs.
        count: Copies per run.
        bytes: Total bytes.
        time_ns: Time on the device.
    """

    way: Literal["to-device", "to-host", "on-device"]
    of_nodes: bool
    count: float
    bytes: float
    time_ns: float


class LayerTime(Record, frozen=True, kw_only=True):
    """All nodes below one place in the hierarchy of names; ``share_ratio`` is their fraction of all nodes' time."""

    layer: str
    depth: int
    n_nodes: int
    time_ns: float
    share_ratio: float


class NodeVariance(Record, frozen=True, kw_only=True):
    """The additional time of a node or category in slow runs; ``share_ratio`` is its part of all additional time."""

    name: str
    op_type: str = ""
    extra_ns: float
    share_ratio: float


class RunVariance(Record, frozen=True, kw_only=True):
    """The variation between the runs of the profiled process.

    Attributes:
        warmup_runs: Number of runs at the start that differ from the later ones, found by ``trace.steady``.
        left_out_runs: Number of runs at the start that are excluded from all other results: the warm-up, at least the
            first run, and the warm-up that ortune requested.
        runs_ns: Every run, in order, by ONNX Runtime's own clock, without time outside the run.
        spread_ratio: p90 / p10 of the steady runs.
        slow_runs: Number of runs in the slowest tenth of the steady runs; 0 if there are too few.
        usual_ns: Mean of the steady runs between the quartiles, with which the slow runs are compared.
        extra_ns: Mean of the slow runs minus ``usual_ns``.
        less_ns: Time saved in parts that were faster in the slow runs; the slower parts sum to ``extra_ns`` plus this.
        owners: The slower parts, the largest additional time first.
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
    """A node by its name in the original model, and its fraction of all kernel time beyond the roofline bound."""

    name: str
    op_type: str
    share_ratio: float


class Headroom(Record, frozen=True, kw_only=True):
    """The time that could still be saved in an undisturbed run.

    Attributes:
        settings_ratio: Fraction of the profiled run outside its kernels (thread wait, overhead, copies, casts),
            including the profiler's own cost. It bounds only gains outside kernels, not changes of kernels (threads,
            layout, rewrites). None if the profiler costs too much for the parts to be meaningful.
        parts: That fraction by category.
        kernels_ratio: Roofline bound divided by kernel time: how close the kernels are to the peak of the available
            threads. None if unknown, or if ``settings_ratio`` is None.
        plain_kernels_ratio: A lower bound of the ratio, assuming that the unprofiled run consists only of kernels; 0.0
            if that run is unknown.
        unbounded: Why the gain has no bound (weights among the inputs, optimisation off); "" if the roofline bounds
            apply.
        covered_ratio: Fraction of the kernel time with a reliable roofline bound.
        overhead_ratio: Fraction of the kernel time in nodes whose ``bound`` is "overhead"; the peak does not apply to
            them.
        overhead_calls, overhead_ns: Executions of these nodes per run, and the time of these executions.
        device_ratio: Fraction of the run that waits for a device.
        memory_bound, int8: Whether most of the kernels' required time is for memory; whether most of their time is
            already in int8.
        dearest: The nodes that lose the most time.
        slowdown_ratio: Upper bound of the slowdown by the profiler; None if unknown.
        threads, cpus: Number of threads that an operator may use, and number of available CPUs; 0 if unknown.
        busy: Other programs that used the CPUs, in words.
        no_peak, peak_of: Why the peak is unknown; the build of ONNX Runtime that measured it, if it is a different one.
        beyond_peak: Whether kernels are faster than the stored peak, so it cannot be used.
        sentence: The result in one sentence.
    """

    settings_ratio: float | None
    parts: dict[str, float] = {}
    kernels_ratio: float | None = None
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
    """The parts of a run in a page, from onnxruntime-web's own marks: medians of steady runs, in nanoseconds.

    Attributes:
        whole_ns: From the call of ``run()`` to the resolved promise.
        inputs_ns: Passing inputs to ONNX Runtime: copying them into WebAssembly's memory, or to the GPU.
        operators_ns: ONNX Runtime's operators; on a GPU the time to queue them.
        outputs_ns: Passing outputs to JavaScript.
        rest_ns: All other time: calls between JavaScript and WebAssembly, scheduling, promises, the profiler; with a
            GPU also waiting for it and reading back.
        queued: Whether operators ran on a GPU.
    """

    whole_ns: float
    inputs_ns: float
    operators_ns: float
    outputs_ns: float
    rest_ns: float
    n_runs: int
    queued: bool = False


class UndisturbedRun(Record, frozen=True, kw_only=True):
    """A run without interference: every part at its fast end, as ``ProfiledNode.fast_ns`` for a node."""

    wall_ns: float
    categories: tuple[Category, ...]
    operators: tuple[OperatorTime, ...] = ()
    layers: tuple[LayerTime, ...] = ()


class CompiledLayer(Record, frozen=True, kw_only=True):
    """One layer of the part that an execution provider compiled, as measured by the provider's own counters.

    Attributes:
        name: The provider's name for it, which is mostly that of a node or value of the model.
        kind: The provider's name for its operation.
        kernel: The provider's name for the kernel that computes it.
        precision: The number type that it computes in ("int8"); "" if the provider does not report it.
        time_ns: Its median time.
    """

    name: str
    kind: str
    kernel: str
    precision: str = ""
    time_ns: float


class CompiledGraph(Record, frozen=True, kw_only=True):
    """The layers of a model that an execution provider compiled as a whole.

    Attributes:
        provider: The execution provider.
        layers: In the order of execution.
        n_runs: Number of runs over which the times of layers are medians.
    """

    provider: str
    layers: tuple[CompiledLayer, ...]
    n_runs: int


class ProfileResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune profile --json``. Times are those of the mean steady run under the profiler.

    Attributes:
        wall_ns: Time of the whole run, the sum of ``categories``: around ``run()`` if ortune ran it, ONNX Runtime's
            ``model_run`` for a trace.
        slowdown_ratio: Time of a profiled run over an unprofiled one; None for a trace.
        fast_ns: Time of an undisturbed run, with every part at its fast end. ``wall_ns`` beyond it is interference:
            other programs, interrupts, clocks.
        undisturbed: That run in full, if interference is a tenth of the mean run or more; otherwise None. If not None,
            findings refer to this run.
        sensors: Sensors around the profiled process: load, pressure. None for a trace.
        device_ns: Kernel time on a device by provider, parallel to the host and not part of the sum.
        transfers: Copies to, from and on the device; () if the profile has none.
        layers: The hierarchy of names; the deepest and cheapest layers of a very large hierarchy are omitted.
        layers_left_out: Number of omitted layers.
        compiled: The layers inside the part that a provider compiled; None if there is none, or they are unknown.
        pieces: Number of pieces of parallel work that each pool thread, other than the caller, completed in the whole
            profile; largest first.
        gpu_run: The parts of a run on WebGPU in a page; None elsewhere.
        page_parts: The parts of a run in a page; None elsewhere, and for versions without marks.
        software: Whether it ran on a browser's software GPU, so times are meaningless.
        unmapped: Nodes of the optimised graph whose origin in the model is unknown.
        stands_out: Findings, the most important first.
        findings: The findings in one sentence each.
        timeline: Executions over time for a page; stored separately from the document.
    """

    trace: TraceInfo
    side: Side | None = None
    n_runs: int
    wall_ns: float
    slowdown_ratio: float | None = None
    fast_ns: float | None = None
    undisturbed: UndisturbedRun | None = None
    sensors: Sensors | None = None
    categories: tuple[Category, ...]
    operators: tuple[OperatorTime, ...] = ()
    nodes: tuple[ProfiledNode, ...] = ()
    layers: tuple[LayerTime, ...] = ()
    layers_left_out: int = 0
    compiled: CompiledGraph | None = None
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
