"""One page for people who decide: what runs today, what it would gain, what that saves, and what could go wrong.

Nothing is estimated here: a median is multiplied by the paired ratio and the ends of its interval, and CPU seconds
by the requests in a second.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from ortune.records import (
    Brief,
    BriefFigure,
    BriefRisk,
    Comparison,
    Envelope,
    Figures,
    Guard,
    Plan,
    Side,
    TuneResult,
    Workload,
)
from ortune.report import tune_words
from ortune.report.answer import Answer, answer
from ortune.report.answer_commands import compare_line, objective_options, tune_line, workload_options
from ortune.report.compare_words import compared_ns, estimand_kind, guard_state, span
from ortune.report.numbers import change, difference, duration, memory
from ortune.report.tune_words import GUARD_NAMES, guard, times

LOAD_PER_S = 100.0
Level = Literal["fine", "look", "stop"]
Decision = Literal["ship", "keep", "unproven", "stop"]


def make(
    envelope: Envelope,
    safety: Mapping[str, str],
    load_per_s: float | None = None,
    *,
    bound: Collection[str] = (),
) -> Brief | None:
    """The brief of a document of ``compare`` or ``tune``; None for one that compares nothing.

    Args:
        envelope: The document.
        safety: Safety class of each setting and rewrite, by name.
        load_per_s: Requests a second; None reckons for 100.
        bound: Rewrites whose model is bound to the kind of CPU that it was made on, by name.
    """
    found = answer(envelope)
    if found is None:
        return None
    load = LOAD_PER_S if load_per_s is None else load_per_s
    decision = _decision(found)
    figures, cpus = _figures(found, load)
    return Brief(
        subject=found.base.label,
        decision=decision,
        answer=_answer(found, decision),
        evidence=_evidence(found) or _whole_answer(envelope),
        today_plan=_side_words(found, found.base),
        tuned_plan=_side_words(found, found.new) if found.new else "",
        load_per_s=load,
        load_given=load_per_s is not None,
        figures=figures,
        cpus=cpus,
        risks=tuple(_risks(found, safety, bound, envelope.status == "interrupted")),
        next_steps=tuple(_next(found, decision, envelope.workload)),
    )


def _side_words(found: Answer, side: Side) -> str:
    """The plan, with the model's name before it where the two sides run different ones."""
    plan = plan_words(side.plan)
    same = found.new is None or found.new.label == found.base.label
    return plan if same else f"{side.label}, {plan}"


def plan_words(plan: Plan) -> str:
    """A plan in words; the empty one by what it is."""
    return "ONNX Runtime's defaults" if plan == Plan() else plan.describe()


def _decision(found: Answer) -> Decision:
    compared = found.comparison
    if found.outputs is not None and not found.outputs.ok and found.new is not None:
        return "stop"
    if found.new is None:
        return "keep"
    if compared is None or compared.verdict in ("inconclusive", "invalid"):
        return "unproven"
    if compared.verdict in ("slower", "equivalent"):
        return "keep"
    if any(g.failed and g.figure not in found.allowed for g in compared.guards):
        return "stop"
    return "ship" if found.settled else "unproven"


def _answer(found: Answer, decision: Decision) -> str:
    compared = found.comparison
    if decision == "ship" and compared is not None:
        return f"{tune_words.gain_words(compared)}, proven: change over"
    if decision == "stop":
        wrong = found.outputs is not None and not found.outputs.ok
        return "do not change over: the outputs are wrong" if wrong else "do not change over: a guard failed"
    if decision == "unproven":
        return "no gain is proven: keep what runs, or measure longer"
    if compared is not None and compared.verdict == "slower":
        return "the change makes it slower: keep what runs"
    if compared is not None and compared.verdict == "equivalent":
        return "the change makes no difference: keep what runs"
    return "nothing tried is faster than what runs: keep it"


