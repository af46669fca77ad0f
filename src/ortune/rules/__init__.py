"""What is wrong or worth knowing, one file a rule; found by walking the folder.

A rule is a module in the folder of its family, with a docstring under fixed headings, a constant ``CODE`` that begins
with the family's letters and is never used again, and a function ``find`` from facts to findings. Its name is that of
its file. ``facts`` says what may be known; a rule is silent where what it needs is not. One that reads a model alone
shows what it means: ``BAD`` and ``GOOD`` in the text form of ONNX, or ``bad()`` and ``good()`` where text cannot; what
it marks in the bad one is named ``bad...``. ``TIER`` says how much it is trusted, where that is not "stable",
``TARGET`` where its models are bad, where that is not the CPU, and ``JOINS`` whose findings it tells together: where it
fires, these are silent. ``LAST`` is one whose fix others may name: what they name, it does not. ``COUNTS_BLOCKS`` is
one that says itself how often its nodes repeat; what all others name in repeated blocks is told by ``_blocks``.
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
from ortune.rules import prize
from ortune.rules._blocks import by_blocks, concerned
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
"""Folders and the letters that their codes begin with."""

ABOUT_MODELS = tuple(
    family for family in FAMILIES if family not in ("application", "environment", "measurement")
)
"""Families of what is wrong with a model and how it is run; the others are about a machine and what was measured."""

BLOCKS = "repeated blocks"
"""What is left out where there is no time to look for them."""

EVERY_RULE = "every rule"
"""What is left out where there is no time to begin with any."""

Tier = Literal["stable", "preview", "if-measured"]
"""stable: its evidence was seen here. preview: it is documented, and was not reproduced. if-measured: where it fires
the fix seldom pays, so that it is said only by those who measure it."""

_ANY_MODEL = re.compile(r"(?<= )model\.onnx(?= |$)")
"""What a rule writes in the command of a fix for the model that it looks at."""
_COMMAND = re.compile(r"\bortune (?:[^\s:;]+ )*?model\.onnx(?= |$)")
"""The beginning of such a command, where it is one of ortune's own."""

_WEIGHTS: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One file.

    Attributes:
        name: For the pattern that it finds.
        doc: What it says of itself, under the headings.
        find: What it finds.
        tier: How much it is trusted.
        bad: A model that it fires on, marked; None where it needs more than a model.
        good: One that is like it, and that it is silent on.
        shown: The bad model as text; "" where it is made.
        target: Where its models are bad and good.
        joins: Codes of rules that each know a part of what it finds: said in one finding, and not beside it.
        last: Of its findings those are said alone whose rewrite no other rule names.
        counts_blocks: Its findings say themselves how often their nodes repeat.
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
        """The first line of what it says of itself, without its full stop."""
        return self.doc.strip().partition("\n")[0].rstrip(".")

    def findings(self, facts: Facts) -> list[Finding]:
        """Return what it finds, with its name."""
        return [msgspec.structs.replace(finding, name=self.name) for finding in self.find(facts)]


@cache
def all_rules(families: tuple[str, ...] = tuple(FAMILIES)) -> dict[str, Rule]:
    """Return every rule by its code; those of some families are read without the files of the others."""
    rules = [_rule(family, module) for family in families for module in _modules(family)]
    return {rule.code: rule for rule in sorted(rules, key=lambda rule: rule.code)}


