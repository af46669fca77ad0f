"""Lets onnxsim simplify the graph, where the environment that is measured has it.

What it is: the package ``onnxsim``: constants folded, equal weights stored once, products over three axes turned into
    ones over two with fewer changes of shape between them. ortune never installs it.
Why it costs: ONNX Runtime makes such products too, each between two Reshapes of its own that it leaves there.
Evidence: the number of nodes in the optimised graph, with and without: 320 and 380 of a small vision transformer.
Fix and its safety: exact: the same sums, some in another order. The outputs are compared, as for every rewrite.
Example: ``--rewrite onnxsim``
References: github.com/daquexian/onnx-simplifier.
"""

from __future__ import annotations

from ortune.rewrites._others import by_package

REWRITE = by_package("onnxsim", "onnxsim", "onnxsim simplifies the graph")
