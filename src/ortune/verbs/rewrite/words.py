"""Sentences on rewrites that were applied or are possible."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence

from ortune.printable import first_of, operand
from ortune.records import Envelope
from ortune.show.document import Annotation, Code, Document, Line, Pairs, Points, Tone
from ortune.show.numbers import shorten
from ortune.show.output_words import by_output, outputs
from ortune.show.rewrite_words import spec
from ortune.verbs.rewrite.result import RewriteStep, RewritingResult

AFTER_OTHERS = "applies only after the previous rewrites"
CLEAN_UP = "prepares for later rewrites; no gain on its own, because ONNX Runtime does the same"
MOST_OPERATORS = 10
MOST_REASONS = 3


def not_installed(package: str) -> str:
    """Return a sentence that says that a rewrite is not tried because its package is not installed."""
    return f"{package} is not installed in the measured environment, and ortune does not install it"


def unseen_feature(feature: str) -> str:
    """Return a sentence that says that a rewrite needs a GPU feature that is unknown before a page runs."""
    return f"useful where the browser's GPU has {feature}, known only once a page runs; use ortune tune"


def calibrated_on_synthetic(names: Sequence[str]) -> str:
    """Return a sentence that says that rewrites were calibrated on synthetic inputs."""
    verb = "was" if len(names) == 1 else "were"
    return f"{' and '.join(names)} {verb} calibrated on synthetic inputs; pass real ones with --inputs PATH"


def may_differ(random: Collection[str], by_values: Collection[str]) -> str:
    """Return a sentence on why outputs may differ regardless of rewrites; "" if both arguments are empty.

    Args:
        random: Operators of the model whose results vary from run to run.
        by_values: Operators of the model whose output sizes depend on values.
    """
    if random:
        return (
            f"the model draws random numbers ({', '.join(sorted(random))}), so its outputs differ from run to "
            "run in any case, possibly in length too"
        )
    if by_values:
        return (
            f"output lengths depend on values ({', '.join(sorted(by_values))}), so rounding alone may change a "
            "length by one step; try other inputs (--inputs, --seed)"
        )
    return ""


def headline(result: RewritingResult) -> str:
    """Return the result in one sentence."""
    if not result.steps:
        n = sum(call.in_row for call in result.called_for)
        if n:
            return f"{n} exact {'rewrite applies' if n == 1 else 'rewrites apply'} to this model"
        return "no exact rewrite simplifies this graph"
    done = [step for step in result.steps if step.modified]
    if not done:
        return "nothing was changed, so no file was written"
    size = f"{result.nodes_before} -> {result.nodes_after} nodes"
    if result.dry_run:
        return f"would change the model: {size}"
    assert result.outputs is not None
    if not result.path:
        # What must not change the outputs is not excused by a tolerance.
        exact = all(step.safety == "exact" for step in done)
        return f"not written: {outputs(result.outputs, wrong=exact)}"
    return f"written to {result.path}: {size}, {outputs(result.outputs)}"


def _step(step: RewriteStep) -> str:
    state = step.what if step.modified else "nothing to change"
    return f"{spec(step.rewrite)} ({step.safety}): {state}"


def _operators(result: RewritingResult) -> str:
    ordered = sorted(result.operators.items(), key=lambda item: (-abs(item[1]), item[0]))
    return first_of([f"{shorten(name, 40)} {n:+d}" for name, n in ordered], MOST_OPERATORS, "more kinds")


def _listed(result: RewritingResult, model: str) -> Document:
    row = [spec(entry.rewrite) for entry in result.called_for if entry.in_row]
    again = shlex.join(["ortune", "rewrite", operand(model), *row])
    others = ", ".join(entry.name for entry in result.near_misses)
    return Document(
        title="ortune rewrite",
        blocks=[
            Line(result.headline, "strong"),
            Points(title="exact, one after another", items=_called_for(result, in_row=True), marked=True),
            Points(title="others", items=_called_for(result, in_row=False), marked=True),
            *([Line(f"nothing to do for {others} (-v shows why)", "faint")] if others else []),
            *([Code(title="next", lines=[again], commands=True)] if row else []),
        ],
        support=[
            Points(
                title="nothing to do",
                items=[f"{entry.name}: {'; '.join(_some(entry.reasons))}" for entry in result.near_misses],
            )
        ],
    )


def _called_for(result: RewritingResult, *, in_row: bool) -> list[str]:
    # No table: the spec of a rewrite with all sizes of a model may be wider than a terminal.
    return [
        f"{spec(call.rewrite)} ({call.safety}): {call.reason}"
        for call in result.called_for
        if call.in_row is in_row
    ]


def _some(reasons: Sequence[str]) -> list[str]:
    """Return the first reasons and the number of others, because there may be a reason for every layer."""
    more = len(reasons) - MOST_REASONS
    return [*reasons[:MOST_REASONS], *([f"{more} more like these"] if more > 0 else [])]


def _next(envelope: Envelope[RewritingResult]) -> list[str]:
    """Return the command that compares the new model with the original; empty if no model was written."""
    result = envelope.result
    model = envelope.model.path if envelope.model else result.base.label
    settings = [word for name, value in result.settings.items() for word in ("--b-set", f"{name}={value}")]
    return (
        [shlex.join(["ortune", "compare", operand(model), operand(result.path), *settings])]
        if result.path
        else []
    )


def document(envelope: Envelope[RewritingResult]) -> Document:
    """Return the document: the result of each rewrite and the comparison of outputs, or the applicable rewrites."""
    result = envelope.result
    if not result.steps:
        return _listed(result, envelope.model.path if envelope.model else result.base.label)
    reasons = [f"{step.rewrite.name}: {reason}" for step in result.steps for reason in _some(step.reasons)]
    rows = []
    if result.operators:
        rows.append(("operators", _operators(result)))
    if result.bytes_after != result.bytes_before:
        rows.append(("bytes", f"{result.bytes_before:,} -> {result.bytes_after:,}"))
    if result.settings:
        rows.append(
            ("settings to add", ", ".join(f"{name}={value}" for name, value in result.settings.items()))
        )
    if result.hardware_bound:
        rows.append(("bound to", "this CPU type and this build of ONNX Runtime"))
    wrong = envelope.verdict == "wrong-output"
    tone: Tone = "bad" if wrong else "good" if result.path else "unsure"
    return Document(
        title="ortune rewrite",
        blocks=[
            Line(result.headline, tone),
            Points(items=[_step(step) for step in result.steps]),
            Pairs(rows=rows),
            *([by_output(result.outputs)] if result.outputs is not None else []),
            Points(title="unchanged", items=reasons),
            Points(items=result.notes),
            Code(title="next", lines=_next(envelope), commands=True),
        ],
        annotations=[
            Annotation(level="error" if wrong else "notice", title="ortune rewrite", lines=[result.headline])
        ],
    )
