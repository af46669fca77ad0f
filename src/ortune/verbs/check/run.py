"""``ortune check``: applies rules to model files without running the models, and writes fixed models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from ortune import rewrites, rules
from ortune.errors import OrtuneError, UsageError
from ortune.graph.model import from_git
from ortune.graph.model.open import OpenModel, open_model
from ortune.graph.model.save import deliver_model, staged_model
from ortune.measuring.document import document
from ortune.measuring.scratch import scratch_folder
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope, Finding, RewriteSpec, Workload
from ortune.rules import Rule, expected_gains
from ortune.targets.machine import Machine
from ortune.verbs._shared.attempt import error_info, result_or_error
from ortune.verbs._shared.facts import facts_of
from ortune.verbs._shared.severities import fails
from ortune.verbs._shared.spelling import named
from ortune.verbs._shared.watching import with_words
from ortune.verbs.check.options import Options
from ortune.verbs.check.result import CheckedModel, CheckResult, FixedModel

COUNTED_NODES = 5_000
"""Maximum number of nodes for which operations are counted, which takes about 0.1 ms per node."""
ROUNDS = 3
"""Maximum number of rounds of fixes: a fix can enable another fix, and two rounds are usually enough."""


def run(options: Options, watcher: Watcher | None = None) -> Envelope[CheckResult]:
    """Check every model; an unreadable model does not prevent the check of the others.

    Raises:
        UsageError: An option or the project's configuration is invalid.
    """
    watch, machine = with_words(watcher), Machine()
    asked = options.selection.rules(rules.ABOUT_MODELS)
    if not asked:
        raise UsageError("no rules are selected", where="--select", do="ortune explain lists all of them")
    with scratch_folder() as scratch:
        check = _Check(options, asked, machine, scratch, watch)
        models = [check.model(text) for text in options.paths]
    named = {finding.code for model in models for finding in model.findings}
    result = CheckResult(
        models=tuple(models),
        n_rules=len(asked),
        fail_on=options.severity,
        failed=any(_fails(model, options.severity) for model in models),
        configuration=options.configured[1],
        titles={rule.code: rule.title for rule in asked if rule.code in named},
    )
    verified = [
        m.fixed.verification for m in models if m.fixed is not None and m.fixed.verification is not None
    ]
    alerts = [alert for verification in verified for alert in verification.alerts]
    return document("check", result, host=machine.host, alerts=alerts)


def exit_code(envelope: Envelope[CheckResult]) -> int:
    """Return 4 for a bug in ortune, 2 for an unreadable or unwritable file, 1 if findings fail the check, else 0."""
    assert envelope.result is not None
    errors = [model.error.code for model in envelope.result.models if model.error]
    if errors:
        return OrtuneError.exit_code if OrtuneError.default_code in errors else UsageError.exit_code
    return int(envelope.result.failed)


def _fails(model: CheckedModel, severity: str) -> bool:
    """Return whether findings that fail the check remain; findings that a written file fixes do not count."""
    written = model.fixed is not None and model.fixed.path
    findings = model.fixed.remaining if model.fixed is not None and written else model.findings
    return fails(findings, severity)


class _Check:
    """A running check."""

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
        """Check one model; an error becomes part of its result."""
        checked = CheckedModel(path=text)
        self.watch.line(f"reading {text}")

        def check() -> None:
            nonlocal checked
            opened = self._open(text)
            checked = msgspec.structs.replace(
                checked, n_nodes=opened.facts.n_nodes, findings=self._findings(opened)
            )
            wanted = self.options.fix or self.options.diff
            if wanted and (specs := self._fixes(checked.findings)):
                self.watch.line(f"fixing {text}")
                checked = msgspec.structs.replace(checked, fixed=self._fixed(text, opened, specs))

        error = result_or_error(check, self.watch.say)
        if error is None:
            return checked
        # What was found before the error stays in the answer.
        return msgspec.structs.replace(checked, error=error_info(error))

    def _open(self, text: str) -> OpenModel:
        git = from_git.split(text)
        return open_model(from_git.checkout(*git, self.scratch / "git") if git else Path(text))

    def _findings(self, opened: OpenModel) -> tuple[Finding, ...]:
        feeds = self.options.feeds
        facts = facts_of(opened, self.options.common, self.machine.host, feeds.words)
        findings = rules.found_by(self.asked, facts)
        typed = bool(feeds.shapes or feeds.dims or feeds.inputs)
        if opened.facts.n_nodes > COUNTED_NODES or not (findings or typed):
            return findings
        work = self._work(opened)
        if work is None or not work.cases:
            return findings
        from ortune.inputs.run_cost import run_cost

        return expected_gains.estimated(findings, opened.ir, run_cost(opened.ir, work)[1])

    def _work(self, opened: OpenModel) -> Workload | None:
        """Return a workload for a model; None if its shapes cannot be determined without running the model."""
        from ortune.inputs import workload

        feeds = self.options.feeds
        try:
            return workload.propose(
                opened.ir,
                shapes=feeds.shapes,
                dims=feeds.dims,
                inputs_path=feeds.inputs,
                image=feeds.image,
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
        """Verify the fixed model by running it, then write it, with external data if the original has external data."""
        # Imported here: it loads a hundred modules for measuring, which a mere check of a file does not need.
        from ortune.engines import verification

        if self.options.in_place and from_git.split(text):
            raise UsageError("a git revision cannot be changed", where=text, do="omit --in-place")
        usual = Path.cwd() if from_git.split(text) else opened.path.parent
        typed = opened.path if self.options.in_place else self.options.destination
        place = typed or usual / f"{opened.path.stem}.fixed.onnx"
        if opened.external and self.options.in_place:
            raise UsageError("external data files are not replaced", where=text, do="omit --in-place")
        moves = any(rewrites.find(spec.name).safety != "exact" for spec in fixed.rewrites)
        with staged_model(last.ir, place, external=bool(opened.external)) as staged:
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
