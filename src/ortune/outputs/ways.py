"""Ways to compare two arrays of one output, and the limits for each."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from ortune.graph.grids import Grid
from ortune.graph.outputs import OutputComparison
from ortune.outputs.figures import FLOOR, moments, top1
from ortune.outputs.files import FLOAT8, Array, decode, family, pieces
from ortune.outputs.findings import Findings
from ortune.outputs.labels import Scores, compare_labels
from ortune.outputs.rows import compare_rows
from ortune.outputs.slices import in_words, slice_errors
from ortune.outputs.steps import dequantized, grid_steps
from ortune.records import ROUNDING_L2, OutputError

# Limits of the relative L2 distance, and of the largest error as a share of the largest |reference|. Two float8
# values that round differently differ by a whole step of their few bits.
LIMITS = {"float16": (1e-2, 1e-2), "bfloat16": (1e-2, 1e-2)}
LIMITS |= {name: (1.05 * 2.0**-bits, 1.05 * 2.0**-bits) for name, (_, bits, _, _) in FLOAT8.items()}
DEFAULT_LIMITS = (ROUNDING_L2, 1e-3)
SLICE_LIMIT = 1e3
"""Factor on the limit of a whole output that applies to a slice if the user gave no tolerance: rounding errors are as
large in slices that are a thousand times smaller.
"""
MOST_OF_SLICE = 0.5
SLICE_OF_TOLERANCE = 2.0
"""Factor on the user's tolerance for a slice: by chance, the error of few elements can be 1.5 times as large."""
FEWEST_FOR_MOMENTS = 30
NOTHING_IN_COMMON = 1.0  # relative L2: zeros would be as near
Moments = tuple[float, float, int]
"""(mean, standard deviation, number of non-finite values); mean and deviation are those of the finite values."""
SOMETHING_IN_COMMON = math.nextafter(NOTHING_IN_COMMON, 0.0)  # the most of a budget that sets no limit to it


def compare_arrays(
    report: Findings,
    label: str,
    comparison: OutputComparison,
    arrays: tuple[Array, Array],
    types: tuple[str, str],
    tol: float | None,
    scores: Callable[[], Scores | None],
) -> None:
    """Compare two arrays of one output in the way that the graph requires.

    Args:
        report: Receives the findings.
        label: Name of the output for messages.
        comparison: The way to compare the output.
        arrays: Reference and candidate.
        types: Their ONNX types.
        tol: The user's tolerance; None if not given.
        scores: Returns the scores of labels, or None.
    """
    old, new = arrays
    if family(types[0]) != family(types[1]):
        report.fail(f"output {label!r} is of type {types[1]}, not {types[0]}")
        return
    is_float = family(types[0]) == "float"
    if is_float:
        report.count_nonfinite(label, arrays, types)
    if report.as_moments and old.ndim == new.ndim:
        report.ways.add("moments")
        _compare_moments(report, label, arrays, types)
    elif comparison.kind == "random length":
        _compare_sizes(report, label, arrays, types)
    elif comparison.kind in ("indices", "set") and comparison.roles is not None and old.ndim == new.ndim:
        compare_rows(report, label, comparison.roles, arrays, types, limits_of(types, tol)[1])
    elif old.shape != new.shape:
        report.fail(f"output {label!r} has shape {list(new.shape)}, not {list(old.shape)}")
    elif comparison.kind == "random":
        _compare_sizes(report, label, arrays, types)
    elif comparison.kind == "labels":
        # Values looked up by label may be stored with fewer digits; a label converted to another type is a whole
        # number.
        fractions = is_float and _fractions(arrays, types)
        limits = limits_of(types, tol)
        room = limits[1] * _largest(old, types[0]) if fractions else 0.0
        others = compare_labels(report, label, comparison.labels, arrays, types, (limits[0], room), scores)
        if fractions and not others:
            _compare_floats(report, label, arrays, types, tol)
    elif is_float:
        _compare_floats(report, label, arrays, types, tol)
    elif (grid := report.grids.get(label)) is not None and grid.integers and grid.axis is None:
        _compare_quantized(report, label, arrays, types, grid, tol)
    else:
        _compare_equal(report, label, arrays)


def limits_of(types: tuple[str, str], tol: float | None) -> tuple[float, float]:
    """Return the limits (relative L2 distance, largest error): the user's, or those of the less precise type."""
    if tol is not None:
        return tol, 10.0 * tol
    both = [LIMITS.get(onnx_type, DEFAULT_LIMITS) for onnx_type in types]
    return max(b[0] for b in both), max(b[1] for b in both)


