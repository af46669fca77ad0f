"""Proposals look at a model before they copy it: one where nothing can be changed is copied once, for its shapes."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import onnx_ir as ir
import pytest

from onnx_text import model_of
from ortune import rewrites
from ortune.catalogue.providers import NNAPI
from ortune.graph.model.garbage import without_collection
from ortune.inputs import workload

_OPERATORS = ("Tanh", "Relu", "Sigmoid", "Erf")


def _chain(length: int) -> ir.Model:
    steps = " ".join(f"v{i + 1} = {_OPERATORS[i % 4]} (v{i})" for i in range(length))
    return ir.from_proto(model_of(f"g (float[1,4] v0) => (float[1,4] v{length}) {{ {steps} }}"))


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[ir.Model]:
    """The models that were copied."""
    made: list[ir.Model] = []
    clone = ir.Model.clone

    def counted(model: ir.Model) -> ir.Model:
        made.append(model)
        return clone(model)

    monkeypatch.setattr(ir.Model, "clone", counted)
    return made


def test_a_chain_of_activations_is_copied_once_for_all_rewrites(copies: list[ir.Model]) -> None:
    model = _chain(40)
    proposed = {spec.name for spec, _ in rewrites.proposals(model, workload=workload.propose(model))}
    assert proposed <= {"ort-optimized-model", "ort-format"}
    assert len(copies) == 1


def test_what_is_known_is_not_asked_for_another_target(copies: list[ir.Model]) -> None:
    model = _chain(8)
    work, known = workload.propose(model), dict[str, Sequence[rewrites.Proposed]]()
    first = rewrites.proposals(model, workload=work, known=known)
    before = len(copies)
    assert rewrites.proposals(model, workload=work, target=NNAPI.target, known=known) == first
    assert len(copies) == before


@pytest.mark.parametrize(
    "text, name",
    [
        ("{ t = Reshape (x, s) y = Reshape (t, s) }", "cascaded-nodes"),
        ("{ t = Sum (x) y = Relu (t) }", "no-op-nodes"),
        ("{ a = Add (x, w) b = Add (x, v) y = Mul (a, b) }", "duplicate-nodes"),
        ("{ n = Shape (x) k = Gather (n, i) c = Reshape (x, n) y = Expand (c, k) }", "constant-folding"),
    ],
)
def test_what_can_be_changed_is_still_proposed(text: str, name: str) -> None:
    weights = "<int64[2] s = {2,2}, float[1] w = {3}, float[1] v = {3}, int64[1] i = {1}>"
    model = ir.from_proto(model_of(f"g (float[n,4] x) => (float[a,b] y) {weights} {text}"))
    assert name in {spec.name for spec, _ in rewrites.proposals(model, workload=workload.propose(model))}


def test_garbage_is_collected_again_behind_a_pause() -> None:
    assert gc.isenabled()
    with pytest.raises(ValueError), without_collection():
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()
    gc.disable()
    try:
        with without_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
