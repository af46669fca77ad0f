"""Comparison of the outputs of two plans.

Workers write the outputs of a run to a folder: ``outputs.json`` and one ``.npy`` file per tensor (maps as JSON). Arrays
are memory-mapped and compared in pieces, so outputs larger than memory can be compared.

Outputs are compared by kind:

- floating point: relative L2 distance and largest error, with the limits of the less precise of the two types; NaN must
  be at the same positions, and infinities must be equal;
- integers, booleans and strings: equal;
- labels (ArgMax, classifiers): one by one; a label may differ if its two best scores tie; see ``labels``;
- positions of a TopK, NonZero or NonMaxSuppression, and the values that they select: by row; rows may be reordered
  along the axis of the selection, and a few may be added or dropped at a threshold; see ``rows``. Outputs of one
  selection are reordered together, and sorted rows only where scores tie; see ``row_orders``;
- outputs of a model whose outputs differ between runs (random operators): shape, finiteness, mean and spread;
- random outputs that the two sides draw from different generators, such as a framework's: shape and finiteness.

Outputs that exceed a limit may still be a less exact result. They are wrong if they have a different shape or kind, are
NaN where the reference is not, or are no nearer to the reference than zeros; or if all values of an integer, string or
row output differ, and the model has no floating-point outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from ortune.errors import OrtuneError
from ortune.graph.grids import Grid
from ortune.graph.outputs import OutputComparison, deciding_scores
from ortune.inputs.value_files import StoredValue
from ortune.outputs.figures import columns_of, leaves, smallest_accepting
from ortune.outputs.files import decode, family, load_array, load_json, read_outputs
from ortune.outputs.findings import Findings
from ortune.outputs.labels import Scores
from ortune.outputs.row_orders import SelectedRows, compare_row_orders
from ortune.outputs.ways import compare_arrays, distance_of, judge, limits_of
from ortune.records import OutputDifference

_BY_VALUE = OutputComparison()
_RANDOM = {False: OutputComparison(kind="random"), True: OutputComparison(kind="random length")}
_KINDS = {"tensor": "a tensor", "sequence": "a sequence", "none": "absent", "json": "a list of maps"}


def compare_outputs(
    reference: Path,
    candidate: Path,
    *,
    comparisons: Mapping[str, OutputComparison] | None = None,
    scores: Callable[[str], Scores | None] | None = None,
    grids: Mapping[str, Grid] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    tolerance: float | None = None,
    rows: float | None = None,
    as_moments: bool = False,
    random: Mapping[str, bool] = MappingProxyType({}),
    without: Collection[str] = (),
    allow_nonfinite: bool = False,
) -> OutputDifference:
    """Compare two folders of outputs by name.

    Args:
        reference: Folder written by the baseline's worker.
        candidate: Folder written by the candidate's worker; outputs that the reference lacks are ignored.
        comparisons: Comparison for each output, by name; outputs without an entry are compared by value.
        scores: Returns the scores of labels, given their value name, if the scores are not outputs.
        grids: Quantization grids of the reference's outputs, by name.
        labels: Classes of outputs that are maps on one side, in the column order of the other side, by name;
            by default in key order.
        tolerance: Limit of the relative L2 distance for all floating-point types; the limit of the largest error is ten
            times this value.
        rows: The tolerance for labels and for outputs of kind "set", if it differs from ``tolerance``.
        as_moments: Whether to compare every output by its moments, because the baseline's outputs differ between runs.
        random: Outputs with random numbers from different generators, by name: only shape and finiteness are compared,
            or rank and approximate size if the value is True, because lengths are random too.
        without: Names of outputs that the candidate omits on request; they are skipped.
        allow_nonfinite: Whether an output without finite elements on either side counts as equal; otherwise it fails,
            because there is nothing to compare.

    Returns:
        The distance over all floating-point outputs compared as values; ``what`` names the first output
        that failed, the measure and its limit.

    Raises:
        MeasurementError: If a folder has no readable ``outputs.json``, or a file is missing or damaged.
        OrtuneError: If the tolerance is not a positive number.
    """
    comparisons = comparisons or {}
    if tolerance is not None and not (math.isfinite(tolerance) and tolerance > 0.0):
        raise OrtuneError(f"the tolerance must be a positive number, not {tolerance}", do="e.g. 1e-3")
    before, after = read_outputs(reference), read_outputs(candidate)
    before = {name: value for name, value in before.items() if name not in without}
    report = Findings(
        may_be_nonfinite=allow_nonfinite,
        grids=grids or {},
        labels=labels or {},
        tolerance=tolerance,
        as_moments=as_moments,
    )
    ways = {
        name: _RANDOM[random[name]] if name in random else comparisons.get(name, _BY_VALUE) for name in before
    }
    # Rows of integers come last: more of them may be unmatched if the scores agree.
    order = sorted(before, key=lambda n: ways[n].roles is not None and family(before[n].onnx_type) != "float")
    selected: list[SelectedRows] = []
    for name in order:
        if name not in after:
            report.fail(f"output {name!r} is missing")
            continue
        limit = tolerance if rows is None or ways[name].kind not in ("set", "labels") else rows
        read = _scores_of(ways[name], before, scores)
        n_elements = _n_elements(before[name]) + _n_elements(after[name])
        report.elements += n_elements
        if not n_elements:
            report.accept(name, "empty", 0, 0, "elements")
        elif name in random:
            report.accept(name, "random", 0, 0, "values")
        _compare_output(report, ways[name], (before[name], after[name]), limit, read)
        roles, row_order = ways[name].roles, ways[name].order
        if roles and row_order is not None and before[name].kind == after[name].kind == "tensor":
            selected.append(
                SelectedRows(
                    name=name,
                    roles=roles,
                    order=row_order,
                    by_element=ways[name].kind == "values",
                    arrays=(
                        load_array(before[name].files[0], before[name].onnx_type),
                        load_array(after[name].files[0], after[name].onnx_type),
                    ),
                    types=(before[name].onnx_type, after[name].onnx_type),
                    tolerance=limit,
                    scores=read,
                )
            )
    if "sets" in report.ways and not report.what:
        compare_row_orders(report, selected)
    empty = not (report.elements or report.what)
    if empty:
        # Empty outputs are not evidence of equality.
        report.fail("outputs cannot be compared: they have no elements")
    compared_as: Literal["values", "sets", "moments", "sizes"] = "values"
    if before and {change.output for change in report.accepted if change.reason == "random"} == before.keys():
        compared_as = "sizes"
    elif "moments" in report.ways:
        compared_as = "moments"
    elif "sets" in report.ways:
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
        accepted=() if empty else tuple(report.accepted),
        empty=empty,
        nonfinite=tuple(report.nonfinite),
        nonfinite_reference=sum(output.unusable_reference for output in report.nonfinite),
        nonfinite_candidate=sum(output.unusable_candidate for output in report.nonfinite),
        accepting_tolerance=_accepting(report) if report.what and report.inexact and not wrong else None,
    )


def _accepting(report: Findings) -> float:
    """Return the smallest round tolerance that accepts every output and its worst slice."""
    slices = [error.worst_slice.relative_l2 for error in report.outputs if error.worst_slice is not None]
    return smallest_accepting(max([report.relative_l2, *slices]), report.max_error)


def _n_elements(value: StoredValue) -> int:
    """Return the number of elements of an output; for an output of maps, the number of maps."""
    if value.kind in ("json", "map-list"):
        return sum(
            len(content) if hasattr(content, "__len__") else 1 for content in map(load_json, value.files)
        )
    return sum(load_array(file, value.onnx_type).size for file in value.files)


def _scores_of(
    comparison: OutputComparison,
    reference: Mapping[str, StoredValue],
    scores: Callable[[str], Scores | None] | None,
) -> Callable[[], Scores | None]:
    """Return a function that returns the scores of an output's labels or rows, or None if they are not available."""

    def read() -> Scores | None:
        value = deciding_scores(comparison)
        if value is None:
            return None
        name = str(value.name)
        known = scores(name) if scores is not None else None
        stored = reference.get(name)
        if known is not None or stored is None or stored.kind != "tensor":
            return known
        values = decode(np.asarray(load_array(stored.files[0], stored.onnx_type)), stored.onnx_type)
        return Scores(values=values) if values.dtype.kind == "f" else None

    return read


