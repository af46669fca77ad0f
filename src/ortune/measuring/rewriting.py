"""Creates the rewritten models of a tuning's plans, each once and within a time limit."""

from __future__ import annotations

import hashlib
import math
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from ortune import files, rewrites
from ortune.graph.model.open import open_model
from ortune.measuring.sides import ResolvedSide, optimisation_part
from ortune.records import FeedRef, Plan, RewriteSpec, Runtime
from ortune.runtimes import made
from ortune.targets.task import Limits
from ortune.targets.tool import ToolFailed, ToolProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedTool:
    """A tool that stores its results, since many quantized models begin with the same steps.

    For example, models that leave different layers in float share one quantized model, and several methods share the
    preparation of the model, whether or not they calibrate.

    Attributes:
        tool: Performs tasks without a stored result.
        folder: Folder of the results, with a subfolder for each.
        failed: Preparations that failed, with their time limit in seconds; a preparation that timed out is not repeated
            with the same or a lower limit.
    """

    tool: ToolProcess
    folder: Path
    failed: dict[str, tuple[float, ToolFailed]] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """Identity of the tool, as in keys of stored results."""
        return self.tool.identity

    def __call__(self, task: str, source: Path, target: Path, params: Mapping[str, str]) -> str:
        """Perform a task, or link to its stored result; return the tool's report.

        Raises:
            OrtuneError: The tool failed, or the same preparation failed before.
        """
        tool = replace(self.tool, feeds=()) if task == rewrites.PREPARE else self.tool
        asked = (task, open_model(source).sha256, sorted(params.items()), target.name, tool.identity)
        place = self.folder / hashlib.sha256(repr(asked).encode()).hexdigest()[:16]
        had_s, failed = self.failed.get(place.name, (0.0, None))
        if failed is not None and self.tool.limits.load_s <= had_s:
            raise failed
        if not place.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True)
            # Renamed when complete, so an interrupted run leaves no incomplete result under the final name.
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
                files.link(path, target.parent / path.name)
        return (place / _WHAT).read_text(encoding="utf-8")


_WHAT = "what.txt"


def _by_provider(plan: Plan) -> bool:
    return any(rewrites.find(spec.name).by_provider for spec in plan.rewrites)


def usable_packages(runtime: Runtime) -> set[str]:
    """Return the names of the packages that rewrites may use: those of the runtime and of the installed environments.

    On a remote host only the packages of the runtime are usable.
    """
    return {*runtime.packages, *(each.name for each in made.installed() if runtime.host is None)}


def runtime_with(runtime: Runtime, specs: Sequence[RewriteSpec]) -> Runtime:
    """Return the user's runtime, or the installed runtime with the package that one of the rewrites needs."""
    needed = {rewrites.find(spec.name).needs for spec in specs} - set(runtime.packages)
    return next((each.runtime for each in made.installed() if each.name in needed), runtime)


class ModelVariants:
    """A model, and its rewritten variants.

    Attributes:
        feeds: Inputs for rewrites that run the model.
    """

    def __init__(
        self, side: ResolvedSide, folder: Path, custom_ops: tuple[str, ...], line: Callable[[str], None]
    ) -> None:
        self._side, self._folder, self._custom_ops, self._line = side, folder, custom_ops, line
        self._made: dict[str, Path] = {}
        self._not_prepared: dict[str, tuple[float, ToolFailed]] = {}
        self._rewritten = folder / "rewritten"
        self.feeds: tuple[FeedRef, ...] = ()

    @staticmethod
    def key(plan: Plan) -> str:
        """Return the key of a plan's model: the rewrites, and the provider if the model depends on it."""
        made = msgspec.structs.replace(optimisation_part(plan), rewrites=plan.rewrites)
        return (made if _by_provider(plan) else Plan(rewrites=plan.rewrites)).id

    @property
    def source(self) -> Path:
        """Path of the model without the rewrites of plans."""
        return self._side.runs

    def made(self, plan: Plan) -> Path | None:
        """Return the path of a plan's rewritten model; None without rewrites, or if the model was not created yet."""
        return self._made.get(self.key(plan))

    def path(self, plan: Plan, limit_s: float) -> Path:
        """Return the path of the model that a plan runs, which is created now if necessary.

        Raises:
            OrtuneError: The rewrites failed or exceeded the limit.
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
                plan=optimisation_part(plan) if here else Plan(),
                custom_ops=self._custom_ops,
                feeds=self.feeds if any(rewrites.find(r.name).calibrated for r in plan.rewrites) else (),
                limits=Limits(load_s=limit_s),
            )
            cached = CachedTool(tool=tool, folder=self._folder / "tool", failed=self._not_prepared)
            self._made[key] = rewrites.apply_all(self._side.model, plan.rewrites, self._rewritten, cached)
        return self._made[key]

    def drop(self, plan: Plan) -> None:
        """Delete a plan's rewritten model; ``path`` creates it again."""
        path = self._made.pop(self.key(plan), None)
        if path is not None and path.is_relative_to(
            self._rewritten
        ):  # rewrites that change nothing return the model itself
            shutil.rmtree(path.parent, ignore_errors=True)
