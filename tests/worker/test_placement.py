"""What QNN says of nodes, where it fails before it runs them."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser
import pytest

import made_runtimes
import ortune
from facts import facts
from ortune.worker import placement

LOG = """
[V:onnxruntime:, qnn_execution_provider.cc:1713 LogNodeSupport] Validation PASSED for 1 nodes in OrtNodeUnit (Conv) :
\tOperator type: Conv Node name: one Node index: 0

[V:onnxruntime:, qnn_execution_provider.cc:1713 LogNodeSupport] Validation FAILED for 1 nodes in OrtNodeUnit (Erf) :
\tOperator type: Erf Node name: two with spaces Node index: 1
\tREASON : Operators of type `Erf` are not supported by QNN EP.Erf node `two` will not be assigned to QNN EP.

[V:onnxruntime:, qnn_execution_provider.cc:1713 LogNodeSupport] Validation PASSED for 3 nodes in OrtNodeUnit (Add) :
\tOperator type: DequantizeLinear Node name: d Node index: 2
\tOperator type: Add Node name: three Node index: 3
\tOperator type: QuantizeLinear Node name: q Node index: 4

[V:onnxruntime:, qnn_execution_provider.cc:1713 LogNodeSupport] Validation FAILED for 1 nodes in OrtNodeUnit (Conv) :
\tOperator type: Conv Node name: one Node index: 7
"""


def test_the_last_verdict_on_each_node_counts() -> None:
    told = {name: (op, place) for op, name, place in placement.verdicts(LOG, "QNNExecutionProvider")}
    assert told == {
        "one": ("Conv", placement.CPU),
        "two with spaces": ("Erf", placement.CPU),
        "d": ("DequantizeLinear", "QNNExecutionProvider"),
        "three": ("Add", "QNNExecutionProvider"),
        "q": ("QuantizeLinear", "QNNExecutionProvider"),
    }
    assert placement.verdicts("nothing of nodes", "QNNExecutionProvider") == []


@pytest.mark.parametrize(("operator", "taken"), [("HardSigmoid", True), ("Erf", False)])
def test_qnn_answers_about_a_node_that_it_may_not_compile(operator: str, taken: bool, tmp_path: Path) -> None:
    """Qualcomm's emulator has no memory for a HardSigmoid of four dimensions."""
    made_runtimes.require("qnn")
    graph = f"g (float[1,4,8,8] x) => (float[1,4,8,8] y) {{ y = {operator} (x) }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {graph}')
    onnx.save(model, tmp_path / "m.onnx")
    answer = ortune.partition(tmp_path / "m.onnx", providers="qnn", runtime="qnn")
    (qnn,) = answer.result.providers
    assert qnn.agreement is not None, answer.result.notes
    assert (qnn.agreement.n_nodes, qnn.agreement.n_equal) == (1, 1)
    assert bool(qnn.regions) is taken
    if qnn.agreement.not_compiled:
        facts(" ".join(answer.summary().split()), "validated each node", "failed to compile")
