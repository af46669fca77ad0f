"""Are the outputs of two plans the same, as far as they should be?

Workers leave the outputs of a run in a folder: ``outputs.json`` and one ``.npy`` file a tensor (maps as
JSON). Arrays are mapped, not read, and compared in pieces, so outputs larger than memory can be compared.

What is compared how:

- floating point: relative L2 distance and largest error, with the limits of the less precise of the two
  types; NaN must stand where NaN stood, infinities must be equal;
- integers, booleans and strings: equal;
- outputs of kind "set" (rows behind NMS, in any order) and "indices" (TopK, ArgMax): a near tie may go
  either way, so a small share may differ; see ``_compare_set`` and ``_compare_indices``;
- outputs of a model that differs from itself (random operators): shape, finiteness, mean and spread.

What differs beyond its limit may still be an answer to the same question, less exact. It is none where it has another
shape or kind, is NaN where the reference is not, or is no nearer to the reference than zeros would be; and where no
integer, string or row of a model without other outputs is as it was.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from ortune.analysis.grids import Grid
from ortune.errors import OrtuneError
from ortune.inputs.value_files import StoredValue
from ortune.records import NonFiniteOutput, OutputDifference, OutputError
from ortune.trials.output_figures import (
    FLOOR,
    accepting,
    columns_of,
    leaves,
    moments,
    nonfinite,
    top1,
    unmatched_rows,
)
from ortune.trials.output_files import (
    FLOAT8,
    Array,
    decode,
    family,
    load_array,
    load_json,
    pieces,
    read_outputs,
)
from ortune.trials.output_slices import dead_columns, in_words, slice_errors
from ortune.trials.output_steps import dequantized, grid_steps

# Largest relative L2 distance, and largest error as a share of the largest |reference|. Two float8 values
# that rounded apart differ by a whole step of their few bits.
LIMITS = {"float16": (1e-2, 1e-2), "bfloat16": (1e-2, 1e-2)}
LIMITS |= {name: (1.05 * 2.0**-bits, 1.05 * 2.0**-bits) for name, (_, bits, _, _) in FLOAT8.items()}
DEFAULT_LIMITS = (1e-4, 1e-3)

SLICE_LIMIT = 1e3
"""Times the limit of the whole is that of a slice, where the user gave none: rounding is as large in slices that are a
thousand times smaller."""
MOST_OF_SLICE = 0.5
SLICE_OF_TOLERANCE = 2.0
"""Times the user's own number: chance alone makes the error of few elements half as large again."""

DIFFERING_SHARE = 0.01  # of indices or rows, where ties are near
FEWEST_FOR_MOMENTS = 30
NOTHING_IN_COMMON = 1.0  # relative L2: zeros would be as near
SOMETHING_IN_COMMON = math.nextafter(NOTHING_IN_COMMON, 0.0)  # the most of a budget that sets no limit to it
FEWEST_TO_JUDGE = 4  # values that all differ, of which it is said: one label that flipped is still an answer
_KINDS = {"tensor": "a tensor", "sequence": "a sequence", "none": "absent", "json": "a list of maps"}
WIDEST_TABLE = 8  # columns of a table of positions; NonMaxSuppression gives 3

_ANY_COUNT = ("set", "indices", "moments")  # these compare what they can of outputs whose length varies


@dataclass(slots=True, kw_only=True)
class _Found:
    """What the comparison has found so far.

    Attributes:
        what: The first failure.
        wrong: The first output that is no answer to the same question.
        unlike: The first whose values are equal or not, and all of them differ; without floating-point outputs beside
            it, no answer either.
        inexact: Every failure is one that some tolerance accepts.
        floats: Floating-point outputs so far.
        may_be_nonfinite: The user accepts outputs without a finite element.
        grids: Of the reference's outputs that come from QuantizeLinear, by name.
        labels: Classes of outputs that are maps on one side, in the order of the other's columns, by name.
        tolerance: The user's number, for outputs of kind "values".
    """

    relative_l2: float = 0.0
    max_error: float = 0.0
    cosine: float | None = None
    what: str = ""
    wrong: str = ""
    unlike: str = ""
    inexact: bool = True
    floats: int = 0
    may_be_nonfinite: bool = False
    grids: Mapping[str, Grid] = field(default_factory=dict)
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tolerance: float | None = None
    ways: set[str] = field(default_factory=set)
    outputs: list[OutputError] = field(default_factory=list)
    nonfinite: list[NonFiniteOutput] = field(default_factory=list)

    def fail(self, what: str, *, wrong: bool = True, inexact: bool = False) -> None:
        self.what = self.what or what
        self.inexact = self.inexact and inexact
        if wrong:
            self.wrong = self.wrong or what

    def differ(self, what: str, differing: int, count: int) -> None:
        """So many of the values that are equal or not differ."""
        self.fail(what, wrong=False)
        if count >= FEWEST_TO_JUDGE and differing == count:
            self.unlike = self.unlike or what

    def count_nonfinite(self, label: str, arrays: tuple[Array, Array], types: tuple[str, str]) -> None:
        """Notes what is no finite number; where the reference has nothing else, there is nothing to compare."""
        (all_old, unusable_old), (all_new, unusable_new) = map(nonfinite, arrays, types)
        if not (all_old or all_new) or not (arrays[0].size and arrays[1].size):
            return
        self.nonfinite.append(
            NonFiniteOutput(
                name=label,
                n_elements=arrays[0].size,
                nonfinite_reference=all_old,
                nonfinite_candidate=all_new,
                unusable_reference=unusable_old,
                unusable_candidate=unusable_new,
            )
        )
        if min(all_old / arrays[0].size, all_new / arrays[1].size) >= 1.0 and not self.may_be_nonfinite:
            what = f"output {label!r} has no finite element on either side, so nothing was compared"
            self.fail(what, wrong=False)