def _evidence(found: Answer) -> str:
    compared = found.comparison
    if compared is None:
        return "nothing was timed" if found.new is not None else ""
    level = f"{100 * compared.level:.0f} % interval"
    blocks = f"{compared.n_blocks} {'fresh ' if compared.phase == 'confirm' else ''}blocks"
    figure = compared.estimand.partition(" (")[0]
    if compared.verdict == "faster":
        return f"{figure} by a factor of {times(1 / compared.ratio)}, {level} {tune_words.bounds(compared)}, {blocks}"
    interval = span(compared.ratio_low, compared.ratio_high)
    return f"{figure} {change(compared.ratio)}, {level} {interval}, {blocks}"


def _whole_answer(envelope: Envelope) -> str:
    """Where nothing is better there is no comparison to quote: what was tried, and what would have been seen."""
    result = envelope.result
    return result.headline or tune_words.headline(result) if isinstance(result, TuneResult) else ""


def _figures(found: Answer, load: float) -> tuple[tuple[BriefFigure, ...], BriefFigure | None]:
    """The objective, then latency, CPU time and memory; and the CPUs busy at the load."""
    base, new = found.base_figures, found.new_figures
    if base is None or new is None:
        return (), _cpus_today(base, load)
    kind = estimand_kind(found.estimand)
    rows: dict[str, BriefFigure | None] = {}
    if kind == "latency":
        now, then = compared_ns(base), compared_ns(new)
        rows["latency"] = _row("typical latency", "ns", now, then, found.comparison)
    elif kind == "cold":
        now, then = (f.load_ns + f.first_run_ns for f in (base, new))
        rows["cold"] = _row("cold start", "ns", now, then, found.comparison)
        rows["latency"] = _row("latency", "ns", base.latency_ns, new.latency_ns, None)
    else:
        rows["latency"] = _row("latency", "ns", base.latency_ns, new.latency_ns, None)
        if kind == "other":
            # Paired ratios are of times: a throughput is the time a run here.
            name = found.estimand.partition(" (")[0].replace("throughput", "time a run")
            rows["other"] = _row(name, "ns", compared_ns(base), compared_ns(new), found.comparison)
    claims = {name: found.comparison if kind == name else _guard(found, name) for name in ("cpu", "memory")}
    rows["cpu"] = _row("CPU time a run", "ns", base.cpu_per_run_ns, new.cpu_per_run_ns, claims["cpu"])
    rows["memory"] = _row("peak memory", "bytes", base.peak_bytes, new.peak_bytes, claims["memory"])
    order = [kind, *(n for n in rows if n != kind)]
    cpu = rows["cpu"]
    busy = None
    if cpu is not None:
        busy = _row(
            "CPUs busy", "CPUs", cpu.today / 1e9 * load, new.cpu_per_run_ns / 1e9 * load, claims["cpu"]
        )
    return tuple(row for n in order if (row := rows.get(n)) is not None), busy


def _cpus_today(base: Figures | None, load: float) -> BriefFigure | None:
    """Nothing to change over to: what is busy today is still worth knowing."""
    if base is None or not base.cpu_per_run_ns:
        return None
    busy = base.cpu_per_run_ns / 1e9 * load
    return BriefFigure(name="CPUs busy", unit="CPUs", today=busy, tuned=busy, ratio=1.0)


def _guard(found: Answer, name: str) -> Guard | None:
    guards = found.comparison.guards if found.comparison else ()
    return next((g for g in guards if g.figure == name and g.known and g.ratio is not None), None)


def _row(
    name: str,
    unit: Literal["ns", "bytes", "CPUs"],
    today: float | None,
    tuned: float | None,
    claim: Comparison | Guard | None,
) -> BriefFigure | None:
    """A figure by its paired ratio; by the two medians, without an interval, where there is none."""
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


def _risks(
    found: Answer, safety: Mapping[str, str], bound: Collection[str], interrupted: bool
) -> list[BriefRisk]:
    risks = []
    if interrupted:
        risks.append(_risk("measurement", "look", "stopped early; this is what was measured by then"))
    risks += [
        _risk("measurement", "look", f"{f.code} {f.what}") for f in found.findings if f.code[:3] == "MSR"
    ]
    if any(not c.ok for c in found.controls):
        risks.append(_risk("measurement", "look", "a control failed: the machine was too unquiet"))
    if found.new is None:
        return risks
    guards = found.comparison.guards if found.comparison else ()
    return [
        _proof(found),
        _outputs(found),
        _safety(found, safety),
        *_arrival(found),
        _hardware(found, safety, bound),
        *(_guard_risk(g, found.allowed) for g in guards),
        *risks,
    ]


