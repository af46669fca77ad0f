"""Creates workloads with several sizes in turn, since an arena grows when sizes change between calls."""

from __future__ import annotations

import msgspec
import onnx_ir as ir

from ortune.inputs.declared import InputSet, inspect_inputs
from ortune.inputs.trial_fixes import _Change, _changed, _free_symbols, _user_symbols
from ortune.records import Case, Workload


def sizes_in_turn(ir_model: ir.Model, workload: Workload, *, batch: bool = False) -> list[Workload]:
    """Return workloads in which guessed sizes are halved and doubled: first with all three sizes, then with pairs.

    All dimensions change together, so the largest case has every dimension at its largest and determines the peak.

    Args:
        ir_model: The model.
        workload: A workload with one case.
        batch: Whether to vary also a batch that is 1 by convention; workloads with a varied batch come first.

    Returns:
        The workloads in the order to try them; empty if no size was guessed or the inputs are the user's own.
    """
    if workload.inputs_path or len(workload.cases) != 1:
        return []
    inputs, case = inspect_inputs(ir_model), workload.cases[0]
    guessed = sorted(_free_symbols(inputs, case))
    conventional = sorted(_batches_of_one(inputs, case)) if batch else []
    with_batch = _in_turn(ir_model, workload, sorted({*guessed, *conventional})) if conventional else []
    return with_batch + _in_turn(ir_model, workload, guessed)


def _batches_of_one(inputs: InputSet, case: Case) -> set[str]:
    """Return the batch symbols whose size is 1 by convention."""
    users = _user_symbols(inputs, case)
    return {
        symbol
        for symbol, kind in inputs.kinds.items()
        if kind == "batch" and case.dims.get(symbol) == 1 and symbol not in users
    }


def _in_turn(ir_model: ir.Model, workload: Workload, free: list[str]) -> list[Workload]:
    inputs, case = inspect_inputs(ir_model), workload.cases[0]
    cases = {1.0: case}
    for factor in (0.5, 2.0):
        change = _Change(sizes={s: max(1, int(case.dims[s] * factor)) for s in free})
        cases[factor] = _changed(ir_model, inputs, case, change)
    mixes = [(0.5, 1.0, 2.0), (1.0, 2.0), (0.5, 1.0)]
    return [
        msgspec.structs.replace(
            workload,
            cases=tuple(
                msgspec.structs.replace(
                    cases[factor],
                    name=",".join(f"{s}={cases[factor].dims[s]}" for s in free),
                    weight=1 / len(mix),
                )
                for factor in mix
            ),
        )
        for mix in mixes
        if free and len({cases[factor].inputs for factor in mix}) == len(mix)
    ]
