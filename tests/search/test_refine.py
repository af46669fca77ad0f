"""Combining, exploring and ablation with a fake executor whose settings have known factors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from groups import OneByOne
from ortune.records import CaseTimes, Measured, Outcome, Plan, RewriteSpec, TrialDone, Value
from ortune.search.blocks import BASE, IDENTICAL
from ortune.search.halving import Entry
from ortune.search.plan_edits import removable_parts, with_change, with_only
from ortune.search.reasons import ENDED
from ortune.search.refine import ablate, combine, screen_rest, try_neighbours
from simulated import TRIAL_NS, Raced

FACTORS: dict[tuple[str, Value], float] = {
    ("dynamic_block_base", 4): 0.93,
    ("dynamic_block_base", 8): 0.85,
    ("allow_spinning", False): 0.95,
    ("enable_mem_pattern", False): 1.0,
    ("enable_cpu_mem_arena", False): 1.01,
}
ARENA_PAYS_WITH = ("allow_spinning", False), 0.9


class Machine(OneByOne):
    """A plan takes the product of its settings' factors, and a little noise; the clock moves with the trials."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)
        self.now = 0
        self.same: tuple[tuple[str, ...], float] = (), 1.0  # settings of which one is as good as all
        self.plans: dict[str, Plan] = {BASE: Plan(), IDENTICAL: Plan()}

    def trial(self, arm: str) -> Outcome:
        self.now += TRIAL_NS
        settings = self.plans[arm].settings
        same, gain = self.same
        level = 5e6 * (gain if settings.keys() & set(same) else 1.0)
        level *= np.prod([FACTORS.get(item, 1.02) for item in settings.items() if item[0] not in same])
        (name, value), factor = ARENA_PAYS_WITH
        if "enable_cpu_mem_arena" in settings and settings.get(name) == value:
            level *= factor
        runs = tuple(int(level * np.exp(0.01 * self.rng.standard_normal())) for _ in range(15))
        case = CaseTimes(case="x", weight=1.0, latency_ns=runs, first_ns=runs[0])
        done = TrialDone(
            load_ns=10**7, cases=(case,), cpu_ns=sum(runs), wall_ns=sum(runs), n_runs=15, peak_bytes=10**8
        )
        return Measured(plan=arm, done=done, elapsed_ns=TRIAL_NS)


@dataclass(kw_only=True)
class Race(Raced):
    """A race whose machine knows the settings of each plan."""

    machine: Machine

    def add(self, entry: Entry) -> Entry:
        """Enters a plan."""
        self.machine.plans[entry.arm] = entry.plan
        return super().add(entry)


def race(machine: Machine, *, seconds: float = 600) -> Race:
    return Race(machine=machine, end_ns=seconds * 1e9)


def screened(run: Race, *settings: dict[str, Value]) -> list[Entry]:
    entries = [run.add(Entry(plan=Plan(settings=s), origin="test")) for s in settings]
    run.go(run.screen(entries))
    return entries


def test_survivors_are_combined() -> None:
    run = race(Machine())
    leader, _ = screened(run, {"dynamic_block_base": 4}, {"allow_spinning": False})
    found = run.go(combine(run, leader, Plan()))
    assert found.plan.settings == {"dynamic_block_base": 4, "allow_spinning": False}


def test_a_small_addition_to_a_leader_with_many_blocks_is_found() -> None:
    run = race(Machine())
    leader, _ = screened(run, {"dynamic_block_base": 8}, {"allow_spinning": False})
    for _ in range(12):
        assert run.go(run.block([leader]))
    found = run.go(combine(run, leader, Plan()))
    assert found.plan.settings == {"dynamic_block_base": 8, "allow_spinning": False}


def test_a_leader_that_fails_in_a_step_is_followed_by_the_next() -> None:
    machine = Machine()
    run = race(machine)
    leader, second = screened(run, {"dynamic_block_base": 8}, {"allow_spinning": False})
    second.status = None
    leader.eliminate("failed", "timeout")
    assert run.go(combine(run, leader, Plan())) is second


def test_what_pays_only_beside_another_is_found() -> None:
    run = race(Machine())
    alone = screened(
        run, {"allow_spinning": False}, {"enable_cpu_mem_arena": False}, {"enable_mem_pattern": False}
    )
    assert not all(e.live for e in alone)
    best = run.go(combine(run, alone[0], Plan()))
    assert best.plan.settings == {"allow_spinning": False, "enable_cpu_mem_arena": False}
    assert best.origin == "combination"


def test_nothing_is_combined_where_nothing_helps() -> None:
    run = race(Machine())
    leader, _ = screened(run, {"enable_mem_pattern": False}, {"enable_cpu_mem_arena": False})
    before = len(run.blocks)
    assert run.go(combine(run, leader, Plan())) is leader
    assert len(run.blocks) == before


def test_optimisers_that_are_left_out_add_up() -> None:
    one, two = (Plan(settings={"disabled_optimizers": name}) for name in ("GeluFusion", "SliceElimination"))
    assert with_change(one, two, Plan()) == Plan(
        settings={"disabled_optimizers": "GeluFusion;SliceElimination"}
    )
    pinned = Plan(settings={"allow_spinning": False})
    assert with_change(one, Plan(settings={"allow_spinning": True}), pinned) is None


