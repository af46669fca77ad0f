"""All rules, one file each, discovered by walking the folder.

A rule is a module in the folder of its family. It has a docstring under fixed headings, a constant ``CODE`` that begins
with the family's letters and is never reused, and a function ``find`` from facts to findings. Its name is that of its
file. ``facts`` defines what may be known; a rule yields nothing if the facts that it needs are missing. A rule that
reads only the model has examples: ``BAD`` and ``GOOD`` in the text form of ONNX, or functions ``bad()`` and ``good()``
that make them; the names of nodes and values to be found in the bad one begin with ``bad``. Optional constants:
``TIER`` is the trust in the rule (default "stable"), and ``TARGET`` is the target of its examples (default the CPU).
``JOINS`` has codes of rules that are silent if this rule finds something. ``LAST`` marks a rule whose findings are
dropped if other findings name the same rewrites. ``COUNTS_BLOCKS`` marks a rule that itself reports repetitions of its
nodes; for all others ``_blocks`` does.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import pkgutil
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Literal, cast, get_args

import msgspec

from ortune.catalogue.providers import CPU
from ortune.errors import UsageError
from ortune.graph.model.graphs import unchanged
from ortune.graph.shapes.known import remembering
from ortune.printable import operand
from ortune.records import FUNCTIONAL_ONLY, Finding, Severity
from ortune.rules import expected_gains
from ortune.rules._blocks import by_blocks, may_repeat
from ortune.rules._examples import MARK, Example, example
from ortune.rules.facts import Facts

__all__ = [
    "ABOUT_MODELS",
    "FAMILIES",
    "MARK",
    "Facts",
    "Rule",
    "Selection",
    "Tier",
    "all_rules",
    "find_rule",
    "findings",
    "fixable",
    "found_by",
    "rule_of",
]  # fmt: skip

FAMILIES = {
    "graph": "GRA",
    "shapes": "SHP",
    "quantization": "QNT",
    "precision": "PRC",
    "layout": "LAY",
    "placement": "PLC",
    "cuda": "CUD",
    "threads": "THR",
    "memory": "MEM",
    "session": "SES",
    "llm": "LLM",
    "mobile": "MOB",
    "web": "WEB",
    "application": "APP",
    "environment": "ENV",
    "measurement": "MSR",
}
"""Maps the folder of a family of rules to the letters with which the family's codes begin."""

ABOUT_MODELS = tuple(
    family for family in FAMILIES if family not in ("application", "environment", "measurement")
)
"""Families about a model and its runs; other families are about an application, a machine or a measurement."""

BLOCKS = "repeated blocks"
"""Name of the search for repeated blocks, for ``Facts.begins``."""

EVERY_RULE = "every rule"
"""Name under which the evaluation of all rules is announced to ``Facts.begins`` before it starts."""

Tier = Literal["stable", "preview", "if-measured"]
"""stable: the evidence was reproduced. preview: documented elsewhere, not reproduced. if-measured: the fix seldom
helps, so findings are reported only by commands that measure the fix."""

_ANY_MODEL = re.compile(r"(?<= )model\.onnx(?= |$)")
"""Placeholder for the model's path in the fix commands of rules."""
_COMMAND = re.compile(r"\bortune (?:[^\s:;]+ )*?model\.onnx(?= |$)")
"""The beginning of an ortune command, up to the placeholder for the model's path."""

