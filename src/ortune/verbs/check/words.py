"""Text of a check: one line per finding, as linters print it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ortune.printable import operand
from ortune.records import Envelope, Finding, OutputDifference, Severity, Verification
from ortune.show import finding_words
from ortune.show.document import Annotation, Block, Document, Level, Line, Points, Tone
from ortune.show.numbers import whole_percent
from ortune.show.output_words import outputs
from ortune.verbs.check.result import CheckedModel, CheckResult, FixedModel

NAMED = 3


def document(envelope: Envelope[CheckResult]) -> Document:
    """Return the document of a check: each model's findings and fixes, then the number of findings."""
    result = envelope.result
    assert result is not None
    blocks: list[Block] = []
    for model in result.models:
        blocks += [
            Line(f"{model.path}: {finding_text(finding)}", TONES[finding.severity], whole=True)
            for finding in model.findings
        ]
        blocks += after_findings(model)
    blocks += end(result)
    annotations = [annotation for model in result.models for annotation in _annotations(model)]
    return Document(title="ortune check", blocks=blocks, annotations=annotations, dense=True)


def after_findings(model: CheckedModel) -> Iterator[Block]:
    """Yield the fixes of a model, and its error if it could not be checked."""
    if model.fixed is not None:
        yield from _fixed(model.path, model.fixed)
    if model.error is not None:
        yield Line(f"{_trouble(model)} {model.error.do}", "stop", whole=True)


TONES: Mapping[Severity, Tone] = {"error": "stop", "warning": "look", "note": ""}
_LEVELS: Mapping[Severity, Level] = {"error": "error", "warning": "warning", "note": "notice"}


def finding_text(finding: Finding) -> str:
    """Return a finding in one line: code, "[*]" if fixable, what, where, evidence, share of the work, and the fix."""
    evidence = finding.evidence if finding.evidence not in finding.what else ""
    share = f"; {evidence}" if evidence else ""
    if finding.share_ratio is not None:
        kind = "of the run" if finding.share_from == "profile" else "of the estimated work"
        share += f"; {whole_percent(finding.share_ratio)} {kind}"
    ground = finding_words.estimate(finding)
    share += f"; {ground}" if ground else ""
    mark = " [*]" if _exact(finding) else ""
    return f"{finding.code}{mark} {finding.what}{finding_words.places(finding)}{share}{_do(finding)}"


def _do(finding: Finding) -> str:
    if finding.fix:
        return f" -> {finding.fix}"
    if finding.plan is None or _exact(finding):
        return ""
    changes = [f"--rewrite {spec.name}" for spec in finding.plan.rewrites]
    changes += [f"--set {name}={value}" for name, value in finding.plan.settings.items()]
    return f" -> {' '.join(changes)}"


def _exact(finding: Finding) -> bool:
    plan = finding.plan
    return plan is not None and bool(plan.rewrites) and not plan.settings and finding.safety == "exact"


def _trouble(model: CheckedModel) -> str:
    """Return why a model could not be checked, with the name of the faulty file if it is not the model."""
    error = model.error
    assert error is not None
    elsewhere = f"{error.where}: " if error.where not in ("", model.path) else ""
    return f"{model.path}: {elsewhere}{error.what}"


def _fixed(path: str, fixed: FixedModel) -> Iterator[Block]:
    """Yield a model's fixes, its operators before and after, and the result of running the fixed model."""
    state, verification = "would be fixed", fixed.verification
    if fixed.path:
        proof = verification is not None and _is_proof(verification.outputs)
        state = f"fixed in {fixed.path}" if proof else f"written to {fixed.path}"
    yield Points(title=f"{path}: {state}", items=fixed.what)
    yield Points(title="operators", items=list(_changes(fixed.before, fixed.after)))
    if verification is not None:
        text = f"{fixed.path}: {_verification(path, fixed.path, verification)}"
        yield Line(text, "good" if verification.status == "equal" else "look", whole=True)


def _verification(path: str, new: str, verification: Verification) -> str:
    """Return the result of running the fixed model, or the command that would verify it."""
    distance = verification.outputs
    if distance is not None and _is_proof(distance):
        moved = "" if distance.ok else ", which these fixes may do"
        return f"verified with {verification.runtime}: {outputs(distance)}{moved}"
    compare = shlex.join(["ortune", "compare", operand(path), operand(new)])
    if distance is not None and distance.empty:
        return f"not verified: {distance.what}. Run {compare} --inputs PATH"
    if distance is not None:
        return f"not verified: outputs are nearly zero for generated inputs. Run {compare} --inputs PATH"
    if verification.reason == "no-runtime":
        return f"not verified: no onnxruntime was found. Install one, and run {compare}"
    what = " ".join(verification.what.split())
    if verification.reason == "source":
        return f"not verified: {path} itself does not run with {verification.runtime} ({what})"
    return f"not verified: {what}. Run {compare}"


