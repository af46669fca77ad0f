"""Sentences on how a page uses onnxruntime-web."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ortune.catalogue.providers import WEB_WEBGPU as WEBGPU
from ortune.printable import first_of
from ortune.records import Envelope, Finding, PageSeen, PageSession, PageTensor, WatchedPage
from ortune.show import finding_words
from ortune.show.answer_commands import lines, report_line
from ortune.show.document import Annotation, Block, Code, Document, Line, Pairs, Points, stopped
from ortune.show.numbers import duration, percent, shorten, size
from ortune.show.placement_words import placed
from ortune.verbs.diagnose.result import DiagnoseResult

NAMED = 4
LONGEST_URL = 80
LONGEST_VALUE = 120
NOT_READ = "no time left to read it"
_OPEN = "not set"


def headline(page: WatchedPage) -> str:
    """Return one sentence with the numbers of sessions and runs, and their share of the page's main thread."""
    watched = f"in {page.watched_ns / 1e9:.1f} s"
    if not page.sessions:
        return f"no session of onnxruntime-web {watched}"
    n, runs = len(page.sessions), sum(session.runs.n for session in page.sessions)
    findings = {(f.code, f.what) for session in page.sessions for f in session.findings}
    failed = sum(bool(session.error) for session in page.sessions)
    stands_out = f"{len(findings)} finding{'s' * (len(findings) != 1)}" if findings else "no findings"
    return (
        f"{n} session{'s' * (n != 1)}{f' ({failed} failed)' if failed else ''} and {runs} run{'s' * (runs != 1)} of "
        f"onnxruntime-web {watched}; {_share(page)}; {stands_out}"
    )


def document(envelope: Envelope[DiagnoseResult]) -> Document:
    """Return the document of a watched page: headline, findings, sessions, the page, and the next commands."""
    result = envelope.result
    assert result is not None and result.page is not None
    page = result.page
    blocks: list[Block] = [*stopped(envelope), Line(headline(page), "unsure")]
    if not page.sessions:
        trouble = " The page's own error messages follow below." if page.trouble else ""
        blocks.append(
            Line(
                "No session was created while the page was observed, or a bundler has renamed the classes of "
                f"onnxruntime-web. If a click starts it, use --headful and --watch 60s.{trouble}"
            )
        )
    blocks.append(
        Points(title="findings", items=[_finding_text(f, page) for f in result.findings], marked=True)
    )
    blocks += [
        Pairs(title=f"session {i}{', in a worker' if s.worker else ''}", rows=list(_session(s, page.seen)))
        for i, s in enumerate(page.sessions, 1)
    ]
    blocks.append(Pairs(title="page", rows=list(_page(page))))
    blocks.append(Code(title="next", lines=list(_next(envelope)), commands=True))
    annotations = [
        Annotation(level="notice", title="ortune diagnose", lines=[headline(page)]),
        *finding_words.to_annotate(result.findings),
    ]
    return Document(title=f"diagnosis of {page.url}", blocks=blocks, annotations=annotations)


def _finding_text(finding: Finding, page: WatchedPage) -> str:
    """Return a finding in words, with the numbers of its sessions if not all sessions have it."""
    which = [i for i, session in enumerate(page.sessions, 1) if finding in session.findings]
    some = len(which) < len(page.sessions)
    where = f" [session {', '.join(map(str, which))}]" if some and which else ""
    fix = f" -> {finding.fix}" if finding.fix else ""
    return f"{finding.code} {finding.what}{finding_words.places(finding)}{where}{fix}"


def _session(session: PageSession, page: PageSeen) -> Iterator[tuple[str, str]]:
    model = session.model
    about_model = [
        size(model.size_bytes) if model.size_bytes else "",
        f"{model.n_nodes} nodes" if model.n_nodes else "",
    ]
    about = ", ".join(filter(None, about_model))
    yield "model", f"{shorten(model.url, LONGEST_URL) or 'passed as bytes'}{f' ({about})' if about else ''}"
    if model.weights:
        files = [
            f"{shorten(w.path, LONGEST_URL)}{f' ({size(w.size_bytes)})' if w.size_bytes else ''}"
            for w in model.weights
        ]
        yield "with external data", first_of(files, NAMED)
    if model.error:
        yield "model not read", model.error
    if session.error:
        yield "failed", session.error
    if session.version:
        build = session.plan.settings.get("web_build", "")
        yield "onnxruntime-web", f"{session.version}{f', build {build}' if build else ''}"
    yield "asked for", _options({**session.environment, **session.options}) or "nothing: all defaults"
    names = {*session.environment, "wasm.numThreads"}
    changed = {
        name: value
        for name, value in session.in_force.items()
        if name in names and session.environment.get(name) != value
    }
    if changed:
        yield "in force", "; ".join(_in_force(name, value, session) for name, value in changed.items())
    for sentence in placed(session.placement):
        yield "runs on", sentence
    if session.without_kernel:
        yield "no kernel for", first_of(session.without_kernel, NAMED)
    for what, tensors in (("inputs", session.inputs), ("outputs", session.outputs)):
        if tensors:
            yield what, _tensors(tensors)
    if session.create_ns:
        yield (
            "created in",
            f"{duration(session.create_ns)}, with ONNX Runtime's log enabled (one observation)",
        )
    yield from _runs(session, page)


