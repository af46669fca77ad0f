"""However long a process takes to start, a budget keeps time to write the answer, which is work of the same kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ortune import monotonic
from ortune.search.fixed import LEAST_EXPLORED
from ortune.search.phases import DELIVERY_SHARE
from ortune.verbs import run_verb
from ortune.verbs.bench import options as bench_options
from ortune.verbs.bench import run as bench
from ortune.verbs.compare import options as compare_options
from ortune.verbs.compare import run as compare
from ortune.verbs.diagnose import options as diagnose_options
from ortune.verbs.diagnose import run as diagnose
from ortune.verbs.look import options as look_options
from ortune.verbs.look import run as look
from simulated_machine import Lab, measuring_on, net

BUDGET_S = 12.0
VERBS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "compare": (compare, compare_options.Options, {"a": "", "b_set": ["intra=1"], "no_why": True}),
    "bench": (bench, bench_options.Options, {"model": ""}),
    "diagnose": (diagnose, diagnose_options.Options, {"model": ""}),
    "look": (look, look_options.Options, {"model": ""}),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("before_s", [0.5, 6.0])
def test_the_last_trial_ends_before_the_time_of_the_answer(
    verb: str, before_s: float, tmp_path: Path
) -> None:
    module, options, fields = VERBS[verb]
    model = net(tmp_path)
    fields = {name: value or model for name, value in fields.items()}
    lab = Lab(3)
    with measuring_on(lab):
        began_s = monotonic.now_s() - before_s
        asked = options(**fields, budget=BUDGET_S, store=tmp_path / "store")
        envelope = run_verb(module, asked, None, began_s)
        spent_s = monotonic.now_s() - began_s
    assert envelope.error is None
    assert spent_s + DELIVERY_SHARE * before_s <= BUDGET_S
    # What an answer does not need is measured in; the others may be through before.
    if verb == "bench":
        assert spent_s > 0.6 * BUDGET_S


@pytest.mark.parametrize("budget_s", [6.0, 8.0])
def test_the_fewest_blocks_of_a_test_come_before_starts_and_a_reason(budget_s: float, tmp_path: Path) -> None:
    with measuring_on(Lab(3)):
        began_s = monotonic.now_s() - 1.0
        asked = compare_options.Options(
            a=net(tmp_path), b_set=["intra=1"], budget=budget_s, store=tmp_path / "store"
        )
        envelope = run_verb(compare, asked, None, began_s)
        spent_s = monotonic.now_s() - began_s
    comparison = envelope.result.comparison
    assert comparison is not None and comparison.n_blocks >= LEAST_EXPLORED
    assert spent_s <= budget_s
