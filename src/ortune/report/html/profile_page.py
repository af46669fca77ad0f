"""A profile as one page: tables and drawings that need no script, and a timeline that does."""

from __future__ import annotations

import base64
import hashlib
import importlib
import pkgutil
from functools import cache
from importlib.resources import files
from types import ModuleType

from markupsafe import Markup

from ortune.records import Envelope, ProfileDifference, ProfileResult, Timeline
from ortune.report import difference_words, stored_words
from ortune.report import profile_words as words
from ortune.report.html import profile as sections
from ortune.report.html.page import Section, environment
from ortune.report.html.profile import Given
from ortune.report.numbers import duration, memory


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
    shown = [s for module in section_modules() if (s := _section(module, given)) is not None]
    drawn = timeline is not None and any(section.name == "timeline" for section in shown)
    script = _file("timeline.js") if drawn else ""
    large, unit = _large(result)
    return (
        environment()
        .get_template("profile/page.html.j2")
        .render(
            subject=words.subject(result),
            style=Markup(_file("style.css") + _file("profile.css")),
            # Only this script may run: a browser refuses any other by its digest.
            script=Markup(script),
            script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            large=large,
            unit=unit,
            headline=words.headline(result),
            run_sentence=words.run_sentence(result) if result.against else "",
            headroom=result.headroom.sentence if result.headroom else "",
            facts=_facts(envelope),
            interrupted=envelope.status == "interrupted",
            stored=stored,
            sections=shown,
            envelope=envelope,
            result=result,
        )
    )


@cache
def section_modules() -> tuple[ModuleType, ...]:
    """Every section's module, in the order of the page."""
    found = [
        importlib.import_module(f"{sections.__name__}.{m.name}")
        for m in pkgutil.iter_modules(sections.__path__)
    ]
    return tuple(sorted(found, key=lambda module: int(module.ORDER)))


def _section(module: ModuleType, given: Given) -> Section | None:
    content = module.content(given)
    if content is None:
        return None
    name = module.__name__.rpartition(".")[2]
    body = environment().get_template(f"profile/{name}.html.j2").render(**content)
    return Section(name=name, title=module.TITLE, note=module.NOTE, body=Markup(body))


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _large(result: ProfileResult) -> tuple[str, str]:
    """The number that the page begins with, and what it is."""
    found = result.against
    if found is not None:
        more = found.b_wall_ns - found.a_wall_ns
        sign = "+" if more >= 0 else "\u2212"
        noise = ", within noise" if difference_words.no_difference(found) else ""
        return f"{sign}{duration(abs(more))}", f"a run, B against A{noise}"
    return (duration(result.wall_ns), "a run, profiled") if result.wall_ns else ("", "No whole run")


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
        found.append(("onnxruntime", result.side.runtime.ort_version))
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
