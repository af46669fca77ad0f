"""Text and document of ``ortune quantize``: the headline, the layers in float, and the tables."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.catalogue.providers import find as of_provider
from ortune.catalogue.providers import short_name
from ortune.durations import as_option
from ortune.outputs.tolerance import parse
from ortune.printable import amount, listed
from ortune.records import Envelope, OutputDifference, Plan, PrecisionRow, VerdictName
from ortune.search.loss import WORTH_LOSS
from ortune.show import finding_words, others_words, precision_words, sides
from ortune.show import headline as heads
from ortune.show.answer_commands import lines, report_line, with_budget, words_of
from ortune.show.checks import checks, control_words
from ortune.show.document import (
    Block,
    Code,
    Document,
    Head,
    Line,
    Pairs,
    Points,
    Tone,
    stopped,
)
from ortune.show.numbers import factor, percent, size
from ortune.show.output_words import limit_missed
from ortune.show.precision_words import model
from ortune.show.stored_kind import StoredKind
from ortune.verbs._shared.adoption_words import adopting
from ortune.verbs.quantize import metric_words, sections
from ortune.verbs.quantize.basis_words import by_metric, error_text, not_final, rests_on, saturation
from ortune.verbs.quantize.result import FrontRow, LayerRow, PlannedTarget, QuantizeResult

MOST_NAMED = 12
"""Maximum number of layers in float that are named; the JSON names all."""

NOTHING_TO_RACE = "no quantized model can be compared with the float model, so nothing was timed"

NONE_WITHIN = "no quantized model is within the tolerance, so nothing was timed"


def no_time(n: int, budget_s: float, *, exploring: bool) -> str:
    """Return a sentence that says that `n` models were not raced or, if `exploring`, that none could be confirmed."""
    what = amount(n, "model was", "models were")
    lack = (
        "the budget is too small to confirm a model"
        if exploring
        else f"{what} not compared: the budget is too small"
    )
    return f"{lack} (--budget {as_option(budget_s)} is enough)"


def not_made(budget_s: float) -> str:
    """Return a sentence that says that no model was created and tested in time, with a larger budget."""
    return f"no quantized model was created and tested in time (--budget {as_option(budget_s)} allows more)"


def untested(n: int, n_methods: int, budget_s: float) -> str:
    """Return a sentence that says that the budget is too small to test `n` of the methods, with a larger budget."""
    return (
        f"the budget is too small to test {n} of {n_methods} quantization methods (--budget {as_option(budget_s)} "
        "allows more)"
    )


def left_out(n: int) -> str:
    """Return a sentence that says that `n` methods were not tested because of the result for an earlier model."""
    what = amount(n, "quantization method was", "quantization methods were")
    return (
        f"{what} not tested: each was worse than the winner in an earlier model with the same kinds of layers "
        "(with a new --store, all are tested)"
    )


def memory(model_bytes: int, least_bytes: int, most_bytes: int, left_bytes: int) -> str:
    """Return a sentence on the memory that the methods need for a large model, and on the free memory."""
    needed = size(least_bytes) if least_bytes == most_bytes else f"{size(least_bytes)} to {size(most_bytes)}"
    return f"quantizing a model of {size(model_bytes)} needs about {needed} of memory; {size(left_bytes)} are free"


def headline(result: QuantizeResult) -> str:
    """Return the headline: the gain and error of the winner, or the reason to keep the float model."""
    unsure = not_final(result)
    comparison, row = result.against_default, _winner(result)
    if comparison is None or row is None:
        raced = any(row.comparison is not None for row in result.front)
        verdict: VerdictName = "inconclusive" if raced else "nothing-tested"
        return heads.headline(verdict, _why_float(result), "keep the float model", unsure)
    figure = heads.measured(comparison, amount(comparison.n_blocks, "block"))
    error = f"error {error_text(row.error)}"
    if result.judged_by and row.outputs is not None:
        after, before = metric_words.values(result, row.outputs)
        error += f", {metric_words.name(result)} {after} (float: {before})"
    return heads.headline(
        comparison.verdict, figure, error, sections.layers_in_float(row), _on_provider(row), unsure
    )


def _on_provider(row: FrontRow) -> str:
    """Return "on PROVIDER" for a row; "" for the CPU provider."""
    return f"on {short_name(row.plan.provider_names[0])}" if row.plan.providers else ""


def better_with_package(result: QuantizeResult) -> str:
    """Return a line on the faster model with another package and how to adopt it; "" if there is none."""
    row = result.elsewhere
    if row is None or row.comparison is None:
        return ""
    figure = heads.measured(row.comparison, amount(row.comparison.n_blocks, "block"))
    needs = f"; {adopting(result.elsewhere_needs)}" if result.elsewhere_needs else ""
    return f"with another package: {figure}, error {error_text(row.error)}, {precision_words.method(row.plan)}{needs}"


def _why_float(result: QuantizeResult) -> str:
    models = [row for row in result.front if not sections.is_float(row)]
    no_time = "" if any(map(sections.is_confirmed, models)) else result.no_time
    if _all_silent(result):
        inputs = "other inputs" if result.calibration.source else "real inputs"
        return f"the float model's outputs are nearly zero for all inputs; pass {inputs} with --data"
    if not models:
        return ", and ".join(filter(None, [_failures(result.methods), no_time])) or "no quantized model runs"
    small = [(row.comparison.ratio, row) for row in models if row.ok and row.small_gain and row.comparison]
    if small:
        return _small_gain(min(small, key=lambda pair: pair[0])[1])
    if any(row.ok for row in models):
        return no_time or "no quantized model within the tolerance is confirmed to be faster"
    nearest = _nearest(models, result.tolerance)
    missed = f" (nearest: {limit_missed(nearest)})" if nearest is not None else ""
    what = "no layer can be quantized with a gain and" if result.all_float else "no quantized model is"
    beyond = f"{what} within the tolerance {result.tolerance}{missed}"
    return ", and ".join(filter(None, [beyond, no_time]))


def _nearest(models: Sequence[FrontRow], tolerance: str) -> OutputDifference | None:
    """Return the difference of the model that exceeds the tolerance least, by the tolerance's own measures."""
    asked = parse(tolerance)
    compared = [(row.outputs, row.error) for row in models if row.outputs is not None]
    if asked is None or not compared:
        return None
    # The distance of labels and other integers is 0, however many differ.
    return min(compared, key=lambda pair: (asked.times(pair[0]), pair[1]))[0]


