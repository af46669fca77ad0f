"""Ways to damage a trace."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

GOLDEN = Path(__file__).parent / "trace" / "golden"
VALUES = (
    b"-1", b"null", b"true", b'""', b'"x"', b"[]", b"{}", b"1e400", b"-1e400", b"NaN", b"-0", b"0.5", b"1e300",
    b"9" * 30,
    b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"9007199254740991", b'"\\ud800"', b"[[[[",
    b'"' + b"a" * 5000 + b'"', b"[" * 3000 + b"]" * 3000, b'{"main_thread": 7}', b'"\xff\xfe"', b'"nan"', b'"1e9"',
)  # fmt: skip


def flip(data: bytes, rng: random.Random) -> bytes:
    """A few bytes become others."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 40)):
        found[rng.randrange(len(found))] = rng.choice(b'{}[]",:\\\n\0 \xff0a')
    return bytes(found)


def cut(data: bytes, rng: random.Random) -> bytes:
    """The end is missing."""
    return data[: rng.randrange(len(data))]


def hole(data: bytes, rng: random.Random) -> bytes:
    """A piece in the middle is missing."""
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randint(1, len(data) // 3) :]


def shuffle(data: bytes, rng: random.Random) -> bytes:
    """Lines change their places, some are doubled."""
    lines = data.split(b"\n")
    lines += rng.sample(lines, len(lines) // 5)
    rng.shuffle(lines)
    return b"\n".join(lines)


def values(data: bytes, rng: random.Random) -> bytes:
    """Values of other types and sizes."""
    share = rng.choice((0.01, 0.1, 0.6))

    def other(match: re.Match[bytes]) -> bytes:
        return match[1] + (rng.choice(VALUES) if rng.random() < share else match[2])

    return re.sub(rb'(" ?: ?)("[^"]{0,60}"|-?\d+)', other, data)


def numbers(data: bytes, rng: random.Random) -> bytes:
    """Every number has its sign or its size changed."""
    factor = rng.choice((-1, 0, 7, 10**6, -(10**9)))

    def other(match: re.Match[bytes]) -> bytes:
        return match[1] + str(int(match[2]) * factor).encode()

    return re.sub(rb'("(?:ts|dur|tid)" ?: ?|time: )(-?\d+)', other, data)


def keys(data: bytes, rng: random.Random) -> bytes:
    """Keys are missing or are there twice."""
    key = rng.choice((b"name", b"cat", b"ts", b"dur", b"tid", b"args", b"op_name", b"provider"))
    if rng.random() < 0.5:
        return data.replace(b'"%b"' % key, b'"other"')
    return data.replace(b'"%b"' % key, b'"%b" : 1, "%b"' % (key, key))


def joined(data: bytes, rng: random.Random) -> bytes:
    """Laid out in one line, or in many."""
    return data.replace(b"\n", b" ") if rng.random() < 0.5 else data.replace(b",", b",\n")


WAYS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip, cut, hole, shuffle, values, values, numbers, keys, joined,
)  # fmt: skip