def compare_outputs(
    reference: Path,
    candidate: Path,
    *,
    kinds: Mapping[str, str] | None = None,
    grids: Mapping[str, Grid] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    tolerance: float | None = None,
    rows: float | None = None,
    as_moments: bool = False,
    without: Collection[str] = (),
    allow_nonfinite: bool = False,
) -> OutputDifference:
    """Compares two folders of outputs, output by output, by name.

    Args:
        reference: Folder left by the baseline's worker.
        candidate: Folder left by the candidate's worker; further outputs there are ignored.
        kinds: Outputs that are no plain values, by name: "set", "indices" or "moments".
        grids: Quantization grids of the reference's outputs, by name.
        labels: Classes of outputs that are maps on one side, in the order of the other's columns, by name; in that of
            the keys where they are not given.
        tolerance: Replaces the limit of the relative L2 distance; that of the largest error becomes ten
            times as much. For all floating-point types.
        rows: The same for outputs of kind "set", where another is meant for these.
        as_moments: The baseline differs from itself: compare every output by its moments.
        without: Outputs that the candidate was asked to leave out: passed over.
        allow_nonfinite: An output without a finite element on either side is the same; else there is nothing to
            compare, which is no equality.

    Returns:
        The distance over all floating-point outputs compared as values; ``what`` names the first output
        that failed, the figure and its limit.

    Raises:
        OrtuneError: A folder has no readable ``outputs.json``, a file is missing or damaged, a kind is not
            known, or the tolerance is not a positive number.
    """
    kinds = kinds or {}
    for name, kind in kinds.items():
        if kind not in ("values", "set", "indices", "moments"):
            raise OrtuneError(f"output kind {kind!r} is not known", where=f"output {name!r}")
    if tolerance is not None and not (math.isfinite(tolerance) and tolerance > 0.0):
        raise OrtuneError(f"the tolerance must be a positive number, not {tolerance}", do="e.g. 1e-3")
    before, after = read_outputs(reference), read_outputs(candidate)
    before = {name: value for name, value in before.items() if name not in without}
    report = _Found(
        may_be_nonfinite=allow_nonfinite, grids=grids or {}, labels=labels or {}, tolerance=tolerance
    )
    ways = {name: "moments" if as_moments else kinds.get(name, "values") for name in before}
    # Sets and indices of integers come last: they are forgiven more where the scores agree.
    order = sorted(
        before, key=lambda n: ways[n] in ("set", "indices") and family(before[n].onnx_type) != "float"
    )
    for name in order:
        if name not in after:
            report.fail(f"output {name!r} is missing")
        else:
            limit = tolerance if rows is None or ways[name] != "set" else rows
            _compare_output(report, ways[name], (before[name], after[name]), limit)
    compared_as: Literal["values", "sets", "moments"] = "values"
    if "moments" in report.ways:
        compared_as = "moments"
    elif report.ways & {"set", "indices"}:
        compared_as = "sets"
    wrong = report.wrong or ("" if report.floats else report.unlike)
    return OutputDifference(
        ok=not report.what,
        relative_l2=report.relative_l2,
        max_error=report.max_error,
        compared_as=compared_as,
        what=wrong or report.what,
        comparable=not wrong,
        cosine=report.cosine,
        tolerance=tolerance,
        outputs=tuple(report.outputs),
        silent=bool(report.outputs) and all(output.silent for output in report.outputs),
        nonfinite=tuple(report.nonfinite),
        nonfinite_reference=sum(output.unusable_reference for output in report.nonfinite),
        nonfinite_candidate=sum(output.unusable_candidate for output in report.nonfinite),
        accepting_tolerance=_accepting(report) if report.what and report.inexact and not wrong else None,
    )