def _small_gain(row: FrontRow) -> str:
    """Return a clause on the fastest model whose gain is too small for its error."""
    assert row.comparison is not None
    figure = heads.measured(row.comparison, amount(row.comparison.n_blocks, "block"))
    least = factor(1 / (1 - WORTH_LOSS))
    return (
        f"{figure} with an error of {error_text(row.error)}, but a model with an error must be confirmed to be "
        f"{least}x or more"
    )


def _all_silent(result: QuantizeResult) -> bool:
    """Return whether no model could be accepted or rejected because the float model's outputs are nearly zero."""
    models = [row for row in result.front if not sections.is_float(row)]
    return bool(models) and all(sections.is_silent(row.outputs) for row in models)


def _failures(rows: Sequence[PrecisionRow]) -> str:
    """Return a clause with the number of methods that failed; "" if none failed."""
    failed = [row for row in rows if row.tested and row.why]
    if not failed:
        return ""
    same = " with the same error" if len({row.why for row in failed}) == 1 and len(failed) > 1 else ""
    return f"{len(failed)} of {amount(len(rows), 'quantization method')} failed{same}"


def _silent_outputs(result: QuantizeResult) -> str:
    """Return a sentence on outputs that are nearly zero, whose errors mean little; "" if there are none."""
    distances = [row.outputs for row in result.front if row.outputs is not None]
    if not distances or any(outputs.metric is not None for outputs in distances):
        return ""
    names = [output.name for output in distances[0].outputs if output.silent]
    if not names or sections.is_silent(distances[0]):
        return ""
    one = len(names) == 1
    return (
        f"{listed(names)} {'is' if one else 'are'} nearly zero for all inputs, "
        f"so {'its error means' if one else 'their errors mean'} little"
    )


def _winner(result: QuantizeResult) -> FrontRow | None:
    return next((row for row in result.front if row.chosen and not sections.is_float(row)), None)


def kept_line(row: LayerRow) -> str:
    """Return a line on a row of layers that stay in float, with the reason."""
    name = row.name if len(row.members) == 1 else f"{row.name} and {len(row.members) - 1} like it"
    if row.reason == "error" and 0 < row.n_kept < len(row.members):
        name = f"{row.n_kept} of {len(row.members)} like {row.name}"
    parts = []
    if row.reason == "not-quantized":
        parts.append("ONNX Runtime's quantizer does not support it")
    if row.error_ratio is not None:
        parts.append(f"{percent(row.error_ratio, 0)} of the error")
    elif row.reason == "error" and row.expected_error is not None:
        parts.append(f"its own error {error_text(row.expected_error)}, expected from an earlier session")
    elif row.reason == "error":
        parts.append("its own error was not measured")
    if row.time_ratio is not None:
        parts.append(f"{percent(row.time_ratio, 0)} of the time")
    if row.reason == "no-gain":
        parts.append("quantization does not make it faster")
    return f"{name}: {', '.join(parts)}" if parts else name


