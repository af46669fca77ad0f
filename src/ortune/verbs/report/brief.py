"""One page for decision makers: the current configuration, the gain, the savings, and the risks.

Nothing is estimated here: a median is multiplied by the paired ratio and the ends of its interval, and CPU seconds
by the requests in a second.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from ortune.printable import operand
from ortune.records import BUSY, Comparison, Envelope, Figures, Guard, Plan, Record, Side, Workload
from ortune.show import headline as heads
from ortune.show import others_words, sides
from ortune.show.answer_commands import (
    compare_line,
    objective_options,
    tune_line,
    with_budget,
    workload_options,
)
from ortune.show.numbers import change, change_words, duration, interval_name, memory, span, times
from ortune.verbs._shared import tune_facts, tune_headline
from ortune.verbs.report.answer import PlanPair, answer
from ortune.verbs.report.brief_cpus import pauses_note
from ortune.verbs.report.brief_risks import blocks, risks
from ortune.verbs.report.result import Brief, BriefFigure
from ortune.verbs.tune.result import TuneResult

LOAD_PER_S = 100.0
UNSURE: dict[str | None, str] = {
    "nothing-tested": "nothing tested: keep the current configuration, or tune with a larger budget",
    "not-shown": (
        "inconclusive: no gain confirmed, but one may have been missed; keep the current "
        "configuration, or measure longer"
    ),
}
"""Maps the verdict of a tuning that changes nothing to a sentence, if the current plan may not be the best."""
LONGER_S = 600
SAME = 0.01
"""Half-width of an interval around zero change, as a fraction, that counts as no change."""
Decision = Literal["ship", "keep", "unproven", "stop"]


def make(
    envelope: Envelope[Record],
    safety: Mapping[str, str],
    load_per_s: float | None = None,
    *,
    spins: Callable[[Plan], bool],
    bound: Collection[str] = (),
) -> Brief | None:
    """Return the brief of a ``compare`` or ``tune`` document; None for other documents.

    Args:
        envelope: The document.
        safety: Maps the name of each setting and rewrite to its safety class.
        load_per_s: Requests per second; None assumes 100 as an example.
        spins: Callback that returns whether a plan's threads spin after a run.
        bound: Names of rewrites whose models are bound to the kind of CPU that created them.
    """
    both = answer(envelope)
    if both is None:
        return None
    load = LOAD_PER_S if load_per_s is None else load_per_s
    budget = envelope.result.budget if isinstance(envelope.result, TuneResult) else None
    decision = "unproven" if budget and budget.exploratory else _decision(both)
    note = pauses_note(envelope.workload, load, _timed(both), spins)
    figures, cpus = _figures(both, load, claimed=not note)
    return Brief(
        subject=both.base.label,
        decision=decision,
        answer=_correction(envelope.result) or _answer(both, decision),
        evidence=_evidence(both) or _whole_answer(envelope),
        today_plan=_side_words(both, both.base),
        tuned_plan=_side_words(both, both.new) if both.new else "",
        load_per_s=load,
        load_given=load_per_s is not None,
        figures=figures,
        cpus=cpus,
        cpus_there=envelope.host.effective_cpus if envelope.host else None,
        cpus_note=note if cpus else "",
        risks=tuple(risks(both, safety, bound, envelope.status == "interrupted")),
        next_steps=tuple(_next(both, decision, envelope.workload, budget.enough_s if budget else 0.0)),
    )


def _timed(both: PlanPair) -> list[tuple[Plan, float]]:
    """Return pairs (plan, latency in nanoseconds) for the timed plans."""
    sides = ((both.base, both.base_figures), (both.new, both.new_figures))
    return [(side.plan, figures.latency_ns) for side, figures in sides if side and figures]


def _side_words(both: PlanPair, side: Side) -> str:
    """Return a side's plan in words, preceded by the model's name if the sides run different models."""
    plan = plan_words(side.plan)
    same = both.new is None or both.new.label == both.base.label
    return plan if same else f"{side.label}, {plan}"


def plan_words(plan: Plan) -> str:
    """Return a plan in words; "ONNX Runtime's defaults" for the empty plan."""
    return "ONNX Runtime's defaults" if plan == Plan() else plan.describe()


def _decision(both: PlanPair) -> Decision:
    compared = both.comparison
    if both.outputs is not None and not both.outputs.ok and both.new is not None:
        return "stop"
    if both.new is None:
        return "unproven" if both.standing in UNSURE else "keep"
    if compared is None or compared.verdict in ("inconclusive", "invalid"):
        return "unproven"
    if compared.verdict in ("slower", "equivalent"):
        return "keep"
    if any(g.failed and g.figure not in both.allowed for g in compared.guards):
        return "stop"
    anywhere = not others_words.only_under_load(compared) or BUSY in both.allowed
    return "ship" if both.settled and both.controls and anywhere else "unproven"


def _correction(result: Record) -> str:
    """Return a sentence with the plan to set because the default's outputs are wrong; "" if they are correct."""
    if not isinstance(result, TuneResult) or not tune_facts.only_corrects(result):
        return ""
    return f"the default's outputs are wrong: set {result.default.describe()}"


