"""``ortune explain``: describes a rule: its finding, why the finding costs time, and the risks of its fix."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Literal

import msgspec

from ortune.catalogue.knobs import all_knobs
from ortune.errors import UsageError
from ortune.measuring.document import document
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope
from ortune.rewrites import all_rewrites
from ortune.rules import Rule, all_rules, find_rule
from ortune.verbs.explain.options import Options
from ortune.verbs.explain.result import Described, ExplainResult

MOST_HITS = 25

HEADING = re.compile(
    r"^(What it is|Why it costs|Evidence|Fix and its safety|Example|References): ", re.MULTILINE
)


def run(options: Options | None = None, watcher: Watcher | None = None) -> Envelope[ExplainResult]:
    """Explain a rule, rewrite or setting, or list the entries that match a search; by default, list all rules.

    Raises:
        UsageError: Nothing matches, or a code and a search were combined.
    """
    o = options or Options()
    if o.code and o.search:
        raise UsageError("a code and --search cannot be combined", where="--search", do="pass one of them")
    if o.search:
        return document("explain", ExplainResult(rules=_hits(o.search), whole=False, search=o.search))
    if not o.code:
        return document(
            "explain", ExplainResult(rules=tuple(map(_of_rule, all_rules().values())), whole=False)
        )
    entry = next((e for e in _entries() if o.code.upper() == e.code or _name(o.code) == _name(e.name)), None)
    if entry is not None and entry.kind == "rule":
        return document("explain", ExplainResult(rules=(_whole(entry),), whole=True))
    hits = _hits(o.code, names_only=True) or _hits(o.code)
    if entry is None and len(hits) > 1:
        return document("explain", ExplainResult(rules=hits, whole=False, search=o.code))
    first = entry or hits[0]
    also = (e for e in hits if e.name != first.name or e.kind != first.kind)
    return document("explain", ExplainResult(rules=(_whole(first), *also), whole=True))


def _name(text: str) -> str:
    """Normalise a name for comparison: lower case, hyphens between words, "float16" instead of "fp16"."""
    return re.sub(r"\b(b?)fp(?=\d)", r"\1float", text.lower().replace("_", "-"))


def _entries() -> list[Described]:
    """Return one entry for every rule, rewrite and setting."""
    return [
        *map(_of_rule, all_rules().values()),
        *(_of_module("rewrite", r.name, r.safety, _rewrite_doc(r.name)) for r in all_rewrites().values()),
        *(_of_module("setting", k.name, k.safety, k.documentation) for k in all_knobs().values()),
    ]


def _hits(text: str, *, names_only: bool = False) -> tuple[Described, ...]:
    """Return the entries that contain all words of a text.

    Matches in names come first, then matches in titles, then matches in the documentation (unless ``names_only``).

    Raises:
        UsageError: Nothing matches, and ``names_only`` is False.
    """
    words = _name(text).split()
    ranked: list[tuple[int, Described]] = []
    for entry in _entries():
        name, title = _name(f"{entry.code} {entry.name}"), _name(entry.title)
        places = (name, title, "" if names_only else _name(_doc(entry)))
        rank = next((i for i, place in enumerate(places) if all(word in place for word in words)), None)
        if rank is not None:
            ranked.append((rank, entry))
    if not ranked and not names_only:
        find_rule(text)  # names the nearest
    return tuple(entry for _, entry in sorted(ranked, key=lambda hit: hit[0])[:MOST_HITS])


def _of_rule(rule: Rule) -> Described:
    return Described(
        code=rule.code, name=rule.name, title=rule.title, tier=rule.tier, reads=rule.bad is not None
    )


def _of_module(kind: Literal["rewrite", "setting"], name: str, safety: str, doc: str) -> Described:
    title = doc.strip().partition("\n")[0].rstrip(".")
    return Described(code="", name=name, title=title, tier="stable", kind=kind, safety=safety)


def _rewrite_doc(name: str) -> str:
    return importlib.import_module(f"ortune.rewrites.{name.replace('-', '_')}").__doc__ or ""


def _doc(entry: Described) -> str:
    """Return the documentation of a rule, rewrite or setting as a docstring."""
    if entry.kind == "rewrite":
        return _rewrite_doc(entry.name)
    return all_knobs()[entry.name].documentation if entry.kind == "setting" else all_rules()[entry.code].doc


def _whole(entry: Described) -> Described:
    shown = all_rules()[entry.code].shown if entry.kind == "rule" else ""
    return msgspec.structs.replace(entry, sections=_sections(_doc(entry)), bad=shown)


def _sections(doc: str) -> tuple[tuple[str, str], ...]:
    """Return pairs of a docstring's headings and their texts, each text as a single paragraph."""
    _, *parts = HEADING.split(inspect.cleandoc(doc))
    return tuple(
        (heading, capitalised(re.sub(r"\s+", " ", text).strip().replace("``", "`")))
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
    )


def capitalised(words: str) -> str:
    """Capitalise the first letter of a sentence, unless its first word is code or a repository name."""
    first = words.partition(" ")[0].rstrip(",.:;")
    is_code = any(sign in first for sign in "_/.") or first[1:] != first[1:].lower()
    return words if is_code or first.startswith("onnxruntime") else f"{words[:1].upper()}{words[1:]}"
