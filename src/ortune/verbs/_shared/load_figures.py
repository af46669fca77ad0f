"""Load metrics of calls that start at given times, as results store them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortune.records.base import Record
from ortune.stats.arrivals import ArrivalLoad


class LoadFigures(Record, frozen=True, kw_only=True):
    """Load metrics of calls that start at given times, of one process or as the median over several processes.

    Attributes:
        waited_ns: Mean time for which a call waited because every caller was busy.
        late_ns: Mean time by which a call started late although a caller was free.
        waited_share, late_share: These times as fractions of the mean latency.
        offered_share: Time in calls that the rate requires, as a fraction of the callers' time; above 1, the callers
            cannot keep up.
        own_cpu_share: CPU time of the generator, as a fraction of one CPU.
        served_per_s: Maximum number of calls per second that the callers can make.
    """

    waited_ns: float
    late_ns: float
    waited_share: float
    late_share: float
    offered_share: float
    own_cpu_share: float
    served_per_s: float


def figures_of(load: ArrivalLoad) -> LoadFigures:
    """Return load measures in the form that results store."""
    return LoadFigures(**{name: getattr(load, name) for name in LoadFigures.__struct_fields__})


def median_of(loads: Sequence[LoadFigures]) -> LoadFigures:
    """Return the median of each metric."""
    names = LoadFigures.__struct_fields__
    return LoadFigures(**{name: float(np.median([getattr(one, name) for one in loads])) for name in names})