def _answer(both: PlanPair, decision: Decision) -> str:
    compared = both.comparison
    if decision == "ship" and compared is not None:
        gain = f"{times(1 / compared.ratio)} in {sides.statistic_name(compared.statistic)}"
        return f"{heads.word('faster', compared.statistic)}: {gain}, confirmed; switch to the tuned configuration"
    if decision == "stop":
        wrong = "the outputs are wrong" if compared is None else "the outputs differ beyond the tolerance"
        failed = both.outputs is not None and not both.outputs.ok
        return f"do not switch: {wrong if failed else 'a guard failed'}"
    if decision == "unproven":
        unproven = "inconclusive: no gain confirmed; keep the current configuration, or measure longer"
        if both.settled and not both.controls:
            unproven = f"{unproven} (controls not run)"
        return UNSURE.get(both.standing, unproven)
    if compared is not None and compared.verdict == "slower":
        return "slower: keep the current configuration"
    if compared is not None and compared.verdict == "equivalent":
        return f"{heads.word('equivalent')}: keep the current configuration"
    return "inconclusive: no gain confirmed; keep the current configuration"


def _evidence(both: PlanPair) -> str:
    compared = both.comparison
    if compared is None:
        return "nothing was timed" if both.new is not None else ""
    level, n = interval_name(compared.level), blocks(compared)
    figure = compared.statistic.partition(" (")[0]
    if compared.verdict == "faster":
        return f"{tune_headline.gain_words(compared)}, {level} {tune_headline.bounds(compared)}, {n}"
    if sides.single(compared):
        return heads.measured(compared, n)
    if sides.no_interval(compared):
        looks = change_words(compared.ratio, "lower", "higher")
        return f"{figure} looks {looks} in {n}, too few for an interval"
    interval = span(compared.ratio_low, compared.ratio_high)
    return f"{figure} {change(compared.ratio)}, {level} {interval}, {n}"


def _whole_answer(envelope: Envelope[Record]) -> str:
    """Return the headline of a tuning without a comparison; "" for other documents."""
    result = envelope.result
    return result.headline or tune_headline.headline(result) if isinstance(result, TuneResult) else ""


def _figures(
    both: PlanPair, load: float, *, claimed: bool
) -> tuple[tuple[BriefFigure, ...], BriefFigure | None]:
    """Return rows for the objective, latency, CPU time and memory, and separately the row of busy CPUs at the load.

    ``claimed`` says whether a saving of CPUs may be claimed, because the load has no unmeasured pauses.
    """
    base, new = both.base_figures, both.new_figures
    if base is None or new is None:
        return (), _cpus_today(base, load)
    kind = sides.kind(both.statistic)
    rows: dict[str, BriefFigure | None] = {}
    if kind == "latency":
        now, then = sides.compared_ns(base), sides.compared_ns(new)
        rows["latency"] = _row(
            f"{sides.statistic_name(both.statistic)} latency", "ns", now, then, both.comparison
        )
    elif kind == "cold":
        now, then = (f.load_ns + f.first_run_ns for f in (base, new))
        rows["cold"] = _row("cold start", "ns", now, then, both.comparison)
        rows["latency"] = _row("p50 latency", "ns", base.latency_ns, new.latency_ns, None)
    else:
        rows["latency"] = _row("p50 latency", "ns", base.latency_ns, new.latency_ns, None)
        if kind == "other":
            # Paired ratios are of times: a throughput is the time a run here.
            name = both.statistic.partition(" (")[0].replace("throughput", "time a run")
            rows["other"] = _row(name, "ns", sides.compared_ns(base), sides.compared_ns(new), both.comparison)
    claims = {name: both.comparison if kind == name else _guard(both, name) for name in ("cpu", "memory")}
    rows["cpu"] = _row("CPU time per run", "ns", base.cpu_per_run_ns, new.cpu_per_run_ns, claims["cpu"])
    rows["memory"] = _row("peak memory", "bytes", base.peak_bytes, new.peak_bytes, claims["memory"])
    order = [kind, *(n for n in rows if n != kind)]
    cpu = rows["cpu"]
    busy = None
    if cpu is not None:
        claim = claims["cpu"] if claimed else None
        # 20 ms of CPU time a run at 100 requests a second keep 2 CPUs busy.
        busy = _row("CPUs busy", "CPUs", cpu.today / 1e9 * load, new.cpu_per_run_ns / 1e9 * load, claim)
    return tuple(row for n in order if (row := rows.get(n)) is not None), busy


def _cpus_today(base: Figures | None, load: float) -> BriefFigure | None:
    """Return the row of CPUs busy today, for a document without an alternative plan; None if unknown."""
    if base is None or not base.cpu_per_run_ns:
        return None
    busy = base.cpu_per_run_ns / 1e9 * load
    return BriefFigure(name="CPUs busy", unit="CPUs", today=busy, tuned=busy, ratio=1.0)