def document(envelope: Envelope[QuantizeResult]) -> Document:
    """Return the document: the headline, the layers in float, the tables, and the supporting details."""
    result = envelope.result
    assert result is not None
    tone: Tone = "good" if result.changes else "unsure"
    kept = [kept_line(row) for row in result.layers if row.n_kept]
    more = len(kept) - MOST_NAMED
    raced, whole = any(row.comparison is not None for row in result.front), sections.whole_models(result)
    failed = [row for row in result.methods if row.tested and row.why]
    untested_rows = [row for row in result.methods if not row.tested]
    unfinished = [
        Points(title="failed", items=precision_words.by_reason(failed, "method")),
        Points(
            title="not tested",
            items=precision_words.by_reason(untested_rows, "method", result.all_methods_s),
        ),
    ]
    named = [*kept[:MOST_NAMED], *([f"{more} more (--json has all)"] if more > 0 else [])]
    blocks: list[Block] = [
        *stopped(envelope),
        Line(headline(result), tone),
        Line(better_with_package(result), "good"),
        *others_words.lines([("", result.against_default)]),
        Line(_others(result), "look"),
        Line(rests_on(result), "look" if not_final(result) else ""),
        Line(by_metric(result)),
        Line(precision_words.made_by(result.made_by)),
        Line(saturation(result)),
        Line(_silent_outputs(result), "look"),
        Points(title="kept in float", items=named if result.changes else ()),
        *([] if result.changes else unfinished),
        sections.models_by_error(result) if raced else whole,
        Points(title="other packages", items=packages(result)),
        Points(title="not run here", items=[planned_words(target) for target in result.planned]),
        *checks(result.controls, result.against_default, result.findings),
        *([Line(f"bundle: {result.bundle}", "good")] if result.bundle else []),
        Code(title="next", lines=_next(envelope), commands=True),
    ]
    support: list[Block] = [
        *([chart] if (chart := sections.error_and_speed(result)) is not None else []),
        *([sections.sensitivity(result)] if result.layers else []),
        *([whole] if raced else []),
        *(unfinished if result.changes else []),
        Points(title="models in full", items=_full_names(result)),
        Pairs(rows=_details(result)),
    ]
    return Document(
        title=f"ortune quantize: {result.side.label}", blocks=blocks, support=support, head=_head(result)
    )


def _others(result: QuantizeResult) -> str:
    """Return the remark on other programs if no model won; "" on a quiet machine."""
    if result.against_default is not None:
        return ""
    compared = [row.comparison.others for row in result.front if row.comparison is not None]
    return next((others.words for others in (result.others, *compared) if others is not None), "")


def _next(envelope: Envelope[QuantizeResult]) -> list[str]:
    result = envelope.result
    # A longer budget is not proposed if all outputs are nearly zero, as it would not help.
    again = (
        with_budget(result.reproduce, result.enough_s) if result.enough_s and not _all_silent(result) else []
    )
    compare = ["ortune", "compare", result.bundle] if result.bundle else []
    other = on_target(result)
    quiet = others_words.wait_options(result.against_default) or (
        list(others_words.WAIT) if _others(result) else []
    )
    if quiet:
        again = [*(again or words_of(result.reproduce)), *quiet]
    return lines(again, compare, other, report_line(result.session, envelope.store))


def packages(result: QuantizeResult) -> list[str]:
    """Return the adoption steps for each other provider in the table; [] if all rows run in the user's own runtime."""
    needed: dict[str, str] = {}
    for row in result.front:
        if row.adoption is not None and row.comparison is not None:
            needed.setdefault(short_name(row.plan.provider_names[0]), adopting(row.adoption))
    return [f"{name}: {text}" for name, text in needed.items()]


def on_target(result: QuantizeResult) -> list[str]:
    """Return the command that lets the better model with another package win; [] if there is no such model."""
    if result.elsewhere is None:
        return []
    target = of_provider(result.elsewhere.plan.provider_names[0]).target
    return [*words_of(result.reproduce), "--targets", target]


def planned_words(target: PlannedTarget) -> str:
    """Return a line on a target that was not measured, with the reason and the configurations to test there."""
    files = [model(Plan(rewrites=plan.rewrites)) for plan in target.plans if plan.rewrites]
    types = [", ".join(plan.assignments) or "the default" for plan in target.plans if not plan.rewrites]
    tried = "; ".join(dict.fromkeys([*types, *files]))
    return f"{target.target}: {target.why}. Where it runs, --targets {target.target} tries: {tried}"


def _full_names(result: QuantizeResult) -> list[str]:
    """Return the full names of the models with layers in float, for which the tables show only numbers of layers."""
    plans = [row.plan for row in result.front if row.n_float and not sections.is_float(row)]
    return list(dict.fromkeys(map(precision_words.method, plans)))


def _head(result: QuantizeResult) -> Head:
    """Return the head of the page: the winner's confirmed gain, or the advice to keep the float model."""
    claim, row = result.against_default, _winner(result)
    if claim is None or row is None or claim.verdict not in heads.PROVEN:
        return Head(unit="Keep the float model", tone="unsure")
    word = heads.word(claim.verdict, claim.statistic)
    return Head(
        large=f"{factor(max(claim.ratio, 1 / claim.ratio))}×",
        unit=f"{word} in {sides.statistic_name(claim.statistic)} than float, error {error_text(row.error)}",
        tone="unsure" if not_final(result) else "",
    )


def _details(result: QuantizeResult) -> list[tuple[str, str]]:
    rows = [("tolerance", result.tolerance), ("statistic", result.statistic)]
    rows += [("adopting it", adopting(result.adoption))] if result.adoption else []
    rows += [("noise", text) for text in control_words(result.controls)]
    rows += finding_words.rows(result.findings)
    rows += [("note", text) for text in result.notes]
    rows.append(("again", result.reproduce))
    return [(name, text) for name, text in rows if text]


STORED = StoredKind(
    result=QuantizeResult,
    document=document,
    headline=headline,
)
