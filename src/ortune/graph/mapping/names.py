"""Naming schemes of ONNX Runtime's optimizer.

- A duplicate name gets the suffix ``_token_N``.
- A blocked (NCHWc) node is named after its output: ``X_nchwc``, ``X_bn_nchwc``, ``X_mul_nchwc``; its new output
  ``reorder_token_N`` carries no information.
- Fusions are named after one of their nodes (``X/MatMulAddFusion``, ``fused X``), by a fixed name (``Attention``), or
  keep the name of their first node; their output keeps its name.
- If a Transpose was pushed through a node, the node keeps its name, and its output is named after the node.
- If one branch of an If is always taken, it is inlined: values become ``_if_then_branch_X``, nodes
  ``_if_then_branch_Conv``.
- Values and nodes of an inlined function become ``_inlfunc_F_X``.
- Casts to and from float16 are ``InsertedPrecisionFreeCast_X``, copies between devices ``Memcpy_token_N``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ortune.graph.model.graphs import op_set

NCHWC = "com.microsoft.nchwc"

MOVES = op_set(
    "Cast Transpose Reshape Squeeze Unsqueeze Identity Gather QuantizeLinear DequantizeLinear ReorderInput "
    "ReorderOutput MemcpyFromHost MemcpyToHost"
)
"""Operators that the optimizer inserts to move, convert or rearrange a value."""

_TOKEN = re.compile(r"_token_\d+$")
_BRANCH = re.compile(r"_if_(then_branch|else_branch)(?:_token_\d+)?_")
_CALL = re.compile(r"(?:_token_(\d+))?_(.*)", re.DOTALL)
_BLOCKED = "_nchwc"
_KINDS = ("_bn", "_mul")
_CAST = "InsertedPrecisionFreeCast_"
_DUPLICATE = "/duplicated"


def without_token(name: str) -> str:
    """Strip the token that ONNX Runtime appends to make a name unique."""
    return _TOKEN.sub("", name)


def branches(name: str) -> tuple[list[str], str]:
    """Split a name into the branches that it was inlined from, outermost first, and the inner name."""
    path = []
    while match := _BRANCH.match(name):
        path.append(match.group(1))
        name = name[match.end() :]
    return path, name


def called(name: str, functions: Iterable[str]) -> tuple[str, int, str] | None:
    """Split the name of an inlined function's value or node into function, call number and inner name, or return None.

    The first call has the number -1.
    """
    for function in functions:
        prefix = f"_inlfunc_{function}"
        match = _CALL.fullmatch(name[len(prefix) :]) if name.startswith(prefix) else None
        if match:
            return function, int(match.group(1) or -1), match.group(2)
    return None


def call_numbers(texts: Iterable[str], functions: frozenset[str]) -> dict[str, list[int]]:
    """Return, for each function, the numbers in names that distinguish its calls, in ascending order."""
    numbers_of: dict[str, set[int]] = {}
    for name in texts:
        call = called(name, functions) if name.startswith("_inlfunc_") else None
        if call is not None:
            numbers_of.setdefault(call[0], set()).add(call[1])
    return {function: sorted(numbers) for function, numbers in numbers_of.items()}


def is_moved_out(name: str) -> bool:
    """Return whether a node was inlined from a branch or function, so it was not inserted by ONNX Runtime."""
    return name.startswith("_inlfunc_") or _BRANCH.match(name) is not None


def blocked_values(name: str) -> Iterator[str]:
    """Yield the names of values that an NCHWc node may be named after, most likely first; nothing for other names."""
    plain = without_token(name)
    if not plain.endswith(_BLOCKED):
        return
    plain = plain.removesuffix(_BLOCKED)
    yield plain
    for kind in _KINDS:
        if plain.endswith(kind):
            yield plain.removesuffix(kind)


def cast_value(name: str) -> str:
    """Return the value that an inserted Cast converts; "" if the name is not that of an inserted Cast."""
    return without_token(name).removeprefix(_CAST) if name.startswith(_CAST) else ""


def node_names(name: str, *, copies: bool) -> Iterator[str]:
    """Yield the original names that a node may have had, most likely first; ``copies`` includes duplicated nodes."""
    yield name
    plain = without_token(name)
    if plain.endswith(_DUPLICATE):
        yield plain.removesuffix(_DUPLICATE)
    elif copies and plain != name:
        yield plain


def is_inserted(name: str, domain: str, op_type: str, channels_last: bool) -> bool:
    """Return whether name and operator are sufficient to show that ONNX Runtime inserted a node."""
    if domain == NCHWC and op_type in ("ReorderInput", "ReorderOutput"):
        # With channels_last, the node also replaces a Transpose of the model.
        return not channels_last
    return op_type in ("MemcpyFromHost", "MemcpyToHost") or (op_type == "Cast" and name.startswith(_CAST))


def purpose(op_type: str, domain: str, near: str) -> str:
    """Describe the purpose of an inserted node; ``near`` is the adjacent original node, or "" if unknown."""
    if domain == NCHWC:
        what = "into blocked layout" if op_type == "ReorderInput" else "out of blocked layout"
    else:
        what = {
            "Cast": "cast",
            "Transpose": "transpose",
            "MemcpyFromHost": "copy to the device",
            "MemcpyToHost": "copy to the host",
            "QuantizeLinear": "quantize",
            "DequantizeLinear": "dequantize",
            "Gather": "indices in another order",
            "Identity": "hand on",
        }.get(op_type, "reshape")
    return f"{what} for {near}" if near else what
