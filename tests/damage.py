"""Ways in which a file is damaged: bits, holes, and JSON with other values, keys, types and extremes."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from collections.abc import Callable
from typing import Any

import onnx
from onnx import TensorProto

EXTREMES: tuple[Any, ...] = (
    None, True, -1, 0, 0.5, 1e308, -1e308, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, "", "x", "\0", "\ud800",
    "a" * 5000, "../escape", "/tmp/escape", "..\\escape", "%s", "<script>", "\x1b[31m", "nan", [], {}, [[[]]],
    {"a": 1}, [None], ["x"], [-1, 2**62], "1x2", "9" * 400, float("inf"), float("nan"), [float("inf")],
)  # fmt: skip


def flip(data: bytes, rng: random.Random) -> bytes:
    """Some bytes become others."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 8) if found else 0):
        found[rng.randrange(len(found))] = rng.randrange(256)
    return bytes(found)


def cut(data: bytes, rng: random.Random) -> bytes:
    """The end is missing."""
    return data[: rng.randrange(len(data) or 1)]


def hole(data: bytes, rng: random.Random) -> bytes:
    """A piece is missing, or there twice."""
    start = rng.randrange(len(data) or 1)
    end = start + rng.randint(1, max(1, len(data) // 4))
    return data[:start] + data[end:] if rng.random() < 0.5 else data[:end] + data[start:]


def other_values(data: bytes, rng: random.Random) -> bytes:
    """Values of a JSON document become extreme ones, or change their places."""
    return _changed(
        data, rng, lambda holder, key: holder.__setitem__(key, copy.deepcopy(rng.choice(EXTREMES)))
    )


def other_keys(data: bytes, rng: random.Random) -> bytes:
    """Keys of a JSON document are renamed, or are gone."""

    def rename(holder: Any, key: Any) -> None:
        value = holder[key]
        del holder[key]
        if isinstance(holder, dict) and rng.random() < 0.5:
            holder[rng.choice(["x", "", key + "s", key.upper(), "../escape"])] = value

    return _changed(data, rng, rename)


def other_types(data: bytes, rng: random.Random) -> bytes:
    """Values of a JSON document get another type: numbers as text, text in a list."""
    turned: tuple[Callable[[Any], Any], ...] = (
        str,
        lambda v: [v],
        lambda v: {"x": v},
        lambda v: [v, v],
        bool,
        repr,
    )
    return _changed(data, rng, lambda holder, key: holder.__setitem__(key, rng.choice(turned)(holder[key])))


def _changed(data: bytes, rng: random.Random, change: Callable[[Any, Any], None]) -> bytes:
    try:
        document = json.loads(data)
    except ValueError:  # a log, or a file that is cut off as it is
        return flip(data, rng)
    for _ in range(rng.randint(1, 4)):
        places = list(_places(document))
        if places:
            change(*rng.choice(places))
    return json.dumps(document).encode()


def _places(node: Any) -> Any:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in list(items):
        yield node, key
        yield from _places(value)


def other_fields(data: bytes, rng: random.Random) -> bytes:
    """Numbers and texts of a model become extreme ones; nodes and values are there twice, or not at all."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.randint(1, 4)):
        message, described, value = rng.choice(list(_fields(model)))
        name = described.name
        many = not hasattr(value, "ListFields") and not isinstance(value, str | bytes | int | float)
        if described.message_type is not None:
            if not many or not len(value):
                message.ClearField(name)
            elif rng.random() < 0.5:
                del value[rng.randrange(len(value))]
            else:
                value.add().CopyFrom(rng.choice(value))
            continue
        new = _extreme(described.cpp_type, rng, message)
        with contextlib.suppress(ValueError, TypeError):  # an enumeration, or text that is no UTF-8
            if many and len(value):
                value[rng.randrange(len(value))] = new
            elif many:
                value.append(new)
            else:
                setattr(message, name, new)
    return model.SerializeToString()


def _fields(message: Any) -> Any:
    for described, value in message.ListFields():
        yield message, described, value
        if described.message_type is not None:
            for inner in (value,) if hasattr(value, "ListFields") else value:
                yield from _fields(inner)


def _extreme(kind: int, rng: random.Random, message: Any) -> Any:
    if kind in (5, 6):  # floating point
        return rng.choice([float("nan"), float("inf"), 1e38, -1.0])
    if kind == 9:
        texts = [
            "",
            "x",
            "y",
            "\0",
            "a" * 3000,
            "../escape",
            "Loop",
            "If",
            "Constant",
            "Expand",
            "n+1",
            "n*n*n*n",
        ]
        return rng.choice([text.encode() for text in texts] if isinstance(message, TensorProto) else texts)
    return rng.choice([0, 1, 2, -1, 7, 16, 1 << 20, 2**31 - 1, 2**40, 2**62, 2**63 - 1, -(2**63)])


BYTES = (flip, cut, hole)
JSON = (*BYTES, other_values, other_keys, other_types)
