"""Rules that read a profile: what they believe of it, and whose fault it is."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from rule_facts import (
    findings_of,
    operators,
    profile,
    ran,
    reordered,
    unequal,
)

from ortune import rules
from ortune.records import (
    Finding,
    Headroom,
)


@pytest.mark.parametrize(("slowdown", "trusted"), [(1.1, True), (None, True), (4.0, False)])
def test_shares_of_a_profile_that_the_profiler_made_are_not_believed(
    slowdown: float | None, trusted: bool
) -> None:
    facts = operators(Conv=0.8, Cast=0.2)
    changed = msgspec.structs.replace(facts.operators, slowdown_ratio=slowdown)
    found = findings_of(replace(facts, operators=changed))
    assert ({"dominant-node", "data-movement"} <= found.keys()) == trusted
    if trusted:
        assert "20 %" in found["data-movement"].what


def test_a_share_of_the_run_is_of_the_whole_run_and_not_of_its_operators() -> None:
    looked = operators(Conv=0.5, Cast=0.125)
    longer = replace(looked, operators=msgspec.structs.replace(looked.operators, run_ns=1.25))
    found = findings_of(longer)
    assert found["dominant-node"].share_ratio == pytest.approx(0.4)
    assert "40 % of the run" in found["dominant-node"].what
    assert found["data-movement"].share_ratio == pytest.approx(0.1)
    assert "12 % of operator time" in found["data-movement"].what
    # Four nodes of 0.1 ms in a run of 1 ms, which has another 0.4 ms between nodes.
    nodes = [msgspec.structs.replace(node, share_ratio=0.2) for node in (*reordered(2), ran("conv"))]
    moves = findings_of(profile(*nodes, between_nodes=0.4))["blocked-layout-reorders"]
    assert moves.share_ratio == pytest.approx(0.4) and "take 40 % of the run" in moves.what


def test_an_inserted_node_says_what_it_is_for_and_a_fused_one_for_whom_it_stands() -> None:
    facts = operators(ReorderInput=0.7, Conv=0.1)
    assert facts.operators is not None
    first, other = facts.operators.nodes

    def dominant(**changes: object) -> Finding:
        nodes = (msgspec.structs.replace(first, **changes), other)
        return findings_of(replace(facts, operators=msgspec.structs.replace(facts.operators, nodes=nodes)))[
            "dominant-node"
        ]

    inserted = dominant(purpose="into blocked layout")
    assert inserted.what.endswith("reorderinput_0 (ReorderInput, inserted: into blocked layout)")
    fused = dominant(op_type="Conv", originals=("conv", "relu"))
    assert fused.where == ("conv", "relu") and fused.what.endswith("conv fused with relu (Conv)")


def test_waiting_that_a_neighbour_causes_is_no_fault_of_the_threads() -> None:
    facts = profile(ran("conv", wait_ns=2e5), ran("relu"), thread_wait=0.2)
    assert facts.profile is not None

    def beside(busy: str, **parts: float) -> bool:
        head = Headroom(settings_ratio=sum(parts.values()), parts={"thread-wait": 0.0, **parts}, busy=busy)
        run = msgspec.structs.replace(facts.profile, headroom=head)
        return "thread-wait" in findings_of(replace(facts, profile=run))

    assert beside("")
    assert not beside("CPU contention 98 %", **{"thread-wait": 0.05})
    assert beside("CPU contention 98 %", **{"thread-wait": 0.15})


def test_runs_that_a_neighbour_made_slow_are_no_fault_of_uneven_parts() -> None:
    rule = rules.find_rule("THR006")
    facts = unequal(2.0, ran("conv", imbalance_ns=1e5), ran("relu"))
    assert facts.profile is not None and rule.findings(facts)

    def beside(busy: str) -> bool:
        run = msgspec.structs.replace(facts.profile, headroom=Headroom(settings_ratio=0.0, busy=busy))
        return bool(rule.findings(replace(facts, profile=run)))

    assert beside("")
    assert not beside("CPU contention 98 %")


def test_how_far_a_node_is_from_its_roofline_is_the_most_where_others_had_the_cpus() -> None:
    facts = profile(ran("slow", floor_ns=1e4, bound="compute"))
    assert facts.profile is not None
    (quiet,) = rules.find_rule("GRA006").findings(facts)
    assert "takes 10x its" in quiet.what
    head = Headroom(settings_ratio=0.0, busy="CPU contention 98 %")
    run = msgspec.structs.replace(facts.profile, headroom=head)
    (busy,) = rules.find_rule("GRA006").findings(replace(facts, profile=run))
    assert "takes up to 10x its" in busy.what and "CPU contention 98 %" in busy.what


def test_time_between_nodes_is_not_shared_by_what_is_in_a_body() -> None:
    body = ran("step", 0.4, calls=1000.0, inside="loop")
    facts = profile(ran("loop", 0.2), ran("a", 0.2), body, between_nodes=0.2)
    found = findings_of(facts)["time-between-nodes"]
    assert "around 2 nodes" in found.what
