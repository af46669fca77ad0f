"""Runs onnxsim, if it is installed in the measured environment.

What it is: the package ``onnxsim``: constants folded, equal weights stored once, three-dimensional matrix
    multiplications turned into two-dimensional ones with fewer Reshapes in between. ortune never installs it.
Why it costs: ONNX Runtime also creates two-dimensional multiplications, but each stays between two Reshapes.
Evidence: the number of nodes in the optimised graph, with and without the rewrite: 320 and 380 for a small vision
    transformer.
Fix and its safety: exact: the same sums, some in a different order. Outputs are compared, as for every rewrite.
Example: ``--rewrite onnxsim``
References: github.com/daquexian/onnx-simplifier.
"""

from __future__ import annotations

from ortune.rewrites._others import by_package

REWRITE = by_package("onnxsim", "onnxsim", "runs onnxsim")
