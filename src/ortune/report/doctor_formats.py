"""What doctor found, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ortune.records import DoctorResult, Envelope, Host, MachinePeak, NoiseReport, RuntimeReport
from ortune.report import escape
from ortune.report.compare_words import control_words
from ortune.report.numbers import duration, memory, percent, three

PEAK_COLUMNS = ("threads", "float32 GFLOP/s", "int8 GOP/s", "memory GB/s")


def terminal(envelope: Envelope) -> RenderableType:
    """For people at a terminal."""
    result = envelope.result
    assert isinstance(result, DoctorResult)
    parts: list[RenderableType] = []
    for title, lines in _sections(envelope):
        parts.append(Text(escape.visible(title), style="bold", overflow="fold"))
        # Padded rather than begun with blanks: what is folded stays indented.
        parts += [Padding(Text(escape.visible(line), overflow="fold"), (0, 0, 0, 2)) for line in lines]
        parts.append(Text(""))
    if result.noise and result.noise.table:
        table = Table(box=None, pad_edge=False, padding=(0, 0, 0, 2))
        for name in ("minutes", "blocks", "smallest effect"):
            table.add_column(name, justify="right")
        for row in result.noise.table:
            table.add_row(f"{row.minutes:g}", str(row.n_blocks), _effect(row.smallest_effect_ratio))
        parts.append(Text("what a comparison of that length can show (4 times out of 5)", style="bold"))
        parts += [table, Text("")]
    if result.peak:
        table = Table(box=None, pad_edge=False, padding=(0, 0, 0, 2))
        for name in PEAK_COLUMNS:
            table.add_column(name, justify="right")
        for cells in _peak_rows(result.peak):
            table.add_row(*cells)
        parts.append(Text(escape.visible(_peak_title(result.peak)), style="bold", overflow="fold"))
        parts.append(table)
        for text in _peak_notes(result.peak):
            parts.append(Padding(Text(escape.visible(text), overflow="fold"), (0, 0, 0, 2)))
    return Group(*parts)


def markdown(envelope: Envelope) -> str:
    """The same as Markdown."""
    result = envelope.result
    assert isinstance(result, DoctorResult)
    lines = []
    for title, items in _sections(envelope):
        lines += [f"### {escape.markdown(title)}", "", *(f"- {escape.markdown(item)}" for item in items), ""]
    if result.noise and result.noise.table:
        lines += ["| minutes | blocks | smallest effect |", "|---:|---:|---:|"]
        for row in result.noise.table:
            lines.append(f"| {row.minutes:g} | {row.n_blocks} | {_effect(row.smallest_effect_ratio)} |")
        lines.append("")
    if result.peak:
        lines += [f"### {escape.markdown(_peak_title(result.peak))}", ""]
        lines += [f"| {' | '.join(PEAK_COLUMNS)} |", "|---:|---:|---:|---:|"]
        lines += [f"| {' | '.join(cells)} |" for cells in _peak_rows(result.peak)]
        for text in _peak_notes(result.peak):
            lines += ["", escape.markdown(text)]
    return "\n".join(lines) + "\n"


def _peak_title(peak: MachinePeak) -> str:
    return f"the most that this machine does (single observations, {peak.taken[:16].replace('T', ' ')} UTC)"


def _peak_rows(peak: MachinePeak) -> Iterator[tuple[str, ...]]:
    """Cells of each number of threads; "-" where nothing was measured."""
    tables = (peak.flops_per_s, peak.int8_ops_per_s, peak.bytes_per_s)
    for threads in sorted(set().union(*tables)):
        yield str(threads), *(three(each[threads] / 1e9) if threads in each else "-" for each in tables)


def _peak_notes(peak: MachinePeak) -> list[str]:
    """What has no number of threads, and what was run."""
    cached = peak.elementwise_bytes_per_s
    words = f"elementwise, in its own caches: {three(cached / 1e9)} GB/s a thread"
    return [*([words] if cached else []), peak.how]


def _effect(share: float | None) -> str:
    if share is None:
        return "too few blocks"
    return percent(share) if share >= 0.001 else "under 0.1 %"


def _sections(envelope: Envelope) -> Iterator[tuple[str, list[str]]]:
    result = envelope.result
    assert isinstance(result, DoctorResult)
    if envelope.host:
        yield "machine", _machine(envelope.host)
    for report in result.runtimes:
        yield f"runtime: {report.runtime.python}", _runtime(report)
    if not result.runtimes:
        yield "runtime", ["none found; pip install onnxruntime brings one"]
    found = [f"{name}: {path}" for name, path in result.allocators.items()]
    yield "allocators that can be preloaded", found or ["none (apt install libmimalloc2.0)"]
    if result.findings:
        yield "findings", [f"{f.code} {f.what} ({f.evidence}) -> {f.fix}" for f in result.findings]
    if result.noise:
        yield "noise", _noise(result.noise)


def _machine(host: Host) -> list[str]:
    quota = "no quota" if host.quota is None else f"cgroup quota {host.quota:g}"
    limit = "" if host.memory_limit_bytes is None else f", limit {memory(host.memory_limit_bytes)}"
    lines = [
        f"{host.cpu} ({host.machine}, {host.system})",
        f"{host.cores} cores, {host.logical} hardware threads, affinity {host.affinity}, {quota}: "
        f"{host.effective_cpus} effective CPUs",
        f"memory {memory(host.memory_bytes)}{limit}",
        "instruction sets: " + (", ".join(host.features) or "none that matter"),
    ]
    return lines + [f"GPU: {gpu}" for gpu in host.gpus]


def _runtime(report: RuntimeReport) -> list[str]:
    runtime = report.runtime
    lines = []
    if runtime.origin:
        lines.append(f"found as {runtime.origin}")
    if runtime.ort_version:
        package = runtime.package or "package not known"
        lines.append(f"onnxruntime {runtime.ort_version} ({package}), Python {runtime.python_version}")
    lines += [f"problem: {p}" for p in report.problems]
    usable = [p.name for p in report.providers if p.usable]
    if usable:
        lines.append("usable providers: " + ", ".join(usable))
    lines += [f"{p.name}: {p.why}" for p in report.providers if not p.usable]
    return lines


def _noise(noise: NoiseReport) -> list[str]:
    if noise.status == "invalid":
        return [
            "INVALID: twice, an identical plan did not look identical or a known wait was not found.",
            "Something on this machine changes faster than a comparison can follow: quiet it and try again.",
        ]
    return [
        f"measured with {noise.model}: {duration(noise.latency_ns)} a run, {noise.trial_s:.2f} s a trial",
        f"two trials of one block differ by {percent(noise.block_scale)} (robust scale)",
        *control_words(noise.controls),
    ]
