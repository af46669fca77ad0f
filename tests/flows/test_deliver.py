"""What a tuning hands over to the bundle."""

from __future__ import annotations

import pytest

from ortune import rewrites
from ortune.flows.deliver import _model_settings
from ortune.records import Plan, RewriteSpec, Value

OPTIMIZED = RewriteSpec(name="ort-optimized-model")
PLAIN = RewriteSpec(name="initializers-out-of-inputs")


@pytest.mark.parametrize(
    ("specs", "settings", "names"),
    [
        ((OPTIMIZED,), {"graph_optimization_level": "disable"}, ("graph_optimization_level",)),
        ((OPTIMIZED, PLAIN), {"graph_optimization_level": "disable"}, ("graph_optimization_level",)),
        # The user's own choice, and a model that runs everywhere.
        ((OPTIMIZED,), {"graph_optimization_level": "basic"}, ()),
        ((PLAIN,), {"graph_optimization_level": "disable"}, ()),
        ((), {"intra_op_num_threads": 1}, ()),
    ],
)
def test_settings_that_a_bound_rewrite_brought(
    specs: tuple[RewriteSpec, ...], settings: dict[str, Value], names: tuple[str, ...]
) -> None:
    plan = Plan(rewrites=specs, settings={"allow_spinning": False, **settings})
    assert _model_settings(plan) == names


def test_what_a_rewrite_brings_is_found_in_its_own_plan() -> None:
    plan = Plan(rewrites=(OPTIMIZED,), settings=rewrites.settings_for([OPTIMIZED]))
    assert set(_model_settings(plan)) == set(plan.settings) != set()
