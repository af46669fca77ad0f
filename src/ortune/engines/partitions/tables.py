"""The operators of a provider in each release of ONNX Runtime: data, written by scripts in ``tools/``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

FOLDER = Path(__file__).with_name("tables")


class OperatorTable(msgspec.Struct, frozen=True, kw_only=True):
    """The operators of a provider.

    Attributes:
        source: Source of the table.
        releases: The releases of ONNX Runtime in the table, oldest first.
        since: First of these releases with an operator; operators include the domain if it is not ONNX's.
    """

    source: str
    releases: tuple[str, ...]
    since: Mapping[str, str]

    def release(self, wanted: str) -> str:
        """Return the newest listed release up to the wanted one, or the newest of all for ""; "" before the first."""
        releases = [r for r in self.releases if not wanted or _number(r) <= _number(wanted)]
        return releases[-1] if releases else ""

    def operators(self, wanted: str) -> frozenset[str]:
        """Return the operators of the release that ``release`` returns."""
        release = self.release(wanted)
        return frozenset(
            op for op, first in self.since.items() if release and _number(first) <= _number(release)
        )


@cache
def table(name: str) -> OperatorTable:
    """Return the table with that name."""
    return msgspec.json.decode((FOLDER / f"{name}.json").read_bytes(), type=OperatorTable)


@cache
def operators(name: str, release: str) -> frozenset[str]:
    """Return the operators of a release in the table with that name."""
    return table(name).operators(release)


def _number(release: str) -> tuple[int, int]:
    """Return the major and minor version; patch releases have the same operators."""
    major, minor = (int(part) for part in release.split(".")[:2])
    return major, minor
