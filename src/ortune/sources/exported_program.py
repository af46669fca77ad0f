"""Checks of the program in a ``.pt2`` file, since torch evaluates some of its texts as Python.

``torch.export.load`` passes symbolic sizes to sympy, which evaluates them. A program's guards become a function, its
names are written into the code of a module, and a node's target may be any attribute below ``torch``. ``weights_only``
covers none of these.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator
from typing import Any

from .exported_operators import is_allowed
from .source import SourceRefused, require_size
from .stored_archive import objects

_IDENTIFIER = re.compile(r"([A-Za-z_]\w*)?", re.ASCII)
_PLAIN_TEXT = re.compile(r"[\w.,:/@+\- ]*")
"""Letters, digits and signs that, wherever they are inserted, neither end a string literal nor call anything."""
_IDENTIFIERS = ("name", "forward_arg_names")
_TREES = ("in_spec", "out_spec")
_FACTORIES = frozenset({"bool", "dict", "float", "int", "list", "set", "str", "tuple"})
"""Allowed factories of a ``defaultdict``, since torch would import any other one from a module that the file names."""
_CHECKED = ("target", "as_operator", "expr_str", "metadata", "as_string", "as_strings")
"""Keys that are checked elsewhere or dropped, and arguments of operators, which torch writes with escaped quotes."""
_ARITHMETIC = (
    ast.Expression, ast.Name, ast.Load, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.operator, ast.unaryop,
    ast.boolop, ast.cmpop, ast.keyword, ast.Tuple,
)  # fmt: skip
_CLASS = re.compile(
    r"Symbol|Integer|Float|Rational|Add|Mul|Pow|Abs|Max|Min|Mod|Eq|Ne|Le|Lt|Ge|Gt|Equality|Unequality|LessThan"
    r"|StrictLessThan|GreaterThan|StrictGreaterThan|And|Or|Not|Piecewise|ExprCondPair|floor|ceiling|sqrt"
    r"|FloorDiv|CleanDiv|CeilDiv|ModularIndexing|PythonMod|Where|PowByNatural|FloatPow|FloatTrueDiv|IntTrueDiv"
    r"|(Trunc|Floor|Ceil|Round)ToInt|TruncToFloat|RoundDecimal|ToFloat|Identity|LShift|RShift|Bitwise(Fn|And|Or|Xor)\w*"
    r"|IsNonOverlappingAndDenseIndicator|OpaqueUnaryFn_\w+",
    re.ASCII,
)
"""Names of sympy's and PyTorch's functions of sizes."""
_POWERS = ("Pow", "PowByNatural", "FloatPow", "LShift")
_LARGEST_EXPONENT, _MOST_POWERS, _LARGEST_BASE = 64, 3, 1 << 63
"""Limits of the powers in one size, since sympy computes a power of numbers however many digits the result has."""
_EXACT = ("Rational", "Add", "Mul", "Max", "Min", "Mod", "FloorDiv", "CleanDiv")
"""Classes that are allowed in exponents.

From exact numbers, they compute no number with more digits than the product of all the numbers.
"""
_LONGEST = 200
_INSTEAD = "name the function that creates the model: module:function"


def plain(whole: Any) -> Any:
    """Return a program, or the list of its weights, without the node metadata and guards that torch does not need.

    Raises:
        SourceRefused: A part of the program would run code or access files when loaded or called; the message names it.
    """
    for part in objects(whole):
        if "guards_code" in part:
            part["guards_code"] = []
        if "inputs" in part and "target" in part:
            part["metadata"] = {}
        for target in (part.get("target"), part.get("as_operator")):
            if target is not None and not is_allowed(str(target)):
                raise SourceRefused(
                    "the program calls %s, which is not on the list of operators" % _short(target), _INSTEAD
                )
        for text in _texts(part.get("expr_str")):
            if not _is_arithmetic(text):
                raise SourceRefused(
                    "the program contains code instead of a size: %s" % _short(text), _INSTEAD
                )
        for key, value in part.items():
            _require_name(key, value)
            if isinstance(value, dict) and isinstance(value.get("sizes"), list):
                require_size(key, [_number(size) for size in value["sizes"]])
    return whole


def _require_name(key: str, value: Any) -> None:
    """Refuse a text that is more than a name, if torch writes it into the code of a module."""
    if key in _CHECKED:
        return
    try:
        parts = list(_in_json(value)) if key in _TREES and value else []
        texts = [part for part in parts if isinstance(part, str)] if parts else list(_listed(value))
    except (ValueError, TypeError, RecursionError):
        raise SourceRefused("the program has a damaged description of its arguments", _INSTEAD) from None
    for part in parts:
        if isinstance(part, dict):
            _require_no_import(part)
    form = _IDENTIFIER if key in _IDENTIFIERS else _PLAIN_TEXT
    wrong = [text for text in texts if not form.fullmatch(text)]
    wrong += [] if _PLAIN_TEXT.fullmatch(key) else [key]
    if wrong:
        signs = "letters, digits and _" + ("" if form is _IDENTIFIER else ".,:/@+-")
        raise SourceRefused(
            "a name in the program has more than %s: %s" % (signs, _short(wrong[0])), _INSTEAD
        )


def _require_no_import(part: dict[str, Any]) -> None:
    """Refuse a description of arguments with an object that torch would import: an enumeration, or a factory."""
    module, name = part.get("default_factory_module", "builtins"), part.get("default_factory_name", "list")
    if "__enum__" in part or module != "builtins" or str(name) not in _FACTORIES:
        what = part.get("fqn") if "__enum__" in part else "%s.%s" % (module, name)
        raise SourceRefused(
            "the arguments of the program contain an object of Python: %s" % _short(what), _INSTEAD
        )


def _number(size: Any) -> int | None:
    """Return the number that a size consists of; None for a symbol."""
    number = size.get("as_int") if isinstance(size, dict) else None
    return number if isinstance(number, int) else None


def _in_json(text: str) -> Iterator[str | dict[str, Any]]:
    """Yield every text and object of a JSON document, including those in texts that are JSON themselves."""
    waiting = [json.loads(text)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += [*part, *part.values()]
        elif isinstance(part, list):
            waiting += part
        elif isinstance(part, str) and part[:1] in ("[", "{", '"'):
            waiting.append(json.loads(part))
        elif isinstance(part, str):
            yield part


def _listed(value: Any) -> Iterator[str]:
    """Yield a text, or the texts in nested lists; those in objects are checked under their own keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _listed(item)