def _compare_floats(
    report: Findings, label: str, arrays: tuple[Array, Array], types: tuple[str, str], tol: float | None
) -> None:
    """Compare the whole output and each slice by distance, and in grid steps if the reference is on a grid."""
    limits = limits_of(types, tol)
    decoded = ((decode(a, types[0]), decode(b, types[1])) for a, b in pieces(*arrays))
    error = distance_of(report, label, decoded, limits)
    if error is None:
        return
    agreeing = top1(arrays, types)
    if agreeing is not None:
        error = msgspec.structs.replace(error, top1=agreeing[0], n_rows=agreeing[1])
    if error.max_error:
        grid = report.grids.get(label)
        worst, dead = slice_errors(arrays, types, error.relative_l2)
        error = msgspec.structs.replace(
            error,
            steps=None if grid is None else grid_steps(arrays, types, grid),
            worst_slice=worst,
            dead_slices=dead,
        )
    judge(report, error, limits)


def _compare_quantized(
    report: Findings,
    label: str,
    arrays: tuple[Array, Array],
    types: tuple[str, str],
    grid: Grid,
    tol: float | None,
) -> None:
    """Compare integers from QuantizeLinear by the real values that they represent."""
    limits = limits_of(types, tol)
    decoded = ((dequantized(a, grid), dequantized(b, grid)) for a, b in pieces(*arrays))
    error = distance_of(report, label, decoded, limits)
    if error is not None:
        steps = grid_steps(arrays, types, grid) if error.max_error else None
        judge(report, msgspec.structs.replace(error, steps=steps), limits)


def distance_of(
    report: Findings, label: str, decoded: Iterator[tuple[Array, Array]], limits: tuple[float, float]
) -> OutputError | None:
    """Return an output's error; None without finite values, or if non-finite values differ, which is recorded."""
    report.floats += 1
    error2 = norm2 = theirs2 = product = worst = largest = 0.0
    count = start = 0
    for old, new in decoded:
        finite = np.isfinite(old) & np.isfinite(new)
        rest = ~finite
        same = (old[rest] == new[rest]) | (np.isnan(old[rest]) & np.isnan(new[rest]))
        if not same.all():
            at = int(np.flatnonzero(rest)[np.flatnonzero(~same)[0]])
            report.fail(f"output {label!r} is {new[at]} at element {start + at}, expected {old[at]}")
            return None
        start += old.size
        if finite.any():
            a = old[finite]
            with np.errstate(over="ignore"):
                difference = new[finite] - a
                error2, norm2 = error2 + float(difference @ difference), norm2 + float(a @ a)
                product, theirs2 = (
                    product + float(a @ new[finite]),
                    theirs2 + float(new[finite] @ new[finite]),
                )
            worst = max(worst, min(float(np.abs(difference).max()), sys.float_info.max))
            largest = max(largest, float(np.abs(a).max()))
            count += a.size
    if count == 0:
        return None
    max_error = min(worst / max(largest, FLOOR), sys.float_info.max)  # JSON has no infinity
    floor = FLOOR * math.sqrt(count)
    norm, silent = max(math.sqrt(norm2), floor), norm2 < floor * floor
    # If the squares of huge doubles overflow, only the largest error is available.
    relative_l2 = math.sqrt(error2) / norm if math.isfinite(error2 + norm2) else max_error
    lengths = math.sqrt(norm2) * math.sqrt(theirs2)
    cosine = None
    if math.isfinite(lengths) and math.isfinite(product) and lengths > 0.0 and not silent:
        # Rounding may exceed 1 slightly.
        cosine = max(-1.0, min(1.0, product / lengths))
    return OutputError(
        name=label,
        relative_l2=relative_l2,
        max_error=max_error,
        cosine=cosine,
        snr_db=-20.0 * math.log10(relative_l2) if relative_l2 > 0.0 else None,
        limit=limits[0],
        silent=silent,
    )


def judge(report: Findings, error: OutputError, limits: tuple[float, float]) -> None:
    """Record an output's error and check the limits; one step of a quantization grid is accepted."""
    report.outputs.append(error)
    report.relative_l2 = max(report.relative_l2, error.relative_l2)
    report.max_error = max(report.max_error, error.max_error)
    if error.cosine is not None:
        report.cosine = error.cosine if report.cosine is None else min(report.cosine, error.cosine)
    if error.steps is not None and error.steps.same:
        return
    if error.dead_slices:
        what = f"output {error.name!r}: {in_words(error.dead_slices)}, where the reference varies"
        report.fail(what)
    wrong = error.relative_l2 >= NOTHING_IN_COMMON
    for figure, value, limit in (
        ("relative L2 distance", error.relative_l2, limits[0]),
        ("largest error over the largest value", error.max_error, limits[1]),
    ):
        if value > limit:
            what = f"output {error.name!r} differs: {figure} {_beyond(value, limit)}, limit {limit:.2g}"
            report.fail(what, wrong=wrong, times=_times(value, limit))
    worst, limit = error.worst_slice, slice_limit(limits[0], report.tolerance)
    if worst is not None and worst.relative_l2 > limit:
        far = f"relative L2 distance {_beyond(worst.relative_l2, limit)} in row {worst.first} of axis {worst.axis}"
        what = f"output {error.name!r} differs: {far}, limit {limit:.2g}"
        report.fail(what, wrong=wrong, times=_times(worst.relative_l2, limit))


