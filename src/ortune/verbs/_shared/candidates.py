"""Completion candidates for the values of options.

An option's metavar determines the kind of its values, in every verb.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, get_args

from ortune.errors import OrtuneError

if TYPE_CHECKING:
    from ortune.catalogue.knobs import Knob
    from ortune.verbs._shared.spelling import OptionField

_FLAGS = ("0", "1")

Candidate = tuple[str, str]
"""A word and its description; the description may be ""."""


def completer_of(field: OptionField) -> Callable[[str], list[Candidate]] | None:
    """Return a function that completes the values of an option or argument; None if the shell completes file names."""
    from ortune.verbs._shared.spelling import Argument, Option

    spelling = field.spelling
    assert isinstance(spelling, Argument | Option)
    metavar = spelling.metavar
    if metavar in _KINDS:
        return _listed(_KINDS[metavar])
    choices = [c for c in get_args(field.type) if isinstance(c, str)] or re.findall(
        r"[\w-]+", metavar if re.fullmatch(r"\[?[a-z]+(\|[a-z]+)+\]?", metavar) else ""
    )
    return completer_among(choices) if choices else None


def completer_among(words: Iterable[str]) -> Callable[[str], list[Candidate]]:
    """Return a function that completes one of the given words."""
    return _listed(lambda _: ((word, "") for word in words))


def _listed(candidates: Callable[[str], Iterable[Candidate]]) -> Callable[[str], list[Candidate]]:
    """Return a completion function whose candidates typer filters by the typed prefix."""

    def complete(incomplete: str) -> list[Candidate]:
        with contextlib.suppress(OrtuneError):  # a store that cannot be read has no sessions
            return list(candidates(incomplete))
        return []

    return complete


def _settings(incomplete: str) -> Iterator[Candidate]:
    """Yield settings that begin with the typed text, by their shortest matching name.

    If only one setting matches, its values are yielded too.
    """
    from ortune.catalogue import knobs

    begun, sign, _ = incomplete.partition("=")
    named = [
        (name, knob)
        for knob in knobs.all_knobs().values()
        for name in sorted((*knob.aliases, knob.name), key=len)
        if (name == begun if sign else name.startswith(begun))
    ]
    meant = {knob.name: (name, knob) for name, knob in reversed(named)}
    for name, knob in meant.values():
        values = _values(knob) if len(meant) == 1 else ()
        yield from ((f"{name}={value}", "") for value in values)
        if not values and not sign:
            yield f"{name}=", knob.title


def _values(knob: Knob) -> Sequence[str]:
    return knob.choices or (_FLAGS if knob.kind == "bool" else ())


def _rewrites(_: str) -> Iterator[Candidate]:
    from ortune.rewrites import all_rewrites

    return ((rewrite.name, rewrite.safety) for rewrite in all_rewrites().values())


def _targets(incomplete: str) -> Iterator[Candidate]:
    from ortune.targets import all_targets

    before = "".join(incomplete.rpartition(",")[:2])
    words = all_targets() if before else ("auto", "all", *all_targets())
    return ((before + word, "") for word in words)


def _one_target(_: str) -> Iterator[Candidate]:
    from ortune.targets import all_targets

    return ((name, "") for name in all_targets())


def _runtimes(_: str) -> Iterator[Candidate]:
    from ortune.runtimes import made

    return ((environment.name, "") for environment in made.installed())


def _rules(_: str) -> Iterator[Candidate]:
    from ortune.rules import all_rules

    return ((rule.code, rule.title) for rule in all_rules().values())


def _topics(incomplete: str) -> Iterator[Candidate]:
    from ortune.catalogue import knobs

    return itertools.chain(
        _rules(incomplete),
        _rewrites(incomplete),
        ((knob.name, knob.title) for knob in knobs.all_knobs().values()),
    )


def _sessions(_: str) -> Iterator[Candidate]:
    from ortune.store.reading import ReadOnlyStore

    with contextlib.closing(ReadOnlyStore(None)) as stored:
        return iter([(head.id, head.verb) for head in stored.heads])


def _severities(_: str) -> Iterator[Candidate]:
    return ((word, "") for word in ("error", "warning", "note", "never"))


_KINDS: dict[str, Callable[[str], Iterable[Candidate]]] = {
    "KNOB=VALUE": _settings,
    "NAME[:k=v]": _rewrites,
    "[NAME[:k=v]]": _rewrites,
    "T": _one_target,
    "T[,T]": _targets,
    "PATH|NAME": _runtimes,
    "CODE": _rules,
    "[CODE]": _topics,
    "[ID]": _sessions,
    "[SESSION|MODEL|BUNDLE]...": _sessions,
    "SEVERITY": _severities,
}
