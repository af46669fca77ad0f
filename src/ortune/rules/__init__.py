"""What is wrong or worth knowing, one file a rule; found by walking the folder.

A rule is a module in the folder of its family, with a docstring under fixed headings, a constant ``CODE`` that begins
with the family's letters and is never used again, and a function ``find`` from facts to findings. Its name is that of
its file. ``facts`` says what may be known; a rule is silent where what it needs is not.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import cast

import msgspec

from ortune.records import Finding, Severity
from ortune.rules.facts import Facts

__all__ = ["FAMILIES", "Facts", "Rule", "all_rules", "findings"]

FAMILIES = {
    "graph": "GRA",
    "shapes": "SHP",
    "quantization": "QNT",
    "precision": "PRC",
    "layout": "LAY",
    "placement": "PLC",
    "threads": "THR",
    "memory": "MEM",
    "session": "SES",
    "environment": "ENV",
    "measurement": "MSR",
}
"""Folders and the letters that their codes begin with."""

_WEIGHTS: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One file.

    Attributes:
        name: For the pattern that it finds.
        doc: What it says of itself, under the headings.
        find: What it finds.
    """

    code: str
    name: str
    family: str
    doc: str
    find: Callable[[Facts], Iterator[Finding]]

    def findings(self, facts: Facts) -> list[Finding]:
        """What it finds, with its name."""
        return [msgspec.structs.replace(finding, name=self.name) for finding in self.find(facts)]


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule by its code."""
    found = [_rule(family, module) for family in FAMILIES for module in _modules(family)]
    return {rule.code: rule for rule in sorted(found, key=lambda rule: rule.code)}


def _modules(family: str) -> Iterator[ModuleType]:
    folder = importlib.import_module(f"{__name__}.{family}")
    for info in pkgutil.iter_modules(folder.__path__):
        yield importlib.import_module(f"{folder.__name__}.{info.name}")


def _rule(family: str, module: ModuleType) -> Rule:
    return Rule(
        code=str(module.CODE),
        name=module.__name__.rpartition(".")[2].replace("_", "-"),
        family=family,
        doc=module.__doc__ or "",
        find=cast("Callable[[Facts], Iterator[Finding]]", module.find),
    )


def findings(facts: Facts, *, without: Collection[str] = ()) -> tuple[Finding, ...]:
    """What all rules find: what is broken first, then by the share of the run that it is about.

    Args:
        facts: What is known.
        without: Families (of their letters) that are not asked.
    """
    found = [
        finding
        for rule in all_rules().values()
        if FAMILIES[rule.family] not in without
        for finding in rule.findings(facts)
    ]
    return tuple(sorted(found, key=_weight))


def _weight(finding: Finding) -> tuple[bool, float, int, str]:
    share = finding.share_ratio or 0.0
    return finding.severity != "error", -share, _WEIGHTS[finding.severity], finding.code
