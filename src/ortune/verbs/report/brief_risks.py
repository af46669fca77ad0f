"""Risks of a change: one line each, with its severity."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from ortune.records import Comparison, Guard
from ortune.show import others_words
from ortune.show.checks import GUARD_NAMES, control_problem, guard, guard_state
from ortune.show.finding_words import about_measurement
from ortune.show.output_words import closeness
from ortune.verbs.report.answer import PlanPair
from ortune.verbs.report.result import BriefRisk

Level = Literal["fine", "look", "stop"]


def risks(
    both: PlanPair, safety: Mapping[str, str], bound: Collection[str], interrupted: bool
) -> list[BriefRisk]:
    """Return every risk, the risks of the change itself first."""
    others = []
    if interrupted:
        others.append(_risk("measurement", "look", "stopped early; partial results"))
    others += [
        _risk("measurement", "look", f"{f.code} {f.what}") for f in both.findings if about_measurement(f)
    ]
    if both.load:
        others.append(_risk("measurement", "look", both.load))
    if any(not c.ok for c in both.controls):
        others.append(_risk("measurement", "look", "a control failed: the machine was too busy"))
    if both.new is None:
        return others
    guards = both.comparison.guards if both.comparison else ()
    return [
        _proof(both),
        _outputs(both),
        _safety(both, safety),
        *_arrival(both),
        _hardware(both, safety, bound),
        *(_guard_risk(g, both.allowed) for g in guards),
        *others,
    ]


def _risk(name: str, level: Level, what: str) -> BriefRisk:
    return BriefRisk(name=name, level=level, what=what)


def blocks(comparison: Comparison) -> str:
    """Return the number of blocks of a comparison as text: "1 block", "16 fresh blocks"."""
    fresh = "fresh " if comparison.phase == "confirm" else ""
    return f"{comparison.n_blocks} {fresh}block{'' if comparison.n_blocks == 1 else 's'}"


def _proof(both: PlanPair) -> BriefRisk:
    compared = both.comparison
    if compared is None:
        return _risk("proof", "stop", "none: it was never compared with the current configuration")
    where = blocks(compared)
    if compared.verdict == "faster" and both.settled:
        doubts = [text for text in map(control_problem, both.controls) if text]
        if not both.controls:
            doubts = ["controls not run"]
        doubts += [text for text in [others_words.doubts(compared)] if text]
        level: Level = "look" if doubts else "fine"
        return _risk("proof", level, "; ".join([f"confirmed on {where}", *(doubts or ["controls passed"])]))
    if not both.settled:
        return _risk(
            "proof",
            "look",
            f"not confirmed: only exploratory data from {where}, which overestimate the winner's gain",
        )
    words = {
        "slower": "confirmed slower",
        "equivalent": "confirmed equivalent",
        "inconclusive": "inconclusive: the interval includes no change"
        if compared.ratio_low or compared.ratio_high is not None
        else "inconclusive: too few blocks for an interval",
    }
    said = [f"{words.get(compared.verdict, compared.verdict)}, {where}"]
    said += [compared.others.words] if compared.others is not None and compared.others.hides else []
    return _risk("proof", "stop" if compared.verdict == "slower" else "look", "; ".join(said))


def _outputs(both: PlanPair) -> BriefRisk:
    outputs = both.outputs
    if outputs is None:
        return _risk("outputs", "look", "not compared")
    if not outputs.ok:
        return _risk("outputs", "stop", f"{'DIFFERENT' if both.comparison else 'WRONG'}: {outputs.what}")
    if outputs.reference_wrong:
        return _risk("outputs", "stop", f"WRONG: {closeness(outputs)}")
    if outputs.compared_as in ("moments", "sizes"):
        return _risk("outputs", "look", f"{closeness(outputs)}: the model is not deterministic")
    level: Level = "look" if outputs.silent else "fine"
    return _risk("outputs", level, f"{closeness(outputs)}, on the inputs measured")


def _safety(both: PlanPair, safety: Mapping[str, str]) -> BriefRisk:
    assert both.new is not None
    plan = both.new.plan
    before = both.base.plan
    changed = [(r.name, "") for r in plan.rewrites if r not in before.rewrites]
    # A removed rewrite changes results and behaviour as much as an added one.
    changed += [(r.name, " left out") for r in before.rewrites if r not in plan.rewrites]
    for name in sorted(plan.settings.keys() | before.settings.keys()):
        if before.settings.get(name) != plan.settings.get(name):
            changed.append((name, "" if name in plan.settings else " left out"))
    classes: dict[str, list[str]] = {}
    for name, how in changed:
        classes.setdefault(safety.get(name, "unknown"), []).append(f"{name}{how}")
    if before.providers != plan.providers:
        # The kernels of another provider add in a different order.
        classes.setdefault("numerics", []).append("execution provider")
    if not classes:
        return _risk("safety class", "fine", "no setting differs from the current configuration")
    if list(classes) == ["exact"]:
        return _risk("safety class", "fine", "exact: no setting can change results beyond rounding")
    meaning = {
        "numerics": "may change results within the tolerance",
        "behaviour": "changes more than speed: the behaviour of the process or the model",
        "advice": "needs manual work",
    }
    parts = [
        f"{', '.join(found_names)}: {name}{', ' + meaning[name] if name in meaning else ''}"
        for name, found_names in classes.items()
        if name != "exact"
    ]
    return _risk("safety class", "look", "; ".join(parts))


def _arrival(both: PlanPair) -> list[BriefRisk]:
    """Return the risk that ONNX Runtime did not apply the settings; [] if there are no settings to verify."""
    if not both.read_back:
        return []
    unseen = [name for name, level in both.read_back if level == "none"]
    if unseen:
        return [_risk("settings", "look", f"not verified: {', '.join(unseen)}")]
    return [_risk("settings", "fine", "each setting was verified or accepted by ONNX Runtime")]


def _hardware(both: PlanPair, safety: Mapping[str, str], bound: Collection[str]) -> BriefRisk:
    """Return the risk that the new side's model file is specific to one kind of CPU."""
    assert both.new is not None
    limits = "the results apply to the machine above"
    rewrites = [r.name for r in both.new.plan.rewrites]
    is_bound = both.hardware_bound
    if is_bound is None and any(name in bound for name in rewrites):
        is_bound = True
    elif is_bound is None and all(name in safety for name in rewrites):
        # The file that runs today, and rewrites that bind to nothing.
        is_bound = False if both.new.model.sha256 == both.base.model.sha256 else None
    if is_bound is None:
        what = f"whether the model file is specific to one CPU type is unknown; {limits}"
        return _risk("hardware", "look", what)
    if is_bound:
        plain = "; the bundle also contains the portable one" if both.bundle else ""
        return _risk("hardware", "look", f"the model file is specific to this CPU type{plain}")
    if both.hardware_bound is None:
        return _risk("hardware", "fine", f"the model file is not specific to one CPU type; {limits}")
    return _risk("hardware", "fine", f"the model runs anywhere; {limits}")


def _guard_risk(item: Guard, allowed: Collection[str]) -> BriefRisk:
    state, name = guard_state(item), GUARD_NAMES[item.figure]
    what = guard(item, allowed).removeprefix(f"{name} ")
    if item.failed and item.figure in allowed:
        return _risk(f"guard: {name}", "look", what)
    level: Level = "stop" if item.failed else "fine" if state in ("better", "no worse") else "look"
    return _risk(f"guard: {name}", level, what)
