"""Files in ORT format, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ortune.records import OrtFile

OWN = "com.microsoft."


def times(operator: str, count: int) -> str:
    """Return a count with its operator: "2 FusedConv"."""
    return f"{count} {operator.removeprefix(OWN)}"


def counted(operators: Mapping[str, int]) -> str:
    """Return the operators with their counts, the most frequent first."""
    return ", ".join(times(name, count) for name, count in Counter(operators).most_common())


def about(file: OrtFile) -> list[tuple[str, str]]:
    """Return pairs of a title and a text: the file's version, its optimisation level, and the builds that reject it."""
    read_by = f", read by {file.read_by}" if file.read_by else ""
    saved = counted(file.saved_optimisations)
    later = f"; stores optimisations for load time, which make {saved}" if saved else ""
    rows = [("ORT format", f"version {file.version or 'missing'}{read_by}")]
    plain = f", except for the nodes that {file.kept_for} takes" if file.kept_for else ""
    rows.append(("optimized", f"level {file.level}{plain}, style {file.style}{later}"))
    return rows + [("rejected by", f"{rejection.where}: {rejection.why}") for rejection in file.rejected_by]