def test_a_better_value_beside_the_leader_is_found() -> None:
    run = race(Machine())
    (leader,) = screened(run, {"dynamic_block_base": 4})
    best = run.go(try_neighbours(run, leader, Plan(), 2))
    assert best.plan.settings == {"dynamic_block_base": 8}
    assert best.origin == "near the leader: dynamic_block_base=8"
    assert len(best.ratios) == 4


def test_what_is_pinned_is_not_explored() -> None:
    run = race(Machine())
    (leader,) = screened(run, {"dynamic_block_base": 4})
    run.go(try_neighbours(run, leader, Plan(settings={"dynamic_block_base": 4}), 2))
    assert list(run.entries.values()) == [leader]


def test_neighbours_that_the_budget_does_not_hold_are_named_as_not_tried() -> None:
    run = race(Machine(), seconds=14)
    (leader,) = screened(run, {"dynamic_block_base": 4})
    run.end_ns = 0
    run.go(try_neighbours(run, leader, Plan(), 2))
    near = [e for e in run.entries.values() if e is not leader]
    assert near and {e.status for e in near} == {"not-tried"}
    assert {e.why for e in near} == {ENDED}


def test_a_setting_that_does_not_pay_leaves_the_winner() -> None:
    run = race(Machine())
    (winner,) = screened(run, {"dynamic_block_base": 8, "enable_mem_pattern": False})
    pruned, costs = run.go(ablate(run, winner, Plan()))
    assert pruned.plan.settings == {"dynamic_block_base": 8}
    assert winner.status == "pruned"
    assert np.median(costs["dynamic_block_base"]) > 0.1
    assert abs(np.median(costs["enable_mem_pattern"])) < 0.02


def test_a_part_that_lost_alone_may_be_what_pruning_leaves() -> None:
    run = race(Machine())
    settings: tuple[dict[str, Value], ...] = (
        {"dynamic_block_base": 8},
        {"enable_mem_pattern": False},
        {"enable_mem_reuse": False},
    )
    alone = screened(run, *settings)
    alone[0].eliminate("eliminated", "an accident of the screening")
    winner = run.add(Entry(plan=Plan(settings={k: v for s in settings for k, v in s.items()}), origin="test"))
    assert run.go(run.block([winner]))
    pruned, _ = run.go(ablate(run, winner, Plan()))
    assert pruned.plan.settings == {"dynamic_block_base": 8}
    assert pruned.live


def test_two_parts_that_do_the_same_are_not_both_left_out() -> None:
    machine = Machine()
    machine.same = ("graph_optimization_level", "disabled_optimizers"), 0.9
    run = race(machine)
    settings: dict[str, Value] = {
        "dynamic_block_base": 8,
        "graph_optimization_level": "basic",
        "disabled_optimizers": "SkipLayerNormFusion",
    }
    (winner,) = screened(run, settings)
    pruned, costs = run.go(ablate(run, winner, Plan()))
    assert all(abs(np.median(costs[name])) < 0.02 for name in machine.same[0])
    assert "dynamic_block_base" in pruned.plan.settings
    assert len(pruned.plan.settings.keys() & set(machine.same[0])) == 1
    both = [e for e in run.entries.values() if e.plan.settings == {"dynamic_block_base": 8}]
    assert [e.status for e in both] == ["eliminated"]


def test_what_was_asked_for_is_no_part_to_prune() -> None:
    pinned = RewriteSpec(name="initializers-out-of-inputs")
    plan = Plan(settings={"allow_spinning": False}, rewrites=(pinned,))
    assert [name for name, _ in removable_parts(plan, Plan(rewrites=(pinned,)))] == ["allow_spinning"]
    assert with_only(plan, set(), Plan(rewrites=(pinned,))).rewrites == (pinned,)


def test_a_setting_that_keeps_outputs_exact_is_never_left_out() -> None:
    plan = Plan(settings={"openvino_precision": "f32", "openvino_threads": 1})
    assert [name for name, _ in removable_parts(plan, Plan())] == ["openvino_threads"]
    assert with_only(plan, set(), Plan()).settings == {"openvino_precision": "f32"}
    lower = Plan(settings={"openvino_precision": "bf16"})
    assert [name for name, _ in removable_parts(lower, Plan())] == ["openvino_precision"]


def test_plans_that_are_only_seen_have_the_time_of_the_steps_that_do_not_follow() -> None:
    def seen(*, followed: bool) -> list[Entry]:
        run = race(Machine(), seconds=20)
        (leader,) = screened(run, {"dynamic_block_base": 8})
        assert leader.median_log_ratio < -0.1
        rest = [Entry(plan=Plan(settings={"dynamic_block_base": n}), origin="test") for n in (4, 16)]
        run.go(screen_rest(run, rest, followed=followed))
        return [entry for entry in rest if entry.ratios]

    # What builds on the leader and ablates it takes 60 trials, 24 s of those that are left.
    assert not seen(followed=True)
    assert seen(followed=False)
