"""The answer of a check of a conversion in words."""

from __future__ import annotations

import golden
from ortune.engines.conversion import faults
from ortune.records import CheckedCase, Conversion, ConversionFault, DynamicAxis, Envelope, OutputDifference
from ortune.verbs.convert import words as convert_words
from ortune.verbs.convert.result import ConvertResult


def test_a_fixed_size_is_told_once_and_right_outputs_at_it_are_not_called_wrong() -> None:
    what = "batch is fixed at 4 in input axis 0"
    right = CheckedCase(name="usual", level="all", outputs=OutputDifference(ok=True))
    axis = DynamicAxis(name="batch", places=("input axis 0",), status="fixed", sizes=(4,), what=what)
    conversion = Conversion(
        exporter="",
        cases=(right,),
        axes=(axis,),
        fault=ConversionFault(kind="frozen-size", what=what),
        nodes=15,
    )
    result = ConvertResult(
        source="net.pt2", kind="exported program", framework="PyTorch", versions={}, conversions=(conversion,)
    )
    envelope = Envelope(
        schema="ortune/convert/1", ortune="0.1.0", status="ok", verdict="wrong-output", result=result
    )
    text = " ".join(golden.printed(convert_words.document(envelope), 140).split())
    assert "outputs match at the sizes that it accepts" in text and "do not match" not in text
    assert "batch (input axis 0) is fixed at 4" in text and "is fixed: " not in text


def test_notes_follow_the_headline() -> None:
    result = ConvertResult(
        source="net.pt2", kind="exported program", framework="PyTorch", versions={}, headline="written to n.onnx",
        conversions=(Conversion(exporter="dynamo", ok=True, nodes=1),), notes=("all sizes are fixed",),
    )  # fmt: skip
    envelope = Envelope(
        schema="ortune/convert/1", ortune="0.1.0", status="ok", verdict="written", result=result
    )
    lines = [line.strip() for line in golden.printed(convert_words.document(envelope), 140).splitlines()]
    first, second, *_ = filter(None, lines)
    assert (first, second) == ("written to n.onnx", "all sizes are fixed")


def test_a_model_whose_outputs_were_not_compared_is_not_called_equal() -> None:
    notes = ["the source does not run on the inputs 'usual': no such index"]
    fault = faults.not_compared([CheckedCase(name="usual", level="all", failed="bad")], notes)
    assert fault is not None and fault.kind == "not-compared"
    conversion = Conversion(exporter="tf2onnx", fault=fault, nodes=3)
    result = ConvertResult(
        source="saved", kind="SavedModel", framework="TensorFlow", versions={}, conversions=(conversion,)
    )
    headline = convert_words.headline(result, "wrong-output")
    assert "not written" in headline and "no such index" in headline and "--inputs" in headline
    envelope = Envelope(
        schema="ortune/convert/1", ortune="0.1.0", status="ok", verdict="wrong-output", result=result
    )
    text = golden.printed(convert_words.document(envelope), 140)
    assert "not compared" in text and "match" not in text


def test_one_output_that_was_compared_is_enough_to_judge_a_model() -> None:
    cases = [
        CheckedCase(name="usual", level="all", failed="bad"),
        CheckedCase(name="zeros", level="all", outputs=OutputDifference(ok=True)),
    ]
    assert faults.not_compared(cases, []) is None
    assert faults.not_compared([], []) is not None
