"""Determines the facts about a model's inputs that sizes depend on: type, role, and the kind of each dimension."""

from __future__ import annotations

from dataclasses import dataclass, replace

import onnx_ir as ir

from ortune.graph.shapes.symbols import Size, feedable, input_sizes, kind_of_name
from ortune.inputs.semantics import Consumers, axis_kinds, classify, dtype_of

_LOOKED_THROUGH = frozenset({"Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "QuantizeLinear"})

KEEP = {"total": 0, "": 1, "other": 1, "channels": 2, "frames": 3, "samples": 3, "encoder": 5, "seq": 6}
"""Priority by kind of symbol, 7 for others. Of two equal symbols, the lower is expressed by the higher."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """An input that must be fed.

    Attributes:
        shape: Declared sizes, with symbols for dynamic sizes.
        kinds: Kind of each axis ("batch", "seq", "height", ...).
        rank_known: False if the file declares no shape, so the rank is a guess.
    """

    name: str
    dtype: str
    shape: tuple[Size, ...]
    role: str
    kinds: tuple[str, ...]
    rank_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSet:
    """All inputs to feed, and the kind of every symbol in their shapes."""

    inputs: tuple[InputSpec, ...]
    kinds: dict[str, str]

    def with_role(self, role: str) -> list[InputSpec]:
        """Return the inputs with the given role, in the model's order."""
        return [i for i in self.inputs if i.role == role]

    def keep(self, symbol: str) -> int:
        """Return the priority of a symbol: of two equal symbols, the one of higher priority stays free."""
        return 2 * KEEP.get(self.kinds.get(symbol, ""), 7) + (1 if kind_of_name(symbol) else 0)


def inspect_inputs(model: ir.Model) -> InputSet:
    """Classify every input of a model.

    Raises:
        InputError: No value can be generated for the type of an input.
    """
    specs = [_spec(value) for value in feedable(model)]
    roles = {s.role for s in specs}
    if "sample-rate" in roles:
        # With a sample rate, the only large float input is a waveform, whatever its name.
        specs = [_as_audio(s) if s.role == "data" and s.dtype == "float" else s for s in specs]
    if "past" in roles:
        specs = _mark_totals(specs)
    return InputSet(inputs=tuple(specs), kinds=_symbol_kinds(specs))


def _spec(value: ir.Value) -> InputSpec:
    name, dtype, consumers = value.name or "", dtype_of(value), consumers_of(value)
    declared = input_sizes(value)
    shape = declared if declared is not None else _guessed_rank(name, consumers, value)
    role = classify(name, dtype, shape, consumers)
    kinds = axis_kinds(name, role, dtype, shape, consumers)
    return InputSpec(
        name=name, dtype=dtype, shape=shape, role=role, kinds=kinds, rank_known=declared is not None
    )


def _as_audio(spec: InputSpec) -> InputSpec:
    kinds = axis_kinds(spec.name, "audio", spec.dtype, spec.shape, ())
    return replace(spec, role="audio", kinds=kinds)


def consumers_of(value: ir.Value, depth: int = 3) -> Consumers:
    """Return (operator, input index) for each use of a value, directly or through casts and reshapes."""
    uses: list[tuple[str, int]] = []
    for use in value.uses():
        uses.append((use.node.op_type, use.idx))
        if depth and use.idx == 0 and use.node.op_type in _LOOKED_THROUGH and use.node.outputs:
            uses += consumers_of(use.node.outputs[0], depth - 1)
    return tuple(uses)


def _guessed_rank(name: str, consumers: Consumers, value: ir.Value) -> tuple[Size, ...]:
    """Return a shape with a guessed rank and a new symbol for each axis, for an input without a declared rank."""
    rank = 2
    for use in value.uses():
        weight = use.node.inputs[1] if len(use.node.inputs) > 1 else None
        if use.node.op_type == "Conv" and weight is not None and weight.shape is not None:
            rank = len(weight.shape)
    if {"LSTM", "GRU", "RNN"} & {op for op, position in consumers if position == 0}:
        rank = 3
    return tuple(Size.from_symbol(f"{name}[{axis}]") for axis in range(rank))


def _mark_totals(specs: list[InputSpec]) -> list[InputSpec]:
    """Return the specs with the kind of each mask's last axis: "encoder", or "total" for past and new tokens.

    A mask that shares its symbol with the token ids is not changed.
    """
    new = {s for i in specs if i.role == "token-ids" for d in i.shape for s, _ in d.terms}
    out = []
    for spec in specs:
        kinds = spec.kinds
        if spec.role == "mask" and kinds and not {s for s, _ in spec.shape[-1].terms} & new:
            last = "encoder" if "encoder" in spec.name.lower() else "total"
            kinds = (*kinds[:-1], last)
        out.append(InputSpec(name=spec.name, dtype=spec.dtype, shape=spec.shape, role=spec.role, kinds=kinds))
    return out


def _symbol_kinds(specs: list[InputSpec]) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for spec in specs:
        for dim, kind in zip(spec.shape, spec.kinds, strict=True):
            for symbol, _ in dim.terms:
                # In a sum, each symbol has the kind of its own name; a single symbol has that of its axis.
                own = kind if len(dim.terms) == 1 and not dim.add else kind_of_name(symbol) or "other"
                if kinds.get(symbol, "other") == "other" or (
                    own == "total" and kind_of_name(symbol) != "past"
                ):
                    kinds[symbol] = own
    return kinds