def _beyond(value: float, limit: float) -> str:
    """Format a value with enough digits to distinguish it from the limit that it exceeds."""
    texts = (f"{value:.{digits}g}" for digits in range(2, 17))
    return next((text for text in texts if float(text) > limit), f"{value:.17g}")


def _times(value: float, limit: float) -> float:
    """Return the ratio of a distance to its limit, capped at the largest float, since some tolerance may accept it."""
    return min(value / limit, sys.float_info.max) if limit else sys.float_info.max


def slice_limit(limit: float, tolerance: float | None) -> float:
    """Return the relative L2 limit of a slice, from the limit of the whole output, or from the user's tolerance."""
    if tolerance is None:
        return min(SLICE_LIMIT * limit, MOST_OF_SLICE)
    return math.inf if tolerance == SOMETHING_IN_COMMON else SLICE_OF_TOLERANCE * tolerance


def _compare_equal(report: Findings, label: str, arrays: tuple[Array, Array]) -> None:
    start = differing = 0
    what = ""
    for old, new in pieces(*arrays):
        differ = np.flatnonzero(old != new)
        if differ.size and not what:
            at = int(differ[0])
            was, now = (f"{x!r}" if old.dtype.kind == "U" else f"{x}" for x in (str(old[at]), str(new[at])))
            what = f"output {label!r} is {now} at element {start + at}, expected {was}"
        differing += differ.size
        start += old.size
    if what:
        report.differ(what, differing, start)


def _fractions(arrays: tuple[Array, Array], types: tuple[str, str]) -> bool:
    """Return whether floating-point values are not all whole numbers, so they are from a table and are not labels."""
    return any(
        not bool((values == np.rint(values)).all())
        for a, b in pieces(*arrays)
        for values in (decode(a, types[0]), decode(b, types[1]))
    )


def _largest(array: Array, onnx_type: str) -> float:
    """Return the largest magnitude of the finite values; 0.0 if there are none."""
    decoded = (decode(piece, onnx_type) for (piece,) in pieces(array))
    return max(
        (float(np.abs(values[np.isfinite(values)]).max(initial=0.0)) for values in decoded), default=0.0
    )


def _compare_sizes(
    report: Findings, label: str, arrays: tuple[Array, Array], types: tuple[str, str]
) -> tuple[Moments, Moments] | None:
    """Compare outputs of random operators: similar size, and finite if the reference is.

    Lengths may be random too, so they may differ up to fourfold.

    Returns:
        The moments of both arrays; None if the arrays differ, or have no numbers.
    """
    old, new = arrays
    if old.shape != new.shape and not (old.ndim == new.ndim and old.size / 4 <= new.size <= old.size * 4):
        report.fail(f"output {label!r} has shape {list(new.shape)}, expected about {list(old.shape)}")
        return None
    if old.dtype.kind == "U" or min(old.size, new.size) == 0:
        return None
    was, now = (moments(a, t) for a, t in zip(arrays, types, strict=True))
    if now[2] > 0 and was[2] == 0:
        values = "value" if now[2] == 1 else "values"
        report.fail(f"output {label!r} has {now[2]} non-finite {values} and the reference has none")
        return None
    return was, now


def _compare_moments(
    report: Findings, label: str, arrays: tuple[Array, Array], types: tuple[str, str]
) -> None:
    """Compare outputs of random operators: size and finiteness as in ``_compare_sizes``, and similar mean and spread.

    The limits of mean and spread are loose: half a standard deviation, and a factor of two.
    """
    old, new = arrays
    found = _compare_sizes(report, label, arrays, types)
    if found is None or min(old.size, new.size) < FEWEST_FOR_MOMENTS:
        return
    was, now = found
    spread = max(was[1], now[1])
    # Constant outputs have no spread; a hundredth of the mean is allowed.
    room = max(0.5 * spread, 1e-2 * abs(was[0]), FLOOR)
    if abs(now[0] - was[0]) > room:
        what = f"output {label!r} has mean {now[0]:.3g}, was {was[0]:.3g}, limit ± {room:.2g}"
        report.fail(what, wrong=False)
    elif spread > room and spread > 2.0 * min(was[1], now[1]):
        report.fail(
            f"output {label!r} has standard deviation {now[1]:.3g}, expected {was[1]:.3g} within a factor of 2",
            wrong=False,
        )
