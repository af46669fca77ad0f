"""A history whose budget is too small, in words."""

from __future__ import annotations

import golden
from ortune.records import Envelope
from ortune.records.messages import ExplorationForecast
from ortune.show import message_words
from ortune.verbs.history import words as history_words
from ortune.verbs.history.result import HistoryResult, ReleaseRow


def _printed(*rows: ReleaseRow) -> str:
    result = HistoryResult(side=golden.side(), statistic="p50", rows=rows)
    envelope = Envelope(schema="ortune/history/1", ortune="0.1.0", status="ok", result=result)
    return " ".join(golden.printed(history_words.document(envelope), 200).split())


def test_the_budget_that_is_enough_is_named_once() -> None:
    why = history_words.no_time(100.0)
    assert "--budget" in why
    rows = [
        ReleaseRow(release=name, figures=golden.figures(9e6), failed=why) for name in ("1.32.0", "1.31.1")
    ]
    text = _printed(*rows)
    assert text.count("--budget") == 1 and text.count("budget too small") == 3


def test_a_reason_of_one_release_alone_stays_in_its_row() -> None:
    text = _printed(
        ReleaseRow(release="1.32.0", figures=golden.figures(9e6)),
        ReleaseRow(release="1.31.1", figures=golden.figures(9e6)),
        ReleaseRow(release="1.22.1", figures=golden.figures(9e6), failed=history_words.no_time(100.0)),
    )
    assert text.count("--budget") == 1


def test_one_configuration_is_measured_and_several_are() -> None:
    for plans, said in ((1, "1 of 20 configurations is"), (2, "2 of 20 configurations are")):
        forecast = ExplorationForecast(plans=plans, wanted=20, left_ns=9e9, needed_ns=20e9, enough_s=60)
        assert said in message_words.text(forecast)
