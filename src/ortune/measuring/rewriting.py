"""The models that the plans of a tuning run: each rewritten once, within a limit of time."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from ortune import rewrites
from ortune.graph.model.open import open_model
from ortune.measuring.sides import Resolved, as_optimised
from ortune.records import FeedRef, Plan, RewriteSpec, Runtime
from ortune.runtimes import made
from ortune.targets.task import Limits
from ortune.targets.tool import ToolFailed, ToolProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedTool:
    """A tool whose results are kept: one quantized model is the start of many that keep other layers in float.

    What prepares a model for several methods is done once for all of them, whether or not they calibrate.

    Attributes:
        tool: Does what is not there yet.
        folder: Where results lie, a folder each.
        failed: Preparations that failed, with the seconds that they had: what took too long is not begun again for
            another method that has no more of them.
    """

    tool: ToolProcess
    folder: Path
    failed: dict[str, tuple[float, ToolFailed]] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """The tool's own."""
        return self.tool.identity

    def __call__(self, task: str, source: Path, target: Path, params: Mapping[str, str]) -> str:
        """Do one task, or links to what it gave before.

        Raises:
            OrtuneError: As the tool, and as a preparation that failed before.
        """
        tool = replace(self.tool, feeds=()) if task == rewrites.PREPARE else self.tool
        asked = (task, open_model(source).sha256, sorted(params.items()), target.name, tool.identity)
        place = self.folder / hashlib.sha256(repr(asked).encode()).hexdigest()[:16]
        had_s, failed = self.failed.get(place.name, (0.0, None))
        if failed is not None and self.tool.limits.load_s <= had_s:
            raise failed
        if not place.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True)
            # Renamed once it is complete: an interrupted run leaves nothing half made under the final name.
            scratch = Path(tempfile.mkdtemp(prefix=".making-", dir=self.folder))
            try:
                what = tool(task, source, scratch / target.name, params)
            except ToolFailed as error:
                if task == rewrites.PREPARE:
                    had_s = self.tool.limits.load_s if error.reason == "timeout" else math.inf
                    self.failed[place.name] = had_s, error
                raise
            (scratch / _WHAT).write_text(what, encoding="utf-8")
            scratch.rename(place)
        for path in place.iterdir():
            if path.name != _WHAT:
                _link(path, target.parent / path.name)
        return (place / _WHAT).read_text(encoding="utf-8")


_WHAT = "what.txt"


def _by_provider(plan: Plan) -> bool:
    return any(rewrites.find(spec.name).by_provider for spec in plan.rewrites)


def _link(source: Path, goal: Path) -> None:
    try:
        os.link(source, goal)
    except OSError:  # a file system without links
        shutil.copyfile(source, goal)


def runtime_with(runtime: Runtime, specs: Sequence[RewriteSpec]) -> Runtime:
    """Return the user's own runtime, or the one that was made for the package that one of the rewrites needs."""
    needed = {rewrites.find(spec.name).needs for spec in specs} - set(runtime.packages)
    return next((each.runtime for each in made.made() if each.name in needed), runtime)


class Models:
    """The model as it is, and as each set of rewrites makes it.

    Attributes:
        feeds: What rewrites that run the model are given.
    """

    def __init__(
        self, side: Resolved, folder: Path, custom_ops: tuple[str, ...], line: Callable[[str], None]
    ) -> None:
        self._side, self._folder, self._custom_ops, self._line = side, folder, custom_ops, line
        self._made: dict[str, Path] = {}
        self._not_prepared: dict[str, tuple[float, ToolFailed]] = {}
        self._rewritten = folder / "rewritten"
        self.feeds: tuple[FeedRef, ...] = ()

    @staticmethod
    def key(plan: Plan) -> str:
        """What a plan's model is called: the same for all plans with the same rewrites, where no provider makes it."""
        made = msgspec.structs.replace(as_optimised(plan), rewrites=plan.rewrites)
        return (made if _by_provider(plan) else Plan(rewrites=plan.rewrites)).id

    def made(self, plan: Plan) -> Path | None:
        """Return a plan's rewritten model; None if it runs the model as it is, or was not made."""
        return self._made.get(self.key(plan))

    def path(self, plan: Plan, limit_s: float) -> Path:
        """Return the model that a plan runs, made now where need be.

        Raises:
            OrtuneError: It could not be made, or was cut off.
        """
        if not plan.rewrites:
            return self._side.runs
        key = self.key(plan)
        if key not in self._made:
            self._line(f"rewriting the model: {', '.join(r.name for r in plan.rewrites)}")
            here = _by_provider(plan)
            tool = ToolProcess(
                runtime=self._side.runtime_of(plan)
                if here
                else runtime_with(self._side.runtime, plan.rewrites),
                folder=self._folder,
                plan=as_optimised(plan) if here else Plan(),
                custom_ops=self._custom_ops,
                feeds=self.feeds if any(rewrites.find(r.name).calibrated for r in plan.rewrites) else (),
                limits=Limits(load_s=limit_s),
            )
            cached = CachedTool(tool=tool, folder=self._folder / "tool", failed=self._not_prepared)
            self._made[key] = rewrites.apply_all(self._side.model, plan.rewrites, self._rewritten, cached)
        return self._made[key]

    def drop(self, plan: Plan) -> None:
        """Delete a plan's rewritten model, which is made again where it is wanted again."""
        path = self._made.pop(self.key(plan), None)
        if path is not None and path.is_relative_to(
            self._rewritten
        ):  # what changes nothing gives the model itself
            shutil.rmtree(path.parent, ignore_errors=True)
