"""The options ``--rate`` and ``--arrival``."""

from __future__ import annotations

from ortune.errors import OrtuneError, UsageError
from ortune.stats import arrivals
from ortune.stats.arrivals import RECORDED, RecordedArrivals
from ortune.verbs._shared.quantities import per_second


def check(rate: str | float | None, kind: str | None, *, gap: bool, in_page: bool, workload: bool) -> None:
    """Check the values of ``--rate`` and ``--arrival``.

    Args:
        rate: Value of ``--rate``.
        kind: Value of ``--arrival``.
        gap: Whether ``--gap`` was passed too.
        in_page: Whether the model runs in a browser.
        workload: Whether a workload file with recorded calls was passed.

    Raises:
        UsageError: A value cannot be read, or contradicts another option.
    """
    if rate is None and kind is None:
        return
    if in_page:
        raise UsageError(
            "calls at given times are not possible in a browser", where="--rate", do="use --gap instead"
        )
    if gap:
        raise UsageError(
            "--rate and --gap both decide when calls start",
            where="--gap",
            do="pass --rate or --gap",
        )
    if rate is not None:
        per_second(rate, "--rate")
    if kind == RECORDED:
        if not workload:
            raise UsageError(
                "there is no recording", where="--arrival", do="pass --workload app.workload of ortune record"
            )
        return
    if rate is None:
        raise UsageError("the rate is missing", where="--arrival", do=f"e.g. --rate 50/s --arrival {kind}")
    try:
        arrivals.variation(kind or "poisson")
    except OrtuneError as error:
        raise UsageError(
            error.what, where="--arrival", do="constant, poisson, recorded, or gamma:CV such as gamma:2"
        ) from error


def arrivals_of(rate: str | float | None, kind: str | None) -> RecordedArrivals | None:
    """Return the start times for the calls of a recording; None if neither option was passed."""
    if rate is None and kind is None:
        return None
    asked = None if rate is None else per_second(rate, "--rate")
    return RecordedArrivals(kind=kind or "poisson", rate_per_s=asked)
