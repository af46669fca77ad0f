"""``ortune check``: what rules find in model files, without running them; and the fixes that need no proof."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ortune import files, rewrites, rules, targets
from ortune.errors import OrtuneError, UsageError
from ortune.experiment import verification
from ortune.experiment.document import document
from ortune.experiment.opening import exclusive
from ortune.experiment.scratch import scratch_folder
from ortune.experiment.watcher import Watcher
from ortune.inputs import workload
from ortune.inputs.run_cost import run_cost
from ortune.model import from_git
from ortune.model.open import OpenModel, open_model
from ortune.model.save import deliver_model, staged_model
from ortune.records import (
    CheckedModel,
    CheckResult,
    Envelope,
    ErrorInfo,
    Finding,
    FixedModel,
    RewriteSpec,
    Workload,
)
from ortune.rules import Facts, Rule, Selection, prize
from ortune.targets.machine import Machine
from ortune.verbs._options import (
    OUT,
    AnyPath,
    Argument,
    Configured,
    Option,
    Page,
    RuntimeOption,
    named,
)

FORMATS = ("text", "json", "github", "sarif", "markdown", "html")
STOPPING = ""

SEVERITIES = ("error", "warning", "note")
COUNTED_NODES = 5_000
"""Up to here the operations of a model are counted for the shares: at 0.1 ms a node, half a second."""
ROUNDS = 3
"""A fix may leave what another takes up; a fixed model needs no third look."""
WHICH = "Which rules"
CONFIGURED = {"select": list, "ignore": list, "preview": bool, "fail-on": str}


@dataclass(frozen=True, kw_only=True)
class Options(Configured):
    """What slows down these models, according to their files? Runs nothing and needs no ONNX Runtime.

    Exact fixes (which change only the order of sums) are marked [*]; --fix writes them to NAME.fixed.onnx. If an
    onnxruntime is available, the outputs of the copy are compared first. Rules are selected by options, or for a
    project in ortune.toml ([check]) or pyproject.toml ([tool.ortune.check]).
    """

    models: Annotated[
        Sequence[AnyPath],
        Argument("MODEL...", "model.onnx, model.ort or model.onnx@revision; several at once."),
    ]
    select: Annotated[
        Sequence[str],
        Option("--select", "CODE", "Only these rules: codes, code prefixes, or names. Repeatable.", WHICH),
    ] = ()
    ignore: Annotated[
        Sequence[str], Option("--ignore", "CODE", "Exclude these rules. Repeatable.", WHICH)
    ] = ()
    preview: Annotated[bool, Option("--preview", "", "Include preview rules.", WHICH)] = False
    fail_on: Annotated[
        str | None,
        Option(
            "--fail-on",
            "SEVERITY",
            "Exit with 1 at this severity or above: error, warning, note or never. [warning]",
            WHICH,
        ),
    ] = None
    fix: Annotated[
        bool, Option("--fix", "", "Write a copy of each model with the exact fixes applied.", OUT)
    ] = False
    unsafe_fixes: Annotated[
        bool, Option("--unsafe-fixes", "", "Also apply fixes that change outputs or accepted inputs.", OUT)
    ] = False
    diff: Annotated[bool, Option("--diff", "", "Show how the fixes would change the operators.", OUT)] = False
    output: Annotated[
        AnyPath | None,
        Option(
            "--output",
            "FILE",
            "File for the fixed model. Default: NAME.fixed.onnx.",
            OUT,
            short="-o",
            again=False,
            writes=True,
        ),
    ] = None
    in_place: Annotated[bool, Option("--in-place", "", "Overwrite the checked model.", OUT)] = False
    runtime: RuntimeOption = None
    report: Page = None

    answer = None
    """Where the document goes: stdout, since ``output`` is the fixed model's place."""

    @cached_property
    def configured(self) -> tuple[Mapping[str, Any], str]:
        """What the project says, and the file that says it."""
        return _configuration(Path.cwd())

    @cached_property
    def selection(self) -> Selection:
        """Which rules are asked: what is typed comes before what the project says."""
        said, file = self.configured
        try:
            Selection(select=said.get("select", ()), ignore=said.get("ignore", ()))
        except UsageError as error:
            raise UsageError(error.what, where=file, do=error.do) from error
        return Selection(
            select=_codes(self.select) or tuple(said.get("select", ())),
            ignore=(*_codes(self.ignore), *said.get("ignore", ())),
            preview=self.preview or bool(said.get("preview")),
        )

    @cached_property
    def severity(self) -> str:
        """From which on findings fail the check."""
        said, file = self.configured
        severity = self.fail_on or said.get("fail-on", "warning")
        if severity not in (*SEVERITIES, "never"):
            where = "--fail-on" if self.fail_on else f"{file}: fail-on"
            raise UsageError(
                f"{severity!r} is not a severity", where=where, do="error, warning, note or never"
            )
        return str(severity)

    @cached_property
    def destination(self) -> Path | None:
        """The fixed model's place, where one is asked for."""
        if not self.models:
            raise UsageError("no model was given", do="ortune check MODEL.onnx")
        for option, is_set in (("--output", self.output is not None), ("--in-place", self.in_place)):
            if is_set and not self.fix:
                raise UsageError("nothing is fixed", where=option, do="add --fix")
        if self.unsafe_fixes and not (self.fix or self.diff):
            raise UsageError("nothing is fixed", where="--unsafe-fixes", do="add --fix, or --diff")
        if self.output and (self.in_place or len(self.models) > 1):
            raise UsageError(
                "one output file cannot hold several models",
                where="--output",
                do=("omit it; each model is written to NAME.fixed.onnx"),
            )
        return None if self.output is None else Path(self.output)