def _accepting(report: _Found) -> float:
    """The tolerance that accepts every output, and the worst slice of each."""
    slices = [error.worst_slice.relative_l2 for error in report.outputs if error.worst_slice is not None]
    return accepting(max([report.relative_l2, *slices]), report.max_error)


def _compare_output(
    report: _Found,
    way: str,
    pair: tuple[StoredValue, StoredValue],
    tol: float | None,
) -> None:
    old, new = pair
    name = old.name
    if {old.kind, new.kind} == {"json", "tensor"}:
        _compare_maps_with_tensor(report, way, pair, tol)
    elif old.kind != new.kind:
        report.fail(f"output {name!r} is {_of_kind(new)}, expected {_of_kind(old)}")
    elif len(old.files) != len(new.files):
        report.fail(f"output {name!r} has {len(new.files)} elements, not {len(old.files)}")
    elif old.kind in ("json", "map-list"):
        for file1, file2 in zip(old.files, new.files, strict=True):
            maps = (load_json(file1), load_json(file2))
            _compare_maps(report, name, way, maps, _limits((old.onnx_type, new.onnx_type), tol))
    else:
        for i, (file1, file2) in enumerate(zip(old.files, new.files, strict=True)):
            label = f"{name}[{i}]" if old.kind == "sequence" else name
            arrays = (load_array(file1), load_array(file2))
            _compare_arrays(report, label, way, arrays, (old.onnx_type, new.onnx_type), tol)


def _of_kind(value: StoredValue) -> str:
    return _KINDS.get(value.kind, value.kind)


def _compare_maps_with_tensor(
    report: _Found, way: str, pair: tuple[StoredValue, StoredValue], tol: float | None
) -> None:
    """A map for each row on one side, a column for each class on the other."""
    name, maps = pair[0].name, next(stored for stored in pair if stored.kind == "json")
    columns = columns_of(load_json(maps.files[0]), report.labels.get(name, ()))
    if columns is None:
        report.fail(f"output {name!r} is a tensor on one side, and maps without a class table on the other")
        return
    old, new = (columns if stored is maps else load_array(stored.files[0]) for stored in pair)
    if old.size == new.size and 1 in columns.shape:
        old, new = (
            old.reshape(columns.shape),
            new.reshape(columns.shape),
        )  # one row, or class, may have no axis
    types = ["float" if stored is maps else stored.onnx_type for stored in pair]
    _compare_arrays(report, name, way, (old, new), (types[0], types[1]), tol)


def _compare_arrays(
    report: _Found,
    label: str,
    way: str,
    arrays: tuple[Array, Array],
    types: tuple[str, str],
    tol: float | None,
) -> None:
    old, new = arrays
    report.ways.add(way)
    if family(types[0]) != family(types[1]):
        report.fail(f"output {label!r} is of type {types[1]}, not {types[0]}")
        return
    if family(types[0]) == "float":
        report.count_nonfinite(label, arrays, types)
    # Positions that a Cast made floating-point are compared one by one.
    counted = way in _ANY_COUNT and not (way == "indices" and family(types[0]) == "float")
    if old.ndim != new.ndim or (not counted and old.shape != new.shape):
        report.fail(f"output {label!r} has shape {list(new.shape)}, not {list(old.shape)}")
    elif way == "moments":
        _compare_moments(report, label, arrays, types)
    elif way == "set":
        _compare_set(report, label, arrays, types, _limits(types, tol))
    elif family(types[0]) == "float":
        _compare_floats(report, label, arrays, types, tol)
    elif way == "indices":
        _compare_indices(report, label, arrays, types)
    elif (grid := report.grids.get(label)) is not None and grid.integers and grid.axis is None:
        _compare_quantized(report, label, arrays, types, grid, tol)
    else:
        _compare_equal(report, label, arrays)


def _limits(types: tuple[str, str], tol: float | None) -> tuple[float, float]:
    """Limits of relative L2 and of the largest error: the wider of the two types', or the user's."""
    if tol is not None:
        return tol, 10.0 * tol
    both = [LIMITS.get(onnx_type, DEFAULT_LIMITS) for onnx_type in types]
    return max(b[0] for b in both), max(b[1] for b in both)


