"""Selection of the best machine for each model: by cost if prices are known, or else by latency."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ortune.errors import UsageError
from ortune.records import BestHost, ModelRow, RowFigure

COST, LATENCY, RATE = "cost per million", "p50", "throughput"
_PRICE = re.compile(r"(?:([A-Za-z0-9][A-Za-z0-9._-]*)=)?([$€£]?)(\d+(?:\.\d+)?|\.\d+) ?([A-Z]{3})?/h")
_S_PER_H = 3600.0
_MILLION = 1e6


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """Hourly prices of the machines on which models run.

    Attributes:
        per_h: Maps hosts to prices per hour; the key "" is for all other hosts.
        currency: Currency as the user wrote it; "" for none.
    """

    per_h: dict[str, float]
    currency: str = ""

    def per_hour(self, host: str) -> float | None:
        """Return the price of a host per hour; None if unknown."""
        return self.per_h.get(host, self.per_h.get(""))


def parse(texts: Sequence[str], hosts: Sequence[str]) -> Prices:
    """Return the prices in the values of ``--price``, each ``[HOST=]AMOUNT/h``.

    Raises:
        UsageError: A price is invalid or 0, a host is unknown or has two prices, or currencies differ.
    """
    found: dict[str, float] = {}
    currencies: set[str] = set()
    for text in texts:
        match = _PRICE.fullmatch(text)
        if match is None or not float(match[3]):
            raise UsageError(
                f"{text!r} is not a price", where="--price", do="e.g. --price pi=0.05/h, or --price '$0.17/h'"
            )
        host = match[1] or ""
        if host and host not in hosts:
            raise UsageError(f"no host is called {host}", where="--price", do=f"one of {', '.join(hosts)}")
        if host in found:
            raise UsageError(f"two prices for {host or 'any host'}", where="--price", do="pass one")
        found[host] = float(match[3])
        currencies.add(match[2] or match[4] or "")
    if len(currencies) > 1:
        raise UsageError("prices have different currencies", where="--price", do="pass all in one")
    return Prices(per_h=found, currency=next(iter(currencies), ""))


def with_cost(row: ModelRow, prices: Prices) -> ModelRow:
    """Return a row with the cost of a million consecutive requests added.

    The row is unchanged if the host has no price or the row has neither throughput nor latency.
    """
    price = prices.per_hour(row.host)
    known = {figure.name: figure for figure in row.figures}
    if price is None or row.status not in ("ok", "interrupted"):
        return row
    per_s, scale = price / _S_PER_H, _MILLION
    if (rate := known.get(RATE)) is not None and rate.value > 0:
        # Twice the throughput is half the cost, so the ends of the interval change places.
        value, low, high = (
            None if v is None else scale * per_s / v for v in (rate.value, rate.high, rate.low or None)
        )
    elif (latency := known.get(LATENCY)) is not None:
        value, low, high = (
            None if v is None else scale * per_s * v / 1e9 for v in (latency.value, latency.low, latency.high)
        )
    else:
        return row
    assert value is not None
    figure = RowFigure(name=COST, unit="cost", value=value, low=low, high=high)
    return msgspec.structs.replace(row, figures=(*row.figures, figure))


def best_hosts(rows: Sequence[ModelRow]) -> tuple[BestHost, ...]:
    """Return the best and the second best host for each model that has the cost or latency of at least two hosts.

    Hosts are not measured in the same blocks, so their values are compared as independent. A difference is claimed only
    if the two intervals do not overlap. The interval of the ratio is conservative: it is computed from the ends of the
    two intervals, and None if one of them is unknown.
    """
    found = []
    for model in dict.fromkeys(row.path for row in rows):
        figures = {name: _figures(rows, model, name) for name in (COST, LATENCY)}
        name = COST if len(figures[COST]) > 1 else LATENCY
        ordered = sorted(figures[name].items(), key=lambda item: item[1].value)
        if len(ordered) < 2:
            continue
        (host, best), (other, next_best) = ordered[:2]
        low = high = None
        if None not in (best.low, best.high, next_best.low, next_best.high):
            assert best.low and best.high and next_best.low and next_best.high
            low, high = best.low / next_best.high, best.high / next_best.low
        found.append(
            BestHost(
                path=model,
                figure=name,
                host=host,
                other=other,
                ratio=best.value / next_best.value,
                ratio_low=low,
                ratio_high=high,
            )
        )
    return tuple(found)


def _figures(rows: Sequence[ModelRow], model: str, name: str) -> dict[str, RowFigure]:
    return {
        row.host: one
        for row in rows
        if row.path == model and row.host
        for one in row.figures
        if one.name == name
    }
