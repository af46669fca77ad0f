"""Creates the record of a verified conversion that is stored in the model's metadata."""

from __future__ import annotations

from ortune.engines.conversion.kinds import SourceKind
from ortune.records import Conversion, ConvertedFrom, SourceOpened


def origin(kind: SourceKind, source: SourceOpened, conversion: Conversion) -> ConvertedFrom:
    """Return the record of a verified conversion for the model's metadata."""
    sets = len({case.name for case in conversion.cases})
    worst = max((case.outputs.relative_l2 for case in conversion.cases if case.outputs), default=0.0)
    opened = [axis.name for axis in conversion.axes if axis.status == "open"]
    sizes = f", other sizes of {', '.join(opened)} among them" if opened else ""
    return ConvertedFrom(
        source=kind.text.rpartition("/")[2],
        kind=source.kind,
        exporter=conversion.exporter,
        versions=source.versions,
        opset=conversion.opset,
        checked=f"outputs equal within {worst:.0e} on {sets} sets of inputs{sizes}, with the optimiser on and off",
    )
