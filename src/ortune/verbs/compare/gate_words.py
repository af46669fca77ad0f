"""The gate's result in words, for one side or for each of several."""

from __future__ import annotations

from ortune.printable import amount
from ortune.records import Comparison, Gate, OutputDifference
from ortune.show import others_words
from ortune.show.numbers import MOST_DETECTABLE, enough, percent
from ortune.show.output_words import beyond
from ortune.verbs.compare.result import CompareResult

NO_BLOCK = "nothing was timed, since no block fitted into the budget"


def gate(result: CompareResult) -> list[str]:
    """Return lines with the smallest change this runner can confirm and the result of each gate; [] without a gate."""
    if result.gate is None:
        return []
    provable = result.gate.provable_ratio
    lines = []
    if provable is not None:
        can = f"can confirm a change of {percent(provable)}"
        if provable >= MOST_DETECTABLE:
            can = f"cannot confirm a change below {percent(MOST_DETECTABLE, 0)}"
        lines.append(f"this runner {can} in this time")
    sides = [(c.name, c.gate, c.comparison, c.outputs) for c in result.candidates]
    for name, side_gate, comparison, compared in sides or [
        (result.name, result.gate, result.comparison, result.outputs)
    ]:
        if side_gate is not None:
            of = f"{name}: " if sides and side_gate.answer != "fail" else ""
            others = comparison.others if comparison is not None else None
            load = side_gate.reason == "other-programs" or others_words.doubts(comparison)
            doubts = others.words if others is not None and load else ""
            answer = _gate_answer(name, side_gate, comparison, compared)
            lines.append(f"gate: {of}{answer}{f'; {doubts}' if doubts else ''}")
    if lines and result.enough_s:
        lines[-1] += f"; rerun with {longer(result)}"
    return lines


def longer(result: CompareResult) -> str:
    """Return the options of a rerun with a sufficient budget, on a quiet machine if other programs had an effect."""
    compared = [c.comparison for c in result.candidates] or [result.comparison]
    quiet = any(others_words.wait_options(c) for c in compared)
    return " ".join([enough(result.enough_s or 0.0), *(others_words.WAIT if quiet else ())])


def _gate_answer(name: str, g: Gate, comparison: Comparison | None, outputs: OutputDifference | None) -> str:
    limit = percent(g.threshold_ratio)
    if outputs is None:
        return f"FAIL, {name} does not run"
    if not outputs.comparable:
        why = "have no elements to compare" if outputs.empty else "are wrong"
        return f"FAIL, {name}'s outputs {why}"
    if not outputs.ok:
        return f"FAIL, {name}'s outputs differ from A's, {beyond(outputs)}"
    if comparison is None:
        late = g.answer == "no-answer"
        return f"NO ANSWER at {limit}, {NO_BLOCK} (exit 3)" if late else f"FAIL, {name} failed repeatedly"
    if g.answer == "no-answer":
        return f"NO ANSWER at {limit}, {_no_answer(g, comparison)} (exit 3)"
    # The default is pass.
    how = "(--undecided fail)" if g.undecided_counts_as == "fail" else "(the default of --undecided)"
    return {
        "fail": f"FAIL, {name} is worse than the threshold of {limit}",
        "pass": f"pass, a regression of {limit} or more is ruled out",
        "undecided": f"undecided at {limit}, counted as {g.undecided_counts_as} {how}",
    }[g.answer]


def _no_answer(g: Gate, c: Comparison) -> str:
    """Return the reason that a gate could not decide, as text."""
    if g.reason == "controls-not-run":
        return "controls not run, so the gate cannot pass"
    blocks = amount(c.n_blocks, "block proves", "blocks prove")
    return f"{blocks} nothing" + (f" ({c.n_blocks + c.more_blocks} needed)" if c.more_blocks else "")
