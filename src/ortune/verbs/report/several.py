"""Shows several stored sessions next to each other: their results, differences, and the resulting limits.

Sessions have no common blocks, so the difference between their times is never a claim; each session's own result is
shown. If model, workload, machine or runtime differ, their times are not comparable at all.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Sequence

import msgspec

from ortune.printable import visible
from ortune.records import Figures, Plan, ProfileResult, Runtime
from ortune.show.answer_commands import compare_line
from ortune.show.document import Column
from ortune.show.machine_words import machine
from ortune.show.numbers import duration, memory, percent
from ortune.show.profile_tables import category_words
from ortune.show.sides import new_value as figure_beside
from ortune.show.sides import value as figure_value
from ortune.verbs.bench.result import BenchResult
from ortune.verbs.look.result import LookResult
from ortune.verbs.report import several_words
from ortune.verbs.report.answer import PlanPair, answer, interval_words, latency_words
from ortune.verbs.report.brief import plan_words
from ortune.verbs.report.result import Contrast, History, StoredSession
from ortune.verbs.report.stored_words import STATES, when

UNKNOWN = "not known"
MOST_ROWS = 8  # operators of profiles side by side


def side_by_side(sessions: Sequence[StoredSession]) -> History:
    """Return the properties in which sessions differ, and whether the sessions' times are comparable."""
    contrasts = [
        Contrast(name=name, values=values, breaks=breaks)
        for name, breaks, read in _PROPERTIES
        if len({*(values := tuple(read(s) for s in sessions))} - {UNKNOWN}) > 1
    ]
    breaking = [c.name for c in contrasts if c.breaks]
    warnings = [several_words.not_comparable(breaking)] if breaking else []
    unknown = [s.id or s.label for s in sessions if s.document is None]
    if unknown:
        warnings.append(several_words.no_result(unknown))
    return History(
        contrasts=tuple(contrasts),
        comparable=not warnings,
        warnings=tuple(warnings),
        next_step=_next(sessions),
    )


def _answer(session: StoredSession) -> PlanPair | None:
    return answer(session.document) if session.document else None


def _model(session: StoredSession) -> str:
    both = _answer(session)
    if both is not None:
        sums = [both.base.model.sha256, *([both.new.model.sha256] if both.new else [])]
        return " and ".join(s[:12] for s in dict.fromkeys(sums))
    if session.document and session.document.model:
        return session.document.model.sha256[:12]
    return session.bundle.sha256[:12] if session.bundle else UNKNOWN


def _workload(session: StoredSession) -> str:
    """Return a session's inputs and load in words, with a mark if the description is incomplete."""
    work = session.document.workload if session.document else None
    if work is None:
        return UNKNOWN
    shapes = [
        f"{i.name} {'x'.join(map(str, i.shape)) or 'scalar'}"
        for case in work.cases[:2]
        for i in case.inputs[:3]
    ]
    more = ["..."] if len(work.cases) > 2 or any(len(c.inputs) > 3 for c in work.cases) else []
    load = [f"gap {duration(work.gap_ns)}"] if work.gap_ns else []
    if (work.sessions, work.callers) != (1, 1):
        load.append(f"{work.sessions} sessions, {work.callers} callers")
    # Notes and failed tries describe the search for the inputs, not the inputs.
    mark = hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(work, notes=(), tries=0))).hexdigest()[
        :6
    ]
    return f"{', '.join([*shapes, *more, *load])} (#{mark})"


def _machine(session: StoredSession) -> str:
    mark = f" (#{session.host.fingerprint[:6]})" if session.host else ""
    return machine(session.host) + mark


def _runtime(session: StoredSession) -> str:
    used = _runtimes(session)
    if not used:
        return session.build or UNKNOWN
    return " and ".join(dict.fromkeys(r.build for r in used))


def _runtimes(session: StoredSession) -> list[Runtime]:
    """Return the runtimes in a session's document; [] if the document contains none."""
    both = _answer(session)
    if both is not None:
        return [side.runtime for side in (both.base, both.new) if side is not None]
    result = session.result
    if isinstance(result, BenchResult | ProfileResult) and result.side is not None:
        return [result.side.runtime]
    return [result.runtime] if isinstance(result, LookResult) and result.runtime else []


def _base_plan(session: StoredSession) -> str:
    both = _answer(session)
    if both is not None:
        return plan_words(both.base.plan)
    result = session.result
    if isinstance(result, BenchResult | ProfileResult) and result.side is not None:
        return plan_words(result.side.plan)
    return UNKNOWN


def _new_plan(session: StoredSession) -> str:
    plan = _candidate(session)
    return plan_words(plan) if plan is not None else UNKNOWN


def _candidate(session: StoredSession) -> Plan | None:
    """Return the plan that a session recommends or tests; None if unknown."""
    both = _answer(session)
    if both is not None:
        return both.new.plan if both.new else both.base.plan
    return session.bundle.plan if session.bundle else None


def _statistic(session: StoredSession) -> str:
    both = _answer(session)
    if both is not None and both.statistic:
        return both.statistic
    result = session.result
    if isinstance(result, ProfileResult):
        return several_words.PROFILED_RUN
    return several_words.REQUEST if isinstance(result, BenchResult) else UNKNOWN