def run(options: Options, watcher: Watcher | None = None) -> Envelope[CheckResult]:
    """Checks every model; one that cannot be read does not keep the others from being checked.

    Raises:
        UsageError: An option, or the project's own configuration, cannot be used.
    """
    watch, machine = watcher or Watcher(), Machine()
    asked = [rule for rule in options.selection.rules() if rule.family in rules.ABOUT_MODELS]
    if not asked:
        raise UsageError("no rules are selected", where="--select", do="ortune explain lists all of them")
    with scratch_folder() as scratch:
        models = [_Check(options, asked, machine, scratch, watch).model(str(text)) for text in options.models]
    result = CheckResult(
        models=tuple(models),
        n_rules=len(asked),
        fail_on=options.severity,
        failed=any(_left(model, options.severity) for model in models),
        configuration=options.configured[1],
        titles={
            code: rules.all_rules()[code].title
            for code in sorted({f.code for m in models for f in m.findings})
        },
    )
    return document("check", result, host=machine.host)


def exit_code(envelope: Envelope[CheckResult]) -> int:
    """2 where a file could not be read or written, else 1 where findings are left that fail the check."""
    assert envelope.result is not None
    if any(model.error for model in envelope.result.models):
        return UsageError.exit_code
    return int(envelope.result.failed)


def _left(model: CheckedModel, severity: str) -> bool:
    """Whether anything is left that fails the check: what was fixed in a file is not."""
    if severity == "never":
        return False
    written = model.fixed is not None and model.fixed.path
    findings = model.fixed.remaining if model.fixed is not None and written else model.findings
    worst = SEVERITIES[: SEVERITIES.index(severity) + 1]
    return any(finding.severity in worst for finding in findings)


