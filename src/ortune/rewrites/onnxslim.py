"""Lets onnxslim simplify the graph, where the environment that is measured has it.

What it is: the package ``onnxslim``: constants folded, dead and repeated nodes removed, batch normalisations and sums
    merged into the products before them. ortune never installs it.
Why it costs: ONNX Runtime does most of that at each start; what it leaves, shape arithmetic above all, runs each time.
Evidence: the number of nodes in the optimised graph, with and without.
Fix and its safety: exact: the same sums, some in another order. The outputs are compared, as for every rewrite.
Example: ``--rewrite onnxslim``
References: github.com/inisis/OnnxSlim.
"""

from __future__ import annotations

from ortune.rewrites._others import by_package

REWRITE = by_package("onnxslim", "onnxslim", "onnxslim simplifies the graph")