def _texts(value: Any) -> list[str]:
    return [str(item) for item in (value if isinstance(value, list) else [value]) if item is not None]


def _is_arithmetic(text: str) -> bool:
    """Return whether a text is arithmetic on sizes: names, numbers, and sympy's classes, such as Max and Symbol."""
    try:
        nodes = list(ast.walk(ast.parse(text.strip(), mode="eval")))
        powers = [power for node in nodes if (power := _power(node)) is not None]
        if len(powers) > _MOST_POWERS or not all(_is_small(base, exponent) for base, exponent in powers):
            return False
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    # Some of sympy's classes evaluate text arguments as code; Symbol uses the text as its name.
    symbols = [node for node in nodes if isinstance(node, ast.Call) and _name(node.func) == "Symbol"]
    quoted = {id(argument) for call in symbols for argument in call.args}
    return all(_is_allowed(node, quoted) for node in nodes)


def _power(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """Return the base and the exponent of a power or shift; None for anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift):
        return node.left, node.right
    if isinstance(node, ast.Call) and _name(node.func) in _POWERS and len(node.args) == 2:
        return node.args[0], node.args[1]
    return None


def _is_small(base: ast.expr, exponent: ast.expr) -> bool:
    """Return whether all numbers in a base are small, and also the product of all exponents that apply to them."""
    nodes = list(ast.walk(base))
    numbers = [node.value for node in nodes if isinstance(node, ast.Constant)]
    if any(isinstance(number, int) and number > _LARGEST_BASE for number in numbers):
        return False
    exponents = [exponent, *(power[1] for node in nodes if (power := _power(node)) is not None)]
    return math.prod(map(_height, exponents)) <= 1 + _LARGEST_EXPONENT


def _height(exponent: ast.expr) -> float:
    """Return an upper bound of an exponent's numerator plus denominator; infinity unless it is exact arithmetic.

    The sum, difference, product or quotient of two fractions has at most the product of their heights. A symbol has the
    height of 1, because it may be cancelled.
    """
    height, waiting = 1.0, [exponent]
    while waiting:
        node = waiting.pop()
        name = _name(node.func) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Constant) and (isinstance(node.value, int) or node.value == 0.5):
            height *= min(1 + abs(node.value), 2 + _LARGEST_EXPONENT) if isinstance(node.value, int) else 3
        elif isinstance(node, ast.Name) or name == "Symbol":
            height *= 2
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            waiting.append(node.operand)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
            waiting += [node.left, node.right]
        elif isinstance(node, ast.Call) and (name in _EXACT or _is_literal(node)) and not node.keywords:
            waiting += node.args
        else:
            return math.inf
    return height


def _is_literal(call: ast.Call) -> bool:
    """Return whether a call is Integer with a literal number.

    Integer of an expression is excluded, since a small fraction could become a large number.
    """
    return _name(call.func) == "Integer" and all(
        isinstance(each, ast.Constant | ast.UnaryOp) for each in call.args
    )


def _is_allowed(node: ast.AST, quoted: set[int]) -> bool:
    if isinstance(node, ast.Call):
        name = _name(node.func)
        # Other arguments of Float are numbers of digits.
        n_arguments = 2 if name in _POWERS else 1 if name == "Float" else None
        if n_arguments is not None and (len(node.args) != n_arguments or node.keywords):
            return False
        return _CLASS.fullmatch(name) is not None
    if isinstance(node, ast.Constant):
        if isinstance(node.value, float) and not math.isfinite(node.value):
            return False  # sympy computes all digits of 1e999999999
        return not isinstance(node.value, str | bytes) or id(node) in quoted
    return isinstance(node, _ARITHMETIC)


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _short(text: Any) -> str:
    return repr(text)[:_LONGEST]
