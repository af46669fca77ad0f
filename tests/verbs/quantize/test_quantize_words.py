"""The answer of a quantization in words: one budget, and no claim of what was only seen."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import golden
from facts import facts
from ortune.records import (
    NO_TIME,
    Adoption,
    Calibration,
    Envelope,
    OtherPrograms,
    OutputDifference,
    OutputError,
    Plan,
    PrecisionRow,
    ProviderSpec,
    RewriteSpec,
)
from ortune.records.messages import ExplorationForecast
from ortune.show import message_words, others_words
from ortune.show.document import Code, Document, Line
from ortune.show.html import pages
from ortune.verbs.quantize import basis_words as quantize_basis
from ortune.verbs.quantize import metric_words, sections
from ortune.verbs.quantize import words as quantize_words
from ortune.verbs.quantize.result import FrontRow, LayerRow, QuantizeResult

DYNAMIC = Plan(rewrites=(RewriteSpec(name="dynamic-int8"),))
FLOAT = FrontRow(plan=Plan(), error=0.0, ok=True, n_float=2, n_layers=2)
SEEN = FrontRow(
    plan=DYNAMIC, error=0.004, ok=True, n_float=0, n_layers=2,
    comparison=golden.comparison(ratio=0.751, phase="race", verdict="inconclusive"),
)  # fmt: skip


def answered(*, exploring: bool) -> QuantizeResult:
    return QuantizeResult(
        side=golden.side(), winner=Plan(), default_figures=golden.figures(11e6), tolerance="0.01",
        front=(FLOAT, SEEN), calibration=Calibration(inputs=60, checked=60, source="real.npz"),
        no_time=quantize_words.no_time(2, 270, exploring=exploring), enough_s=270,
        reproduce="ortune quantize a.onnx --data real.npz --budget 60s",
    )  # fmt: skip


def explored(plans: int, wanted: int) -> str:
    """What is announced when so many models are measured and none can be confirmed."""
    return message_words.text(
        ExplorationForecast(plans=plans, wanted=wanted, left_ns=2e10, needed_ns=2e11, enough_s=270)
    )


def test_a_model_that_was_seen_and_not_confirmed_has_one_budget_in_every_place() -> None:
    said = explored(2, 2)
    result = answered(exploring=True)
    head = quantize_words.headline(result)
    facts(head, "inconclusive", "too small to confirm a model", "keep the float model")
    assert "not compared" not in head
    envelope = Envelope(schema="ortune/quantize/1", ortune="0.1.0", status="ok", result=result)
    text = " ".join(golden.printed(quantize_words.document(envelope), 140).split())
    facts(text, "1.33x", "not confirmed", "ortune quantize a.onnx --data real.npz --budget 270s")
    assert {*re.findall(r"--budget (\w+)", f"{said} {text}")} == {"270s"}
    assert "2 models were not compared" in quantize_words.headline(answered(exploring=False))
    held = msgspec.structs.replace(envelope, result=msgspec.structs.replace(result, no_time="", enough_s=0))
    assert "--budget" not in golden.printed(quantize_words.document(held), 140)


def test_a_layer_that_is_slower_in_fewer_bits_saves_nothing() -> None:
    layers = (
        LayerRow(name="fast", op_type="MatMul", members=("fast",), saved_ns=3e6),
        LayerRow(name="slow", op_type="Conv", members=("slow",), saved_ns=-207e6),
    )
    result = msgspec.structs.replace(answered(exploring=False), layers=layers)
    envelope = Envelope(schema="ortune/quantize/1", ortune="0.1.0", status="ok", result=result)
    text = golden.printed(quantize_words.document(envelope), 140, whole=True)
    assert "none, 207 ms slower" in text and "3.00 ms" in text and "-207" not in text


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"error": 0.02, "error_ratio": 0.71, "reason": "error"}, ("71 % of the error",)),
        ({"expected_error": 0.0056, "reason": "error"}, ("0.56 %", "expected from an earlier session")),
        ({"reason": "error"}, ("not measured",)),
        ({"reason": "no-gain"}, ("does not make it faster",)),
        ({"reason": "not-quantized"}, ("does not support it",)),
    ],
)
def test_each_layer_in_float_has_its_reason(row: dict[str, Any], told: tuple[str, ...]) -> None:
    line = quantize_words.kept_line(
        LayerRow(name="head", op_type="MatMul", members=("head",), n_kept=1, time_ratio=0.02, **row)
    )
    facts(line, "head: ", "2 % of the time")
    facts(line, *told)


def test_nothing_is_called_a_winner_where_nothing_was_confirmed() -> None:
    """Also of an older document, which calls float the chosen model in any case."""
    kept = msgspec.structs.replace(FLOAT, chosen=True, pareto=True)
    synthetic = Calibration(inputs=8, checked=4)

    def shown(*front: FrontRow) -> str:
        result = msgspec.structs.replace(answered(exploring=False), front=front, calibration=synthetic)
        envelope = Envelope(schema="ortune/quantize/1", ortune="0.1.0", status="ok", result=result)
        return golden.printed(quantize_words.document(envelope), 140)

    for front in ((kept,), (kept, SEEN)):
        text = shown(*front)
        assert "winner" not in text and "Pareto" not in text
    slower = golden.comparison(ratio=1.2, phase="confirm", verdict="slower")
    assert "winner" in shown(kept, msgspec.structs.replace(SEEN, comparison=slower))


def test_what_a_budget_holds_is_said_as_the_most_of_it() -> None:
    said = explored(7, 25)
    assert "at most 7 of 25 configurations are measured as exploratory (--budget 270s" in said
    one = explored(1, 1)
    assert "the one configuration is measured as exploratory" in one


def test_why_no_method_gave_a_model_is_told_once_for_each_reason() -> None:
    def failed(name: str, why: str, **params: str) -> PrecisionRow:
        return PrecisionRow(
            plan=Plan(rewrites=(RewriteSpec(name=name, params=params),)), within_ratio=None, why=why
        )

    inside = "LSTM are inside If or Loop nodes"
    rows = (
        failed("static-int8", inside), failed("static-int8", inside, range="7"), failed("dynamic-int8", "killed"),
    )  # fmt: skip
    result = msgspec.structs.replace(
        answered(exploring=False), front=(FLOAT,), methods=rows, no_time="", enough_s=0,
        calibration=Calibration(inputs=8, checked=4), inputs_needed=59,
    )  # fmt: skip
    envelope = Envelope(schema="ortune/quantize/1", ortune="0.1.0", status="ok", result=result)
    text = " ".join(golden.printed(quantize_words.document(envelope), 140).split())
    facts(
        text, "2 methods", f"{inside} (static-int8; static-int8:range=7)", "1 method", "killed (dynamic-int8)"
    )
    assert text.count(inside) == 1
    facts(quantize_words.headline(result), "3 of 3 quantization methods failed")
    assert text.count("NOT FINAL") == 1
    assert inside not in quantize_words.headline(result)


def test_a_metric_that_was_chosen_is_told_with_its_reason_and_the_way_out() -> None:
    result = msgspec.structs.replace(
        answered(exploring=False), metric="accuracy", metric_reason="output 'y' ends in Softmax",
        tolerance="metric>=99%",
    )  # fmt: skip
    envelope = Envelope(schema="ortune/quantize/1", ortune="0.1.0", status="ok", result=result)
    text = " ".join(golden.printed(quantize_words.document(envelope), 200).split())
    facts(text, "--metric accuracy", "metric>=99%", "output 'y' ends in Softmax", "--tolerance 0.01")


def test_what_another_processor_gives_is_told_with_a_portable_model() -> None:
    far = OutputDifference(
        ok=False,
        relative_l2=0.034,
        outputs=(OutputError(name="y", relative_l2=0.034, max_error=0.1, limit=1.0),),
    )
    near = OutputDifference(ok=True, relative_l2=0.013)
    seven = Plan(rewrites=(RewriteSpec(name="static-int8", params={"range": "7"}),))
    result = msgspec.structs.replace(
        answered(exploring=False), saturation="elsewhere", saturated=far,
        portable=PrecisionRow(plan=seven, within_ratio=0.05, outputs=near),
    )  # fmt: skip
    said = quantize_basis.saturation(result)
    facts(said, "3.4 % there (emulated)", "beyond the tolerance", "static-int8:range=7 has an error of 1.3 %")
    unknown = OutputDifference(ok=False, comparable=False, what="saturation of QAttention is not emulated")
    said = quantize_basis.saturation(msgspec.structs.replace(result, saturated=unknown, portable=None))
    facts(said, "not emulated: saturation of QAttention", "range=7")


def test_the_metric_that_judges_is_shown_beside_the_error_as_people_write_it() -> None:
    outputs = OutputDifference(ok=True, relative_l2=0.08, metric_base=1 / 12.5, metric=1 / 12.62)
    row = msgspec.structs.replace(SEEN, outputs=outputs, error=0.08, chosen=True)
    method = PrecisionRow(plan=DYNAMIC, within_ratio=None, outputs=outputs)
    result = msgspec.structs.replace(
        answered(exploring=False), front=(FLOAT, row), methods=(method,), judged_by="perplexity"
    )
    envelope = Envelope(schema="ortune/quantize/1", ortune="0.1.0", status="ok", result=result)
    text = " ".join(golden.printed(quantize_words.document(envelope), 140, whole=True).split())
    assert text.count("perplexity") == 2 and text.count("12.62") == 2 and "12.5 " in text
    confirmed = msgspec.structs.replace(
        result,
        against_default=golden.comparison(ratio=0.751, phase="confirm", verdict="faster"),
    )
    assert "error 8 %, perplexity 12.62 (float: 12.5)" in quantize_words.headline(confirmed)
    by_function = msgspec.structs.replace(confirmed, judged_by="evaluate:f1")
    assert "f1 0.07924 (float: 0.08)" in quantize_words.headline(by_function)
    assert "perplexity" not in quantize_words.headline(msgspec.structs.replace(confirmed, judged_by=""))


@pytest.mark.parametrize(
    ("metric", "labelled", "named"),
    [
        ("accuracy", 0, "agreement with float"),
        ("boxes", 0, "box agreement with float"),
        ("accuracy", 59, "accuracy"),
        ("accuracy", None, "accuracy"),
        ("perplexity", 0, "perplexity"),
        ("evaluate:accuracy", 0, "accuracy"),
    ],
)
def test_a_metric_without_labels_is_agreement_with_float(
    metric: str, labelled: int | None, named: str
) -> None:
    calibration = Calibration(inputs=60, checked=60, source="real.npz", labelled=labelled)
    result = msgspec.structs.replace(answered(exploring=False), judged_by=metric, calibration=calibration)
    assert metric_words.name(result) == named


def confirmed_winner() -> QuantizeResult:
    """Two rewrites, of which the first only prepares the second."""
    found = golden.comparison(ratio=0.5, ratio_low=0.45, ratio_high=0.55, phase="confirm", verdict="faster")
    specs = (
        RewriteSpec(name="cross-layer-equalization"),
        RewriteSpec(name="static-int8", params={"granularity": "per-channel", "leave": "head"}),
    )
    row = FrontRow(
        plan=Plan(rewrites=specs), error=0.004, ok=True, n_float=1, n_layers=2, comparison=found, chosen=True,
        pareto=True,
    )  # fmt: skip
    failed = PrecisionRow(plan=Plan(rewrites=specs[1:]), within_ratio=None, why="no time left", tested=False)
    return msgspec.structs.replace(
        answered(exploring=False), front=(FLOAT, row), methods=(failed,), against_default=found, no_time="",
        winner=row.plan, changes=True,
    )  # fmt: skip


def test_a_model_has_the_names_of_all_its_rewrites() -> None:
    envelope = Envelope(schema="ortune/quantize/1", ortune="0.1.0", status="ok", result=confirmed_winner())
    text = golden.printed(quantize_words.document(envelope), 140, whole=True)
    lines = text.splitlines()
    (place,) = (i for i, line in enumerate(lines) if line.rstrip().endswith("winner"))
    facts(lines[place], "static-int8: granularity=per-channel", "1 of 2")
    assert "after cross-layer-equalization" in lines[place + 1] and "leave" not in lines[place]
    assert "static-int8:granularity=per-channel,leave=head after cross-layer-equalization" in text


def test_the_page_begins_with_the_gain_and_its_marks_have_colours() -> None:
    envelope = Envelope(schema="ortune/quantize/1", ortune="0.1.0", status="ok", result=confirmed_winner())
    page = pages.render(envelope)
    facts(page, "2.00×", "faster in p50 than float, error 0.4 %", "Error and speed")
    assert "Front<" not in page
    style = (Path(pages.__file__).parent / "style.css").read_text()
    for hue in re.findall(r'class="swatch ([\w-]+)"', page):
        assert f".{hue}" in style, f"{hue} is no colour"
    kept = pages.render(msgspec.structs.replace(envelope, result=answered(exploring=False)))
    assert "Keep the float model" in kept


def test_long_names_fold_between_their_parameters_and_the_table_fits_100_columns() -> None:
    params = {"granularity": "per-channel", "calibration": "percentile", "operators": "products"}
    long = Plan(
        rewrites=(
            RewriteSpec(name="cross-layer-equalization"),
            RewriteSpec(name="static-int8", params=params),
        )
    )
    text = golden.printed(shown_of(beyond(FAR, plan=long)), 100)
    assert max(len(line.rstrip()) for line in text.splitlines() if not line.startswith("ortune")) <= 100
    facts(text, "static-int8:", *(f"{name}={value}" for name, value in params.items()))
    assert "..." not in text


FAR = OutputDifference(
    ok=False, relative_l2=0.0075, max_error=2.4, accepting_tolerance=0.5, tolerance=0.01,
    what="output 'y' differs: largest error over the largest value 2.4, limit 0.1",
    outputs=(OutputError(name="y", relative_l2=0.0075, max_error=2.4, limit=0.01),),
)  # fmt: skip


def beyond(outputs: OutputDifference, plan: Plan = DYNAMIC) -> QuantizeResult:
    row = msgspec.structs.replace(
        SEEN, plan=plan, ok=False, outputs=outputs, error=outputs.worst_slice_l2, n_layers=0
    )
    method = PrecisionRow(plan=plan, within_ratio=None, outputs=outputs, ratio=0.8)
    return msgspec.structs.replace(
        answered(exploring=False), front=(FLOAT, row), methods=(method,), no_time="", tolerance="0.01"
    )


def shown_of(result: QuantizeResult) -> Document:
    return quantize_words.document(
        Envelope(schema="ortune/quantize/1", ortune="0.1.0", status="ok", result=result)
    )


@pytest.mark.parametrize("raced", [True, False])
def test_the_limit_that_an_error_exceeds_is_named_with_its_figure(raced: bool) -> None:
    """Also of a model that no walk followed and no race took."""
    result = beyond(FAR)
    if not raced:
        rows = tuple(msgspec.structs.replace(row, comparison=None) for row in result.front)
        result = msgspec.structs.replace(result, front=rows)
    facts(quantize_words.headline(result), "0.01", "largest error 2.4", "limit 0.1")
    page = pages.render(Envelope(schema="ortune/quantize/1", ortune="0.1.0", status="ok", result=result))
    for text in (" ".join(golden.printed(shown_of(result), 140).split()), page):
        facts(text[text.index("size") :], "dynamic-int8", "0.75 %", "largest error 2.4", "limit 0.1")


def test_outputs_that_are_nearly_zero_for_all_inputs_have_no_error() -> None:
    outputs = (OutputError(name="y", relative_l2=0.0075, max_error=2.4, silent=True),)
    silent = msgspec.structs.replace(FAR, silent=True, outputs=outputs)
    result = msgspec.structs.replace(beyond(silent), no_time="too small a budget", enough_s=270)
    facts(quantize_words.headline(result), "nearly zero", "keep the float model")
    assert "too small a budget" not in quantize_words.headline(result)
    text = golden.printed(shown_of(result), 140)
    facts(text, "nearly zero for all inputs", "--data", "error unknown")
    assert "--budget 270s" not in text
    two = msgspec.structs.replace(FAR, outputs=(*FAR.outputs, msgspec.structs.replace(outputs[0], name="z")))
    text = golden.printed(shown_of(beyond(two)), 140)
    facts(text, "z is nearly zero for all inputs", "model")
    # Of several outputs, the one that exceeds its limit has its name.
    facts(text[text.index("size") :], "dynamic-int8", "'y'", "largest error 2.4", "limit 0.1")


def test_what_failed_stops_the_answer_and_not_the_budget_alone() -> None:
    """One reason once, apart from the methods that no time was left for."""
    plans = [Plan(rewrites=(RewriteSpec(name="static-int8", params={"bias": str(i)}),)) for i in range(6)]
    why = "Fail: Op (Transpose) Invalid attribute perm"
    rows = [PrecisionRow(plan=plan, within_ratio=None, why=why) for plan in plans[:4]]
    rows += [
        PrecisionRow(plan=plan, within_ratio=None, why="no time left", tested=False) for plan in plans[4:]
    ]
    result = msgspec.structs.replace(
        answered(exploring=False), front=(FLOAT,), methods=tuple(rows),
        no_time=quantize_words.untested(2, 6, 320), enough_s=320,
    )  # fmt: skip
    said = quantize_words.headline(result)
    facts(said, "4 of 6 quantization methods failed with the same error", "--budget 320s")
    text = " ".join(golden.printed(shown_of(result), 140).split())
    facts(
        text,
        "failed",
        "4 methods",
        why,
        "1 more",
        "not tested",
        "2 methods: no time left",
        "static-int8:bias=5",
    )
    assert text.count(why) == 1


ON_OPENVINO = (ProviderSpec(name="OpenVINOExecutionProvider"),)
OPENVINO_PACKAGE = Adoption(
    requirements=("onnxruntime-openvino==1.24.1",), instead_of="onnxruntime", size_bytes=338_000_000,
    licenses=("MIT",),
)  # fmt: skip


def over_providers(*, chosen: str) -> QuantizeResult:
    """A model of each place, both confirmed; the one on OpenVINO or the own one is the winner."""
    figures = msgspec.structs.replace(golden.figures(5e6), peak_bytes=2.0e8, load_ns=4e8)
    own = msgspec.structs.replace(
        SEEN, comparison=golden.comparison(ratio=0.6, phase="confirm", verdict="faster"), figures=figures,
        chosen=chosen == "own",
    )  # fmt: skip
    other = msgspec.structs.replace(
        own, plan=msgspec.structs.replace(DYNAMIC, providers=ON_OPENVINO), error=0.006, chosen=chosen != "own",
        comparison=golden.comparison(ratio=0.4, phase="confirm", verdict="faster"), adoption=OPENVINO_PACKAGE,
    )  # fmt: skip
    needs = None if chosen == "own" else OPENVINO_PACKAGE
    front = (FLOAT, own, msgspec.structs.replace(other, pareto=True))
    return msgspec.structs.replace(answered(exploring=False), front=front, adoption=needs)


def test_one_table_over_providers_has_memory_start_and_the_row_without_another_package() -> None:
    result = over_providers(chosen="openvino")
    envelope = Envelope(schema="ortune/quantize/1", ortune="0.1.0", status="ok", result=result)
    text = golden.printed(quantize_words.document(envelope), 180)
    facts(
        text, "peak memory", "session creation", "191 MiB", "400 ms", "best without another package", "winner"
    )
    facts(text, "other packages", "OpenVINO: pip install onnxruntime-openvino==1.24.1", "MIT")
    kept = msgspec.structs.replace(result, front=(FLOAT, result.front[2]))
    assert sections.without_package(kept) is FLOAT


def test_the_own_winner_needs_no_second_row_and_the_picture_has_both_kinds() -> None:
    result = over_providers(chosen="own")
    assert sections.without_package(result) is None
    envelope = Envelope(schema="ortune/quantize/1", ortune="0.1.0", status="ok", result=result)
    page = pages.render(envelope)
    facts(page, "speed-up over float against error", "with another package")
    assert "best without another package" not in page


def test_a_file_by_another_quantizer_names_it() -> None:
    result = msgspec.structs.replace(over_providers(chosen="openvino"), made_by="nncf 3.4.0")
    envelope = Envelope(schema="ortune/quantize/1", ortune="0.1.0", status="ok", result=result)
    facts(golden.printed(quantize_words.document(envelope), 180), "made by nncf 3.4.0")


def test_methods_without_time_name_the_budget_that_is_enough_and_others_their_reason() -> None:
    lacking = "openvino_precision=f16 has no effect: it needs avx512_fp16, which this processor lacks"
    rows = tuple(
        PrecisionRow(plan=plan, within_ratio=None, why=why, tested=False)
        for plan, why in ((DYNAMIC, NO_TIME), (Plan(settings={"openvino_precision": "f16"}), lacking))
    )
    result = msgspec.structs.replace(answered(exploring=False), methods=rows, all_methods_s=320.0)
    envelope = Envelope(schema="ortune/quantize/1", ortune="0.1.0", status="ok", result=result)
    text = " ".join(golden.printed(quantize_words.document(envelope), 200, whole=True).split())
    facts(text, "no time left (--budget 320s is enough)", f"{lacking} (")
    late = msgspec.structs.replace(envelope, result=msgspec.structs.replace(result, all_methods_s=0.0))
    assert "no time left (dynamic-int8" in golden.printed(quantize_words.document(late), 200, whole=True)


def test_a_busy_machine_is_named_where_nothing_was_compared() -> None:
    others = OtherPrograms(
        used_cpus=1.6, cpus=2, waited_ratio=0.4, explains=False, favours=False, hides=True, words=""
    )
    others = msgspec.structs.replace(others, words=others_words.without_comparison(others))
    result = msgspec.structs.replace(answered(exploring=True), others=others)
    shown = shown_of(result)
    said = [block.text for block in shown.blocks if isinstance(block, Line)]
    facts(others.words, "1.6 of 2 CPUs", "--wait-quiet 10m")
    assert others.words in said
    commands = [block for block in shown.blocks if isinstance(block, Code)]
    assert any("--wait-quiet" in line for block in commands for line in block.lines)
    quiet = shown_of(answered(exploring=True))
    assert not any("--wait-quiet" in line for b in quiet.blocks if isinstance(b, Code) for line in b.lines)


def test_each_table_of_models_has_its_own_heading() -> None:
    result = answered(exploring=True)
    titles = [sections.whole_models(result).title, sections.models_by_error(result).title]
    assert all(titles) and len(set(titles)) == 2


def test_a_gain_that_is_too_small_for_its_error_is_said_with_the_gain_that_is_needed() -> None:
    """The row and its figure are in the table, and nothing is called the best without another package but float."""
    found = golden.comparison(
        ratio=0.98, ratio_low=0.97, ratio_high=0.985, phase="confirm", verdict="faster", n_blocks=24
    )
    small = msgspec.structs.replace(SEEN, comparison=found, error=0.0094, small_gain=True, pareto=True)
    result = msgspec.structs.replace(answered(exploring=False), front=(FLOAT, small), no_time="")
    facts(quantize_words.headline(result), "1.02x in p50", "24 blocks", "error of 0.94 %", "1.05x or more")
    text = " ".join(golden.printed(shown_of(result), 160).split())
    facts(text, "1.02x", "gains too little for its error")
    adopted = msgspec.structs.replace(result, adoption=OPENVINO_PACKAGE)
    assert sections.without_package(adopted) is FLOAT


def test_the_nearest_of_models_beyond_the_tolerance_is_nearest_by_its_measure() -> None:
    """Labels have no distance, so the one with the smallest distance may be wrong most often."""
    rows = [
        msgspec.structs.replace(
            SEEN, ok=False, error=error, comparison=None,
            outputs=OutputDifference(ok=False, what=f"top-1 agreement {top1}, limit 0.99", top1=top1),
        )
        for error, top1 in ((0.0, 0.5), (0.3, 0.97))
    ]  # fmt: skip
    result = msgspec.structs.replace(
        answered(exploring=False), front=(FLOAT, *rows), no_time="", tolerance="top1>=0.99"
    )
    facts(quantize_words.headline(result), "nearest: top-1 agreement 0.97, limit 0.99")
