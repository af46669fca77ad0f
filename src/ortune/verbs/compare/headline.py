"""The headline of a comparison: the verdict, the measured difference, and how it was measured."""

from __future__ import annotations

from ortune.printable import amount
from ortune.records import Comparison
from ortune.show import finding_words, others_words, sides
from ortune.show import headline as heads
from ortune.show.numbers import change, change_words, detectable, speed, waiting
from ortune.show.output_words import outputs
from ortune.verbs.compare import app_words, source_words
from ortune.verbs.compare.gate_words import NO_BLOCK, longer
from ortune.verbs.compare.result import CompareResult

LEFT_S = 5.0
"""Unused seconds of the budget from which the headline explains why controls were not run."""


def headline(result: CompareResult) -> str:
    """Return the headline in at most two lines: the verdict, the difference with its interval, and the outputs."""
    return _of_models(result) if result.app is None else app_words.headline(result)


def _of_models(result: CompareResult) -> str:
    comparison = result.comparison
    if is_wrong(result):
        return heads.headline("wrong-output", _wrong(result))
    if comparison is None and finding_words.functional_only(result.findings):
        return heads.headline("functional-only", "nothing was timed", outputs(result.outputs))
    of_outputs = [text for text in (outputs(result.outputs), undecided(result)) if text]
    # A different label, row or shape precedes any time in the headline: no tolerance accepts it.
    first = not (result.outputs.ok or result.outputs.asked) and result.outputs.accepting_tolerance is None
    if comparison is None and result.outputs.comparable:
        time = heads.headline("inconclusive", NO_BLOCK, *(() if first else of_outputs), rerun(result))
        return heads.outputs_first(of_outputs, time) if first else time
    if result.outputs.empty:
        return f"{result.outputs.what}; nothing was timed"
    if comparison is None:
        unlike = f"{result.name}'s cannot be compared with A's, {result.outputs.what}"
        return heads.headline("wrong-output", unlike, "nothing was timed", undecided(result))
    proven = comparison.verdict in heads.PROVEN
    takes = (
        _fastest(result),
        "" if proven else detectable_effect(comparison),
        others_words.of_threads(comparison),
        source_words.frameworks(result),
        *(() if first else of_outputs),
        rerun(result),
    )
    time = heads.headline(comparison.verdict, claim(result), *takes, statistic=comparison.statistic)
    return heads.outputs_first(of_outputs, time) if first else time


def compared(result: CompareResult) -> list[tuple[str, Comparison | None]]:
    """Return pairs (name of the new side, its comparison); a single comparison has the name ""."""
    return [(side.name, side.comparison) for side in result.candidates] or [("", result.comparison)]


def undecided(result: CompareResult) -> str:
    """Return a note that it is unknown which side is correct, if outputs of the same model differ; otherwise ""."""
    one_model = result.base.model.sha256 == result.new.model.sha256
    exact = result.exact
    if (
        result.outputs.ok
        or result.outputs.asked
        or not one_model
        or (exact is not None and exact.right is not None)
    ):
        return ""
    return "which side is right is not known"


def rerun(result: CompareResult) -> str:
    """Return a note that controls were not run, with a sufficient budget; "" if this budget was sufficient."""
    if not result.enough_s:
        return ""
    timed = result.comparison is not None and not sides.no_interval(result.comparison)
    controls = "controls not run, " if timed else ""
    left_s = result.budget_s - result.elapsed_s
    if timed and left_s >= LEFT_S:
        controls = f"controls not run, estimated to take longer than the {waiting(left_s)} left, "
    # A longer time is worded elsewhere: two budgets in one answer would contradict each other.
    if conclusive_after_s(result) > result.enough_s:
        return controls.removesuffix(", ")
    return f"{controls}rerun with {longer(result)}"


def conclusive_after_s(result: CompareResult) -> float:
    """Return the total seconds after which an inconclusive result may be conclusive; 0 if unknown or with a gate."""
    c = result.comparison
    if c is None or sides.no_interval(c) or result.gate is not None or not c.more_s:
        return 0.0
    return max(result.elapsed_s, result.budget_s) + c.more_s


def is_wrong(result: CompareResult) -> bool:
    """Return whether one of the two sides in the headline has wrong outputs."""
    return bool({"A", result.name} & {*result.wrong_sides})


def _wrong(result: CompareResult) -> str:
    """Return a sentence that names the sides with wrong outputs and makes no claim about their speed."""
    of = " and ".join(f"{name}'s" for name in result.wrong_sides)
    text = f"{of} outputs are wrong"
    if result.name in result.wrong_sides:
        text += _not_finite(result)
    else:
        right = result.exact.right if result.exact is not None else result.outputs.ok
        text += f", {result.name}'s are correct" if right else f", {result.name}'s differ"
    if result.comparison is None:
        return f"{text}; nothing was timed"
    both = sides.values(result.base_figures, result.new_figures, result.comparison)
    return f"{text}; no speed-up is claimed{f' ({both})' if both else ''}"


def _not_finite(result: CompareResult) -> str:
    """Return text on the new side's first non-finite output with its number of such elements; "" if all are finite."""
    for output in result.outputs.nonfinite:
        if output.unusable_candidate:
            n, of = output.nonfinite_candidate, output.n_elements
            return f", {output.name!r} is NaN or infinite in {n} of {amount(of, 'element')}"
    return ""


def claim(result: CompareResult) -> str:
    """Return the measured difference between B and A in the compared statistic, as text."""
    c = result.comparison
    assert c is not None
    blocks = amount(c.n_blocks, "block")
    if sides.no_interval(c):
        needed = f" ({c.n_blocks + c.more_blocks} needed)" if c.more_blocks else ""
        if sides.single(c):
            return f"{heads.measured(c, blocks)}{needed}"
        return f"{_looks(result.name, c)}, but {blocks} cannot confirm it{needed}"
    base, arrow, new = sides.values(result.base_figures, result.new_figures, c).partition(" -> ")
    both = f"A {base} -> {result.name} {new}" if arrow else f"{result.name} against A"
    return ", ".join([heads.measured(c, blocks), both, *sides.more_memory(c)])


def _looks(name: str, c: Comparison) -> str:
    """Return an unconfirmed difference as text: "B looks 1.73x slower than A in p50 (+73.0 %)"."""
    of, ratio = sides.statistic_name(c.statistic), sides.as_shown(c)[0]
    if sides.kind(c.statistic) in ("memory", "cpu"):
        return f"{name} appears to need {change_words(ratio, 'less', 'more')} {of} than A"
    started = "to start " if sides.kind(c.statistic) == "cold" else ""
    what = "" if started else f" in {of}"
    return f"{name} looks {speed(c.ratio)} {started}than A{what} ({change(ratio)})"


def _fastest(result: CompareResult) -> str:
    """Return a note that A is the fastest if each of several sides is confirmed slower; otherwise ""."""
    compared = [side.comparison for side in result.candidates if side.comparison]
    if len(compared) < 2 or any(
        c.verdict != "slower" or sides.kind(c.statistic) != "latency" for c in compared
    ):
        return ""
    return f"A is the fastest of {len(compared) + 1}"


def detectable_effect(comparison: Comparison) -> str:
    """Return the minimum detectable effect and the time that may make the result conclusive; "" without an interval."""
    if sides.no_interval(comparison):
        return ""
    text = f"minimum detectable effect {detectable(comparison.smallest_effect_ratio)}"
    if comparison.verdict == "inconclusive" and comparison.more_s:
        text += f" (about {waiting(comparison.more_s)} more may settle it)"
    return text
