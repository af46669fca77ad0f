"""Tables of the operators that a provider supports in each ONNX Runtime release, written by scripts in ``tools/``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

FOLDER = Path(__file__).with_name("tables")


class OperatorTable(msgspec.Struct, frozen=True, kw_only=True):
    """The operators that a provider supports.

    Attributes:
        source: Document or code from which the table was made.
        releases: The releases of ONNX Runtime in the table, oldest first.
        since: Maps each operator, with its domain unless that is ONNX's, to the first listed release with support.
    """

    source: str
    releases: tuple[str, ...]
    since: Mapping[str, str]

    def release(self, wanted: str) -> str:
        """Return the newest listed release up to ``wanted``, or the newest if ``wanted`` is ""; "" if all are newer."""
        releases = [r for r in self.releases if not wanted or _number(r) <= _number(wanted)]
        return releases[-1] if releases else ""

    def operators(self, wanted: str) -> frozenset[str]:
        """Return the operators that the release ``release(wanted)`` supports."""
        release = self.release(wanted)
        return frozenset(
            op for op, first in self.since.items() if release and _number(first) <= _number(release)
        )


@cache
def table(name: str) -> OperatorTable:
    """Return the table of operators that a provider supports, from the JSON file with this name."""
    return msgspec.json.decode((FOLDER / f"{name}.json").read_bytes(), type=OperatorTable)


@cache
def operators(name: str, release: str) -> frozenset[str]:
    """Return the operators in the table ``name`` that a release of the provider supports."""
    return table(name).operators(release)


def _number(release: str) -> tuple[int, int]:
    """Return the major and minor version, since patch releases have the same operators."""
    major, minor = (int(part) for part in release.split(".")[:2])
    return major, minor
