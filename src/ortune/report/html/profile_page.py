"""A profile as one page: tables and drawings that need no script, and a timeline that does."""

from __future__ import annotations

from ortune.records import Envelope, ProfileDifference, ProfileResult, Timeline
from ortune.report import difference_words, finding_words, stored_words
from ortune.report import profile_words as words
from ortune.report.html import frame
from ortune.report.html import profile as folder
from ortune.report.html.profile import Given
from ortune.report.numbers import duration, memory

NO_TIMELINE = (
    "The timeline was not kept with this session; ortune profile TRACE --report FILE.html draws one."
)


def render(
    envelope: Envelope[ProfileResult],
    timeline: Timeline | None = None,
    *,
    stored: str = "",
    no_timeline: str = "",
) -> str:
    """The page as one HTML document; it fetches nothing.

    Args:
        envelope: The document of ``ortune profile``.
        timeline: Executions over time (``trace.timeline``); without it that section is left out.
        stored: Of a session that is told again, the line that says so.
        no_timeline: What stands in place of the timeline where there is none.
    """
    result = envelope.result
    given = Given(result=result, timeline=timeline, no_timeline=no_timeline)
    shown = frame.sections(folder, given)
    drawn = timeline is not None and any(section.name == "timeline" for section in shown)
    graph = any(section.name == "graph" for section in shown)
    large, unit = _large(result)
    trace = result.trace
    return frame.page(
        "profile/page.html.j2",
        product="profile",
        subject=words.subject(result),
        origin=f"{trace.format}, {trace.n_events:,} events" if trace.format else "",
        headline=words.headline(result),
        title=f"{large} {unit}".strip(),
        basis="Times are of the mean steady run, while profiling.",
        ortune=envelope.ortune,
        session=result.session,
        styles=["style.css", "profile.css"],
        scripts=["page.js", *(["graph.js"] if graph else []), *(["timeline.js"] if drawn else [])],
        large=large,
        tone=_tone(result.against),
        unit=unit,
        run_sentence=words.run_sentence(result) if result.against else "",
        headroom=result.headroom.sentence if result.headroom else "",
        facts=_facts(envelope),
        damage=words.damage(result),
        alerts=finding_words.alerts(envelope),
        interrupted=envelope.status == "interrupted",
        stored=stored,
        sections=shown,
        result=result,
    )


def _large(result: ProfileResult) -> tuple[str, str]:
    """The number that the page begins with, and what it is."""
    found = result.against
    if found is not None:
        more = found.b_wall_ns - found.a_wall_ns
        sign = "+" if more >= 0 else "\u2212"
        noise = ", within noise" if difference_words.no_difference(found) else ""
        return f"{sign}{duration(abs(more))}", f"a run, B against A{noise}"
    return (duration(result.wall_ns), "a run, profiled") if result.wall_ns else ("", "No whole run")


def _tone(found: ProfileDifference | None) -> str:
    """How the number looks: what is within noise is neither good nor bad."""
    if found is None:
        return ""
    if difference_words.no_difference(found):
        return " noise"
    return " worse" if found.b_wall_ns > found.a_wall_ns else ""


def _facts(envelope: Envelope[ProfileResult]) -> list[tuple[str, str]]:
    """What the figures rest on, in few words each."""
    result = envelope.result
    found = _sides(result.against) if result.against else []
    if result.n_runs:
        before = result.variance.left_out_runs if result.variance else 0
        found.append(("steady runs", f"{result.n_runs}{f', after {before} left out' if before else ''}"))
    if result.slowdown_ratio is not None:
        found.append(("with the profiler", f"{result.slowdown_ratio:.2f}x the time without"))
    if result.memory is not None:
        found.append(("memory at most", memory(words.memory_total(result.memory))))
    if result.side is not None:
        found.append(("plan", result.side.plan.describe()))
        found.append(("ONNX Runtime", result.side.runtime.build))
    if envelope.host is not None:
        found.append(("machine", stored_words.machine(envelope.host)))
    return found


def _sides(found: ProfileDifference) -> list[tuple[str, str]]:
    unit = difference_words.unit(found)
    return [
        ("A", f"{found.a}: {unit.show(found.a_wall_ns)} {unit.name}"),
        ("B", f"{found.b}: {unit.show(found.b_wall_ns)} {unit.name}"),
        ("profiled processes", f"{found.a_processes} and {found.b_processes}"),
    ]