def _compare_maps(
    report: _Found, name: str, way: str, maps: tuple[Any, Any], limits: tuple[float, float]
) -> None:
    """Lists of maps: the same keys, equal text and integers, floats within the limits."""
    report.ways.add(way if way == "moments" else "values")
    old, new = (dict(leaves(m)) for m in maps)
    for key in [*old, *new]:
        if key not in old or key not in new:
            report.fail(f"output {name!r} {'has a new' if key in new else 'lacks the'} entry {key}")
            return
    numbers = [k for k in old if isinstance(old[k], float) and isinstance(new[k], int | float)]
    values = (
        np.array([old[k] for k in numbers], dtype=np.float64),
        np.array([new[k] for k in numbers], dtype=np.float64),
    )
    report.count_nonfinite(name, values, ("double", "double"))
    if way == "moments":
        if np.isfinite(values[0]).all() and not np.isfinite(values[1]).all():
            report.fail(f"output {name!r} has non-finite values and the reference has none")
        return
    if (error := _distance(report, name, iter([values]), limits)) is not None:
        _judge(report, error, limits)
    for key in old.keys() - set(numbers):
        if old[key] != new[key]:
            report.fail(f"output {name!r} is {new[key]!r} at {key}, expected {old[key]!r}", wrong=False)


def _compare_floats(
    report: _Found, label: str, arrays: tuple[Array, Array], types: tuple[str, str], tol: float | None
) -> None:
    """The distance of the whole, of each slice, and in steps where the reference is on a grid."""
    limits = _limits(types, tol)
    decoded = ((decode(a, types[0]), decode(b, types[1])) for a, b in pieces(*arrays))
    error = _distance(report, label, decoded, limits)
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
    _judge(report, error, limits)


def _compare_quantized(
    report: _Found,
    label: str,
    arrays: tuple[Array, Array],
    types: tuple[str, str],
    grid: Grid,
    tol: float | None,
) -> None:
    """Integers that QuantizeLinear made, as the numbers that they stand for."""
    limits = _limits(types, tol)
    decoded = ((dequantized(a, grid), dequantized(b, grid)) for a, b in pieces(*arrays))
    error = _distance(report, label, decoded, limits)
    if error is not None:
        steps = grid_steps(arrays, types, grid) if error.max_error else None
        _judge(report, msgspec.structs.replace(error, steps=steps), limits)


def _distance(
    report: _Found, label: str, decoded: Iterator[tuple[Array, Array]], limits: tuple[float, float]
) -> OutputError | None:
    """Relative L2 distance and largest error; non-finite values must agree in place and sign.

    Returns:
        None where they do not, and where there are no finite values.
    """
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
    # Where the squares of huge doubles overflow, the largest error is all there is to go by.
    relative_l2 = math.sqrt(error2) / norm if math.isfinite(error2 + norm2) else max_error
    lengths = math.sqrt(norm2) * math.sqrt(theirs2)
    cosine = None
    if math.isfinite(lengths) and math.isfinite(product) and lengths > 0.0 and not silent:
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


def _judge(report: _Found, error: OutputError, limits: tuple[float, float]) -> None:
    """Notes an output's error, and holds it to the limits; one step of a quantization grid is no difference."""
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
            what = f"output {error.name!r} differs: {figure} {value:.2g}, limit {limit:.2g}"
            report.fail(what, wrong=wrong, inexact=True)
    worst, limit = error.worst_slice, slice_limit(limits[0], report.tolerance)
    if worst is not None and worst.relative_l2 > limit:
        far = f"relative L2 distance {worst.relative_l2:.2g} in row {worst.first} of axis {worst.axis}"
        what = f"output {error.name!r} differs: {far}, limit {limit:.2g}"
        report.fail(what, wrong=wrong, inexact=True)


def slice_limit(limit: float, tolerance: float | None) -> float:
    """Of the relative L2 of a slice, by that of the whole, or by the user's own number where there is one."""
    if tolerance is None:
        return min(SLICE_LIMIT * limit, MOST_OF_SLICE)
    return math.inf if tolerance == SOMETHING_IN_COMMON else SLICE_OF_TOLERANCE * tolerance


def _compare_equal(report: _Found, label: str, arrays: tuple[Array, Array]) -> None:
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


