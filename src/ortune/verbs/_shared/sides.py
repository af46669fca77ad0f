"""Options for the sides of a comparison: A, B and up to six further sides, each with options that apply to it only."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from ortune.errors import UsageError
from ortune.verbs._shared.common import Pairs, Rewrites
from ortune.verbs._shared.groups import OnePlanOptions
from ortune.verbs._shared.hosts import HostOption
from ortune.verbs._shared.hosts import parse as parse_hosts
from ortune.verbs._shared.quantities import pairs
from ortune.verbs._shared.spelling import MODEL, AnyPath, Argument, Option, named

if TYPE_CHECKING:
    from ortune.measuring.sides import SideText
    from ortune.measuring.terms import Terms

LETTERS = "abcdefgh"


class _Altering(NamedTuple):
    """Definition of an option that each side has, such as ``--b-set``.

    Attributes:
        type: Type of the field.
        usual: Default of the field.
        metavar: Metavar in the help.
        what: Subject of the option in the help.
        also: Older name of the option; "" for none.
    """

    type: Any
    usual: object
    metavar: str
    what: str
    also: str = ""


_ALTERING = {
    "set": _Altering(Pairs, (), "KNOB=VALUE", "A setting"),
    "rewrite": _Altering(Sequence[str], (), "NAME[:k=v]", "A rewrite"),
    "runtime": _Altering(AnyPath | None, None, "PATH|NAME", "The onnxruntime", "python"),
    "target": _Altering(str | None, None, "T", "The target"),
    "ort_web": _Altering(str | None, None, "PATH|VERSION", "The onnxruntime-web"),
}

_MACHINE = {"host": _Altering(str | None, None, "NAME=SCRIPT", "The machine")}
"""Additional per-side options of a comparison of machines."""
_OF_A_RUNTIME = ("runtime", "target", "ort_web")

OptionsType = TypeVar("OptionsType", bound=type)


def _for_sides(
    letters: str, what: Mapping[str, _Altering] = _ALTERING
) -> Callable[[OptionsType], OptionsType]:
    """Return a decorator that adds the per-side fields (``a_set``, ``a_rewrite``, ...) to an options class.

    The added fields follow the fields of the class, and must be added before ``dataclass`` reads the class. The help
    shows only the options of A and B.
    """

    def add(options: OptionsType) -> OptionsType:
        for name, altering in what.items():
            for letter in letters:
                spelling = Option(
                    f"--{letter}-{name.replace('_', '-')}",
                    altering.metavar,
                    f"{altering.what} of {letter.upper()} only.",
                    MODEL,
                    also=f"--{letter}-{altering.also}" if altering.also else "",
                    hidden=letter > "b",
                )
                options.__annotations__[f"{letter}_{name}"] = Annotated[altering.type, spelling]
                setattr(options, f"{letter}_{name}", altering.usual)
        return options

    return add


@dataclass(frozen=True, kw_only=True)
@_for_sides("ab")
class _Named(OnePlanOptions):
    """Models and rewrites of a base and one side: the fields that ``TwoSides`` and ``Sides`` share."""

    a: Annotated[
        AnyPath,
        Argument("[A]", "The baseline: model.onnx, model.ort, NAME.ortune or model.onnx@git-revision."),
    ] = ""
    b: Annotated[
        AnyPath | None,
        Argument("[B]", "The candidate; also a plan.json. Omitted: A's model."),
    ] = None
    rewrite: Rewrites = ()


@dataclass(frozen=True, kw_only=True)
class TwoSides(_Named):
    """A base and one side compared with it."""

    map: Annotated[
        Sequence[str], Option("--map", "a=b", "Input a of A corresponds to input b of B. Repeatable.", MODEL)
    ] = ()

    @cached_property
    def mapped(self) -> dict[str, str]:
        """Maps names of B's inputs to the names of the A inputs whose values they receive."""
        return pairs(self.map, "--map")

    @property
    def positions(self) -> list[AnyPath | None]:
        """The models of the two sides in order, as the user named them."""
        return [self.a, self.b]

    @cached_property
    def machines(self) -> dict[str, HostOption]:
        """Machines of the sides that name a machine, keyed by letter.

        Raises:
            UsageError: A value is not ``NAME=SCRIPT``, or the side also names a Python interpreter.
        """
        from ortune.runtimes.packages import sendable

        hosts = {}
        for letter in LETTERS:
            text, flag = getattr(self, f"{letter}_host", None), f"--{letter}-host"
            if not text:
                continue
            own = named(getattr(self, f"{letter}_runtime"))
            if own is not None and sendable(own) is None:
                raise UsageError(
                    "a host has a runtime of its own; only a release or a wheel can be sent there",
                    where=flag,
                    do=f"omit --{letter}-runtime, or pass a release",
                )
            (hosts[letter],) = parse_hosts([text], flag)
        return hosts

    @property
    def _is_bundle(self) -> bool:
        return str(self.a).rstrip("/").endswith(".ortune")

    def alters(self, letter: str) -> str:
        """Return the name of the first option that is set for this side only; "" if there is none."""
        names = (*_ALTERING, *_MACHINE)
        return next((name for name in names if getattr(self, f"{letter}_{name}", None)), "")

    def side(self, letter: str) -> SideText:
        """Return the options of a side, as the user wrote them."""
        from ortune.measuring.sides import SideText
        from ortune.runtimes.packages import placed

        place = LETTERS.index(letter)
        host, own = self.machines.get(letter), named(getattr(self, f"{letter}_runtime"))
        text = self.positions[place] if place < len(self.positions) else None
        if text is None and self._is_bundle:
            text = self.a
        return SideText(
            text=None if text is None else str(text),
            settings=tuple(getattr(self, f"{letter}_set")),
            option=f"--{letter}-set",
            rewrites=[*self.rewrite, *getattr(self, f"{letter}_rewrite")],
            runtime=placed(host.script, own) if host else own or named(self.runtime),
            target=getattr(self, f"{letter}_target"),
            ort_web=getattr(self, f"{letter}_ort_web"),
        )


