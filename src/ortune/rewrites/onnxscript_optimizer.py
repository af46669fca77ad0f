"""Runs onnxscript's optimiser, if it is installed in the measured environment.

What it is: ``onnxscript.optimizer.optimize``, which torch's newer exporter applies to its output: functions inlined,
    constants and shapes folded, redundant Casts, Reshapes and Transposes removed. ortune never installs it.
Why it costs: ONNX Runtime removes only some of what exporters leave behind, and does so again at every start.
Evidence: the number of nodes in the optimised graph, with and without.
Fix and its safety: exact: the same sums, some in a different order. Outputs are compared, as for every rewrite.
Example: ``--rewrite onnxscript-optimizer``
References: ONNX Script documentation, "Optimizer".
"""

from __future__ import annotations

from ortune.rewrites._others import by_package

REWRITE = by_package("onnxscript-optimizer", "onnxscript", "runs the optimiser of onnxscript")
