"""The models that the plans of a tuning run: each rewritten once, within a limit of time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ortune import rewrites
from ortune.records import FeedRef, Plan
from ortune.targets.task import Limits
from ortune.targets.tool import ToolProcess
from ortune.trials.sides import Resolved


class Models:
    """The model as it is, and as each set of rewrites makes it.

    Attributes:
        feeds: What rewrites that run the model are given.
    """

    def __init__(
        self, side: Resolved, folder: Path, custom_ops: tuple[str, ...], say: Callable[[str], None]
    ) -> None:
        self._side, self._folder, self._custom_ops, self._say = side, folder, custom_ops, say
        self._made: dict[str, Path] = {}
        self.feeds: tuple[FeedRef, ...] = ()

    @staticmethod
    def key(plan: Plan) -> str:
        """What a plan's model is called: the same for all plans with the same rewrites."""
        return Plan(rewrites=plan.rewrites).id

    def made(self, plan: Plan) -> Path | None:
        """A plan's rewritten model; None where it runs the model as it is, or was not made."""
        return self._made.get(self.key(plan))

    def path(self, plan: Plan, limit_s: float) -> Path:
        """The model that a plan runs, made now where need be.

        Raises:
            OrtuneError: It could not be made, or was cut off.
        """
        if not plan.rewrites:
            return self._side.runs
        key = self.key(plan)
        if key not in self._made:
            self._say(f"rewriting the model: {', '.join(r.name for r in plan.rewrites)}")
            tool = ToolProcess(
                runtime=self._side.runtime,
                folder=self._folder,
                custom_ops=self._custom_ops,
                feeds=self.feeds if any(rewrites.find(r.name).calibrated for r in plan.rewrites) else (),
                limits=Limits(load_s=limit_s),
            )
            self._made[key] = rewrites.apply_all(
                self._side.model, plan.rewrites, self._folder / "rewritten", tool
            )
        return self._made[key]
