"""Computes the user's metric, a function that scores outputs, in a process of the measured runtime."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from ortune.errors import UsageError
from ortune.outputs.metrics import METRICS
from ortune.records import Runtime
from ortune.targets.tool import ToolFailed, ToolProcess

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


def valid_metric(text: str | None) -> str:
    """Return the value of ``--metric``: a built-in metric or ``module:function``; "" for none.

    Raises:
        UsageError: The text is neither of these.
    """
    if text is not None and text not in METRICS and not _FUNCTION.fullmatch(text):
        do = (
            f"pass one of {', '.join(METRICS)}, or e.g. --metric evaluate:accuracy for accuracy(outputs, inputs) in "
            "evaluate.py of this folder"
        )
        what = f"{text!r} is neither a built-in metric nor of the form module:function"
        raise UsageError(what, where="--metric", do=do)
    return text or ""


def mean_metric(
    function: str, runtime: Runtime, scratch: Path, cases: Sequence[tuple[Path, Path, float]]
) -> float:
    """Return the weighted mean of the metric over all cases; NaN if it is NaN for any case.

    Args:
        function: ``module:function`` in the current folder or in the runtime's packages.
        runtime: The runtime with the interpreter.
        scratch: Scratch folder of this invocation.
        cases: Outputs, inputs and weight of each case.

    Raises:
        UsageError: The function cannot be imported, fails, or does not return a number.
    """
    listed = [{"outputs": str(outputs), "inputs": str(inputs)} for outputs, inputs, _ in cases]
    params = {"function": function, "folder": str(Path.cwd()), "cases": json.dumps(listed)}
    target = scratch / "metric.json"
    try:
        ToolProcess(runtime=runtime, folder=scratch)("metric", scratch, target, params)
    except ToolFailed as error:
        raise UsageError(
            f"the metric failed: {error.what}",
            where=f"--metric {function}",
            do="use a module in this folder or in the runtime's packages; the function takes outputs and inputs as "
            "dictionaries of arrays by name and returns a number (higher is better)",
        ) from error
    values = json.loads(target.read_text(encoding="utf-8"))
    total = sum(weight for _, _, weight in cases)
    return float(sum(value * weight for value, (_, _, weight) in zip(values, cases, strict=True)) / total)
