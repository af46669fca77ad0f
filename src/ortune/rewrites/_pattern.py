"""Base of most rewrites: a pattern matched at an operator, and its replacement.

A ``Pattern`` implements changing a model, describing the changes or the near misses, and proposing the rewrite with a
count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Literal, TypeVar

import onnx_ir as ir

from ortune.graph.nodes import anchors_in, holds, scopes_of
from ortune.graph.shapes.known import Dims, InferredShape, Values, known_values
from ortune.records import Workload
from ortune.rewrites._base import Proposed, Rewrite, RewriteResult, unchanged
from ortune.rewrites._editor import Editor

Match = TypeVar("Match")

_CHOICE = re.compile(r"\{([^{}|]*)\|([^{}|]*)\}")


class PatternFacts:
    """Facts available to a pattern while a model is searched.

    Attributes:
        model: The model.
        opset: Version of the standard operators in the graph being searched.
    """

    def __init__(self, model: ir.Model) -> None:
        self.model, self.opset = model, 0

    @cached_property
    def values(self) -> Values:
        """Inferred types and sizes of values before any change; rewrites add entries for values that they create."""
        return known_values(self.model)

    def inferred(self, value: ir.Value | None) -> InferredShape:
        """Return the inferred type and sizes of a value."""
        return self.values.inferred(value)

    def contents(self, value: ir.Value | None) -> Dims | None:
        """Return the elements of a value that represents a shape, such as the output of Shape; None if unknown."""
        return self.values.contents(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern(Generic[Match]):
    """A pattern rewrite: the subgraph to match at an anchor operator, and its replacement.

    Attributes:
        anchors: Operators at which the pattern is searched.
        match: Function that returns the match at a node, the reason for a near miss, or "" if the node is unrelated.
        replace: Function that replaces a match.
        made: Sentence that describes the change, filled in from the matches by ``fill_sentence``.
        proposed: Reason to try the rewrite, filled in likewise; "" if the matches are not worth trying.
        none: Reason given if there was neither a match nor a near miss.
        beside: Further operators of which every match contains at least one; a model without them is not searched.
        least_opset: Lowest version of the standard operators; graphs with older versions are not searched.
        refuses: Function that returns why matches in the current graph cannot be replaced; "" if they can.
        repeats: Whether replacing a match may reveal another match, so that the model is searched until none is left.
        counts_replaced: Whether matches hide each other, so that proposals count matches by replacing them in a copy.
        end: Function that returns the node with the match's output; by default the match itself if it is a node.
        finish: Function called with the model after replacements.
    """

    anchors: tuple[str, ...]
    match: Callable[[ir.Node, PatternFacts], Match | str]
    replace: Callable[[Editor, Match, PatternFacts], None]
    made: str | Callable[[Sequence[Match]], str]
    proposed: str | Callable[[Sequence[Match]], str]
    none: str
    beside: tuple[str, ...] = ()
    least_opset: int = 1
    refuses: Callable[[PatternFacts], str] = lambda look: ""
    repeats: bool = False
    counts_replaced: bool = False
    end: Callable[[Match], ir.Node | None] = lambda match: match if isinstance(match, ir.Node) else None
    finish: Callable[[ir.Model], None] = lambda model: None

    def find(self, model: ir.Model, editor: Editor | None = None) -> tuple[list[Match], list[str]]:
        """Return the matches and the reasons for near misses; if an editor is given, also replace the matches."""
        look, matches, reasons = PatternFacts(model), list[Match](), dict[str, None]()
        if self.beside and not holds(model, *self.beside):
            return [], []
        for scope, look.opset in scopes_of(model):
            anchors = anchors_in(model, scope, *self.anchors)
            refusal: str | None = None  # computed at the first match
            for node in anchors if look.opset >= self.least_opset else ():
                if node.graph is not scope:
                    continue  # removed with an earlier match
                match = self.match(node, look)
                if not isinstance(match, str):
                    refusal = self.refuses(look) if refusal is None else refusal
                    match = refusal or match
                if isinstance(match, str):
                    reasons |= {match: None} if match else {}
                    continue
                matches.append(match)
                if editor is not None:
                    self.replace(editor, match, look)
        return matches, list(reasons)

    def ends(self, model: ir.Model) -> list[ir.Node]:
        """Return the last node of each match."""
        return [end for match in self.find(model)[0] if (end := self.end(match)) is not None]

    def replace_all(self, model: ir.Model) -> tuple[list[Match], list[str]]:
        """Replace every match, and return the matches and the reasons for near misses."""
        editor, matches = Editor(model), list[Match]()
        while True:
            more, reasons = self.find(model, editor)
            matches += more
            if not (more and self.repeats):
                return matches, reasons

    def change(self, model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
        """Replace every match; the implementation of ``Rewrite.change``."""
        matches, reasons = self.replace_all(model)
        if not matches:
            return unchanged(*(reasons or (self.none,)))
        self.finish(model)
        return RewriteResult(modified=True, what=fill_sentence(self.made, matches), reasons=tuple(reasons))

    def proposes(self, model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
        """Propose the rewrite, without parameters, if there are matches; the implementation of ``Rewrite.proposes``."""
        if not holds(model, *(self.beside or self.anchors)):
            return []
        matches, _ = self.replace_all(model.clone()) if self.counts_replaced else self.find(model)
        why = fill_sentence(self.proposed, matches) if matches else ""
        return [({}, why)] if why else []

    def rewrite(
        self,
        *,
        name: str,
        summary: str,
        stage: int,
        safety: Literal["exact", "numerics"] = "exact",
        targets: tuple[str, ...] = (),
    ) -> Rewrite:
        """Return the rewrite that replaces every match; ``targets`` limits the targets on which it is proposed."""
        return Rewrite(
            name=name,
            summary=summary,
            safety=safety,
            stage=stage,
            targets=targets,
            change=self.change,
            proposes=self.proposes,
        )


def fill_sentence(words: str | Callable[[Sequence[Match]], str], matches: Sequence[Match]) -> str:
    """Fill a sentence template: ``{n}`` is the number of matches, ``{is|are}`` selects singular or plural."""
    if not isinstance(words, str):
        return words(matches)
    count = len(matches)
    return _CHOICE.sub(lambda choice: choice[1 if count == 1 else 2], words).replace("{n}", str(count))
