"""Sentences on the results of ``ortune doctor``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ortune.catalogue.providers import find, short_name
from ortune.printable import amount
from ortune.records import Envelope, Host, MachinePeak, RuntimeReport
from ortune.show import others_words
from ortune.show.checks import checks, control_words
from ortune.show.document import Code, Column, Document, Line, Points, Table, table
from ortune.show.message_words import peak_duration
from ortune.show.numbers import MOST_DETECTABLE, detectable, duration, memory, percent, significant
from ortune.show.runtime_offers import offers
from ortune.show.stored_kind import StoredKind
from ortune.verbs.doctor.result import DoctorResult, NoiseReport

USUAL_MINUTES = 2.0
"""Default duration of ``compare``, in minutes."""
PROBE = "a small convolutional network"
"""Label of the model that measures the noise if the user passes none."""
NO_RUNTIME = "no usable onnxruntime was found, so nothing could be measured"


def document(envelope: Envelope[DoctorResult]) -> Document:
    """Return the document: the runtimes and the detectable effect, then problems and the next commands."""
    result = envelope.result
    return Document(
        blocks=[
            *(Line(text, "strong") for text in headline(envelope)),
            _runtimes(result),
            Line(_not_started(result), "look"),
            Points(title="findings", items=[f.sentence() for f in result.findings]),
            *([_effects(result.noise)] if result.noise else []),
            *_checks(result),
            Code(title="next", lines=_next(result), commands=True),
        ],
        support=[
            *(Points(title=title, items=lines) for title, lines in _sections(envelope)),
            *([_peaks(result.peak)] if result.peak else []),
        ],
    )


def begins(usual_s: float, most_s: float) -> str:
    """Return a sentence on the next measurement and its duration.

    Args:
        usual_s: Usual seconds of the peak measurement.
        most_s: Its maximum seconds next to other programs.
    """
    return f"measuring the noise, then the peaks of this machine ({peak_duration(usual_s, most_s)})"


def measuring_noise(blocks: int, trial_s: float) -> str:
    """Return the number of blocks of the noise measurement, and how long they take."""
    return f"measuring the noise: {blocks} blocks of four trials of {trial_s:.2f} s, about {4 * blocks * trial_s:.0f} s"


def nothing_measured(why: str) -> str:
    """Return the sentence that neither noise nor peaks were measured."""
    return f"neither noise nor peaks were measured: {why}"


def peaks_not_measured(why: str) -> str:
    """Return the sentence that the peaks were not measured."""
    return f"the peaks of this machine were not measured: {why}"


def no_peak(why: str, *, postponed: bool) -> str:
    """Return why the peaks were not measured and, if postponed, when they will be."""
    return f"{why}; they are measured at the next quiet moment" if postponed else why


def _checks(result: DoctorResult) -> list[Line]:
    """Return lines on the checks, with the reason if the peaks were not measured."""
    failed = peaks_not_measured(result.peak_failed) if result.peak_failed else ""
    controls = result.noise.controls if result.noise is not None else ()
    return checks(controls, None, (), failed)


def _next(result: DoctorResult) -> list[str]:
    """Return the next commands, which add runtimes that run models; converters are listed only with -v."""
    busy = result.noise is not None and result.noise.busy
    quiet = [f"ortune doctor {' '.join(others_words.WAIT)}"] if busy else []
    return [*quiet, *(addition.command for addition in result.addable if not addition.converts)]


def headline(envelope: Envelope[DoctorResult]) -> list[str]:
    """Return sentences on the usable providers, and on the effect that a two-minute comparison can detect."""
    result, host = envelope.result, envelope.host
    usable = dict.fromkeys(
        p.name for r in result.runtimes for p in r.providers if p.usable and not p.emulated
    )
    runs = (
        f"ONNX Runtime runs on {_places(usable)}"
        if usable
        else "no ONNX Runtime was found; run pip install onnxruntime"
    )
    where = "" if host is None else f" ({host.cpu}, {_cpus(host.effective_cpus)})"
    lines = [f"{runs}{where}"]
    if result.noise is not None:
        lines.append(_detectable(result.noise))
    return lines


def _places(names: Iterable[str]) -> str:
    """Return the short names of execution providers as text, with the browser's providers listed separately."""
    in_page = {name: find(name).in_page for name in names}
    own, web = (
        [short_name(name) for name, there in in_page.items() if there == page] for page in (False, True)
    )
    return "; in a browser on ".join(", ".join(part) for part in (own, web) if part)


def _cpus(count: int) -> str:
    return amount(count, "CPU")


def _detectable(noise: NoiseReport) -> str:
    if noise.status == "invalid":
        return "nothing can be measured now: the A/A check or the sensitivity check failed twice"
    shown = [r for r in noise.table if (r.smallest_effect_ratio or MOST_DETECTABLE) < MOST_DETECTABLE]
    if not shown:
        return "no difference below 100 % can be detected in any of these times"
    row = min(shown, key=lambda r: abs(r.minutes - USUAL_MINUTES))
    time = f"{row.minutes:g} minute{'s' if row.minutes != 1 else ''}"
    effect = _effect(row.smallest_effect_ratio)
    if noise.busy:
        return (
            f"now, {_meanwhile(noise)}, a comparison of {time} detects a difference of {effect} or "
            f"more at best; their load changes, so wait for a quiet machine ({' '.join(others_words.WAIT)})"
        )
    now = "" if noise.used_cpus is None else f", {_meanwhile(noise)}, as now"
    return f"a comparison of {time} detects a difference of {effect} or more{now}"