@dataclass(frozen=True, kw_only=True)
@_for_sides(LETTERS, _MACHINE)
@_for_sides(LETTERS[2:])
class Sides(TwoSides):
    """A base, and up to seven sides that are compared with it."""

    more: Annotated[
        Sequence[AnyPath],
        Argument(
            "[C]", "Further sides, up to H, each compared with A; --c-set and the like change a single side."
        ),
    ] = ()

    @property
    def terms(self) -> Terms:
        """Terms of the measurement, including whether machines are compared."""
        return replace(super().terms, machines=bool(self.machines))

    @property
    def positions(self) -> list[AnyPath | None]:
        """The models of the sides in order, as the user named them."""
        return [self.a, self.b, *self.more]

    @cached_property
    def new_letters(self) -> str:
        """Letters of the sides that are compared with A, in order.

        Raises:
            UsageError: There are too many sides, or a side is missing.
        """
        if self.b is None and self.more:
            raise UsageError("C was given without B", do="ortune compare A B C")
        positions = self.positions
        if len(positions) > len(LETTERS):
            raise UsageError(
                f"{len(positions)} sides; a comparison supports at most {len(LETTERS)}",
                where=str(positions[len(LETTERS)]),
                do="compare fewer sides",
            )
        named_ones = LETTERS[1 : len(positions)] if self.b is not None else ""
        altered = "".join(letter for letter in LETTERS[1:] if self.alters(letter))
        letters = LETTERS[1 : LETTERS.index(max(f"b{named_ones}{altered}")) + 1]
        left_out = [letter for letter in letters if letter not in named_ones + altered]
        if left_out and len(letters) > 1:
            raise UsageError(
                f"{letters[-1].upper()} is used, but {left_out[0].upper()} is neither passed nor changed",
                where=f"--{altered[-1]}-{self.alters(altered[-1]).replace('_', '-')}",
                do="use the letters in order",
            )
        return letters

    @property
    def proves_bundle(self) -> bool:
        """Whether a bundle is compared with its original model, with no option for B or for A's runtime."""
        alone = self.b is None and len(self.new_letters) == 1 and not self.alters("b")
        return alone and self._is_bundle and not any(getattr(self, f"a_{name}") for name in _OF_A_RUNTIME)

    def require_difference(self, *, same: bool = False) -> None:
        """Check that there is something to compare: a second model, a bundle, or an option that changes one side.

        Args:
            same: Whether the same model on both sides is intended.

        Raises:
            UsageError: Only A was named, without an option that changes one side.
        """
        altered = any(self.alters(letter) for letter in LETTERS)
        if self.b is not None or altered or self._is_bundle or same:
            return
        raise UsageError(
            "B is missing: there is nothing to compare A with",
            where=str(self.a),
            do="name a second model, or change one side, as by --b-set intra_op_num_threads=1; to time this model "
            f"alone: {shlex.join(['ortune', 'bench', str(self.a)])}; to compare it with itself, name it twice",
        )
