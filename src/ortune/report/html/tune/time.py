"""Where the time goes: default and winner side by side, or the default alone."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ortune.records import Envelope, ProfileDifference, ProfileResult, TuneResult
from ortune.report import difference_words as differences
from ortune.report import profile_words, tune_why
from ortune.report.html import svg
from ortune.report.html.points import role_words
from ortune.report.html.profile import difference
from ortune.report.numbers import duration
from ortune.report.profile_tables import category_words
from ortune.report.tune_words import today

ORDER = 5
TITLE = "Where the time goes"
NOTE = (
    "The mean run under ONNX Runtime's profiler, which makes it longer than the runs that were raced. "
    "Bars are to one scale."
)
MOST_NODES = 10
BAR_PX = 26
Parts = Sequence[tuple[str, float]]
"""Categories, and the nanoseconds of each."""


def content(envelope: Envelope[TuneResult]) -> dict[str, object] | None:
    """A bar of categories a side, and the nodes that changed or take most; None without a profile."""
    result = envelope.result
    if result.why is not None:
        return _both(result, result.why)
    return _default(result.default_profile) if result.default_profile is not None else None


def _both(result: TuneResult, found: ProfileDifference) -> dict[str, object]:
    unit = differences.unit(found)
    rows = [row for row in found.categories if row.a_ns or row.b_ns]
    whole = max(found.a_wall_ns, found.b_wall_ns) or 1.0
    names = (role_words(result, "current" if today(result) else "default"), "winner")
    a, b = ([(row.name, ns or 0.0) for row in rows for ns in [(row.a_ns, row.b_ns)[i]]] for i in range(2))
    return {
        "sentence": tune_why.won(found),
        "bars": [
            (name, duration(wall), _bar(name, parts, whole))
            for name, wall, parts in ((names[0], found.a_wall_ns, a), (names[1], found.b_wall_ns, b))
        ],
        "heads": [*(f"{name}, {unit.name}" for name in names), "change"],
        "rows": [
            (
                row.name,
                category_words(row.name),
                [unit.show(row.a_ns or 0.0), unit.show(row.b_ns or 0.0), unit.signed(row.difference_ns)],
            )
            for row in sorted(rows, key=lambda row: -(row.a_ns or 0.0))
        ],
        "total": [
            unit.show(found.a_wall_ns),
            unit.show(found.b_wall_ns),
            unit.signed(found.b_wall_ns - found.a_wall_ns),
        ],
        "changed": difference.nodes(found, MOST_NODES),
        "top": None,
    }


def _default(found: ProfileResult) -> dict[str, object] | None:
    rows = profile_words.category_rows(found)
    if not rows:
        return None
    *parts, total = rows
    return {
        "sentence": "",
        "bars": [
            (
                "default",
                duration(found.wall_ns),
                _bar("default", [(c.name, c.ns) for c in found.categories], found.wall_ns),
            )
        ],
        "heads": [profile_words.category_unit(found).name, "%"],
        "rows": [(name, text, [time, part]) for name, text, time, part in parts],
        "total": [total[2], total[3]],
        "changed": None,
        "top": [
            (
                profile_words.name_of(node),
                node.op_type,
                duration(node.time_ns),
                profile_words.share(node.time_ns, found),
            )
            for node in sorted(found.nodes, key=lambda node: -node.time_ns)[:MOST_NODES]
        ],
    }


def _bar(name: str, parts: Parts, whole: float) -> Markup:
    """The categories side by side, from zero; one that is negative has no width."""
    marks, at = [], 0.0
    for category, ns in sorted(parts, key=lambda part: -part[1]):
        width = min(max(0.0, ns) / whole, 1.0 - at)
        title = svg.tag("title", f"{category_words(category)}: {duration(ns)}")
        marks.append(
            svg.tag(
                "rect",
                title,
                x=svg.share(at),
                width=svg.share(width),
                y="0",
                height="100%",
                class_=f"part c-{category}",
            )
        )
        at += width
    alt = f"{name}: " + "; ".join(f"{category_words(c)} {duration(ns)}" for c, ns in parts)
    return svg.picture(alt, marks, height=BAR_PX, kind="stack")
