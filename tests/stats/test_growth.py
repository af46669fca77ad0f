"""The trend of simulated memory: what does not grow is hardly ever called growing, and what grows is found."""

from __future__ import annotations

import numpy as np
import pytest
from memory_streams import MIB, NEVER, cut, leak, processes

from ortune.stats.growth import Series, forecast, growth
from ortune.stats.soak import SoakSeries, judge

WITHIN_A_PERIOD = {"filled_cache", "sawtooth"}
"""Cut before it is full, or before the first trim, such memory is one that grows."""


def of_each_kind():
    for n in (1, 3):
        for kind in NEVER:
            yield pytest.param(kind, n, 100, id=f"{kind}, {n}")
            yield pytest.param(kind, n, 2000, id=f"{kind}, {n}, many", marks=pytest.mark.long)


@pytest.mark.parametrize(("kind", "n", "seeds"), [*of_each_kind()])
def test_memory_that_stops_growing_is_called_growing_in_one_percent_at_most(kind, n, seeds):
    growing = killed = 0
    for seed in range(seeds):
        rng = np.random.default_rng([seed, n])
        found = processes(rng, NEVER[kind], n)
        growing += growth(found).trend == "growing"
        killed += growth(cut(found, rng)).trend == "growing"
    most = 0.01 * seeds + 2 * (0.01 * seeds) ** 0.5 * (seeds < 1000)
    assert growing <= most
    assert killed <= most or kind in WITHIN_A_PERIOD


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize(
    ("kind", "per_call"), [("still", 300), ("still", 3000), ("finite_ratchet", 1000), ("noisy", 3000)]
)
def test_a_leak_is_found_and_its_interval_holds_the_rate(n, kind, per_call):
    seeds, growing, held = 40, 0, 0
    for seed in range(seeds):
        found = growth(leak(np.random.default_rng([seed, n, 9]), NEVER[kind], n, per_call))
        growing += found.trend == "growing"
        held += found.low <= per_call <= found.high
    assert growing >= 0.9 * seeds
    assert held >= 0.85 * seeds


@pytest.mark.parametrize("kind", ["still", "finite_ratchet", "filled_cache"])
def test_memory_that_stays_is_level_and_the_bound_holds(kind):
    for seed in range(20):
        found = growth(processes(np.random.default_rng(seed), NEVER[kind], 3))
        assert found.trend == "level"
        assert 0 < found.high < 300


def test_a_leak_that_memory_hides_is_undecided_and_a_longer_run_is_named():
    rng = np.random.default_rng(3)
    found = growth(leak(rng, NEVER["noisy"], 1, 300))
    assert (found.trend, found.why) == ("undecided", "noise")
    assert found.longer >= 2


def test_too_few_calls_exclude_nothing():
    calls = np.arange(1.0, 97.0)
    found = growth([Series(calls=calls, held_bytes=np.full(96, 30.0 * MIB))] * 3)
    assert (found.trend, found.why) == ("undecided", "few-calls")
    assert 3 < found.longer < 10  # 1 KiB a call is excluded by 256 calls and more


@pytest.mark.parametrize("n_calls", [8, 40])
def test_the_calls_that_are_missing_exclude_a_growth(n_calls):
    """Of a few points, as of many: so many times as many calls are level."""
    calls = np.arange(1.0, n_calls + 1)
    found = growth([Series(calls=calls, held_bytes=np.full(n_calls, 30.0 * MIB))] * 3)
    assert (found.trend, found.why) == ("undecided", "few-calls")
    more = np.arange(1.0, found.longer * n_calls + 1)
    assert growth([Series(calls=more, held_bytes=np.full(more.size, 30.0 * MIB))] * 3).trend == "level"


def test_growth_that_slows_down_is_no_lasting_one():
    calls = np.arange(1.0, 97.0) * 100
    held = 100 * MIB + 40 * MIB * (1 - np.exp(-np.arange(96) / 30))
    found = growth([Series(calls=calls, held_bytes=held)] * 3)
    assert (found.trend, found.why) == ("undecided", "slowing")


def test_the_forecast_is_the_rest_divided_by_the_growth():
    found = growth(leak(np.random.default_rng(0), NEVER["still"], 3, 1000))
    ahead = forecast(found, 200 * MIB, 300 * MIB)
    assert ahead is not None
    assert ahead.low < 100 * MIB / 1000 < ahead.high
    assert forecast(found, 400 * MIB, 300 * MIB) is None
    level = growth(processes(np.random.default_rng(0), NEVER["still"], 3))
    assert forecast(level, 200 * MIB, 300 * MIB) is None


def soaked(kind, n=3, *, first=None, returned=0.0, used=None):
    found = processes(np.random.default_rng(1), kind, n)
    counted = [None] * n if used is None else processes(np.random.default_rng(2), used, n)
    return [
        SoakSeries(
            held=held,
            used=own,
            first_bytes=held.held_bytes[0] if first is None else first,
            returned_bytes=returned,
        )
        for held, own in zip(found, counted, strict=True)
    ]


def rising(rng):
    return 100 * MIB + np.arange(96) * MIB


def constant(rng):
    return np.full(96, 50.0 * MIB)


@pytest.mark.parametrize(
    ("processes_of", "verdict"),
    [
        (soaked(constant), "flat"),
        (soaked(constant, first=20 * MIB), "bounded"),
        (soaked(constant, first=47 * MIB, returned=10.0 * MIB), "flat"),
        (soaked(constant, first=20 * MIB, returned=25.0 * MIB), "fragmented"),
        (soaked(rising), "growing"),
        (soaked(rising, returned=90.0 * MIB), "fragmented"),
        (soaked(rising, returned=90.0 * MIB, used=constant), "fragmented"),
        (soaked(rising, returned=90.0 * MIB, used=rising), "growing"),
        (soaked(constant, used=rising), "growing"),
    ],
)
def test_the_verdict(processes_of, verdict):
    assert judge(processes_of).verdict == verdict


def test_a_few_pages_in_the_allocators_count_are_no_growth():
    def crumbs(rng):
        return 30 * MIB + np.arange(96) * 600.0

    found = judge(soaked(constant, used=crumbs))
    assert found.verdict == "flat" and not found.of_used


def test_what_grows_only_in_the_allocators_count_is_named():
    found = judge(soaked(constant, used=rising))
    assert found.of_used
    assert found.growth.per_call == pytest.approx(96 * MIB / 20_000, rel=0.1)
