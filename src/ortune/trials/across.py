"""Plans on other targets than the baseline's: each with a runtime that has its provider, in the same blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ortune import targets
from ortune.errors import RuntimeNotFound
from ortune.fleet import made
from ortune.records import Failed, Plan, Runtime
from ortune.targets import Target
from ortune.trials.baseline import Baseline
from ortune.trials.sides import Resolved


def with_targets(side: Resolved, names: Sequence[str], say: Callable[[str], None]) -> Resolved:
    """The side with a runtime for each target whose provider its own runtime lacks, made where it is not there yet.

    Raises:
        UsageError: No target is called so.
        RuntimeNotFound: None has the provider, and none can be made.
    """
    wanted = [targets.find(name) for name in names]
    found = {each.name: _runtime(each, side.runtime, say) for each in wanted if each.providers}
    return replace(side, elsewhere=found)


def _runtime(target: Target, own: Runtime, say: Callable[[str], None]) -> Runtime:
    report = target.discover(target, own)
    if report.usable:
        return own
    if not target.made:
        raise RuntimeNotFound(
            report.why, where=f"--targets {target.name}", do="name a build that has it: --runtime PATH"
        )
    return made.find(target.made, say)


def tried(baseline: Baseline, name: str) -> tuple[Plan, str]:
    """The plan that is a target's default, and why it does not run this model; "" where it does."""
    target = targets.find(name)
    plan = Plan(providers=target.providers)
    outcome = baseline.executor.trial(baseline.arm(name, plan=plan), runs=0)
    if isinstance(outcome, Failed):
        first = outcome.what.strip().splitlines()[0] if outcome.what.strip() else ""
        return plan, f"{plan.describe()} does not run this model: {outcome.reason}: {first[:240]}"
    baseline.live_with(outcome)
    return plan, ""