def rule_of(module: ModuleType) -> Rule:
    """Return one rule by its file, without importing the others."""
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
    """Return the rule of that code or name; UsageError names those that are near."""
    for rule in all_rules().values():
        if text.upper() == rule.code or text.lower().replace("_", "-") == rule.name:
            return rule
    names = [name for rule in all_rules().values() for name in (rule.code, rule.name)]
    near = difflib.get_close_matches(text, names, n=3)
    do = f"did you mean {' or '.join(near)}?" if near else "run ortune explain to list all rules"
    raise UsageError(f"unknown rule {text!r}", do=do)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rules are asked.

    Attributes:
        select: Codes, beginnings of codes, or names; () for all that are stable.
        ignore: Those left out of them.
        preview: Those in preview are asked too.
        measured: So are those that are said only where their fix is measured.
    """

    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    preview: bool = False
    measured: bool = False

    def __post_init__(self) -> None:
        for text in (*self.select, *self.ignore):
            if not any(_named(rule, text) for rule in all_rules().values()):
                find_rule(text)  # says what there is

    def rules(self, families: tuple[str, ...] = tuple(FAMILIES)) -> list[Rule]:
        """Return the rules of these families, by their codes."""
        return [rule for rule in all_rules(families).values() if self._asks(rule)]

    def _asks(self, rule: Rule) -> bool:
        if any(_named(rule, text) for text in self.ignore):
            return False
        if any(text.upper() == rule.code or text == rule.name for text in self.select):
            return True  # whoever names a rule wants it, trusted or not
        said = {"stable": True, "preview": self.preview, "if-measured": self.measured}
        trusted = said[rule.tier]
        return trusted and (not self.select or any(_named(rule, text) for text in self.select))


def _named(rule: Rule, text: str) -> bool:
    return text == rule.name or (text.isalnum() and rule.code.startswith(text.upper()))


def findings(facts: Facts, *, without: Collection[str] = (), measured: bool = False) -> tuple[Finding, ...]:
    """Return what all stable rules find: that times mean nothing, then what is broken, then by its share of the run.

    Args:
        facts: What is known.
        without: Families (of their letters) that are not asked.
        measured: Also what seldom pays and has a fix that can be measured: from whoever measures it.
    """
    if not facts.begins(EVERY_RULE):  # to read them takes a second of a busy machine
        return ()
    asked = [rule for rule in Selection(measured=measured).rules() if FAMILIES[rule.family] not in without]
    stable = {rule.code for rule in asked if rule.tier == "stable"}
    return tuple(
        finding for finding in found_by(asked, facts) if finding.code in stable or finding.plan is not None
    )


def found_by(asked: Sequence[Rule], facts: Facts) -> tuple[Finding, ...]:
    """Return what these rules find, in the same order; of what one of them joins, that one alone.

    A rule for which there is no time is left out: first those about the machine, last those about the graph.
    """
    families = list(FAMILIES)
    ordered = sorted(asked, key=lambda rule: families.index(rule.family))
    with contextlib.ExitStack() as stack:
        stack.enter_context(remembering())  # several rules ask what the model's values are
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
    if facts.model is not None and concerned(findings, own) and facts.begins(BLOCKS):
        findings = by_blocks(findings, facts.model.ir, own)
    if facts.profile is not None and facts.model is not None:
        findings = prize.estimated(findings, facts.model.ir, facts.profile)
    return tuple(sorted((_about_this_file(finding, facts) for finding in findings), key=_weight))


def _about_this_file(finding: Finding, facts: Facts) -> Finding:
    """With the model's own name, and what it is fed here, in the command of its fix."""
    if facts.model is None or not finding.fix:
        return finding
    path, fed = shlex.quote(operand(facts.model.facts.path)), shlex.join(facts.fed)
    fix = _COMMAND.sub(lambda match: f"{match[0]} {fed}", finding.fix) if fed else finding.fix
    return msgspec.structs.replace(finding, fix=_ANY_MODEL.sub(lambda _: path, fix))


def _all_named(finding: Finding, named: Collection[str]) -> bool:
    """Return whether others name all rewrites of a finding's fix."""
    return finding.plan is not None and {spec.name for spec in finding.plan.rewrites} <= set(named)


def fixable(finding: Finding, *, unsafe: bool = False) -> bool:
    """Return whether a finding's fix changes the model and may be made without asking anybody.

    Args:
        finding: A rule's.
        unsafe: Also where outputs move by more than the order of sums, or the model then serves less.
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