def _meanwhile(noise: NoiseReport) -> str:
    used = noise.used_cpus or 0.0
    if used < others_words.LEAST_SHOWN:
        return "while other programs use almost no CPU time"
    return f"while other programs use {used:.1f} of {_cpus(noise.cpus)}"


def _runtimes(result: DoctorResult) -> Table:
    rows = []
    for report in result.runtimes:
        runtime = report.runtime
        usable = [p.name for p in report.providers if p.usable and not p.emulated]
        problems = [f"problem: {text}" for text in report.problems]
        version = " ".join(filter(None, (runtime.ort_version, runtime.package))) or "-"
        rows.append(
            (
                runtime.python,
                version,
                runtime.python_version or "-",
                "; ".join([_places(usable) or "none", *problems]),
            )
        )
    heads = [
        Column("runtime", "name"),
        Column("onnxruntime", "text"),
        Column("Python", "label"),
        Column("runs on", "text"),
    ]
    return table(heads, rows, dense=True)


def _not_started(result: DoctorResult) -> str:
    if not result.not_started:
        return ""
    return (
        f"{result.not_started} in this folder was not started, because it may come from an untrusted source; to "
        f"use it: --runtime {result.not_started}"
    )


def _effects(noise: NoiseReport) -> Table:
    rows = [(f"{r.minutes:g}", str(r.n_blocks), _effect(r.smallest_effect_ratio)) for r in noise.table]
    return table(
        [Column("minutes"), Column("blocks"), Column("smallest effect")],
        rows,
        title="detectable difference by comparison length (80 % power)",
        dense=True,
    )


def _peaks(peak: MachinePeak) -> Table:
    """Return a table of peaks with a row per number of threads, and notes on the other measurements."""
    tables = (peak.flops_per_s, peak.int8_ops_per_s, peak.bytes_per_s)
    rows = [
        (
            str(threads),
            *(
                significant(peak_table[threads] / 1e9) if threads in peak_table else "-"
                for peak_table in tables
            ),
        )
        for threads in sorted(set().union(*tables))
    ]
    cached = peak.elementwise_bytes_per_s
    words = f"elementwise, in cache: {significant(cached / 1e9)} GB/s per thread"
    taken = f"{peak.taken[:16].replace('T', ' ')} UTC"
    return table(
        [Column("threads"), Column("float32 GFLOP/s"), Column("int8 GOP/s"), Column("memory GB/s")],
        rows,
        title=f"peak of this machine (single observations, {taken})",
        notes=[*([words] if cached else []), peak.how],
        dense=True,
    )


def _effect(share: float | None) -> str:
    if share is None:
        return "too few blocks"
    return detectable(share) if share >= 0.001 else "under 0.1 %"


def _sections(envelope: Envelope[DoctorResult]) -> Iterator[tuple[str, list[str]]]:
    result = envelope.result
    if envelope.host:
        yield "machine", _machine(envelope.host)
    for report in result.runtimes:
        yield f"runtime: {report.runtime.python}", _runtime(report)
    if not result.runtimes:
        yield "runtime", ["none found; pip install onnxruntime brings one"]
    allocators = [f"{name}: {path}" for name, path in result.allocators.items()]
    if result.addable:
        yield "runtimes that can be added", offers(result.addable)
    yield "allocators that can be preloaded", allocators or ["none (apt install libmimalloc2.0)"]
    if result.noise:
        yield "noise", _noise(result.noise)


def _machine(host: Host) -> list[str]:
    quota = "no quota" if host.quota is None else f"cgroup quota {host.quota:g}"
    limit = "" if host.memory_limit_bytes is None else f", limit {memory(host.memory_limit_bytes)}"
    lines = [
        f"{host.cpu} ({host.machine}, {host.system})",
        f"{host.cores} cores, {host.logical} hardware threads, affinity {host.affinity}, {quota}: "
        f"{amount(host.effective_cpus, 'effective CPU')}",
        f"memory {memory(host.memory_bytes)}{limit}",
        "instruction sets: " + (", ".join(host.features) or "none relevant"),
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
    lines += [f"{p.name}: {p.why}" for p in report.providers if p.usable and p.why]
    for p in report.providers:
        if not p.usable:
            lines.append(f"{p.name}: {p.why}{f' -> {p.do}' if p.do and p.do not in p.why else ''}")
    return lines


def _noise(noise: NoiseReport) -> list[str]:
    if noise.status == "invalid":
        return ["the machine is too noisy for a comparison; stop other programs and try again"]
    return [
        f"measured with {noise.model}: {duration(noise.latency_ns)} per run, {noise.trial_s:.2f} s per trial",
        f"two trials of one block differ by {percent(noise.block_scale)} (robust scale)",
        *control_words(noise.controls),
    ]


def _summary(result: DoctorResult) -> str:
    n = len([r for r in result.runtimes if not r.runtime.error])
    parts = ["one usable runtime" if n == 1 else f"{n} usable runtimes"]
    if result.noise and result.noise.status == "invalid":
        parts.append("the machine was too busy to measure its noise")
    elif result.noise:
        parts.append(f"two trials of one block differ by {percent(result.noise.block_scale)}")
    if result.findings:
        n = len(result.findings)
        parts.append("one finding" if n == 1 else f"{n} findings")
    return "; ".join(parts)


def _first_runtime(result: DoctorResult) -> str:
    return next((r.runtime.build for r in result.runtimes if r.runtime.ort_version), "")


STORED = StoredKind(result=DoctorResult, document=document, headline=_summary, build=_first_runtime)