_WEIGHTS: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule, read from its module.

    Attributes:
        name: Name of the pattern that the rule finds; the module's name with hyphens.
        doc: The module's docstring, under fixed headings.
        find: Function that yields the findings for given facts.
        tier: How well the rule's evidence is established; see ``Tier``.
        bad: Function that returns a model on which the rule has a finding; None if the rule needs more than a model.
        good: Function that returns a similar model on which the rule has no finding.
        shown: The bad model as text; "" if it is built in code.
        target: Target for which the examples are checked.
        joins: Codes of rules that find a part of the same problem; their findings are dropped if this rule has any.
        last: Whether a finding is dropped if findings of other rules already propose all its rewrites.
        counts_blocks: Whether the findings themselves report how often their nodes repeat.
    """

    code: str
    name: str
    family: str
    doc: str
    find: Callable[[Facts], Iterator[Finding]]
    tier: Tier = "stable"
    bad: Example | None = None
    good: Example | None = None
    shown: str = ""
    target: str = CPU.target
    joins: tuple[str, ...] = ()
    last: bool = False
    counts_blocks: bool = False

    @property
    def title(self) -> str:
        """The first line of the docstring, without its full stop."""
        return self.doc.strip().partition("\n")[0].rstrip(".")

    def findings(self, facts: Facts) -> list[Finding]:
        """Return the rule's findings, with the rule's name added."""
        return [msgspec.structs.replace(finding, name=self.name) for finding in self.find(facts)]


@cache
def all_rules(families: tuple[str, ...] = tuple(FAMILIES)) -> dict[str, Rule]:
    """Return the rules of the given families, keyed by code, importing only the modules of these families."""
    rules = [_rule(family, module) for family in families for module in _modules(family)]
    return {rule.code: rule for rule in sorted(rules, key=lambda rule: rule.code)}


def rule_of(module: ModuleType) -> Rule:
    """Return the rule of a module, without importing other rules."""
    return _rule(module.__name__.split(".")[-2], module)


def _modules(family: str) -> Iterator[ModuleType]:
    folder = importlib.import_module(f"{__name__}.{family}")
    for info in pkgutil.iter_modules(folder.__path__):
        yield importlib.import_module(f"{folder.__name__}.{info.name}")


@cache
def _rule(family: str, module: ModuleType) -> Rule:
    tier = str(getattr(module, "TIER", "stable"))
    assert tier in get_args(Tier), module.__name__
    return Rule(
        code=str(module.CODE),
        name=module.__name__.rpartition(".")[2].replace("_", "-"),
        family=family,
        doc=module.__doc__ or "",
        find=cast("Callable[[Facts], Iterator[Finding]]", module.find),
        tier=cast("Tier", tier),
        bad=example(module, "bad"),
        good=example(module, "good"),
        shown=str(getattr(module, "BAD", "")),
        target=str(getattr(module, "TARGET", CPU.target)),
        joins=tuple(getattr(module, "JOINS", ())),
        last=bool(getattr(module, "LAST", False)),
        counts_blocks=bool(getattr(module, "COUNTS_BLOCKS", False)),
    )


def find_rule(text: str) -> Rule:
    """Return the rule with the given code or name; raise UsageError with the closest matches if there is none."""
    for rule in all_rules().values():
        if text.upper() == rule.code or text.lower().replace("_", "-") == rule.name:
            return rule
    names = [name for rule in all_rules().values() for name in (rule.code, rule.name)]
    near = difflib.get_close_matches(text, names, n=3)
    do = f"did you mean {' or '.join(near)}?" if near else "run ortune explain to list all rules"
    raise UsageError(f"unknown rule {text!r}", do=do)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A selection of rules by code or name; raises UsageError for a name that matches no rule.

    Attributes:
        select: Codes, prefixes of codes, or names; empty for all.
        ignore: Codes, prefixes of codes, or names to exclude.
        preview: Whether to include rules in preview.
        measured: Whether to include rules whose findings are reported only if the fix is measured.
    """

    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    preview: bool = False
    measured: bool = False

    def __post_init__(self) -> None:
        for text in (*self.select, *self.ignore):
            if not any(_named(rule, text) for rule in all_rules().values()):
                find_rule(text)  # raises the error with suggestions

    def rules(self, families: tuple[str, ...] = tuple(FAMILIES)) -> list[Rule]:
        """Return the selected rules of the given families, sorted by code."""
        return [rule for rule in all_rules(families).values() if self._asks(rule)]

    def _asks(self, rule: Rule) -> bool:
        if any(_named(rule, text) for text in self.ignore):
            return False
        if any(text.upper() == rule.code or text == rule.name for text in self.select):
            return True  # a rule selected by its full name or code is included in any tier
        said = {"stable": True, "preview": self.preview, "if-measured": self.measured}
        trusted = said[rule.tier]
        return trusted and (not self.select or any(_named(rule, text) for text in self.select))


