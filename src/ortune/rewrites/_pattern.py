"""What most rewrites are: something that is found at an operator, and what is put in its place.

From a ``Pattern`` follows all that a rewrite is asked: changing a model, saying what was done or what something lacked
to be a match, and proposing itself with a count.
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


class Look:
    """The facts that a pattern may use while a model is searched.

    Attributes:
        model: The model.
        opset: Version of the standard operators in the graph that is looked at.
    """

    def __init__(self, model: ir.Model) -> None:
        self.model, self.opset = model, 0

    @cached_property
    def values(self) -> Values:
        """Types and sizes of values as the model was at first; a rewrite adds those of the values that it makes."""
        return known_values(self.model)

    def of(self, value: ir.Value | None) -> InferredShape:
        """Return the inferred type and sizes of a value."""
        return self.values.of(value)

    def contents(self, value: ir.Value | None) -> Dims | None:
        """Return the elements of a value that holds a shape."""
        return self.values.contents(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern(Generic[Match]):
    """A pattern rewrite: what to match at an anchor operator, and what to replace it with.

    Attributes:
        anchors: The operators at which it is looked for.
        match: What is found at a node; why it is nearly a match; or "" if the node is something else.
        replace: Puts something else in the place of a match.
        made: What was done, by the matches: a sentence (``worded``).
        proposed: Why to try it, likewise; "" if what was found is not worth it.
        none: Why nothing was changed, where nothing was even nearly a match.
        beside: Operators of which a match has one besides: a model without them is not looked at.
        least_opset: Graphs of older versions of the standard operators are not looked at.
        refuses: Why no match can be replaced in the graph that is looked at; "" if one can.
        repeats: What is replaced may show another match: the model is looked through until none is left.
        counts_replaced: Matches hide each other, so those to propose are counted by replacing them in a copy.
        end: The node that gives what a match gives; without it the match itself, where that is a node.
        finish: What is left to do for the model once something was replaced.
    """

    anchors: tuple[str, ...]
    match: Callable[[ir.Node, Look], Match | str]
    replace: Callable[[Editor, Match, Look], None]
    made: str | Callable[[Sequence[Match]], str]
    proposed: str | Callable[[Sequence[Match]], str]
    none: str
    beside: tuple[str, ...] = ()
    least_opset: int = 1
    refuses: Callable[[Look], str] = lambda look: ""
    repeats: bool = False
    counts_replaced: bool = False
    end: Callable[[Match], ir.Node | None] = lambda match: match if isinstance(match, ir.Node) else None
    finish: Callable[[ir.Model], None] = lambda model: None

    def find(self, model: ir.Model, editor: Editor | None = None) -> tuple[list[Match], list[str]]:
        """Find the matches (and replace them if an editor is given) and the reasons of near misses."""
        look, matches, reasons = Look(model), list[Match](), dict[str, None]()
        if self.beside and not holds(model, *self.beside):
            return [], []
        for scope, look.opset in scopes_of(model):
            anchors = anchors_in(model, scope, *self.anchors)
            refusal: str | None = None  # asked where there is something to refuse
            for node in anchors if look.opset >= self.least_opset else ():
                if node.graph is not scope:
                    continue  # went with another match
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
        """List the last node of each match."""
        return [end for match in self.find(model)[0] if (end := self.end(match)) is not None]

    def replace_all(self, model: ir.Model) -> tuple[list[Match], list[str]]:
        """Replace every match, and returns the reasons of near misses."""
        editor, matches = Editor(model), list[Match]()
        while True:
            more, reasons = self.find(model, editor)
            matches += more
            if not (more and self.repeats):
                return matches, reasons

    def change(self, model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
        """Change the model as ``Rewrite.change`` says."""
        matches, reasons = self.replace_all(model)
        if not matches:
            return unchanged(*(reasons or (self.none,)))
        self.finish(model)
        return RewriteResult(modified=True, what=worded(self.made, matches), reasons=tuple(reasons))

    def proposes(self, model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
        """Propose itself as ``Rewrite.proposes`` says."""
        if not holds(model, *(self.beside or self.anchors)):
            return []
        matches, _ = self.replace_all(model.clone()) if self.counts_replaced else self.find(model)
        why = worded(self.proposed, matches) if matches else ""
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
        """Make the rewrite that replaces every match; ``targets`` limit where it is proposed."""
        return Rewrite(
            name=name,
            summary=summary,
            safety=safety,
            stage=stage,
            targets=targets,
            change=self.change,
            proposes=self.proposes,
        )


def worded(words: str | Callable[[Sequence[Match]], str], matches: Sequence[Match]) -> str:
    """Fill a sentence template: ``{n}`` is the count of matches, ``{is|are}`` picks the number."""
    if not isinstance(words, str):
        return words(matches)
    count = len(matches)
    return _CHOICE.sub(lambda choice: choice[1 if count == 1 else 2], words).replace("{n}", str(count))
