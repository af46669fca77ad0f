"""Text of a skeleton: how well it represents the original, and the bug report that contains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from ortune.durations import in_words
from ortune.records import Envelope
from ortune.show import markdown
from ortune.show.document import Block, Cell, Code, Column, Document, Line, Pairs, Points, Tone, table
from ortune.show.numbers import duration, percent, size
from ortune.verbs.skeleton.result import SkeletonProfile, SkeletonResult

SHOWN = 12
BUSY = 0.1
"""Difference between two profiles of the original, as a fraction of the time, from which on the machine is busy."""


PROFILING = "profiling model and skeleton alternately"


def runs_too_long(latency_ns: float, most_s: float) -> str:
    """Return a sentence that says that profiling original and skeleton would take too long."""
    return f"a run takes {duration(latency_ns)}, and profiling both would take more than {in_words(most_s)}"


def headline(result: SkeletonResult) -> str:
    """Return the result in one sentence."""
    what = f"{size(result.bytes_after)} of {size(result.bytes_before)}"
    if result.same:
        return f"{what}: findings and profile match the original"
    if result.profile is None:
        return f"{what}; unconfirmed: it could not be profiled together with the original"
    if _too_busy(result.profile) and result.places_before == result.places_after and result.profile.placed:
        return f"{what}: findings and nodes match the original; the machine was too busy to compare where the time goes"
    return f"{what}; it differs from the original in {_changed_parts(result)}"


def _too_busy(profile: SkeletonProfile) -> bool:
    return not profile.alike and profile.again_ratio >= BUSY


def _changed_parts(result: SkeletonResult) -> str:
    profile = result.profile
    parts = [
        *(["findings"] if result.places_before != result.places_after else []),
        *(["the nodes that run"] if profile is not None and not profile.placed else []),
        *(["where the time goes"] if profile is not None and not profile.alike else []),
    ]
    return " and ".join(parts)


def differences(result: SkeletonResult) -> list[str]:
    """Return sentences on the differences between skeleton and original, and cautions."""
    codes = [
        f"{code}: {before} in the original, {after} in the skeleton{_cause(code)}"
        for code, before, after in _changed(result.places_before, result.places_after)
    ]
    profile = result.profile
    if profile is not None and not profile.placed:
        codes += [
            f"{row.op_type} on {row.provider}: {row.before} nodes in the original, {row.after} in the skeleton"
            for row in profile.operators
            if row.before != row.after
        ]
    if profile is not None and not profile.alike:
        codes.append(
            f"{percent(profile.moved_ratio)} of the time moved to other operators; between two runs of the "
            f"original, {percent(profile.again_ratio)} moved"
            + (": inconclusive, the machine was too busy; try again" if _too_busy(profile) else "")
        )
    if result.by_values:
        codes.append(
            f"{_counted(result.by_values)}: their work depends on values, which differ here; use their time in "
            "the original"
        )
    if result.own_operators:
        codes.append(
            f"{_counted(result.own_operators)}: custom operators, renamed; without their library the skeleton "
            "does not load"
        )
    if result.not_profiled:
        codes.append(f"not profiled: {result.not_profiled}")
    return codes


_FILE = frozenset({"SES001", "SES003", "SES004"})


def _cause(code: str) -> str:
    return " (of the file itself: metadata, size, external data)" if code in _FILE else ""


def _changed(before: Mapping[str, int], after: Mapping[str, int]) -> list[tuple[str, int, int]]:
    pairs = [(code, before.get(code, 0), after.get(code, 0)) for code in sorted({*before, *after})]
    return [pair for pair in pairs if pair[1] != pair[2]]


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {op}" for op, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def document(envelope: Envelope[SkeletonResult]) -> Document:
    """Return the document: the written file, and its similarity to the original."""
    result = envelope.result
    tone: Tone = "good" if result.same else "look"
    blocks: list[Block] = [Line(f"{result.path}: {result.headline}", tone), *_blocks(result)]
    blocks += [
        Line(
            "read it before you send it: the shapes, the operators and small constants are those of your model",
            "faint",
        )
    ]
    return Document(title="ortune skeleton", blocks=blocks)


def _blocks(result: SkeletonResult) -> list[Block]:
    profile = result.profile
    again = " ".join(f"--shape {text}" for text in result.inputs)
    rows = [
        ("nodes", f"{result.n_nodes:,}"),
        (
            "generated from a seed",
            f"{result.n_rebuilt:,} tensors and lists; {result.n_kept:,} small ones kept",
        ),
        ("findings", _counted(result.places_after) or "none"),
    ]
    if profile is not None:
        rows += [
            (
                "profile",
                f"{percent(profile.moved_ratio)} of the time moved to other operators; between two runs of the "
                f"original, {percent(profile.again_ratio)} moved (one observation of each)",
            ),
            (
                "time",
                f"a run takes {profile.time_ratio:.2f} times as long as the original's (one observation)",
            ),
        ]
    return [
        Pairs(rows=rows),
        Points(title="differences from the original", items=differences(result)),
        *([_table(profile)] if profile is not None else []),
        *([Code(title="run with", lines=[again])] if again else []),
    ]


def _table(profile: SkeletonProfile) -> Block:
    columns = [
        Column("operator", "text"),
        Column("nodes"),
        Column("original"),
        Column("again"),
        Column("skeleton"),
    ]
    rows: list[Sequence[Cell | str]] = []
    for row in profile.operators[:SHOWN]:
        count = str(row.after) if row.after == row.before else f"{row.before} -> {row.after}"
        shares = (row.before_share, row.again_share, row.after_share)
        rows.append([f"{row.op_type} {row.provider}".rstrip(), count, *map(percent, shares)])
    return table(columns, rows, title="share of the operators' time")


def issue(envelope: Envelope[SkeletonResult]) -> str:
    """Return a bug report as Markdown: a template, the machine, the skeleton, and the findings.

    The report contains only fields without the user's paths and names.
    """
    result, host = envelope.result, envelope.host
    assert host is not None
    runtime = result.runtime
    machine = [
        ("CPU", f"{host.cpu}, {host.cores} cores, {host.logical} threads, {host.effective_cpus} may be used"),
        ("instructions", ", ".join(host.features)),
        ("memory", size(host.memory_bytes)),
        ("GPU", ", ".join(host.gpus)),
        ("system", f"{host.system} {host.machine}"),
        ("ONNX Runtime", f"{runtime.build}, Python {runtime.python_version}"),
        ("providers", ", ".join(runtime.providers)),
        ("ortune", envelope.ortune),
    ]
    return markdown.render(
        Document(
            title="What happens",
            blocks=[
                Line("(What you did, what you expected, what happened instead.)"),
                Pairs(title="Machine", rows=[(name, text) for name, text in machine if text.strip()]),
                Line(
                    f"{PurePath(result.path).name}, next to this report, is the model without weights, names or "
                    f"metadata: {result.headline}."
                ),
                *_blocks(result),
                Points(
                    title="What ortune finds in it", items=[finding.sentence() for finding in result.findings]
                ),
            ],
        )
    )
