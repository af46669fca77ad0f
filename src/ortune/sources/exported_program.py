"""What a ``.pt2`` file may hold: torch evaluates some of its texts as Python, so these are read first.

``torch.export.load`` hands symbolic sizes to sympy, which evaluates them. A program's guards become a function, a
node's target may be any attribute below ``torch``, and a compiled library in the archive is loaded. ``weights_only``
covers none of these.
"""

from __future__ import annotations

import ast
import json
import re
import zipfile
from collections.abc import Iterator
from typing import Any

from .source import Refused

_TARGET = re.compile(
    r"torch\.ops\.[a-z]\w*\.\w+(\.[A-Za-z]\w*)?|torch\._?sym_\w+|(_operator|math)\.[a-z]\w*", re.ASCII
)
_FOLDERS = re.compile(r"(^|/)(models|data/(weights|constants|sample_inputs)|\.data|extra)/")
_TOP = re.compile(
    r"([^/]+/)?(archive_format|archive_version|byteorder|version|serialized_\w+\.(json|pt))", re.ASCII
)
_SIZES = {"size", "stride", "storage_offset", "shape", "dim", "ndim"}
_PLAIN = (
    ast.Expression, ast.Name, ast.Load, ast.Subscript, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.operator,
    ast.unaryop, ast.boolop, ast.cmpop, ast.keyword, ast.IfExp,
)  # fmt: skip
_LONGEST = 200
_INSTEAD = "name the function that creates the model: module:function"


def require_plain(path: str) -> None:
    """Refuses a file with anything in it that could run code while it is loaded or called.

    Raises:
        Refused: Names what it is.
    """
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if len(set(names)) != len(names):
            raise Refused("the archive has two entries with the same name", _INSTEAD)
        for name in names:
            if not _FOLDERS.search(name) and not _TOP.fullmatch(name):
                raise Refused("the archive contains more than a program and its weights: %s" % name, _INSTEAD)
            if name.endswith(".json"):
                _require_plain_program(json.loads(archive.read(name)))


def _require_plain_program(whole: Any) -> None:
    for part in _objects(whole):
        if "inputs" in part and not _TARGET.fullmatch(str(part.get("target", "torch.ops.a.b"))):
            raise Refused("the program calls %s, which is not an operator" % _short(part["target"]), _INSTEAD)
        for text in [*_texts(part.get("expr_str")), *_texts(part.get("guards_code"))]:
            if not _is_arithmetic(text):
                raise Refused("the program contains code instead of a size: %s" % _short(text), _INSTEAD)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object of a JSON document."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _texts(value: Any) -> list[str]:
    return [str(item) for item in (value if isinstance(value, list) else [value]) if item is not None]


def _is_arithmetic(text: str) -> bool:
    """Returns whether a text is arithmetic of sizes: names, numbers, and sympy's classes, such as Max and Symbol."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    nodes = list(ast.walk(tree))
    # A name of a symbol, L['x'], x.size()[0]; some of sympy's classes evaluate any other text that they are given.
    symbols = [node for node in nodes if isinstance(node, ast.Call) and _name(node.func) == "Symbol"]
    quoted = {id(argument) for call in symbols for argument in call.args}
    quoted |= {id(node.slice) for node in nodes if isinstance(node, ast.Subscript)}
    return all(_allowed(node, quoted) for node in nodes)


def _allowed(node: ast.AST, quoted: set[int]) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) or _is_class(_name(node.func))
    if isinstance(node, ast.Attribute):
        return node.attr in _SIZES
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, str | bytes) or id(node) in quoted
    return isinstance(node, _PLAIN)


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _is_class(name: str) -> bool:
    return name[:1].isupper() and name != "S"


def _short(text: Any) -> str:
    return repr(text)[:_LONGEST]