def _risk(name: str, level: Level, what: str) -> BriefRisk:
    return BriefRisk(name=name, level=level, what=what)


def _proof(found: Answer) -> BriefRisk:
    compared = found.comparison
    if compared is None:
        return _risk("proof", "stop", "none: it was never timed against what runs")
    where = f"{compared.n_blocks} {'fresh ' if compared.phase == 'confirm' else ''}blocks"
    if compared.verdict == "faster" and found.settled:
        passed = "; the machine passed its controls" if found.controls else ""
        how = "confirmed" if compared.phase == "confirm" else "shown"
        return _risk("proof", "fine", f"{how} on {where}{passed}")
    if not found.settled:
        return _risk("proof", "look", f"not confirmed: race data of {where}, which flatters the winner")
    words = {
        "slower": "shown to be slower",
        "equivalent": "shown to make no difference",
        "inconclusive": "not shown: the interval includes no change",
    }
    text = words.get(compared.verdict, compared.verdict)
    return _risk("proof", "stop" if compared.verdict == "slower" else "look", f"{text}, {where}")


def _outputs(found: Answer) -> BriefRisk:
    outputs = found.outputs
    if outputs is None:
        return _risk("outputs", "look", "not compared")
    if not outputs.ok:
        return _risk("outputs", "stop", f"WRONG: {outputs.what}")
    if outputs.compared_as == "moments":
        return _risk(
            "outputs", "look", "alike by shape, finiteness and moments: the model differs from itself"
        )
    how = ", compared as sets" if outputs.compared_as == "sets" else ""
    return _risk("outputs", "fine", f"{difference(outputs.relative_l2)}{how}, on the inputs measured")


def _safety(found: Answer, safety: Mapping[str, str]) -> BriefRisk:
    assert found.new is not None
    plan = found.new.plan
    before = found.base.plan
    changed = [(r.name, "") for r in plan.rewrites if r not in before.rewrites]
    # What is left out changes results and behaviour as much as what is put in.
    changed += [(r.name, " left out") for r in before.rewrites if r not in plan.rewrites]
    for name in sorted(plan.settings.keys() | before.settings.keys()):
        if before.settings.get(name) != plan.settings.get(name):
            changed.append((name, "" if name in plan.settings else " left out"))
    classes: dict[str, list[str]] = {}
    for name, how in changed:
        classes.setdefault(safety.get(name, "not known here"), []).append(f"{name}{how}")
    if before.providers != plan.providers:
        # Another provider has other kernels, whose sums come in another order.
        classes.setdefault("numerics", []).append("execution provider")
    if not classes:
        return _risk("safety class", "fine", "no setting differs from what runs")
    if list(classes) == ["exact"]:
        return _risk("safety class", "fine", "exact: no setting may change results beyond rounding")
    meaning = {
        "numerics": "may change results within the tolerance",
        "behaviour": "changes how the process or the model behaves beyond speed",
        "advice": "needs work by hand",
    }
    parts = [
        f"{', '.join(found_names)}: {name}{', ' + meaning[name] if name in meaning else ''}"
        for name, found_names in classes.items()
        if name != "exact"
    ]
    return _risk("safety class", "look", "; ".join(parts))


def _arrival(found: Answer) -> list[BriefRisk]:
    """Whether ONNX Runtime was seen to take the settings."""
    if not found.read_back:
        return []
    unseen = [name for name, level in found.read_back if level == "none"]
    if unseen:
        return [_risk("settings", "look", f"set, not verified: {', '.join(unseen)}")]
    return [_risk("settings", "fine", "each was read back from ONNX Runtime or seen at work")]