def _is_proof(distance: OutputDifference | None) -> bool:
    """Return whether outputs were compared and are large enough for a meaningful result."""
    return distance is not None and not (distance.empty or (distance.silent and distance.relative_l2))


def _changes(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[str]:
    changed = [op for op in {**before, **after} if before.get(op, 0) != after.get(op, 0)]
    for op in sorted(changed, key=lambda op: (after.get(op, 0) - before.get(op, 0), op)):
        yield f"{op}: {before.get(op, 0)} -> {after.get(op, 0)}"
    yield f"all: {sum(before.values())} -> {sum(after.values())}"


def end(result: CheckResult) -> Iterator[Line]:
    """Yield lines on the number of findings, how many are fixable, and how a fix is verified."""
    findings = [finding for model in result.models for finding in model.findings]
    unread = sum(model.error is not None and not model.n_nodes for model in result.models)
    read = len(result.models) - unread
    models = f"{read} model" + ("s" if read != 1 else "")
    if not findings:
        if read:  # of no model at all nothing was looked for
            yield Line(f"No findings in {models} ({result.n_rules} rules).", "good")
        return
    kinds = Counter(finding.severity for finding in findings)
    counts = ", ".join(f"{kinds[kind]} {kind}{'s' * (kinds[kind] != 1)}" for kind in _LEVELS if kinds[kind])
    yield Line(f"Found {counts} in {models}.", "strong")
    written = [model for model in result.models if model.fixed is not None and model.fixed.path]
    for model in written[:NAMED]:
        assert model.fixed is not None
        pair = (operand(model.path), operand(model.fixed.path))
        yield Line(f"Measure the benefit: {shlex.join(['ortune', 'compare', *pair])}")
    fixable = sum(map(_exact, findings))
    if fixable and not written:
        yield Line(f"[*] {fixable} fixable with --fix. Run ortune explain CODE for details of a rule.")
    else:
        yield Line("Run ortune explain CODE for details of a rule.")


def _annotations(model: CheckedModel) -> Iterator[Annotation]:
    for finding in model.findings:
        yield Annotation(
            level=_LEVELS[finding.severity],
            title=f"ortune {finding.code}",
            lines=[f"{model.path}: {finding_text(finding)}"],
            file=model.path,
        )
    if model.error is not None:
        yield Annotation(
            level="error",
            title="ortune check",
            lines=[_trouble(model), model.error.do],
            file=model.path,
        )


def sarif(envelope: Envelope[CheckResult]) -> str:
    """Return the findings as SARIF 2.1.0 text, for code scanning."""
    result = envelope.result
    assert result is not None
    names = {finding.code: finding.name for model in result.models for finding in model.findings}
    rules = [_rule(code, names[code], result.titles.get(code, names[code])) for code in sorted(names)]
    results = [_result(model.path, finding) for model in result.models for finding in model.findings]
    trouble = [
        {"level": "error", "message": {"text": f"{_trouble(model)} {model.error.do}"}}
        for model in result.models
        if model.error is not None
    ]
    run = {
        "tool": {"driver": {"name": "ortune", "version": envelope.ortune, "rules": rules}},
        "invocations": [{"executionSuccessful": not trouble, "toolExecutionNotifications": trouble}],
        "results": results,
    }
    document = {"version": "2.1.0", "$schema": "https://json.schemastore.org/sarif-2.1.0.json", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _rule(code: str, name: str, title: str) -> dict[str, object]:
    """Return the SARIF object of a rule, with the texts that GitHub requires."""
    return {
        "id": code,
        "name": name,
        "shortDescription": {"text": title},
        "fullDescription": {"text": f"{title}."},
        "help": {"text": f"Run ortune explain {code} for the cost and the fix."},
    }


def _result(path: str, finding: Finding) -> dict[str, object]:
    location = {
        # A model has no lines, and GitHub shows no annotation without a line number.
        "physicalLocation": {"artifactLocation": {"uri": _uri(path)}, "region": {"startLine": 1}},
        "logicalLocations": _logical(finding.where),
    }
    return {
        "ruleId": finding.code,
        "level": finding.severity,
        "message": {"text": finding_text(finding)},
        "locations": [location],
    }


def _logical(names: Sequence[str]) -> list[dict[str, str]]:
    return [{"fullyQualifiedName": name, "kind": "element"} for name in names]


def _uri(path: str) -> str:
    """Return a path as a SARIF URI: as the user typed it, with special characters percent-encoded."""
    return "".join(
        chr(byte) if (byte < 128 and chr(byte).isalnum()) or chr(byte) in "/._-~" else f"%{byte:02X}"
        for byte in path.replace("\\", "/").encode()
    )
