"""Which machine is best for a model: a claim only where intervals are apart, and costs from prices."""

from __future__ import annotations

import numpy as np
import pytest

from ortune.errors import UsageError
from ortune.records import Envelope, ManyResult, ModelRow, RowFigure
from ortune.show.document import Pairs
from ortune.verbs._many import words
from ortune.verbs._many.best import COST, Prices, best_hosts, parse, with_cost
from ortune.verbs._shared.estimates import typical


def row(host: str, p50: RowFigure, *more: RowFigure, path: str = "m.onnx") -> ModelRow:
    return ModelRow(path=path, host=host, figures=(p50, *more))


def latency(value: float, low: float | None = None, high: float | None = None) -> RowFigure:
    return RowFigure(name="p50", unit="ns", value=value, low=low, high=high)


def said(*rows: ModelRow) -> str:
    result = ManyResult(verb="bench", models=rows, best=best_hosts(rows))
    envelope = Envelope(schema="ortune/many/1", ortune="0", status="ok", result=result)
    blocks = words.document(envelope).blocks
    return next(
        (text for b in blocks if isinstance(b, Pairs) and b.title == "best machine" for _, text in b.rows), ""
    )


def test_prices_are_read_and_what_is_none_is_refused() -> None:
    assert parse(["0.17/h"], ["a"]) == Prices(per_h={"": 0.17})
    prices = parse(["a=$1/h", "$.5/h"], ["a", "b"])
    assert (prices.per_hour("a"), prices.per_hour("b"), prices.currency) == (1.0, 0.5, "$")
    assert parse(["a=2 EUR/h"], ["a"]).currency == "EUR" and parse(["a=2/h"], ["a"]).per_hour("b") is None
    for texts in (
        ["0.17"],
        ["x/h"],
        ["0/h"],
        ["-1/h"],
        ["c=1/h"],
        ["a=1/h", "a=2/h"],
        ["1/h", "2/h"],
        ["a=$1/h", "b=€1/h"],
    ):
        with pytest.raises(UsageError):
            parse(texts, ["a", "b"])


def test_a_cost_is_the_price_of_the_time_of_a_million_requests() -> None:
    rate = RowFigure(name="throughput", unit="per-second", value=1000.0, low=500.0, high=2000.0)
    prices = Prices(per_h={"a": 3.6})
    cost = with_cost(row("a", latency(1e6), rate), prices).figures[-1]
    # 1000 requests a second: a million takes 1000 s, at 0.001 a second.
    assert (cost.name, cost.value, cost.low, cost.high) == (
        COST,
        pytest.approx(1),
        pytest.approx(0.5),
        pytest.approx(2),
    )
    cost = with_cost(row("a", latency(2e6, 1e6, 4e6)), prices).figures[-1]
    assert (cost.value, cost.low, cost.high) == (pytest.approx(2), pytest.approx(1), pytest.approx(4))
    assert len(with_cost(row("b", latency(2e6)), prices).figures) == 1


def test_the_best_machine_is_named_only_where_intervals_are_apart() -> None:
    fast, slow = latency(80.0, 78.0, 82.0), latency(100.0, 97.0, 104.0)
    assert said(row("a", slow), row("b", fast)) == "b is faster than a by 20 % (15 % to 25 %)"
    assert said(row("a", slow), row("b", latency(95.0, 90.0, 98.0))) == "b and a cannot be told apart"
    assert said(row("a", slow), row("b", latency(50.0))) == "b and a cannot be told apart"
    assert said(row("a", slow)) == ""


def test_price_turns_the_order() -> None:
    fast, slow = latency(80.0, 78.0, 82.0), latency(100.0, 97.0, 104.0)
    prices = Prices(per_h={"a": 1.0, "b": 2.0})
    rows = [with_cost(row("a", slow), prices), with_cost(row("b", fast), prices)]
    (best,) = best_hosts(rows)
    assert (best.host, best.figure, best.is_clear) == ("a", COST, True)
    assert best.ratio == pytest.approx(100 / 160)
    assert said(*rows).startswith("a is cheaper than b by 38 %")


def test_equal_machines_are_told_apart_in_at_most_one_of_twenty() -> None:
    """Processes of two equal machines, with the noise between processes that a shared machine has."""
    rng, claims, streams = np.random.default_rng(0), 0, 400
    for _ in range(streams):
        rows = []
        for host in "ab":
            figure = typical([float(v) for v in np.exp(0.1 * rng.standard_t(3, size=12))])
            rows.append(row(host, latency(figure.value, figure.low, figure.high)))
        claims += best_hosts(rows)[0].is_clear
    assert claims <= 0.05 * streams
