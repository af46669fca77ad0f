"""Page of a profile: the latency, then the time by category, operator and node."""

from __future__ import annotations

from ortune.records import Envelope, ProfileDifference, ProfileResult
from ortune.show import difference_tables, machine_words, profile_nodes
from ortune.show.document import Code, Document, Head, Line, Pairs, Section, Tone, stopped
from ortune.show.numbers import duration, memory
from ortune.show.sections import sections
from ortune.verbs.profile import memory_words as profile_memory
from ortune.verbs.profile import note_words as profile_notes
from ortune.verbs.profile import sections as folder
from ortune.verbs.profile import words as profile_words


def document(envelope: Envelope[ProfileResult]) -> Document:
    """Return the page of a profile, or of the difference between two profiles."""
    result = envelope.result
    large, unit = _large(result)
    trace, against = result.trace, result.against
    return Document(
        title=f"ortune profile: {profile_words.subject(result)}",
        before=[*(Line(text, "look") for text in profile_notes.damage(result)), *stopped(envelope)],
        blocks=[
            Line(profile_words.headline(result), "strong"),
            Line(f"A: {profile_words.run_sentence(result)}" if against else ""),
            Line(result.headroom.sentence if result.headroom else "", "good"),
            *sections(folder, envelope),
            Section(
                title="Next",
                blocks=[Code(title="", lines=profile_words.next_commands(envelope), commands=True)],
            ),
        ],
        head=Head(
            large=large,
            unit=unit,
            tone=_tone(against),
            beside=Section(title="Basis of these figures", blocks=[Pairs(rows=_facts(envelope))]),
            origin=f"{trace.format}, {trace.n_events:,} events" if trace.format else "",
            basis="Times are of the mean steady run, while profiling, unless they are without interference.",
        ),
    )


def _large(result: ProfileResult) -> tuple[str, str]:
    """Return the large number of the page and its description."""
    difference = result.against
    if difference is not None:
        more = difference.b_wall_ns - difference.a_wall_ns
        sign = "+" if more >= 0 else "\u2212"
        noise = ", within noise" if difference_tables.no_difference(difference) else ""
        noise = ", hidden by the profiler's overhead" if difference_tables.is_hidden(difference) else noise
        return f"{sign}{duration(abs(more))}", f"a run, B against A{noise}"
    alone_ns = profile_nodes.undisturbed_ns(result)
    if alone_ns is not None:
        return duration(alone_ns), "a run without interference, profiled"
    return (duration(result.wall_ns), "a run, profiled") if result.wall_ns else ("", "No complete run")


def _tone(difference: ProfileDifference | None) -> Tone:
    """Return the tone of the large number: "bad" for a slower B, "faint" for a difference within noise."""
    if difference is None:
        return ""
    if difference_tables.no_difference(difference) or difference_tables.is_hidden(difference):
        return "faint"
    return "bad" if difference.b_wall_ns > difference.a_wall_ns else ""


def _facts(envelope: Envelope[ProfileResult]) -> list[tuple[str, str]]:
    """Return how the numbers of the page were measured, as pairs (name, text)."""
    result = envelope.result
    rows = _sides(result.against) if result.against else []
    if result.n_runs:
        before = result.variance.left_out_runs if result.variance else 0
        rows.append(("steady runs", f"{result.n_runs}{f', after {before} left out' if before else ''}"))
    if result.slowdown_ratio is not None:
        rows.append(("with the profiler", f"{result.slowdown_ratio:.2f}x the time without"))
    if result.memory is not None:
        rows.append(("peak memory", memory(profile_memory.memory_total(result.memory))))
    if result.side is not None:
        rows.append(("plan", result.side.plan.describe()))
        rows.append(("ONNX Runtime", result.side.runtime.build))
    if envelope.host is not None:
        rows.append(("machine", machine_words.machine(envelope.host)))
    return rows


def _sides(difference: ProfileDifference) -> list[tuple[str, str]]:
    unit = difference_tables.unit(difference)
    return [
        ("A", f"{difference.a}: {unit.show(difference.a_wall_ns)} {unit.name}"),
        ("B", f"{difference.b}: {unit.show(difference.b_wall_ns)} {unit.name}"),
        ("profiled processes", f"{difference.a_processes} and {difference.b_processes}"),
    ]
