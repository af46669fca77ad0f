"""Whether a latency depends on the values fed: a neighbour that stays for some seconds must not look like it."""

from __future__ import annotations

from ortune.measuring.feed_kinds import pooled
from ortune.records import CaseTimes, Finding
from ortune.rules import Facts, rule_of
from ortune.rules.measurement import data_dependent_latency


def times(**ms: list[float]) -> tuple[CaseTimes, ...]:
    return tuple(
        CaseTimes(case=kind, weight=1.0, latency_ns=tuple(round(1e6 * each) for each in runs), first_ns=1)
        for kind, runs in ms.items()
    )


def found(kinds: tuple[CaseTimes, ...]) -> list[Finding]:
    return list(rule_of(data_dependent_latency).findings(Facts(kinds=kinds)))


def test_what_one_trial_alone_saw_is_no_dependence() -> None:
    disturbed = times(usual=[50.0] * 12, zeros=[25.0] * 12, extreme=[24.0] * 12)
    quiet = times(extreme=[16.0] * 12, zeros=[16.5] * 12, usual=[16.2] * 12)
    assert found(disturbed)
    assert not found(pooled(disturbed, quiet))
    assert not found(pooled(quiet, disturbed))


def test_what_both_trials_saw_is_told_with_all_of_their_runs() -> None:
    one, other = times(usual=[50.0] * 12, zeros=[25.0] * 12), times(zeros=[20.0] * 12, usual=[40.0] * 12)
    (finding,) = found(pooled(one, other))
    assert "2 kinds of synthetic" in finding.what
    assert len(pooled(one, other)[0].latency_ns) == 24


def test_a_kind_that_the_second_trial_refused_is_left_out() -> None:
    assert [case.case for case in pooled(times(usual=[1.0], extreme=[2.0]), times(usual=[1.0]))] == ["usual"]
    assert pooled(times(usual=[1.0]), ()) == ()


def test_times_are_told_in_the_unit_that_fits() -> None:
    (short,), (long,) = (
        found(times(usual=[most] * 12, zeros=[least] * 12))
        for most, least in ((0.106, 0.0526), (1500.0, 999.0))
    )
    assert "52.6 us to 106 us" in short.what and "999 ms to 1.5 s" in long.what
