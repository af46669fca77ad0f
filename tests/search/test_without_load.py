"""The part of a leader that is confirmed too, since its settings of threads may gain next to other programs alone."""

from __future__ import annotations

import pytest
from waiting_blocks import ROUNDS, WAITED, blocks

from ortune.records import Plan, RewriteSpec
from ortune.search.without_load import without_load_settings
from simulated_machine import HOST

FOLDED = (RewriteSpec(name="affine-into-weights"),)
BUSY = blocks(0.8, WAITED)


def test_rewrites_and_other_settings_stay_and_threads_go() -> None:
    leader = Plan(
        rewrites=FOLDED,
        settings={"intra_op_num_threads": 1, "allow_spinning": False, "enable_mem_pattern": False},
    )
    assert without_load_settings(leader, Plan(), BUSY, HOST) == Plan(
        rewrites=FOLDED, settings={"enable_mem_pattern": False}
    )


def test_threads_of_what_runs_today_stay_as_they_are() -> None:
    today = Plan(settings={"intra_op_num_threads": 2})
    leader = Plan(rewrites=FOLDED, settings={"intra_op_num_threads": 1})
    rest = without_load_settings(leader, today, BUSY, HOST)
    assert rest is not None and rest.rewrites == FOLDED and rest.settings == today.settings


@pytest.mark.parametrize(
    "leader",
    [
        Plan(settings={"intra_op_num_threads": 1}),
        Plan(rewrites=FOLDED),
        Plan(settings={"enable_mem_pattern": False}),
    ],
)
def test_a_plan_of_one_kind_has_no_rest(leader: Plan) -> None:
    assert without_load_settings(leader, Plan(), BUSY, HOST) is None


@pytest.mark.parametrize("used_cpus", [0.0, 0.1, None])
def test_a_quiet_machine_costs_no_further_trials(used_cpus: float | None) -> None:
    leader = Plan(rewrites=FOLDED, settings={"intra_op_num_threads": 1})
    quiet = blocks(0.8, (0.0,) * ROUNDS, used_cpus=used_cpus)
    assert without_load_settings(leader, Plan(), quiet, HOST) is None
