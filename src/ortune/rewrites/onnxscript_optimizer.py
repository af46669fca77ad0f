"""Lets the optimiser of onnxscript rewrite the graph, where the environment that is measured has it.

What it is: ``onnxscript.optimizer.optimize``, which torch's newer exporter applies to what it writes: functions
    inlined, constants and shapes folded, redundant Casts, Reshapes and Transposes removed. ortune never installs it.
Why it costs: what other exporters leave, or torch's without optimisation, ONNX Runtime removes in part at each start.
Evidence: the number of nodes in the optimised graph, with and without.
Fix and its safety: exact: the same sums, some in another order. The outputs are compared, as for every rewrite.
Example: ``--rewrite onnxscript-optimizer``
References: ONNX Script documentation, "Optimizer".
"""

from __future__ import annotations

from ortune.rewrites._others import by_package

REWRITE = by_package("onnxscript-optimizer", "onnxscript", "the optimiser of onnxscript simplifies the graph")
