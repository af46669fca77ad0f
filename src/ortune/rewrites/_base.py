"""What a rewrite is, and the guard around it: no rewrite is believed, its claims are checked every time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import onnx_ir as ir

from ortune.catalogue.providers import of_target
from ortune.errors import OrtuneError, UsageError
from ortune.graph.written import Fingerprint
from ortune.objectives import Objective
from ortune.records import Value, Workload
from ortune.rewrites._checks import problem
from ortune.rewrites._marks import stamp

Safety = Literal["exact", "numerics", "behaviour"]

ONNX, ORT = ".onnx", ".ort"
"""Endings of models; one in ORT format is finished, and nothing can be changed in it."""

CLEAN_UP = 0
"""The stage of rewrites that make a graph plainer: others find their patterns in it."""

SHADERS_OF_FLOAT16 = "shader-f16"
"""What WebGPU calls it that an adapter computes in float16."""

ANY_NAME = "*"
"""Name of a parameter that stands for whatever names the model has (dimensions, say)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One parameter of a rewrite, given as text.

    Attributes:
        name: Its name, or ``ANY_NAME``.
        default: What it is when left out; a parameter at its default is not written into a plan.
        choices: The values of a choice.
        minimum: Smallest allowed value of an int.
        summary: One line.
    """

    name: str
    kind: Literal["int", "choice", "text"]
    default: str = ""
    choices: tuple[str, ...] = ()
    minimum: int = 0
    summary: str

    def checked(self, rewrite: str, name: str, text: str) -> str:
        """Return the value in its canonical spelling; UsageError names the allowed ones."""
        value = text.strip()
        if self.kind == "int":
            if not value.isascii() or not value.isdigit() or int(value) < self.minimum:
                raise _refused(rewrite, name, text, f"an integer of at least {self.minimum}")
            return str(int(value))
        if self.kind == "choice":
            if value.lower() not in self.choices:
                raise _refused(rewrite, name, text, " | ".join(self.choices))
            return value.lower()
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteResult:
    """The result of applying one rewrite.

    Attributes:
        modified: Whether the model is another one now.
        what: One sentence: what was changed, or that nothing was.
        reasons: Why the rewrite, or a part of it, could not be applied.
    """

    modified: bool
    what: str
    reasons: tuple[str, ...] = ()


def unchanged(*reasons: str) -> RewriteResult:
    """Make the result of a rewrite that changed nothing, with the reasons."""
    return RewriteResult(modified=False, what="Nothing was changed.", reasons=reasons)


Change = Callable[[ir.Model, Mapping[str, str]], RewriteResult]
"""Changes a model in place and says what it did."""

Proposed = tuple[dict[str, str], str]
"""Parameters, and the reason to try them on this model: one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """One model-to-model change. Either ``change`` or ``task`` is given.

    Attributes:
        name: Its name on the command line and in plans; the file is named for it.
        summary: One line.
        safety: "exact" (bit-identical or reassociated sums), "numerics" (needs the tolerance), "behaviour" (opt-in).
        hardware_bound: The new model may be of use on this kind of CPU only.
        params: What can be asked of it.
        settings: What a plan with this rewrite must set besides.
        objectives: What it can improve ("cold-start", ...); empty means any.
        targets: Where it can improve anything, by the names of targets; empty means everywhere.
        adapter_feature: What a browser's GPU must have, as its adapter names it; proposed only where a page told so.
        stage: Its place in a row of rewrites: what others build on comes first. Before ``CLEAN_UP`` is what makes
            constants of what is fed, and sizes known; quantizers build on this too.
        change: The change in memory.
        family: Of rewrites of one family a plan has one: they do the same to a model in other ways.
        calibrated: Its task needs inputs to run the model on.
        by_provider: Its task uses the plan's execution provider: the new model differs with that and its options.
        task: The task of the tool process that writes the new model instead, from file to file.
        prepare: For a task: the task that is done before it. It has no parameters and needs no inputs, so its result
            serves all rewrites that name it.
        makes: The ending of what the task writes. After one in ORT format no rewrite can follow.
        needs: For a task: the package that it is done with; proposed only where the environment has it.
        refuses: For a task: why it has nothing to do for this model; empty when it has.
        mends: For a task: puts right, in its output (second), what it lost of the model it was given (first).
        leaves_out: Of the outputs of a model, by their names, those that it takes from it, since the user asked for the
            others alone; None: it takes none.
        proposes: What to try on this model; the workload is None if it is not known yet.
    """

    name: str
    summary: str
    safety: Safety
    hardware_bound: bool = False
    params: tuple[Param, ...] = ()
    settings: Mapping[str, Value] = field(default_factory=dict)
    objectives: tuple[Objective, ...] = ()
    targets: tuple[str, ...] = ()
    adapter_feature: str = ""
    stage: int = 5
    change: Change | None = None
    family: str = ""
    calibrated: bool = False
    by_provider: bool = False
    task: str = ""
    prepare: str = ""
    makes: str = ONNX
    needs: str = ""
    refuses: Callable[[ir.Model], tuple[str, ...]] | None = None
    mends: Callable[[ir.Model, ir.Model], None] | None = None
    leaves_out: Callable[[Iterable[str], Mapping[str, str]], frozenset[str]] | None = None
    proposes: Callable[[ir.Model, Workload | None], Sequence[Proposed]]

    def pays(self, objective: Objective | None, target: str) -> bool:
        """Return whether the rewrite can improve an objective (None is any) on a target."""
        useful = not objective or not self.objectives or objective in self.objectives
        # What a plan must set besides is a setting of a process, which a page cannot be told.
        reached = not (self.settings and of_target(target).in_page)
        return useful and reached and (not self.targets or target in self.targets)

    def lacks_feature(self, target: str, features: Collection[str]) -> bool:
        """Return whether the rewrite needs a GPU feature that the browser's adapter does not report."""
        needed = self.adapter_feature if of_target(target).in_page else ""
        return bool(needed) and needed not in features

    def apply(self, model: ir.Model, params: Mapping[str, str] | None = None) -> RewriteResult:
        """Change a model in place, verifies the change, and marks every new or changed node.

        Raises:
            UsageError: A parameter does not fit the rewrite or the model.
            OrtuneError: The rewrite broke the model or its claim is false ("rewrite-bug").
        """
        if self.change is None:
            raise OrtuneError(
                f"The rewrite {self.name} works on files, in the tool process.",
                do="Use rewrites.apply_all.",
            )
        before, was_broken = Fingerprint.of(model), problem(model)
        result = self.change(model, self.with_defaults(params or {}))
        self.finish(model, result, before, was_broken)
        return result

    def finish(self, model: ir.Model, result: RewriteResult, before: Fingerprint, was_broken: str) -> None:
        """Verify what ``change`` did to a model, and marks every new or changed node.

        Args:
            model: After the change.
            result: What the change says of it.
            before: The model before it.
            was_broken: Why it did not hang together before; "" when it did.

        Raises:
            OrtuneError: The rewrite broke the model or its claim is false ("rewrite-bug").
        """
        differs = Fingerprint.of(model) != before
        if differs and not result.modified:
            raise self._bug("changed the model but reported no change")
        if result.modified and not differs:
            raise self._bug("reported a change but did not change the model")
        if differs and not was_broken:
            self.require_whole(model)
        if differs:
            stamp(model, before, self.name)

    def require_whole(self, model: ir.Model) -> None:
        """Raise OrtuneError ("rewrite-bug") if the rewrite left an invalid model."""
        broken = problem(model)
        if broken:
            raise self._bug(f"broke the model: {broken}")

    def _bug(self, what: str) -> OrtuneError:
        return OrtuneError(
            f"The rewrite {self.name} {what}.",
            where="rewrites",
            do="This is a bug in ortune. Omit the rewrite, and report it with the model.",
            code="rewrite-bug",
        )

    def canonical(self, params: Mapping[str, str]) -> dict[str, str]:
        """Return the parameters validated, sorted and without defaults, so equal plans compare equal.

        Raises:
            UsageError: A parameter is not known, or its value not allowed.
        """
        checked = {name: self._param(name).checked(self.name, name, text) for name, text in params.items()}
        kept = {name: text for name, text in checked.items() if text != self._param(name).default}
        return dict(sorted(kept.items()))

    def with_defaults(self, params: Mapping[str, str]) -> dict[str, str]:
        """Return the parameters validated, with defaults filled in."""
        defaults = {p.name: p.default for p in self.params if p.name != ANY_NAME}
        return {**defaults, **self.canonical(params)}

    def _param(self, name: str) -> Param:
        for param in self.params:
            if param.name in (name, ANY_NAME):
                return param
        names = ", ".join(p.name for p in self.params)
        raise UsageError(
            f"the rewrite {self.name} has no parameter {name!r}",
            where="--rewrite",
            do=f"available parameters: {names}"
            if names
            else f"this rewrite has no parameters; use --rewrite {self.name}",
        )


def _refused(rewrite: str, name: str, text: str, allowed: str) -> UsageError:
    return UsageError(
        f"{text!r} is not a valid value for {name} of the rewrite {rewrite}",
        where="--rewrite",
        do=f"allowed: {allowed}",
    )