def _guard(both: PlanPair, name: str) -> Guard | None:
    guards = both.comparison.guards if both.comparison else ()
    return next((g for g in guards if g.figure == name and g.known and g.ratio is not None), None)


def _row(
    name: str,
    unit: Literal["ns", "bytes", "CPUs"],
    today: float | None,
    tuned: float | None,
    claim: Comparison | Guard | None,
) -> BriefFigure | None:
    """Return a row from today's value and the paired ratio, or from both medians (no interval) without a ratio."""
    if not today or not tuned:
        return None
    if claim is None or claim.ratio is None:
        return BriefFigure(name=name, unit=unit, today=today, tuned=tuned, ratio=tuned / today)
    low, high = claim.ratio_low, claim.ratio_high
    return BriefFigure(
        name=name,
        unit=unit,
        today=today,
        tuned=today * claim.ratio,
        ratio=claim.ratio,
        ratio_low=low,
        ratio_high=high,
        shown=(low is not None and low > 1) or (high is not None and high < 1),
    )


def _next(both: PlanPair, decision: Decision, work: Workload | None, enough_s: float) -> Sequence[str]:
    new = both.new
    if decision == "unproven" and new is None:
        longer = with_budget(both.reproduce, enough_s or LONGER_S)
        longer += others_words.WAIT if longer and both.load else ()
        return ("keep the current configuration", *([f"to find out: {shlex.join(longer)}"] if longer else []))
    if decision == "ship" and both.bundle:
        return (f"ship the bundle {both.bundle}", *_proof_line(both, work))
    if decision == "ship" and new is not None:
        line = tune_line(new, work, both.statistic, both.notes)
        bundle = (f"a bundle to ship, with code: {shlex.join(line)}",) if line else ()
        return (f"switch to B: {new.label}, {plan_words(new.plan)}", *bundle)
    if decision == "unproven" and new is not None:
        line = compare_line(both.base, new, work, both.statistic, both.notes, reproduce=both.reproduce)
        return (
            "keep the current configuration",
            *([f"to find out: {shlex.join([*line, *_longer(both)])}"] if line else []),
        )
    if decision == "keep" and new is None:
        return ("nothing to do; measure again when the model, machine or ONNX Runtime changes",)
    return ("keep the current configuration",)


def _longer(both: PlanPair) -> list[str]:
    """Return options that may make the comparison conclusive: waiting for a quiet machine, or a longer budget."""
    return others_words.wait_options(both.comparison) or ["--budget", "10m"]


def _proof_line(both: PlanPair, work: Workload | None) -> tuple[str, ...]:
    """Return the command that compares a bundle with its original model under the same workload; () if impossible."""
    options = workload_options(work, both.notes)
    if options is None:
        return ()
    words = ["ortune", "compare", operand(both.bundle), *options, *objective_options(both.statistic)]
    return (f"confirm it on the production machine: {shlex.join(words)}",)


def number(figure: BriefFigure, value: float) -> str:
    """Return a value as text in the unit of `figure`, with three significant digits."""
    if figure.unit == "bytes":
        return memory(value)
    return duration(value) if figure.unit == "ns" else cpus(value)


def cpus(value: float) -> str:
    """Return a number of CPUs as text with at most three decimals: "12.3", "0.025", "under 0.001"."""
    if 0 < abs(value) < 0.001:
        return "under 0.001"
    return f"{value:.{3 if abs(value) < 1 else 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f}"


def bounds(figure: BriefFigure) -> str:
    """Return the interval of the tuned value as text, or the reason that there is no interval."""
    low, high = figure.ratio_low, figure.ratio_high
    if low is None and high is None:
        return "medians, no interval"
    if not low and high is None:
        return "too few blocks for an interval"
    ends = [number(figure, figure.today * end) for end in (low, high) if end]
    if len(ends) == 2:
        return f"{ends[0]} to {ends[1]}"
    return f"{ends[0]} or more" if low else f"up to {ends[0]}"


def unshown(figure: BriefFigure) -> str:
    """Return "no change" if the interval is narrow around zero change, else "inconclusive"."""
    low, high = figure.ratio_low, figure.ratio_high
    narrow = low is not None and high is not None and low >= 1 - SAME and high <= 1 + SAME
    return "no change" if narrow else "inconclusive"


def saving(figure: BriefFigure) -> str:
    """Return the saving with its interval, "saves 0.48 (0.40 to 0.55)", or the reason that no saving is claimed."""
    low, high = figure.ratio_low, figure.ratio_high
    if figure.ratio_low is None or not figure.shown:
        return unshown(figure) if low is not None else "unknown: medians without an interval"
    ratio = figure.ratio
    word = "saves" if ratio < 1 else "costs"
    saved = [abs(figure.today * (1 - r)) for r in (ratio, low or 0.0, ratio if high is None else high)]
    middle, *ends = (number(figure, value) for value in (saved[0], *sorted(saved[1:])))
    return f"{word} {middle} ({ends[0]} to {ends[1]})"
