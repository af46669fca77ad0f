"""Runs onnxslim, if it is installed in the measured environment.

What it is: the package ``onnxslim``: constants folded, dead and duplicate nodes removed, BatchNormalization and Add
    merged into the preceding layers. ortune never installs it.
Why it costs: ONNX Runtime does most of this at each start. The remaining nodes, mainly shape computations, run every
    time.
Evidence: the number of nodes in the optimised graph, with and without.
Fix and its safety: exact: the same sums, some in a different order. Outputs are compared, as for every rewrite.
Example: ``--rewrite onnxslim``
References: github.com/inisis/OnnxSlim.
"""

from __future__ import annotations

from ortune.rewrites._others import by_package

REWRITE = by_package("onnxslim", "onnxslim", "runs onnxslim")