def _named(rule: Rule, text: str) -> bool:
    return text == rule.name or (text.isalnum() and rule.code.startswith(text.upper()))


def findings(facts: Facts, *, without: Collection[str] = (), measured: bool = False) -> tuple[Finding, ...]:
    """Return the findings of all stable rules: meaningless times first, then errors, then by fraction of the run.

    Args:
        facts: The facts.
        without: Letters of families to skip.
        measured: Whether to include findings of if-measured rules that have a plan to measure.
    """
    if not facts.begins(EVERY_RULE):  # importing the rules takes a second on a busy machine
        return ()
    asked = [rule for rule in Selection(measured=measured).rules() if FAMILIES[rule.family] not in without]
    stable = {rule.code for rule in asked if rule.tier == "stable"}
    return tuple(
        finding for finding in found_by(asked, facts) if finding.code in stable or finding.plan is not None
    )


def found_by(asked: Sequence[Rule], facts: Facts) -> tuple[Finding, ...]:
    """Return the findings of rules in the order of ``findings``, without findings that another rule's findings include.

    Rules run by family, graph first and measurement last, so the rules skipped for lack of time matter least.
    """
    families = list(FAMILIES)
    ordered = sorted(asked, key=lambda rule: families.index(rule.family))
    with contextlib.ExitStack() as stack:
        stack.enter_context(remembering())  # several rules infer the model's values
        if facts.model is not None:
            stack.enter_context(unchanged(facts.model.ir))
        findings_of = {rule: rule.findings(facts) for rule in ordered if facts.begins(rule.code)}
    joined = {code for rule, mine in findings_of.items() if mine for code in rule.joins}
    findings = tuple(
        finding for rule, mine in findings_of.items() if rule.code not in joined for finding in mine
    )
    last = {rule.code for rule in asked if rule.last}
    named = {
        s.name
        for finding in findings
        if finding.code not in last and finding.plan
        for s in finding.plan.rewrites
    }
    findings = tuple(
        finding for finding in findings if finding.code not in last or not _all_named(finding, named)
    )
    own = {rule.code for rule in asked if rule.counts_blocks}
    if facts.model is not None and may_repeat(findings, own) and facts.begins(BLOCKS):
        findings = by_blocks(findings, facts.model.ir, own)
    if facts.profile is not None and facts.model is not None:
        findings = expected_gains.estimated(findings, facts.model.ir, facts.profile)
    return tuple(sorted((_about_this_file(finding, facts) for finding in findings), key=_weight))


def _about_this_file(finding: Finding, facts: Facts) -> Finding:
    """Return the finding with the model's path and the user's input options in its fix command."""
    if facts.model is None or not finding.fix:
        return finding
    path, fed = shlex.quote(operand(facts.model.facts.path)), shlex.join(facts.fed)
    fix = _COMMAND.sub(lambda match: f"{match[0]} {fed}", finding.fix) if fed else finding.fix
    return msgspec.structs.replace(finding, fix=_ANY_MODEL.sub(lambda _: path, fix))


def _all_named(finding: Finding, named: Collection[str]) -> bool:
    """Return whether a finding's fix is a plan whose rewrites are all in ``named``."""
    return finding.plan is not None and {spec.name for spec in finding.plan.rewrites} <= set(named)


def fixable(finding: Finding, *, unsafe: bool = False) -> bool:
    """Return whether a finding's fix only changes the model and may be applied without asking the user.

    Args:
        finding: The finding of a rule.
        unsafe: Whether to allow fixes that are not "exact".
    """
    changes_model = finding.plan is not None and bool(finding.plan.rewrites) and not finding.plan.settings
    return changes_model and (unsafe or finding.safety == "exact")


def _weight(finding: Finding) -> tuple[bool, bool, float, int, str]:
    share = finding.share_ratio or 0.0
    return (
        finding.code != FUNCTIONAL_ONLY,
        finding.severity != "error",
        -share,
        _WEIGHTS[finding.severity],
        finding.code,
    )
