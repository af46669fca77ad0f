"""Messages between ortune and a worker: one JSON object per line."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import PROTOCOL_VERSION, Record, Value
from ortune.records.fence import Fence
from ortune.records.memory import MemoryKept
from ortune.records.plan import Channel, ProviderSpec, ReadBackLevel


class Applied(Record, frozen=True, kw_only=True):
    """A setting's value for the worker, with the channel by which the worker applies it.

    Attributes:
        provider: The execution provider to which the option belongs; "" for the whole session.
    """

    knob: str
    channel: Channel
    key: str
    provider: str = ""
    value: Value
    probe: str = ""


class FeedRef(Record, frozen=True, kw_only=True):
    """The inputs of one case: a folder of ``.npy`` files with a ``feeds.json`` that names them."""

    name: str
    path: str
    weight: float = 1.0


class ArrivalSchedule(Record, frozen=True, kw_only=True):
    """Start times of calls, which do not depend on the end of earlier calls.

    Attributes:
        starts_ns: Intended start times in order, from the start of the schedule.
        cases: The index of each call's case; () if all calls are of the first case.
    """

    starts_ns: tuple[int, ...]
    cases: tuple[int, ...] = ()


class TrialRequest(Record, frozen=True, kw_only=True):
    """Request for a trial, the first line on a worker's stdin; commands follow, one per turn.

    Attributes:
        warmup_runs, warmup_ns: Minimum number of runs and duration of the warm-up; no warm-up with 0 runs.
        warmup_cap_ns: Maximum duration of the warm-up, even if times are not steady.
        wait_ratio: Busy wait added to each run, as a fraction of its measured time (sensitivity check).
        sessions, callers: Number of sessions of the model in the process, and number of threads that call each session;
            ``Batch.runs`` is per caller.
        outputs_path: Folder for the outputs of the first run of each case; "" keeps none.
        profile_path: Prefix of the path of ONNX Runtime's profile; "" for no profile.
        device_memory: ONNX Runtime's name of the memory of the plan's device, for values that stay there.
        captures: Whether runs are replayed from a graph that was captured on the device.
        gpu_tracer: The tracer that times kernels on the GPU during the profile; "" for none.
        name_nodes: Whether to report the names of the nodes of each execution provider.
        transfers: Whether to also time runs with the values in the device's memory.
        arrivals: Start times of the calls of a turn; None if each caller starts a call when its previous call has
            ended.
    """

    version: int = PROTOCOL_VERSION
    model: str
    applied: tuple[Applied, ...] = ()
    providers: tuple[ProviderSpec, ...] = ()
    feeds: tuple[FeedRef, ...]
    warmup_runs: int = 3
    warmup_ns: int = 30_000_000
    warmup_cap_ns: int = 5_000_000_000
    gap_ns: int = 0
    wait_ratio: float = 0.0
    seed: int = 0
    sessions: int = 1
    callers: int = 1
    custom_ops: tuple[str, ...] = ()
    outputs_path: str = ""
    profile_path: str = ""
    device_memory: str = ""
    captures: bool = False
    gpu_tracer: str = ""
    name_nodes: bool = False
    transfers: bool = False
    arrivals: ArrivalSchedule | None = None


class Warm(Record, frozen=True, kw_only=True, tag="warm", tag_field="do"):
    """Command to a loaded runner: run each case once, and warm up; the answer is ``turn-over``."""


class Batch(Record, frozen=True, kw_only=True, tag="run", tag_field="do"):
    """Command to a runner: time a batch of runs of every case; the answer is ``turn-over``.

    Attributes:
        runs: Number of timed runs per case and caller, before they are weighted by the mix.
        unmeasured: Number of untimed runs per case before the timed runs.
    """

    runs: int
    unmeasured: int = 0


class Finish(Record, frozen=True, kw_only=True, tag="finish", tag_field="do"):
    """Command to a runner: report and end; the answer is ``done``."""


Command = Warm | Batch | Finish


class ReadBack(Record, frozen=True, kw_only=True):
    """The verification of a setting. ``ok`` is False only if the check contradicts the plan."""

    knob: str
    level: ReadBackLevel
    ok: bool
    seen: str = ""


class CaseTimes(Record, frozen=True, kw_only=True):
    """Raw latencies of one case in one trial, in order, in nanoseconds.

    Attributes:
        waits_ns: The busy wait within each run; empty if there is none.
        turn_runs: Number of latencies of each turn; a single turn for a trial that ran by itself.
    """

    case: str
    weight: float
    latency_ns: tuple[int, ...]
    first_ns: int
    warmup_runs: int = 0
    steady: bool = True
    waits_ns: tuple[int, ...] = ()
    output_shapes: tuple[tuple[int, ...], ...] = ()
    turn_runs: tuple[int, ...] = ()


class Ready(Record, frozen=True, kw_only=True, tag="ready", tag_field="message"):
    """The worker has started, has imported ONNX Runtime, and begins to load the model."""

    version: int = PROTOCOL_VERSION
    pid: int = 0
    python: str = ""
    ort_version: str = ""


class Loaded(Record, frozen=True, kw_only=True, tag="loaded", tag_field="message"):
    """The session exists; the runner sleeps until its first turn."""

    load_ns: int


class TurnOver(Record, frozen=True, kw_only=True, tag="turn-over", tag_field="message"):
    """The command is done; the runner sleeps until its next turn."""


class Placement(Record, frozen=True, kw_only=True):
    """The nodes that one execution provider runs, as reported by ONNX Runtime 1.24 or newer.

    Attributes:
        n_nodes: Number of nodes when the graph was divided.
        n_parts: Number of connected parts; values are transferred between them.
        operators: Number of nodes by operator.
        nodes: Names of the nodes, if requested.
    """

    provider: str
    n_nodes: int
    n_parts: int
    operators: dict[str, int] = {}
    nodes: tuple[str, ...] = ()


class GpuRun(Record, frozen=True, kw_only=True):
    """The parts of a run on a device with its own memory: medians of runs in turns, in ns, without the profiler.

    Attributes:
        whole_ns: Time of a run with inputs and outputs on the CPU.
        fed_ns: Time of a run with the inputs already on the device.
        device_ns: Time of a run with inputs and outputs on the device, until the device is done.
        input_bytes, output_bytes: Size of all tensors.
        n_runs: Number of runs of each kind.
        software: Whether the CPU emulates the GPU, so times are meaningless.
    """

    whole_ns: float
    fed_ns: float
    device_ns: float
    input_bytes: int
    output_bytes: int
    n_runs: int
    software: bool = False

    @property
    def upload_ns(self) -> float:
        """Time to copy the inputs to the device; below 0 if it is smaller than the noise."""
        return self.whole_ns - self.fed_ns

    @property
    def read_back_ns(self) -> float:
        """Time to copy the outputs back; below 0 if it is smaller than the noise."""
        return self.fed_ns - self.device_ns

    @property
    def transfer_ns(self) -> float:
        """Time of both copies; 0 if it is smaller than the noise."""
        return max(0.0, self.whole_ns - self.device_ns)


class PageSeen(Record, frozen=True, kw_only=True):
    """Properties that a page reported about its browser and its run.

    Attributes:
        browser: The browser's own name and version.
        isolated: Whether the page was cross-origin isolated, which threads need.
        adapter: The WebGPU adapter; "" without WebGPU.
        software: Whether the CPU emulates the GPU of the adapter, so times are meaningless.
        float16: Whether it has float16 shaders.
        resolution_ns: Resolution of the page's clock.
        fetch_ns: Time to fetch the model from this machine before loading.
        wasm_fetch_ns: Time to fetch onnxruntime-web's WebAssembly, from the request to the last byte. Excluded from
            ``load_ns``, like compilation during that time. 0 if a proxy's worker fetched it; the time is then part of
            ``load_ns``.
        visible: Whether an observed page was visible; in a trial, runs while hidden do not count.
        repeated_turns: Number of turns that were repeated because the page was hidden.
        without_kernel: Nodes for which the execution provider has no kernel: operator and name.
        download_bytes: Files of onnxruntime-web and of the model that were fetched, uncompressed.
        download_ns: Their download time at the given network speed.
        import_ns: Time to import onnxruntime-web, before the model was fetched.
        block_ns: The longest time for which a run blocked the main thread, once warm; 0 if it was not measured.
        frames_lost: Lost frames per run at 60 Hz.
        compiled: Whether the browser had the files of an earlier trial, fetched and compiled, so load and first run are
            not those of a first visit.
        cpus: Number of processors that the browser reports; 0 if unknown.
        gpu_run: The parts of a run under the profiler; None if they were not measured.
    """

    browser: str
    isolated: bool
    adapter: str = ""
    software: bool = False
    float16: bool = False
    resolution_ns: int = 0
    fetch_ns: int = 0
    wasm_fetch_ns: int = 0
    visible: bool = True
    repeated_turns: int = 0
    without_kernel: tuple[str, ...] = ()
    download_bytes: int = 0
    download_ns: int = 0
    import_ns: int = 0
    block_ns: int = 0
    frames_lost: float = 0.0
    compiled: bool = False
    cpus: int = 0
    gpu_run: GpuRun | None = None


class OpenLoop(Record, frozen=True, kw_only=True):
    """Waiting and delays of calls with given start times, in order; latencies count from the intended start.

    Attributes:
        waited_ns: Time that each call waited because all callers were busy.
        late_ns: Delay of each call's start although it was due and a caller was free.
        busy_ns: Time inside the calls, summed over callers.
        own_cpu_ns: CPU time of the generator of the calls.
    """

    waited_ns: tuple[int, ...]
    late_ns: tuple[int, ...]
    busy_ns: int
    own_cpu_ns: int


class EventLoop(Record, frozen=True, kw_only=True):
    """Delay of an event loop while the model ran, as ``perf_hooks`` of Node.js reports it at a resolution of 1 ms.

    The resolution is part of each sample: an idle event loop shows about 1 ms.
    """

    p50_ns: int
    p99_ns: int
    max_ns: int
    n_samples: int


class TrialDone(Record, frozen=True, kw_only=True, tag="done", tag_field="message"):
    """A complete trial, as the worker measured it.

    Attributes:
        cpu_ns, wall_ns: CPU time and wall time over the timed runs of all cases (gaps included); with several callers,
            only while all of them run.
        n_runs: Number of timed runs of all cases and callers together. With several callers ``wall_ns`` / ``n_runs`` is
            the time per run of the process, and a latency is the wait of one caller.
        idle_cpu_ratio: CPU time over wall time in a short idle interval after the warm-up (spinning threads).
        peak_bytes: High-water mark of resident memory; ``base_bytes`` is before the session was created.
        threads: Threads that the creation of one session added.
        wrote: Whether it wrote the disk cache of a setting instead of reading it; None without such a setting.
        turn_waits_ns: Time in each turn's timed runs for which threads of the process waited for a CPU, summed over
            threads; empty if the system does not report it for all turns.
        waiting_cpu_ns, waiting_ns: CPU time of the process during the turns of other trials, and the duration of these
            turns.
        devices: Devices used by a provider from a separate wheel; () for a provider of the build.
        profile: Path of ONNX Runtime's profile; "" for none.
        gpu_run: Times of a run with values in the device's memory; None if not requested or not possible.
        untraced: Why the profile has no kernels on the GPU although a tracer was requested; "" if it has.
        graph: Path of the executed graph, for a page under the profiler; "" if unavailable.
        page: Properties of the browser's page; None for a process.
        open_loop: Waiting and delays of calls with given start times; None for all others.
        kept: Memory after the runs; None if the system does not report it.
        event_loop: Delay of the event loop in the timed turns; None without an event loop.
    """

    load_ns: int
    cases: tuple[CaseTimes, ...]
    cpu_ns: int
    wall_ns: int
    n_runs: int
    n_callers: int = 1
    idle_cpu_ratio: float | None = None
    peak_bytes: int | None = None
    base_bytes: int | None = None
    threads: int | None = None
    read_back: tuple[ReadBack, ...] = ()
    providers: tuple[str, ...] = ()
    placement: tuple[Placement, ...] = ()
    devices: tuple[str, ...] = ()
    ort_version: str = ""
    involuntary_switches: int | None = None
    wrote: bool | None = None
    turn_waits_ns: tuple[int, ...] = ()
    waiting_cpu_ns: int = 0
    waiting_ns: int = 0
    profile: str = ""
    gpu_run: GpuRun | None = None
    untraced: str = ""
    graph: str = ""
    page: PageSeen | None = None
    open_loop: OpenLoop | None = None
    kept: MemoryKept | None = None
    event_loop: EventLoop | None = None


FailureReason = Literal[
    "crash", "timeout", "out-of-memory", "wrong-output", "not-applied", "unknown-key", "unsupported",
    "load-error", "run-error", "input-error", "no-runtime", "protocol", "disk-full", "hidden",
]  # fmt: skip


class TrialError(Record, frozen=True, kw_only=True, tag="error", tag_field="message"):
    """The worker could not complete the trial."""

    reason: FailureReason
    what: str
    phase: str = ""
    knob: str = ""


WorkerMessage = Ready | Loaded | TurnOver | TrialDone | TrialError


class ToolRequest(Record, frozen=True, kw_only=True):
    """Request to the tool process, the first line on its stdin.

    Attributes:
        task: Name of the task ("optimize").
        feeds: Inputs from the user or generated ones, for a task that runs the model.
        model, output: The file to read and the file to write.
        params: Parameters of the rewrite that needs the task.
        external_name: Name of the file next to ``output`` for the larger weights.
        applied: Settings of the session, for a task that creates one.
        fence: Limits of the process, on systems that support them; None for a task that is not confined.
    """

    version: int = PROTOCOL_VERSION
    task: str
    model: str
    output: str
    params: dict[str, str] = {}
    external_name: str
    feeds: tuple[FeedRef, ...] = ()
    applied: tuple[Applied, ...] = ()
    providers: tuple[ProviderSpec, ...] = ()
    custom_ops: tuple[str, ...] = ()
    fence: Fence | None = None


class ToolDone(Record, frozen=True, kw_only=True, tag="tool-done", tag_field="message"):
    """The tool process wrote its output; ``what`` is the message, one sentence."""

    version: int = PROTOCOL_VERSION
    what: str
    ort_version: str = ""
