"""What the winner's execution provider takes and its drawbacks: the same in every format."""

from __future__ import annotations

import msgspec
import pytest

import golden
import golden_tune
from facts import facts
from golden_tune_parts import confirmed
from ortune.records import Candidate, Envelope
from ortune.show import markdown
from ortune.show.html import pages
from ortune.verbs.tune import adoption_words, words
from ortune.verbs.tune.result import TuneResult
from pages import Page


@pytest.fixture
def adopted() -> Envelope[TuneResult]:
    return golden_tune.KINDS["elsewhere"]


def test_the_verdict_has_the_price_and_the_losses_in_every_format(adopted: Envelope[TuneResult]) -> None:
    document = words.document(adopted)
    for text in (golden.printed(document, 200), markdown.render(document), Page(pages.render(adopted)).text):
        facts(text, "pip install onnxruntime-openvino==1.24.1", "without onnxruntime")
        assert "(317 MiB on disk; MIT License)" in text
        facts(text, "CPU", "session creation 98.0 ms", "812 ms for the first", "default 12.0 ms")
        assert "peak memory 231 MiB, default 90 MiB" in text
        assert "session creation 8.17x the default's, peak memory 2.57x the default's" in text


def test_a_shape_that_it_loses_is_a_loss_too(adopted: Envelope[TuneResult]) -> None:
    mixed = golden_tune.KINDS["mixed"].result.cases
    lost = msgspec.structs.replace(mixed[0], ratio=1.05, ratio_low=1.02, ratio_high=1.08)
    result = msgspec.structs.replace(adopted.result, cases=(lost, *mixed[1:]))
    assert dict(adoption_words.rows(result))["drawbacks"].endswith(f", time at {lost.case} +5.0 %")


def test_what_costs_no_more_loses_nowhere(adopted: Envelope[TuneResult]) -> None:
    (cost,) = adopted.result.costs
    same = msgspec.structs.replace(cost, load_ns=12.1e6, peak_bytes=89 * 2**20)
    rows = dict(adoption_words.rows(msgspec.structs.replace(adopted.result, costs=(same,))))
    assert rows["drawbacks"] == "none measured"
    unknown = msgspec.structs.replace(cost, peak_bytes=None)  # of a page
    rows = dict(adoption_words.rows(msgspec.structs.replace(adopted.result, costs=(unknown,))))
    assert "memory" not in rows["runs on"] + rows["drawbacks"]


def test_a_provider_that_was_not_chosen_is_told_with_its_losses(adopted: Envelope[TuneResult]) -> None:
    usual = golden_tune.tuned().result
    plan = Candidate(
        plan=adopted.result.winner, origin="", status="eliminated", why="slower", ratio=1.2, n_blocks=4
    )
    cost = msgspec.structs.replace(adopted.result.costs[0], shipped=False)
    result = msgspec.structs.replace(usual, candidates=(*usual.candidates, plan), costs=(cost,))
    shown = golden.printed(words.document(msgspec.structs.replace(golden_tune.tuned(), result=result)), 200)
    facts(shown, "OpenVINO", "not chosen: its best configuration measured +20.0 %")
    assert adoption_words.rows(result) == []
    assert adoption_words.other_providers(result) == [
        (
            "OpenVINO",
            "not chosen: its best configuration measured +20.0 %, the winner -11.5 % (4 blocks, exploratory); slower; "
            "session creation 8.17x the default's, peak memory 2.57x the default's",
        )
    ]


def test_the_default_on_its_own_provider_has_neither() -> None:
    result = golden_tune.tuned(against_default=confirmed(0.9, 0.885, 0.917)).result
    assert adoption_words.rows(result) == [] and adoption_words.other_providers(result) == []
