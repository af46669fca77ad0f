"""The answer of a quantization in words: one budget, and no claim of what was only seen."""

from __future__ import annotations

import re

import golden
import msgspec
from facts import facts

from ortune.records import Calibration, Envelope, FrontRow, Plan, QuantizeResult, RewriteSpec
from ortune.report import quantize_words
from ortune.search import progress

DYNAMIC = Plan(rewrites=(RewriteSpec(name="dynamic-int8"),))
FLOAT = FrontRow(plan=Plan(), error=0.0, ok=True, n_float=2, n_layers=2)
SEEN = FrontRow(
    plan=DYNAMIC, error=0.004, ok=True, n_float=0, n_layers=2,
    comparison=golden.comparison(ratio=0.751, phase="race", verdict="inconclusive"),
)  # fmt: skip


def answered(*, exploring: bool) -> QuantizeResult:
    return QuantizeResult(
        side=golden.side(), winner=Plan(), default_figures=golden.figures(11e6), tolerance="1 %",
        front=(FLOAT, SEEN), calibration=Calibration(inputs=60, checked=60, source="real.npz"),
        no_time=quantize_words.no_time(2, 270, exploring=exploring), enough_s=270,
        reproduce="ortune quantize a.onnx --data real.npz --budget 60s",
    )  # fmt: skip


def test_a_model_that_was_seen_and_not_confirmed_has_one_budget_in_every_place() -> None:
    said = progress.explored(2, 2, left_ns=2e10, needed_ns=2e11, enough_s=270)
    result = answered(exploring=True)
    head = quantize_words.headline(result)
    facts(head, "inconclusive", "float stays", "too small to confirm a model")
    assert "not raced" not in head
    envelope = Envelope(schema="ortune/quantize/1", ortune="0.1.0", status="ok", result=result)
    text = " ".join(golden.printed(quantize_words.document(envelope), 140).split())
    facts(text, "-24.9 %", "not confirmed", "ortune quantize a.onnx --data real.npz --budget 270s")
    assert {*re.findall(r"--budget (\w+)", f"{said} {text}")} == {"270s"}
    assert "2 models were not raced" in quantize_words.headline(answered(exploring=False))
    held = msgspec.structs.replace(envelope, result=msgspec.structs.replace(result, no_time="", enough_s=0))
    assert "--budget" not in golden.printed(quantize_words.document(held), 140)


def test_what_a_budget_holds_is_said_as_the_most_of_it() -> None:
    said = progress.explored(7, 25, left_ns=2e10, needed_ns=2e11, enough_s=270)
    assert "at most 7 of 25 configurations are measured as exploratory (--budget 270s" in said
    one = progress.explored(1, 1, left_ns=2e10, needed_ns=2e11, enough_s=270)
    assert "the one configuration is measured as exploratory" in one