def _compare_indices(report: _Found, label: str, arrays: tuple[Array, Array], types: tuple[str, str]) -> None:
    """Positions from TopK, ArgMax, NonZero or NMS: a share may differ, more where the scores agree.

    Up to 1 % may differ in place. Where every floating-point output agrees, the scores behind the positions
    do too: then at least one may differ, and the order along the last axis (TopK of near ties) is free. That
    axis may also differ in length (NonZero behind a threshold), and a narrow table (NMS) is compared as a
    set of rows where it does not agree in place.
    """
    old, new = (np.atleast_1d(np.asarray(a)) for a in arrays)
    same_shape = old.shape == new.shape
    scores_agree = report.floats > 0 and not report.what
    count = max(old.size, new.size)
    allowed = max(int(DIFFERING_SHARE * count), 1 if scores_agree or (count >= 4 and not same_shape) else 0)
    differ = int((old != new).sum()) if same_shape else count
    if differ <= allowed:
        return
    if old.shape[:-1] == new.shape[:-1] and (scores_agree or not same_shape) and old.size and new.size:
        rows = [np.stack([np.arange(a.size) // a.shape[-1], a.ravel()], 1) for a in (old, new)]
        differ = unmatched_rows(rows[0], rows[1], 0.0)
    if differ > allowed and old.ndim == 2 and 1 < old.shape[1] == new.shape[1] <= WIDEST_TABLE:
        _compare_set(report, label, arrays, types, (0.0, 0.0))
    elif differ > allowed:
        report.differ(
            f"output {label!r}: {differ} of {count} indices differ, limit {allowed} "
            f"(shape {list(new.shape)}, {list(old.shape)} in the reference)",
            differ,
            count,
        )


def _compare_set(
    report: _Found,
    label: str,
    arrays: tuple[Array, Array],
    types: tuple[str, str],
    limits: tuple[float, float],
) -> None:
    """Rows (the last axis; of a vector, its elements) in any order, each matched with one of the other side.

    1 % of the rows may find no match, and at least one of four or more, or where every floating-point output
    agrees: a box right at the threshold comes or goes. So the number of rows may differ too.
    """
    scores_agree = report.floats > 0 and not report.what
    is_float = family(types[0]) == "float"
    report.floats += is_float
    old, new = (np.asarray(decode(np.asarray(a), t)) for a, t in zip(arrays, types, strict=True))
    width = old.shape[-1] if old.ndim > 1 else 1
    if old.ndim > 1 and new.shape[-1] != width:
        report.fail(f"output {label!r} has rows of {new.shape[-1]} values, not {width}")
        return
    if is_float and np.isnan(new).any() and not np.isnan(old).any():
        report.fail(f"output {label!r} has NaN values and the reference has none")
        return
    old, new = (a.reshape(-1, width) if width else a.reshape(0, 1) for a in (old, new))
    rows = max(len(old), len(new))
    allowed = max(int(DIFFERING_SHARE * rows), 1 if rows >= 4 or scores_agree else 0)
    if is_float and (dead := dead_columns(old, new, axis=max(0, arrays[0].ndim - 1))):
        report.fail(f"output {label!r}: {in_words(dead)}, where the reference varies")
        return
    unmatched = unmatched_rows(old, new, limits[1] if is_float else 0.0)
    if unmatched > allowed:
        report.differ(
            f"output {label!r}: {unmatched} of {rows} rows have no counterpart, limit {allowed} "
            f"({len(new)} rows, {len(old)} in the reference)",
            unmatched,
            rows,
        )


def _compare_moments(report: _Found, label: str, arrays: tuple[Array, Array], types: tuple[str, str]) -> None:
    """Outputs of random operators: same rank and about the same size, finite, like mean and spread.

    Lengths may themselves be random, so they may differ up to fourfold. The bounds of mean and spread are
    loose: half a standard deviation, a factor of two.
    """
    old, new = arrays
    if old.shape != new.shape and not old.size / 4 <= new.size <= old.size * 4:
        report.fail(f"output {label!r} has shape {list(new.shape)}, expected about {list(old.shape)}")
        return
    if old.dtype.kind == "U" or min(old.size, new.size) == 0:
        return
    was, now = (moments(a, t) for a, t in zip(arrays, types, strict=True))
    if now[2] > 0 and was[2] == 0:
        report.fail(f"output {label!r} has {now[2]} non-finite values and the reference has none")
    if min(old.size, new.size) < FEWEST_FOR_MOMENTS:
        return
    spread = max(was[1], now[1])
    room = max(0.5 * spread, 1e-2 * abs(was[0]), FLOOR)
    if abs(now[0] - was[0]) > room:
        what = f"output {label!r} has mean {now[0]:.3g}, was {was[0]:.3g}, limit ± {room:.2g}"
        report.fail(what, wrong=False)
    elif spread > room and spread > 2.0 * min(was[1], now[1]):
        report.fail(
            f"output {label!r} has standard deviation {now[1]:.3g}, expected {was[1]:.3g} within a factor of 2",
            wrong=False,
        )
