"""Details of a tuning as text: the effect of each setting, guards, noise, notes, failures and time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ortune.catalogue.providers import CPU
from ortune.durations import as_option, in_words
from ortune.printable import amount, amounts
from ortune.records import (
    Candidate,
    Comparison,
    PlanStatus,
    SettingWorth,
    TradeRow,
    UntestedTarget,
    assignment,
)
from ortune.show import finding_words, precision_words
from ortune.show.checks import guard, noise_words
from ortune.show.document import Column, Table
from ortune.show.numbers import change, duration, memory, span
from ortune.show.placement_words import placed
from ortune.show.side_rows import VERIFIED
from ortune.verbs._shared.tune_facts import deciding, fixed_findings, nothing_tested, untried_plans
from ortune.verbs.tune.result import TuneResult

NAMED = 6  # plans in a list, at most
CONFIRMED = "confirmed"
"""Status of a trade-off that fresh blocks confirmed."""
STATUSES: dict[PlanStatus, str] = {
    "winner": "winner",
    "default": "the default",
    "current": "current",
    "eliminated": "eliminated",
    "failed": "failed",
    "wrong-output": "wrong output",
    "pruned": "removed, no gain",
    "not-tried": "not tried",
}


def settings_summary(settings: Sequence[SettingWorth]) -> str:
    """Return text on how many rewrites and settings the winner has and how many gains are confirmed; "" for none."""
    kept = [s for s in settings if s.kept]
    if not kept:
        return ""
    paying, n_rewrites = sum(pays(s) for s in kept), sum(not s.value for s in kept)
    what = amounts((n_rewrites, "rewrite"), (len(kept) - n_rewrites, "setting"))
    if len(kept) == 1:
        return what + (", gain confirmed" if paying else "")
    if not paying and all(s.without_ratio is None for s in kept):
        return f"{what}, not measured one by one"
    shown = {0: "no single gain confirmed", len(kept): "gain of each confirmed"}.get(
        paying, f"gain of {paying} confirmed"
    )
    return f"{what}, {shown}"


def pays(item: SettingWorth) -> bool:
    """Return whether the winner without the setting was confirmed to be slower."""
    return item.shown


def setting(item: SettingWorth) -> str:
    """Return a setting or rewrite as it is written in a plan."""
    return f"{item.name}={item.value}" if item.value else item.name


def not_tried(result: TuneResult) -> list[str]:
    """Return sentences on plans, quantized models and targets that were not tried or compared, with the reasons."""
    stopped = [row for row in result.precision if row.why]
    models = precision_words.by_reason(stopped, "quantized model", result.budget.enough_s)
    return [*result.not_tried, *models, *map(untested_target, result.untested_targets)]


def untested_target(untested: UntestedTarget) -> str:
    """Return why an execution provider was not compared, or not with its default settings, and the fix."""
    if untested.reason == "no-time":
        return f"{untested.target} was not tested: no time left ({more_time(untested)})"
    difference = untested.difference
    accepts = difference.accepting_tolerance if difference is not None else None
    settings = ", ".join(assignment(knob, value) for knob, value in untested.settings.items())
    settings += " is" if len(untested.settings) == 1 else " are"
    what = f" ({difference.what})" if difference is not None else ""
    also = f"; to compare its default: --tolerance {accepts:g}" if accepts is not None else ""
    return f"{untested.plan.describe()} computes in lower precision by default here{what}, so {settings} set{also}"


def more_time(untested: UntestedTarget) -> str:
    """Return text with the option that allows a target to be tested."""
    if untested.enough_s is None:
        return f"--targets {CPU.target},{untested.target} forces it"
    return f"--budget {as_option(untested.enough_s)} is enough"


def worth(item: SettingWorth) -> str:
    """Return the cost of leaving a setting out as text: "+4.2 % without it (+2.0 % to +6.1 %)"."""
    if item.without_ratio is None:
        return "the gain without it was not measured"
    interval = f" ({span(item.without_low, item.without_high)})" if item.without_low is not None else ""
    return f"{change(item.without_ratio)} without it{interval}"


def details(result: TuneResult) -> list[tuple[str, str]]:
    """Return (label, text) rows that support the headline: settings, guards, noise, findings, notes, failures."""
    kept = [s for s in result.settings if s.kept]
    rows = [("setting" if s.value else "rewrite", f"{setting(s)}: {worth(s)}{_level(s)}") for s in kept]
    rows.append(("winner", settings_summary(result.settings)))
    rows.append(("statistic", result.statistic))
    if result.runtime is not None:
        runtimes = f"{result.runtime.build}; the default ran with {result.side.runtime.build}"
        rows.append(("runtime", runtimes))
    rows += [("placement", text) for text in placed(result.placement)]
    compared = deciding(result)
    if compared is not None:
        rows.append(("guards", "; ".join(guard(g, result.allowed) for g in compared.guards)))
    if result.alone is not None:
        rows.append(("alone", alone(result.alone)))
    rows.append(("noise", noise_words(result.controls, sum(bool(p.dropped) for p in result.points))))
    if result.headroom is not None:
        rows.append(("headroom", result.headroom.sentence))
    causes = fixed_findings(result)
    rows += finding_words.rows(f for f in result.findings if f not in causes)
    rows += [("note", text) for text in result.notes]
    if result.hardware_bound:
        rows.append(
            ("note", "the winner's model is bound to this CPU; the bundle also contains the portable one")
        )
    if result.fallback is not None:
        rows.append(("fallback", f"{result.fallback.describe()}, on a device that cannot run the winner"))
    for status in ("failed", "wrong-output"):
        rows += [
            (STATUSES[status], f"{c.plan.describe()}: {c.why}")
            for c in result.candidates
            if c.status == status
        ]
    rows = [(name, text) for name, text in rows if text]
    rows += listed("not tested", plan_names(untried_plans(result.candidates)))
    return [*rows, *listed("not tried", not_tried(result))]


def listed(name: str, items: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield a (label, text) row for each item, of which only the first has the name."""
    for number, item in enumerate(items):
        yield ("" if number else name), item