def _runs(session: PageSession, page: PageSeen) -> Iterator[tuple[str, str]]:
    runs = session.runs
    if runs.n:
        many = (
            f", then {duration(runs.median_ns)} at the median, {duration(runs.longest_ns)} at most"
            if runs.n > 1
            else ""
        )
        yield (
            "runs",
            f"{runs.n}: first {duration(runs.first_ns)}{many}; {duration(runs.total_ns)} in all{_doubt(session, page)}",
        )
    if runs.n_failed:
        yield "runs that failed", f"{runs.n_failed}: {runs.error}"
    for output in runs.on_gpu:
        each = f" of {size(output.size_bytes)}" if output.size_bytes else ""
        yield (
            "output on the GPU",
            f"{output.name}: {output.made} tensors{each}, {output.disposed} disposed of",
        )
    if runs.memory:
        first, last = runs.memory[0], runs.memory[-1]
        yield "WebAssembly memory", _growth(first.wasm_bytes, last.wasm_bytes)
        if last.gpu_bytes:
            buffers = f"{last.gpu_buffers} buffers, {first.gpu_buffers} after the first run"
            yield "GPU memory", f"{_growth(first.gpu_bytes, last.gpu_bytes)}; {buffers}"
    if runs.read_back_bytes:
        fetched = f"; {runs.n_reads} by getData()" if runs.n_reads else ""
        yield "read back from the GPU", f"{size(runs.read_back_bytes)} in all{fetched}"


def _growth(first: int, last: int) -> str:
    return f"{size(last)}, {size(first)} after the first run"


def _doubt(session: PageSession, page: PageSeen) -> str:
    """Return a remark that a session's WebGPU times are not real because the GPU is emulated; "" otherwise."""
    software = page.software and session.plan.provider_names[0] == WEBGPU.name
    return " (functional only: the GPU is emulated)" if software else ""


def _options(options: dict[str, str]) -> str:
    return ", ".join(f"{name}={shorten(value, LONGEST_VALUE)}" for name, value in options.items())


def _in_force(name: str, value: str, session: PageSession) -> str:
    asked = session.environment.get(name, _OPEN)
    return f"{name} {shorten(value, LONGEST_VALUE)} ({asked if asked == _OPEN else f'asked: {asked}'})"


def _tensors(tensors: Sequence[PageTensor]) -> str:
    texts = []
    for tensor in tensors:
        where = f" on {tensor.location}" if tensor.location not in ("", "cpu") else ""
        texts.append(f"{tensor.name} {tensor.type}[{','.join(tensor.shape)}]{where}")
    return first_of(texts, NAMED)


def _share(page: WatchedPage) -> str:
    if not page.main_thread_ns:
        return (
            "the main thread was not sampled"
            if page.seen.browser
            else "the page was closed before its main thread was sampled"
        )
    share = percent(page.model_thread_ns / page.main_thread_ns, 0)
    return f"WebAssembly takes {share} of the main thread's busy time"


def _page(page: WatchedPage) -> Iterator[tuple[str, str]]:
    environment = page.seen
    if environment.browser:  # a crashed page reports no environment
        yield "browser", f"{environment.browser}, {environment.cpus} processors"
        yield "cross-origin isolated", "yes" if environment.isolated else "no, so WebAssembly has one thread"
    if environment.adapter:
        yield (
            "WebGPU adapter",
            f"{environment.adapter}{', computed by the CPU' if environment.software else ''}",
        )
    if page.main_thread_ns and page.watched_ns:
        busy = percent(page.main_thread_ns / page.watched_ns, 0)
        yield (
            "main thread",
            (
                f"busy {busy} of {page.watched_ns / 1e9:.1f} s, {duration(page.model_thread_ns)} of it in WebAssembly"
                " (one observation, sampled)"
            ),
        )
    if page.heap_bytes:
        yield "JavaScript heap", f"{_growth(page.heap_bytes[0], page.heap_bytes[-1])}, without garbage"
    for file in page.files:
        file_size = f" ({size(file.size_bytes)})" if file.size_bytes else ""
        yield "loaded", f"{shorten(file.url, LONGEST_URL)}{file_size}"
    for text in page.trouble:
        yield "trouble", text


def _next(envelope: Envelope[DiagnoseResult]) -> Iterator[str]:
    result = envelope.result
    if result.findings:
        yield f"ortune explain {result.findings[0].code}"
    yield from lines(report_line(result.session, envelope.store))