class _Check:
    """One call of the verb."""

    def __init__(
        self, options: Options, asked: Sequence[Rule], machine: Machine, scratch: Path, watch: Watcher
    ) -> None:
        self.options, self.asked, self.machine, self.scratch, self.watch = (
            options,
            asked,
            machine,
            scratch,
            watch,
        )

    def model(self, text: str) -> CheckedModel:
        """One model; an error is part of what is said of it."""
        checked = CheckedModel(path=text)
        self.watch.line(f"reading {text}")
        try:
            opened = self._open(text)
            checked = msgspec.structs.replace(
                checked, n_nodes=opened.facts.n_nodes, findings=self._findings(opened)
            )
            wanted = self.options.fix or self.options.diff
            if wanted and (specs := self._fixes(checked.findings)):
                self.watch.line(f"fixing {text}")
                checked = msgspec.structs.replace(checked, fixed=self._fixed(text, opened, specs))
        except OrtuneError as error:
            problem = ErrorInfo(code=error.code, what=error.what, where=error.where, do=error.do)
            return msgspec.structs.replace(checked, error=problem)
        return checked

    def _open(self, text: str) -> OpenModel:
        git = from_git.split(text)
        return open_model(from_git.checkout(*git, self.scratch / "git") if git else Path(text))

    def _findings(self, opened: OpenModel) -> tuple[Finding, ...]:
        facts = Facts(
            model=opened,  # not what it would be fed: sizes that were guessed are nobody's fault
            plan=self.options.common,
            target=targets.of(self.options.common).name,
            host=self.machine.host,
        )
        findings = rules.found_by(self.asked, facts)
        feeds = self.options.feeds
        typed = bool(feeds.shapes or feeds.dims or feeds.inputs)
        if opened.facts.n_nodes > COUNTED_NODES or not (findings or typed):
            return findings
        work = self._work(opened)
        if work is None or not work.cases:
            return findings
        return prize.estimated(findings, opened.ir, run_cost(opened.ir, work)[1])

    def _work(self, opened: OpenModel) -> Workload | None:
        """What the model would be fed; None where that cannot be told without running it."""
        feeds = self.options.feeds
        try:
            return workload.propose(
                opened.ir,
                shapes=feeds.shapes,
                dims=feeds.dims,
                inputs_path=feeds.inputs,
                custom_ops=tuple(feeds.custom_ops),
            )
        except OrtuneError:
            if feeds.shapes or feeds.dims or feeds.inputs:
                raise
            return None

    def _fixes(self, findings: Sequence[Finding]) -> tuple[RewriteSpec, ...]:
        unsafe = self.options.unsafe_fixes
        plans = [f.plan for f in findings if f.plan is not None and rules.fixable(f, unsafe=unsafe)]
        specs: list[RewriteSpec] = []
        for plan in plans:
            specs += [spec for spec in plan.rewrites if spec not in specs]
        return tuple(specs)

    def _fixed(self, text: str, opened: OpenModel, specs: Sequence[RewriteSpec]) -> FixedModel | None:
        applied: list[RewriteSpec] = []
        what: list[str] = []
        last, remaining = opened, tuple[Finding, ...]()
        for number in range(ROUNDS):
            rewritten = rewrites.rewrite_model(
                last, rewrites.in_order(specs), self.scratch / f"fixed-{number}"
            )
            done = [step for step in rewritten.steps if step.result.modified]
            if not done:
                break
            applied += [step.spec for step in done]
            what += [step.result.what for step in done]
            last = open_model(rewritten.path)
            remaining = self._findings(last)
            specs = self._fixes(remaining)
            if not specs:
                break
        if not applied:
            return None
        fixed = FixedModel(
            rewrites=tuple(applied),
            what=tuple(what),
            before=dict(opened.op_counts),
            after=dict(last.op_counts),
            remaining=remaining,
        )
        return self._delivered(text, opened, last, fixed) if self.options.fix else fixed

    def _delivered(self, text: str, opened: OpenModel, last: OpenModel, fixed: FixedModel) -> FixedModel:
        """The fixed model in its place, once it was run; weights beside it where the model's own are."""
        if self.options.in_place and from_git.split(text):
            raise UsageError("a git revision cannot be changed", where=text, do="omit --in-place")
        usual = Path.cwd() if from_git.split(text) else opened.path.parent
        typed = opened.path if self.options.in_place else self.options.destination
        place = typed or usual / f"{opened.path.stem}.fixed.onnx"
        if opened.external and self.options.in_place:
            raise UsageError("external data files are not replaced", where=text, do="omit --in-place")
        moves = any(rewrites.find(spec.name).safety != "exact" for spec in fixed.rewrites)
        with staged_model(last.ir, place, external=bool(opened.external)) as staged:
            with exclusive(f"check --fix {text}", self.watch, wait=True):
                outcome = verification.verify(
                    opened,
                    staged,
                    fixed.rewrites,
                    plan=self.options.common,
                    runtime=named(self.options.runtime),
                    inputs=self.options.feeds,
                    scratch=self.scratch,
                    machine=self.machine,
                    line=self.watch.line,
                    moves=moves,
                )
            deliver_model(staged, place, typed=typed is not None, replace=True)
        return msgspec.structs.replace(fixed, path=str(place), verification=outcome)


def _codes(texts: Sequence[str]) -> tuple[str, ...]:
    """Codes as they are typed: one an option, or several with commas between."""
    return tuple(part.strip() for text in texts for part in text.split(",") if part.strip())


def _configuration(folder: Path) -> tuple[Mapping[str, Any], str]:
    """The nearest ``[check]`` of an ortune.toml, or ``[tool.ortune.check]`` of a pyproject.toml, from here upwards."""
    for place in (folder, *folder.parents):
        for name, keys in (("ortune.toml", ("check",)), ("pyproject.toml", ("tool", "ortune", "check"))):
            path = place / name
            if files.is_file(path) and (said := _section(path, keys)) is not None:
                return said, str(path)
    return {}, ""


def _section(path: Path, keys: Sequence[str]) -> Mapping[str, Any] | None:
    try:
        said: Any = tomllib.loads(files.read(path).decode())
    except (OSError, ValueError, RecursionError) as error:  # lists within lists
        raise UsageError(f"cannot be read: {error}", where=str(path), do="correct the file") from error
    for key in keys:
        said = said.get(key) if isinstance(said, dict) else None
    if said is None:
        return None
    for key, value in said.items() if isinstance(said, dict) else [("check", said)]:
        kind = CONFIGURED.get(key)
        understood = kind is not None and isinstance(value, kind)
        if not understood or (isinstance(value, list) and not all(isinstance(item, str) for item in value)):
            wanted = {list: "a list of strings", bool: "true or false", str: "a text"}
            allowed = f"{key} is {wanted[kind]}" if kind else f"valid keys: {', '.join(CONFIGURED)}"
            raise UsageError(f"{key} = {value!r} is not understood", where=str(path), do=allowed)
    return dict(said)
