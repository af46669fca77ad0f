"""What a page of the user's own does with onnxruntime-web, as it was watched."""

from __future__ import annotations

from ortune.records.base import Record
from ortune.records.finding import Finding
from ortune.records.plan import Plan
from ortune.records.protocol import PageSeen, Placement


class PageTensor(Record, frozen=True, kw_only=True):
    """An input or an output.

    Attributes:
        type: As onnxruntime-web calls it, e.g. "float32".
        shape: Of the first run; where there was none, as the model declares it.
        location: Where its values were in the first run: "cpu", "gpu-buffer", ...; "" where there was none.
    """

    name: str
    type: str = ""
    shape: tuple[str, ...] = ()
    location: str = ""


class PageWeights(Record, frozen=True, kw_only=True):
    """A file with weights that a page gave to a session beside its model.

    Attributes:
        path: As the model calls it.
        url: Where the page had it from; "" where it was passed as bytes that no single file has.
        size_bytes: 0 where that is not known.
    """

    path: str
    url: str = ""
    size_bytes: int = 0


class PageModel(Record, frozen=True, kw_only=True):
    """The model of a session.

    Attributes:
        url: Where the page had it from; "" where it was passed as bytes that no single file has.
        size_bytes: 0 where that is not known.
        sha256: Of graph and weights; "" where it was not read.
        error: Why it was not read.
        weights: Files with weights beside it.
    """

    url: str = ""
    size_bytes: int = 0
    sha256: str = ""
    n_nodes: int = 0
    error: str = ""
    weights: tuple[PageWeights, ...] = ()


class PageRuns(Record, frozen=True, kw_only=True):
    """The calls of ``run()``: single observations on a page that does other things too.

    Attributes:
        n: How many ended well.
        n_failed: How many threw.
        first_ns, median_ns, longest_ns, total_ns: From the call to its promise; the median without the first.
        read_back_bytes: Of outputs that were copied from the GPU, all runs together.
        n_reads: Outputs that the page itself fetched from the GPU, with ``getData()``.
        error: What the first that threw said.
    """

    n: int = 0
    n_failed: int = 0
    first_ns: int = 0
    median_ns: int = 0
    longest_ns: int = 0
    total_ns: int = 0
    read_back_bytes: int = 0
    n_reads: int = 0
    error: str = ""


class PageSession(Record, frozen=True, kw_only=True):
    """A call of ``InferenceSession.create``.

    Attributes:
        worker: Whether a worker made it, or the page itself.
        version: Of onnxruntime-web.
        options: What was asked for, by name; what is not text as JSON.
        environment: ``ort.env`` before, as far as it was set.
        in_force: The same afterwards.
        plan: The same as ortune's settings.
        placement: Which nodes each execution provider has.
        without_kernel: Nodes that the execution provider has no kernel for, operator and name.
        create_ns: How long it took, with ONNX Runtime's log on; 0 where it failed or did not end.
        error: Why it failed; "" where it did not.
        findings: What stands out in its model and its settings.
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
    """A file of WebAssembly that the page loaded; ``size_bytes`` is 0 where its server keeps it from being told."""

    url: str
    size_bytes: int = 0


class WatchedPage(Record, frozen=True, kw_only=True):
    """A page while it was watched.

    Attributes:
        url: As it was given.
        seen: The browser.
        watched_ns: From before its first script to the end.
        main_thread_ns: Of it, what the page's main thread was at work, by samples.
        model_thread_ns: Of that, in WebAssembly, or in what it called.
        sessions: In the order in which they were asked for.
        files: WebAssembly that was loaded.
        trouble: What the page said as it went wrong: errors that nobody caught, files that did not load.
    """

    url: str
    seen: PageSeen
    watched_ns: int = 0
    main_thread_ns: int = 0
    model_thread_ns: int = 0
    sessions: tuple[PageSession, ...] = ()
    files: tuple[PageFile, ...] = ()
    trouble: tuple[str, ...] = ()
