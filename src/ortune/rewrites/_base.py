"""Definition of a rewrite, with the checks that verify its claims on every run."""

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
"""File endings of models. A model in ORT format cannot be changed any more."""

CLEAN_UP = 0
"""Stage of rewrites that simplify a graph, so that later rewrites find their patterns."""

SHADERS_OF_FLOAT16 = "shader-f16"
"""WebGPU's name of the adapter feature for float16 arithmetic."""

ANY_NAME = "*"
"""Parameter name that matches any name, for rewrites with one parameter per name in the model, such as a dimension."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One parameter of a rewrite, given as text.

    Attributes:
        name: The parameter's name, or ``ANY_NAME``.
        default: Value if not given; a parameter at its default is not written into a plan.
        choices: Allowed values of a choice, in lower case.
        minimum: Smallest allowed integer.
        summary: One-line help text.
    """

    name: str
    kind: Literal["int", "choice", "text"]
    default: str = ""
    choices: tuple[str, ...] = ()
    minimum: int = 0
    summary: str

    def checked(self, rewrite: str, name: str, text: str) -> str:
        """Return `text` in its canonical spelling; raise UsageError with the allowed values if it is invalid."""
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
        modified: Whether the model was changed.
        what: One sentence that describes the change.
        reasons: Reasons that the rewrite, or a part of it, could not be applied.
    """

    modified: bool
    what: str
    reasons: tuple[str, ...] = ()


def unchanged(*reasons: str) -> RewriteResult:
    """Return the result of a rewrite that changed nothing, with reasons."""
    return RewriteResult(modified=False, what="Nothing was changed.", reasons=reasons)


Change = Callable[[ir.Model, Mapping[str, str]], RewriteResult]
"""Function that changes a model in place and returns the result."""

Proposed = tuple[dict[str, str], str]
"""Parameters, and one sentence with the reason to try them on a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """One model-to-model change, with either ``change`` or ``task``.

    Attributes:
        name: Name on the command line and in plans; also the module's name, with hyphens.
        summary: One-line description.
        safety: "exact" (bit-identical or reassociated sums), "numerics" (needs the tolerance) or "behaviour" (opt-in).
        hardware_bound: Whether the new model may be useful only on this kind of CPU.
        params: Parameters that the user can give.
        settings: Settings that a plan with this rewrite must also have.
        objectives: Objectives that the rewrite can improve ("cold-start", ...); empty for any.
        targets: Names of the targets on which the rewrite can improve anything; empty for all.
        adapter_feature: WebGPU feature that a browser's adapter must have; without it the rewrite is not proposed.
        stage: Position in a sequence of rewrites, lowest first. Stages before ``CLEAN_UP`` turn inputs into constants
            and fix sizes, which quantizers rely on too.
        change: Changes the model in memory.
        family: Group of alternatives, of which a plan has at most one; "" for none.
        calibrated: Whether the task needs inputs on which to run the model.
        by_provider: Whether the result of the task depends on the plan's execution provider and its options.
        task: Task of the tool process that writes the new model from file to file; "" for none.
        prepare: Task that runs before ``task``. It takes no parameters and no inputs, so all rewrites that name it
            share its result.
        makes: Suffix of the file that the task writes. No rewrite can follow a rewrite to ORT format.
        needs: Package that the task uses; the rewrite is proposed only if the environment has the package, or a runtime
            of that name was created.
        refuses: Function that returns the reasons that the task cannot do anything for a model; empty if it can.
        mends: Function that restores in the task's output (second argument) what the task lost from its input model
            (first argument).
        leaves_out: Function that returns, from the names of a model's outputs and the parameters, the outputs that the
            rewrite removes at the user's request; None for rewrites that remove no outputs.
        proposes: Function that returns the parameters to try on a model, with reasons; the workload is None if unknown.
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
        """Return whether the rewrite can improve an objective (None for any) on a target."""
        useful = not objective or not self.objectives or objective in self.objectives
        # Settings apply to a process and cannot be applied in a browser page.
        reached = not (self.settings and of_target(target).in_page)
        return useful and reached and (not self.targets or target in self.targets)

    def lacks_feature(self, target: str, features: Collection[str]) -> bool:
        """Return whether the rewrite needs a GPU feature that the browser's adapter does not report."""
        needed = self.adapter_feature if of_target(target).in_page else ""
        return bool(needed) and needed not in features

    def apply(self, model: ir.Model, params: Mapping[str, str] | None = None) -> RewriteResult:
        """Change a model in place, verify the change, and mark every new or changed node.

        Raises:
            UsageError: A parameter does not fit the rewrite or the model.
            OrtuneError: The rewrite works on files, broke the model, or misreports its effect ("rewrite-bug").
        """
        if self.change is None:
            raise OrtuneError(
                f"The rewrite {self.name} works on files, in the tool process.",
                do="Use rewrites.apply_all.",
            )
        before, was_broken = Fingerprint.from_model(model), problem(model)
        result = self.change(model, self.with_defaults(params or {}))
        self.finish(model, result, before, was_broken)
        return result

    def finish(self, model: ir.Model, result: RewriteResult, before: Fingerprint, was_broken: str) -> None:
        """Verify the effect of ``change`` on a model, and mark every new or changed node.

        Args:
            model: The model after the change.
            result: Result that ``change`` returned.
            before: Fingerprint of the model before the change.
            was_broken: The reason that the model was invalid before the change; "" if it was valid.

        Raises:
            OrtuneError: The rewrite broke the model or misreports its effect ("rewrite-bug").
        """
        differs = Fingerprint.from_model(model) != before
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
        """Validate the parameters and return them sorted and without defaults, so that equal plans compare equal.

        Raises:
            UsageError: A parameter is unknown, or its value is not allowed.
        """
        checked = {name: self._param(name).checked(self.name, name, text) for name, text in params.items()}
        kept = {name: text for name, text in checked.items() if text != self._param(name).default}
        return dict(sorted(kept.items()))

    def with_defaults(self, params: Mapping[str, str]) -> dict[str, str]:
        """Validate the parameters and return them with defaults filled in."""
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