def _hardware(found: Answer, safety: Mapping[str, str], bound: Collection[str]) -> BriefRisk:
    """Whether the new side's model file runs well on any machine, as far as that is known."""
    assert found.new is not None
    held = "what was measured holds for the machine named above"
    made = [r.name for r in found.new.plan.rewrites]
    is_bound = found.hardware_bound
    if is_bound is None and any(name in bound for name in made):
        is_bound = True
    elif is_bound is None and all(name in safety for name in made):
        # The file that runs today, and rewrites that bind to nothing.
        is_bound = False if found.new.model.sha256 == found.base.model.sha256 else None
    if is_bound is None:
        what = f"whether the model file is bound to a kind of CPU is not known; {held}"
        return _risk("hardware", "look", what)
    if is_bound:
        plain = "; the bundle keeps the plain one beside it" if found.bundle else ""
        return _risk("hardware", "look", f"the model file is bound to this kind of CPU{plain}")
    if found.hardware_bound is None:
        return _risk("hardware", "fine", f"no model file that is bound to a kind of CPU was made; {held}")
    return _risk("hardware", "fine", f"the model runs anywhere; {held}")


def _guard_risk(item: Guard, allowed: Collection[str]) -> BriefRisk:
    state, name = guard_state(item), GUARD_NAMES[item.figure]
    what = guard(item).removeprefix(f"{name} ")
    if item.failed and item.figure in allowed:
        what = f"{what.removesuffix('WORSE than allowed')}worse, and let through with --allow {item.figure}"
        return _risk(f"guard: {name}", "look", what)
    level: Level = "stop" if item.failed else "fine" if state == "no worse" else "look"
    return _risk(f"guard: {name}", level, what)


def _next(found: Answer, decision: Decision, work: Workload | None) -> Sequence[str]:
    new = found.new
    if decision == "ship" and found.bundle:
        return (f"ship the bundle {found.bundle}", *_proof_line(found, work))
    if decision == "ship" and new is not None:
        line = tune_line(new, work, found.estimand, found.notes)
        made = (f"a bundle to ship, with code: {shlex.join(line)}",) if line else ()
        return (f"change over to B: {new.label}, {plan_words(new.plan)}", *made)
    if decision == "unproven" and new is not None:
        line = compare_line(found.base, new, work, found.estimand, found.notes)
        return (
            "keep what runs",
            *([f"to settle it: {shlex.join([*line, '--budget', '10m'])}"] if line else []),
        )
    if decision == "keep" and new is None:
        return ("nothing to do; measure again after a change of model, machine or ONNX Runtime",)
    return ("keep what runs",)


def _proof_line(found: Answer, work: Workload | None) -> tuple[str, ...]:
    """The comparison of a bundle with its own untouched model, under the same workload."""
    options = workload_options(work, found.notes)
    if options is None:
        return ()
    words = ["ortune", "compare", found.bundle, *options, *objective_options(found.estimand)]
    return (f"prove it where it will run: {shlex.join(words)}",)


def number(figure: BriefFigure, value: float) -> str:
    """A value in the figure's unit, three digits."""
    if figure.unit == "bytes":
        return memory(value)
    return duration(value) if figure.unit == "ns" else cpus(value)


def cpus(value: float) -> str:
    """CPUs busy, at most three decimals: "12.3", "0.025"; less than that is said so."""
    if 0 < abs(value) < 0.001:
        return "under 0.001"
    return f"{value:.{3 if abs(value) < 1 else 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f}"


def bounds(figure: BriefFigure) -> str:
    """The interval of the tuned value; what the two values are where there is none."""
    low, high = figure.ratio_low, figure.ratio_high
    if low is None and high is None:
        return "medians, no interval"
    ends = (
        number(figure, figure.today * low) if low else "0",
        number(figure, figure.today * high) if high else "any",
    )
    return f"{ends[0]} to {ends[1]}"


def saving(figure: BriefFigure) -> str:
    """What is saved, with its interval: "0.48 (0.40 to 0.55)"; "none shown" where the interval holds zero."""
    low, high = figure.ratio_low, figure.ratio_high
    if figure.ratio_low is None or not figure.shown:
        return "none shown" if low is not None else "not known: medians, no interval"
    ratio = figure.ratio
    word = "saves" if ratio < 1 else "costs"
    saved = [abs(figure.today * (1 - r)) for r in (ratio, low or 0.0, ratio if high is None else high)]
    middle, *ends = (number(figure, value) for value in (saved[0], *sorted(saved[1:])))
    return f"{word} {middle} ({ends[0]} to {ends[1]})"
