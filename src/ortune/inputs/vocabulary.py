"""Limits ids to values that are valid for every side of a comparison, since vocabularies may differ."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import onnx_ir as ir

from ortune.graph.shapes.demands import study
from ortune.inputs.declared import inspect_inputs
from ortune.records import Case, InputChoice, Workload


def rows_of(model: ir.Model) -> Mapping[str, int]:
    """Return the number of table rows for each input whose values index a table, by input name."""
    inputs = inspect_inputs(model)
    return study(model, {spec.name: spec.shape for spec in inputs.inputs}, {}, inputs.keep).rows


def within_rows(work: Workload, rows: Mapping[str, int]) -> Workload:
    """Return the workload with generated ids limited to the given numbers of table rows by input."""

    def limited(choice: InputChoice) -> InputChoice:
        last = rows.get(choice.name, 0) - 1
        if choice.low is None or choice.high is None or last < 0 or choice.high <= last:
            return choice
        return msgspec.structs.replace(choice, low=min(choice.low, last), high=last)

    def with_limits(case: Case) -> Case:
        return msgspec.structs.replace(case, inputs=tuple(map(limited, case.inputs)))

    # The user's own inputs are not changed.
    return (
        work if work.inputs_path else msgspec.structs.replace(work, cases=tuple(map(with_limits, work.cases)))
    )
