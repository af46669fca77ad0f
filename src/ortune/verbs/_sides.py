"""The sides of a comparison as they are asked for: A, B and six more at most, each with what alters it alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from ortune.errors import UsageError
from ortune.verbs._options import MODEL, AnyPath, Argument, OnePlan, Option, Pairs, Rewrites, named, pairs

if TYPE_CHECKING:
    from ortune.trials.sides import SideText

LETTERS = "abcdefgh"
ALTERED_BY = ("set", "rewrite", "runtime", "target", "ort_web")
"""What may be said of one side alone, after its letter."""


def _of(letter: str, name: str, metavar: str, what: str, also: str = "") -> Option:
    return Option(
        f"--{letter}-{name}",
        metavar,
        f"{what} of {letter.upper()} alone.",
        MODEL,
        also=f"--{letter}-{also}" if also else "",
        hidden=letter > "b",
    )


def _set(letter: str) -> Option:
    return _of(letter, "set", "KNOB=VALUE", "A setting")


def _rewrite(letter: str) -> Option:
    return _of(letter, "rewrite", "NAME[:k=v]", "A rewrite")


def _runtime(letter: str) -> Option:
    return _of(letter, "runtime", "PATH|NAME", "The onnxruntime", also="python")


def _target(letter: str) -> Option:
    return _of(letter, "target", "T", "The target")


def _ort_web(letter: str) -> Option:
    return _of(letter, "ort-web", "PATH|VERSION", "The onnxruntime-web")


@dataclass(frozen=True, kw_only=True)
class TwoSides(OnePlan):
    """A base and one side that is held against it."""

    a: Annotated[
        AnyPath, Argument("A", "The base: model.onnx, model.ort, NAME.ortune or model.onnx@git-revision.")
    ]
    b: Annotated[AnyPath | None, Argument("[B]", "The new side; also a plan.json. Omitted: A's model.")] = (
        None
    )
    rewrite: Rewrites = ()
    a_set: Annotated[Pairs, _set("a")] = ()
    b_set: Annotated[Pairs, _set("b")] = ()
    a_rewrite: Annotated[Sequence[str], _rewrite("a")] = ()
    b_rewrite: Annotated[Sequence[str], _rewrite("b")] = ()
    a_runtime: Annotated[AnyPath | None, _runtime("a")] = None
    b_runtime: Annotated[AnyPath | None, _runtime("b")] = None
    a_target: Annotated[str | None, _target("a")] = None
    b_target: Annotated[str | None, _target("b")] = None
    a_ort_web: Annotated[str | None, _ort_web("a")] = None
    b_ort_web: Annotated[str | None, _ort_web("b")] = None
    map: Annotated[
        Sequence[str], Option("--map", "a=b", "Input a of A is input b of the new side. Repeatable.", MODEL)
    ] = ()

    @cached_property
    def mapped(self) -> dict[str, str]:
        """Inputs of A by those of B that take them."""
        return pairs(self.map, "--map")

    @property
    def positions(self) -> list[AnyPath | None]:
        """The sides as they are named, in order."""
        return [self.a, self.b]

    @property
    def _is_bundle(self) -> bool:
        return str(self.a).rstrip("/").endswith(".ortune")

    def alters(self, letter: str) -> str:
        """The first thing that is said of a side alone, "" for nothing."""
        return next((name for name in ALTERED_BY if getattr(self, f"{letter}_{name}")), "")

    def side(self, letter: str) -> SideText:
        """One side as it was written."""
        from ortune.trials.sides import SideText

        place = LETTERS.index(letter)
        text = self.positions[place] if place < len(self.positions) else None
        if text is None and self._is_bundle:
            text = self.a
        return SideText(
            text=None if text is None else str(text),
            settings=tuple(getattr(self, f"{letter}_set")),
            option=f"--{letter}-set",
            rewrites=[*self.rewrite, *getattr(self, f"{letter}_rewrite")],
            runtime=named(getattr(self, f"{letter}_runtime")) or named(self.runtime),
            target=getattr(self, f"{letter}_target"),
            ort_web=getattr(self, f"{letter}_ort_web"),
        )


@dataclass(frozen=True, kw_only=True)
class Sides(TwoSides):
    """A base and what is held against it."""

    more: Annotated[
        Sequence[AnyPath],
        Argument("[C]", "Further sides, up to H, each against A; --c-set and the like alter one alone."),
    ] = ()
    c_set: Annotated[Pairs, _set("c")] = ()
    d_set: Annotated[Pairs, _set("d")] = ()
    e_set: Annotated[Pairs, _set("e")] = ()
    f_set: Annotated[Pairs, _set("f")] = ()
    g_set: Annotated[Pairs, _set("g")] = ()
    h_set: Annotated[Pairs, _set("h")] = ()
    c_rewrite: Annotated[Sequence[str], _rewrite("c")] = ()
    d_rewrite: Annotated[Sequence[str], _rewrite("d")] = ()
    e_rewrite: Annotated[Sequence[str], _rewrite("e")] = ()
    f_rewrite: Annotated[Sequence[str], _rewrite("f")] = ()
    g_rewrite: Annotated[Sequence[str], _rewrite("g")] = ()
    h_rewrite: Annotated[Sequence[str], _rewrite("h")] = ()
    c_runtime: Annotated[AnyPath | None, _runtime("c")] = None
    d_runtime: Annotated[AnyPath | None, _runtime("d")] = None
    e_runtime: Annotated[AnyPath | None, _runtime("e")] = None
    f_runtime: Annotated[AnyPath | None, _runtime("f")] = None
    g_runtime: Annotated[AnyPath | None, _runtime("g")] = None
    h_runtime: Annotated[AnyPath | None, _runtime("h")] = None
    c_target: Annotated[str | None, _target("c")] = None
    d_target: Annotated[str | None, _target("d")] = None
    e_target: Annotated[str | None, _target("e")] = None
    f_target: Annotated[str | None, _target("f")] = None
    g_target: Annotated[str | None, _target("g")] = None
    h_target: Annotated[str | None, _target("h")] = None
    c_ort_web: Annotated[str | None, _ort_web("c")] = None
    d_ort_web: Annotated[str | None, _ort_web("d")] = None
    e_ort_web: Annotated[str | None, _ort_web("e")] = None
    f_ort_web: Annotated[str | None, _ort_web("f")] = None
    g_ort_web: Annotated[str | None, _ort_web("g")] = None
    h_ort_web: Annotated[str | None, _ort_web("h")] = None

    @property
    def positions(self) -> list[AnyPath | None]:
        """The sides as they are named, in order."""
        return [self.a, self.b, *self.more]

    @cached_property
    def new_letters(self) -> str:
        """The letters of the sides that are held against A, in order.

        Raises:
            UsageError: There are too many of them, or one of them is left out.
        """
        if self.b is None and self.more:
            raise UsageError("C is named and B is not", do="ortune compare A B C")
        positions = self.positions
        if len(positions) > len(LETTERS):
            raise UsageError(
                f"{len(positions)} sides are more than {len(LETTERS)}, which is what a comparison holds",
                where=str(positions[len(LETTERS)]),
                do="compare some of them first",
            )
        named_ones = LETTERS[1 : len(positions)] if self.b is not None else ""
        altered = "".join(letter for letter in LETTERS[1:] if self.alters(letter))
        letters = LETTERS[1 : LETTERS.index(max(f"b{named_ones}{altered}")) + 1]
        left_out = [letter for letter in letters if letter not in named_ones + altered]
        if left_out and len(letters) > 1:
            raise UsageError(
                f"{letters[-1].upper()} is asked for, and {left_out[0].upper()} is neither named nor altered",
                where=f"--{altered[-1]}-{self.alters(altered[-1]).replace('_', '-')}",
                do="use the letters in their order",
            )
        return letters

    @property
    def proves_bundle(self) -> bool:
        """A bundle alone is proven again, against its own untouched model; altered, B is the bundle as altered."""
        alone = self.b is None and len(self.new_letters) == 1 and not self.alters("b")
        return alone and self._is_bundle and not (self.a_runtime or self.a_target or self.a_ort_web)