# (name, whether times are incomparable between sessions with different values, function that reads the value)
_PROPERTIES: tuple[tuple[str, bool, Callable[[StoredSession], str]], ...] = (
    ("model", True, _model),
    ("workload", True, _workload),
    ("machine", True, _machine),
    ("runtime", True, _runtime),
    ("figure", True, _statistic),
    ("base plan", False, _base_plan),
    ("new plan", False, _new_plan),
    ("ortune", False, lambda s: s.ortune or UNKNOWN),
)


def _next(sessions: Sequence[StoredSession]) -> str:
    """Return the command that compares the models or plans of two sessions; "" if they cannot be compared."""
    if len(sessions) != 2:
        return ""
    a, b = (_answer(s) for s in sessions)
    if (
        a is None
        or b is None
        or a.statistic != b.statistic
        or _workload(sessions[0]) != _workload(sessions[1])
    ):
        return ""
    one, two = (session.new or session.base for session in (a, b))
    if one.plan == two.plan and one.model.sha256 == two.model.sha256 and one.runtime == two.runtime:
        return ""
    work = sessions[0].document.workload if sessions[0].document else None
    line = compare_line(one, two, work, a.statistic, (*a.notes, *b.notes), reproduce=a.reproduce)
    return visible(shlex.join(line)) if line else ""


COLUMNS = (
    *(Column(head, "label") for head in ("session", "measured (UTC)", "verb")),
    Column("base"),
    Column("new"),
    Column("new against base", "text"),
)


def rows(sessions: Sequence[StoredSession]) -> list[tuple[str, ...]]:
    """Return one row per session: id, time, verb, value of the base, value of the new side, comparison."""
    return [_row(s) for s in sessions]


def value(figures: Figures | None, statistic: str) -> str:
    """Return the value of `statistic` (default: latency) as text; "" if nothing was measured."""
    return figure_value(figures, statistic or "p50 latency") if figures else ""


def _row(session: StoredSession) -> tuple[str, ...]:
    head = (session.id or session.label, when(session).removesuffix(" UTC"), session.verb)
    both = _answer(session)
    if both is None:
        state = STATES[session.state] or session.headline or session.trouble
        result = session.result
        profiled = duration(result.wall_ns) if isinstance(result, ProfileResult) else ""
        return (*head, profiled, "", state)
    base = value(both.base_figures, both.statistic)
    if both.new is None:
        return (*head, base, "", several_words.standing(both.standing or "best"))
    if both.comparison is None:
        comparable = both.outputs is None or both.outputs.comparable
        why = several_words.not_timed(comparable=comparable)
        return (*head, base, value(both.new_figures, both.statistic), why)
    new = figure_beside(both.base_figures, both.new_figures, both.comparison)
    standing = "" if both.controls else ", controls not run"
    standing = standing if both.settled else ", not confirmed"
    claim = f"{interval_words(both.comparison)}, {both.comparison.verdict}{standing}"
    return (*head, base, new, claim)


def profile_heads(sessions: Sequence[StoredSession]) -> tuple[str, ...]:
    """Return the column headings of ``profile_rows``: one column per profile."""
    names = (session.id or session.label for session, _ in _profiles(sessions))
    return (several_words.WHERE_TIME_GOES, *names)


def profile_rows(sessions: Sequence[StoredSession]) -> list[tuple[str, ...]]:
    """Return rows of categories and expensive operators, one column per profile; [] for fewer than two profiles."""
    profiles = [result for _, result in _profiles(sessions)]
    if len(profiles) < 2:
        return []
    groups = [
        [{category_words(c.name): c.ns for c in result.categories if c.ns} for result in profiles],
        [_by_operator(result) for result in profiles],
    ]
    rows: list[tuple[str, ...]] = [("the run", *(duration(result.wall_ns) for result in profiles))]
    for group in groups:
        most = {name: max(times.get(name, 0.0) for times in group) for times in group for name in times}
        for name in sorted(most, key=lambda name: (-most[name], name))[:MOST_ROWS]:
            cells = [_part(times.get(name), result) for times, result in zip(group, profiles, strict=True)]
            rows.append((name, *cells))
    return rows


def _profiles(sessions: Sequence[StoredSession]) -> list[tuple[StoredSession, ProfileResult]]:
    results = [(s, s.result) for s in sessions]
    return [(session, result) for session, result in results if isinstance(result, ProfileResult)]


def _by_operator(result: ProfileResult) -> dict[str, float]:
    times: dict[str, float] = {}
    for operator in result.operators:
        times[operator.op_type] = times.get(operator.op_type, 0.0) + operator.time_ns
    return times


def _part(ns: float | None, result: ProfileResult) -> str:
    """Return a time with its fraction of the run as text; "" for None."""
    if ns is None:
        return ""
    return f"{duration(ns)} ({percent(ns / result.wall_ns)})" if result.wall_ns else duration(ns)


SIDE_COLUMNS = (
    Column("session", "text"),
    Column("side", "label"),
    *(Column(head) for head in ("p50 [IQR]", "CPU time per run", "peak memory", "load time")),
)


def side_rows(sessions: Sequence[StoredSession]) -> list[tuple[str, ...]]:
    """Return one row for each side of every session, with medians over trials."""
    table_rows: list[tuple[str, ...]] = []
    for session in sessions:
        both = _answer(session)
        if both is None:
            continue
        pairs = [(both.base_name, both.base_figures), (both.new_name, both.new_figures if both.new else None)]
        table_rows += [
            (
                session.id or session.label,
                name,
                latency_words(f),
                duration(f.cpu_per_run_ns),
                memory(f.peak_bytes),
                duration(f.load_ns),
            )
            for name, f in pairs
            if f is not None
        ]
    return table_rows
