"""What doctor found, in words."""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import DoctorResult, Envelope, Host, MachinePeak, NoiseReport, RuntimeReport
from ortune.report import finding_words
from ortune.report.checks import control_words
from ortune.report.document import Column, Document, Points, Table, table
from ortune.report.numbers import duration, memory, percent, three
from ortune.report.runtime_words import offers


def document(envelope: Envelope[DoctorResult]) -> Document:
    """The machine, its runtimes, what is in the way, and what was measured of it."""
    result = envelope.result
    return Document(
        blocks=[
            *(Points(title=title, items=lines) for title, lines in _sections(envelope)),
            *([_effects(result.noise)] if result.noise else []),
            *([_peaks(result.peak)] if result.peak else []),
        ],
    )


def _effects(noise: NoiseReport) -> Table:
    rows = [(f"{r.minutes:g}", str(r.n_blocks), _effect(r.smallest_effect_ratio)) for r in noise.table]
    return table(
        [Column("minutes"), Column("blocks"), Column("smallest effect")],
        rows,
        title="what a comparison of that length can show (4 times out of 5)",
        dense=True,
    )


def _peaks(peak: MachinePeak) -> Table:
    """A row a number of threads; beneath, what has no number of threads, and what was run."""
    tables = (peak.flops_per_s, peak.int8_ops_per_s, peak.bytes_per_s)
    rows = [
        (str(threads), *(three(each[threads] / 1e9) if threads in each else "-" for each in tables))
        for threads in sorted(set().union(*tables))
    ]
    cached = peak.elementwise_bytes_per_s
    words = f"elementwise, in its own caches: {three(cached / 1e9)} GB/s a thread"
    taken = f"{peak.taken[:16].replace('T', ' ')} UTC"
    return table(
        [Column("threads"), Column("float32 GFLOP/s"), Column("int8 GOP/s"), Column("memory GB/s")],
        rows,
        title=f"the most that this machine does (single observations, {taken})",
        notes=[*([words] if cached else []), peak.how],
        dense=True,
    )


def _effect(share: float | None) -> str:
    if share is None:
        return "too few blocks"
    return percent(share) if share >= 0.001 else "under 0.1 %"


def _sections(envelope: Envelope[DoctorResult]) -> Iterator[tuple[str, list[str]]]:
    result = envelope.result
    if envelope.host:
        yield "machine", _machine(envelope.host)
    for report in result.runtimes:
        yield f"runtime: {report.runtime.python}", _runtime(report)
    if not result.runtimes:
        yield "runtime", ["none found; pip install onnxruntime brings one"]
    if result.not_started:
        yield (
            f"runtime: {result.not_started} of this folder",
            [
                f"not started, as it may have come with somebody's files; to use it: --runtime {result.not_started}"
            ],
        )
    found = [f"{name}: {path}" for name, path in result.allocators.items()]
    if result.addable:
        yield "runtimes that can be added", offers(result.addable)
    yield "allocators that can be preloaded", found or ["none (apt install libmimalloc2.0)"]
    if result.findings:
        yield "findings", [finding_words.sentence(finding) for finding in result.findings]
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
            "INVALID: twice, the A/A check or the positive control failed.",
            "Something on this machine changes faster than a comparison can follow: quiet it and try again.",
        ]
    return [
        f"measured with {noise.model}: {duration(noise.latency_ns)} a run, {noise.trial_s:.2f} s a trial",
        f"two trials of one block differ by {percent(noise.block_scale)} (robust scale)",
        *control_words(noise.controls),
    ]