def plan_names(candidates: Sequence[Candidate]) -> list[str]:
    """Return the first plans of candidates in words, and the number of the others."""
    more = len(candidates) - NAMED
    names = [c.plan.describe() for c in candidates[:NAMED]]
    return [*names, *([f"and {more} more"] if more > 0 else [])]


def _level(item: SettingWorth) -> str:
    if not item.value and item.read_back == "effect":
        return "; stored in the model file"
    return f"; {VERIFIED[item.read_back]}"


def alone(comparison: Comparison) -> str:
    """Return text on the last check, in which the winner's change was measured with one process at a time."""
    interval = span(comparison.ratio_low, comparison.ratio_high)
    return f"{change(comparison.ratio)} ({interval}) in {comparison.n_blocks} blocks of one process at a time"


def trade_rows(result: TuneResult, sides: Table) -> list[tuple[str, ...]]:
    """Return the cells of each trade-off; [] if nothing was tested, since then the default is the only candidate.

    Args:
        result: The tuning.
        sides: The table of the sides, whose values of the winner its row has too.
    """
    if nothing_tested(result):
        return []
    at = next((i for i, column in enumerate(sides.columns) if column.head == "winner"), None)
    winner = {} if at is None else {row[0].text: row[at].text for row in sides.rows}
    return [trade_cells(row, winner if row.confirmed else None) for row in result.trade]


def trade_cells(row: TradeRow, shown: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the cells for a trade-off: (title, plan, latency, CPU time per run, peak memory, status).

    ``shown`` has values by the heads of ``TRADE`` that replace the row's own.
    """
    blocks = f", {amount(row.n_blocks, 'search block')}" if row.n_blocks else ""
    standing = CONFIRMED if row.confirmed else "kept" if row.kept else f"not confirmed{blocks}"
    own = duration(row.latency_ns), duration(row.cpu_per_run_ns), memory(row.peak_bytes)
    figures = ((shown or {}).get(column.head) or text for column, text in zip(TRADE[2:5], own, strict=True))
    # What no block confirmed may look faster in another row.
    title = f"{row.title} confirmed" if row.kept else row.title
    return title, row.plan.describe(), *figures, standing


TRADE = (
    *(Column(head, "text") for head in ("", "plan")),
    *(Column(head) for head in ("p50", "CPU time per run", "peak memory")),
    Column("", "text"),
)


def where_kept(result: TuneResult) -> list[tuple[str, str]]:
    """Return (label, text) rows: the paths of bundle and report, the time spent, and the commands to repeat."""
    named = [
        ("bundle", result.bundle),
        ("report", result.report),
        ("spent", spent(result)),
        *(("again", line) for line in result.reproduce.splitlines()),
    ]
    return [(name, text) for name, text in named if text]


def spent(result: TuneResult) -> str:
    """Return text with the number of trials and the time spent in each phase."""
    b = result.budget
    phases = (
        ("start and pilot", b.before_s),
        ("calibration", b.calibration_s),
        ("search", b.race_s),
        ("confirmation", b.confirm_s),
    )
    parts = [f"{name} {in_words(seconds)}" for name, seconds in phases if seconds]
    if b.n_trials:
        parts.insert(0, f"{b.n_trials} trials")
        parts += [f"{in_words(b.left_s)} left"] if round(b.left_s) else []
    return ", ".join(parts)
