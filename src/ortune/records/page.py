"""An observed page of the user, and its use of onnxruntime-web."""

from __future__ import annotations

from ortune.records.base import Record
from ortune.records.finding import Finding
from ortune.records.plan import Plan
from ortune.records.protocol import PageSeen, Placement


class PageTensor(Record, frozen=True, kw_only=True):
    """An input or output of a session in a page.

    Attributes:
        type: Type in onnxruntime-web, e.g. "float32".
        shape: Shape in the first run; without a run, as declared in the model.
        location: Location of the values in the first run: "cpu", "gpu-buffer", ...; "" without a run.
    """

    name: str
    type: str = ""
    shape: tuple[str, ...] = ()
    location: str = ""


class PageWeights(Record, frozen=True, kw_only=True):
    """An external data file that a page gave to a session.

    Attributes:
        path: Path in the model.
        url: Source of the file; "" for bytes that do not come from a single file.
        size_bytes: 0 if unknown.
    """

    path: str
    url: str = ""
    size_bytes: int = 0


class PageModel(Record, frozen=True, kw_only=True):
    """The model of a session.

    Attributes:
        url: Source of the model; "" for bytes that do not come from a single file.
        size_bytes: 0 if unknown.
        sha256: Hash of graph and weights; "" if it was not read.
        error: Why it was not read.
        weights: External data files.
    """

    url: str = ""
    size_bytes: int = 0
    sha256: str = ""
    n_nodes: int = 0
    error: str = ""
    weights: tuple[PageWeights, ...] = ()


class PageOutput(Record, frozen=True, kw_only=True):
    """Tensors of one output that ``run()`` returned on the GPU, until the last observed run.

    Attributes:
        made: Number of tensors, without those that the page passed to ``run()`` for the output.
        disposed: Number of them that the page disposed of.
        size_bytes: Size of the last one.
    """

    name: str
    made: int = 0
    disposed: int = 0
    size_bytes: int = 0


class PageMemory(Record, frozen=True, kw_only=True):
    """Memory of a page or worker outside of JavaScript's heap.

    Attributes:
        wasm_bytes: WebAssembly memory.
        gpu_bytes: Size of the GPU buffers; ``gpu_buffers`` is their number.
    """

    wasm_bytes: int = 0
    gpu_bytes: int = 0
    gpu_buffers: int = 0


class PageRuns(Record, frozen=True, kw_only=True):
    """The calls of ``run()``: single observations in a page that also does other work.

    Attributes:
        n: Number of successful runs.
        n_failed: Number of failed runs.
        first_ns, median_ns, longest_ns, total_ns: Time from the call to the resolved promise; the median excludes the
            first run.
        read_back_bytes: Bytes of outputs copied from the GPU, in all runs.
        n_reads: Number of outputs that the page fetched from the GPU with ``getData()``.
        on_gpu: Outputs on the GPU, and how many of them were disposed of.
        memory: Memory of the whole page after the first run of this session, and after its last one.
        error: Message of the first failure.
    """

    n: int = 0
    n_failed: int = 0
    first_ns: int = 0
    median_ns: int = 0
    longest_ns: int = 0
    total_ns: int = 0
    read_back_bytes: int = 0
    n_reads: int = 0
    on_gpu: tuple[PageOutput, ...] = ()
    memory: tuple[PageMemory, ...] = ()
    error: str = ""


class PageSession(Record, frozen=True, kw_only=True):
    """A call of ``InferenceSession.create``.

    Attributes:
        worker: Whether a worker created it instead of the page.
        version: Version of onnxruntime-web.
        options: The requested options by name; values other than text as JSON.
        environment: ``ort.env`` before the call, as far as it was set.
        in_force: ``ort.env`` after the call.
        plan: The requested options as a plan of ortune.
        placement: Nodes by execution provider.
        without_kernel: Nodes for which the execution provider has no kernel: operator and name.
        create_ns: Time of the call, with ONNX Runtime's log enabled; 0 if it failed or did not end.
        error: Why it failed; "" if it did not.
        findings: Findings in its model and settings.
    """

    worker: bool = False
    version: str = ""
    model: PageModel = PageModel()
    options: dict[str, str] = {}
    environment: dict[str, str] = {}
    in_force: dict[str, str] = {}
    plan: Plan = Plan()
    placement: tuple[Placement, ...] = ()
    without_kernel: tuple[str, ...] = ()
    inputs: tuple[PageTensor, ...] = ()
    outputs: tuple[PageTensor, ...] = ()
    create_ns: int = 0
    runs: PageRuns = PageRuns()
    error: str = ""
    findings: tuple[Finding, ...] = ()


class PageFile(Record, frozen=True, kw_only=True):
    """A WebAssembly file that the page loaded; ``size_bytes`` is 0 if its server hides the size."""

    url: str
    size_bytes: int = 0


class WatchedPage(Record, frozen=True, kw_only=True):
    """A page whose use of onnxruntime-web was observed.

    Attributes:
        url: The URL as given.
        seen: The browser and the features of the page's environment.
        watched_ns: Duration, from before the first script to the end.
        main_thread_ns: Busy time of the page's main thread, by sampling.
        model_thread_ns: The part of ``main_thread_ns`` in WebAssembly, or in functions that WebAssembly called.
        sessions: In the order of the calls.
        files: WebAssembly files that were loaded.
        heap_bytes: JavaScript's heap without garbage, after the first run and at the end; () without a run.
        trouble: Uncaught errors and files that failed to load.
    """

    url: str
    seen: PageSeen
    watched_ns: int = 0
    main_thread_ns: int = 0
    model_thread_ns: int = 0
    sessions: tuple[PageSession, ...] = ()
    files: tuple[PageFile, ...] = ()
    heap_bytes: tuple[int, ...] = ()
    trouble: tuple[str, ...] = ()