def _compare_output(
    report: Findings,
    way: OutputComparison,
    pair: tuple[StoredValue, StoredValue],
    tol: float | None,
    scores: Callable[[], Scores | None],
) -> None:
    old, new = pair
    name = old.name
    if {old.kind, new.kind} == {"json", "tensor"}:
        _compare_maps_with_tensor(report, way, pair, tol, scores)
    elif old.kind != new.kind:
        report.fail(f"output {name!r} is {_of_kind(new)}, expected {_of_kind(old)}")
    elif len(old.files) != len(new.files):
        report.fail(f"output {name!r} has {len(new.files)} elements, not {len(old.files)}")
    elif old.kind in ("json", "map-list"):
        for file1, file2 in zip(old.files, new.files, strict=True):
            maps = (load_json(file1), load_json(file2))
            _compare_maps(report, name, maps, limits_of((old.onnx_type, new.onnx_type), tol))
    else:
        for i, (file1, file2) in enumerate(zip(old.files, new.files, strict=True)):
            label = f"{name}[{i}]" if old.kind == "sequence" else name
            arrays = (load_array(file1, old.onnx_type), load_array(file2, new.onnx_type))
            compare_arrays(report, label, way, arrays, (old.onnx_type, new.onnx_type), tol, scores)


def _of_kind(value: StoredValue) -> str:
    return _KINDS.get(value.kind, value.kind)


def _compare_maps_with_tensor(
    report: Findings,
    way: OutputComparison,
    pair: tuple[StoredValue, StoredValue],
    tol: float | None,
    scores: Callable[[], Scores | None],
) -> None:
    """Compare an output that is a list of maps on one side and a tensor with one column per class on the other."""
    name, maps = pair[0].name, next(stored for stored in pair if stored.kind == "json")
    columns = columns_of(load_json(maps.files[0]), report.labels.get(name, ()))
    if columns is None:
        report.fail(f"output {name!r} is a tensor on one side, and maps without a class table on the other")
        return
    old, new = (
        columns if stored is maps else load_array(stored.files[0], stored.onnx_type) for stored in pair
    )
    if old.size == new.size and 1 in columns.shape:
        old, new = (
            old.reshape(columns.shape),
            new.reshape(columns.shape),
        )  # one row, or class, may have no axis
    types = ["float" if stored is maps else stored.onnx_type for stored in pair]
    compare_arrays(report, name, way, (old, new), (types[0], types[1]), tol, scores)


def _compare_maps(report: Findings, name: str, maps: tuple[Any, Any], limits: tuple[float, float]) -> None:
    """Compare lists of maps: keys, text and integers must be equal, and floats within the limits."""
    if report.as_moments:
        report.ways.add("moments")
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
    if report.as_moments:
        if np.isfinite(values[0]).all() and not np.isfinite(values[1]).all():
            report.fail(f"output {name!r} has non-finite values and the reference has none")
        return
    if (error := distance_of(report, name, iter([values]), limits)) is not None:
        judge(report, error, limits)
    for key in old.keys() - set(numbers):
        if old[key] != new[key]:
            report.fail(f"output {name!r} is {new[key]!r} at {key}, expected {old[key]!r}", wrong=False)
