"""Recurrences that are written out step by step: recognised by values, and made one operator."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from written_out_steps import CELLS, written_out

from ortune import rewrites, rules
from ortune.graph.model.open import open_model
from ortune.rewrites.unrolled_recurrence import REWRITE
from ortune.rules import Facts

FORMS: list[dict[str, Any]] = [
    {},
    {"opset": 9, "all_states": True, "as_nodes": True},
    {"opset": 21, "as_nodes": True, "given_state": True, "batch": "n"},
    {"reverse": True, "all_states": True, "batch": 3},
    {"layers": 2, "all_states": True, "batch": "n"},
]


def outputs(model: onnx.ModelProto, batch: int) -> np.ndarray:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(1)
    feeds = {
        each.name: rng.standard_normal([batch if isinstance(n, str) else n for n in each.shape]).astype(
            np.float32
        )
        for each in session.get_inputs()
    }
    return np.asarray(session.run(None, feeds)[0])


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("cell", CELLS)
def test_it_becomes_one_operator_with_the_same_outputs(cell: str, form: dict[str, Any]) -> None:
    if cell in ("keras", "joined gru") and form.get("batch") == "n":
        form = {**form, "given_state": True}  # rows of zeros could not be joined to rows of x
    model = written_out(cell, **form)
    changed = ir.from_proto(model)
    result = REWRITE.apply(changed)
    assert result.modified, result.reasons
    kinds = Counter(node.op_type for node in changed.graph)
    assert kinds[CELLS[cell][0]] == form.get("layers", 1)
    assert not {"Gemm", "MatMul", "Tanh", "Sigmoid", "HardSigmoid", "Clip", "Gather"} & set(kinds)
    after = ir.to_proto(changed)
    batch = form.get("batch", 1)
    batch = 2 if isinstance(batch, str) else batch
    np.testing.assert_allclose(outputs(after, batch), outputs(model, batch), rtol=0, atol=1e-6)
    assert not REWRITE.apply(changed).modified


@pytest.mark.parametrize("cell", CELLS)
def test_states_that_are_stacked_step_by_step(cell: str) -> None:
    """Exporters write the Unsqueeze of a state right behind its step, before the next one."""
    model = written_out(cell, all_states=True)
    late = [node for node in model.graph.node if node.op_type == "Unsqueeze"]
    for node in late:
        model.graph.node.remove(node)
        makers = [i for i, maker in enumerate(model.graph.node) if node.input[0] in maker.output]
        model.graph.node.insert(makers[0] + 1, node)
    changed = ir.from_proto(model)
    result = REWRITE.apply(changed)
    assert result.modified, result.reasons
    np.testing.assert_allclose(outputs(ir.to_proto(changed), 1), outputs(model, 1), rtol=0, atol=1e-6)


def without(model: onnx.ModelProto, what: str) -> onnx.ModelProto:
    """A model in which something keeps the steps from being those of one cell."""
    nodes = model.graph.node
    if what == "read elsewhere":
        gate = next(n for n in nodes[len(nodes) // 2 :] if n.op_type == "Sigmoid")
        model.graph.output.append(
            onnx.helper.make_tensor_value_info(gate.output[0], onnx.TensorProto.FLOAT, None)
        )
    elif what == "another function":
        for each in nodes:
            each.op_type = "Sigmoid" if each.op_type == "Tanh" else each.op_type
    elif what == "another bound":
        numbers = [t for t in model.graph.initializer if not t.dims and t.data_type == onnx.TensorProto.FLOAT]
        bound = next(t for t in numbers if onnx.numpy_helper.to_array(t) == 1)
        bound.CopyFrom(onnx.numpy_helper.from_array(np.array(0.99, np.float32), bound.name))
    return model


@pytest.mark.parametrize(
    ("cell", "what", "told"),
    [
        ("torch", "read elsewhere", "is also used elsewhere"),
        ("torch", "another function", "do not match an LSTM, GRU or RNN"),
        ("hard lstm", "another bound", "do not match an LSTM, GRU or RNN"),
    ],
)
def test_what_keeps_it_written_out_is_told(cell: str, what: str, told: str) -> None:
    changed = ir.from_proto(without(written_out(cell), what))
    result = REWRITE.apply(changed)
    assert not result.modified
    assert told in " ".join(result.reasons)


def test_few_steps_stay(tmp_path: Path) -> None:
    assert not REWRITE.apply(ir.from_proto(written_out(steps=4))).modified


def test_the_rule_names_all_of_it_and_offers_the_rewrite(tmp_path: Path) -> None:
    onnx.save(written_out(steps=20), tmp_path / "m.onnx")
    opened = open_model(tmp_path / "m.onnx")
    (found,) = rules.find_rule("GRA010").findings(Facts(model=opened))
    assert all(part in found.what for part in ("LSTM", "20 steps", "40 Gemm, 60 Sigmoid, 40 Tanh"))
    assert found.plan is not None and [spec.name for spec in found.plan.rewrites] == [REWRITE.name]
    assert (REWRITE.name, "unrolled: 1 LSTM of 20 steps") in {
        (spec.name, why) for spec, why in rewrites.proposals(opened.ir)
    }
