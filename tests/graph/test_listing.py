"""A model whose nodes are listed once: while nobody changes it, all that walk it see the same as without the list."""

from __future__ import annotations

import onnx.parser
import onnx_ir as ir
import pytest

from ortune.graph.model.graphs import graphs, listing_of, nested, nodes, unchanged
from ortune.graph.nodes import holds, with_operator
from ortune.graph.shapes.known import known_values

BODIES = """
<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
bodies (float[2,4] x, bool c) => (float[2,4] y)
{
    a = Mul (x, x)
    b = If (c) <
        then_branch = g1 () => (float[2,4] t) {
            k = If (c) <
                then_branch = g2 () => (float[2,4] u) { u = Mul (a, x) },
                else_branch = g3 () => (float[2,4] v) { v = Add (a, x) }
            >
            t = Relu (k)
        },
        else_branch = g4 () => (float[2,4] e) { e = Add (a, a) }
    >
    d = own.Twice (b)
    f = own.Mul (d)
    y = Mul (f, x)
}
<domain: "own", opset_import: ["" : 17]>
Twice (p) => (q)
{
    r = Add (p, p)
    q = Mul (r, r)
}
<domain: "own", opset_import: ["" : 17]>
Mul (p) => (q)
{
    q = Relu (p)
}
"""


@pytest.fixture
def model() -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(BODIES))


def walked(model: ir.Model) -> tuple[object, ...]:
    """All that is asked of a walk."""
    return (
        [*graphs(model)],
        [*graphs(model, functions=False)],
        [*nested(model.graph)],
        [[*nested(function)] for function in model.functions.values()],
        [*nodes(model)],
        [*nodes(model, functions=False)],
        with_operator(model, "Mul"),
        with_operator(model, "Relu", "Mul", "Add", "Mul"),
        with_operator(model, "Conv"),
        [holds(model, *names) for names in (("Mul",), ("Conv", "Add"), ("Conv",), ("Twice",))],
    )


def test_a_listed_model_is_walked_as_any_other(model: ir.Model) -> None:
    outside = walked(model)
    assert len([*nodes(model)]) == 13 and len([*graphs(model)]) == 7
    assert [node.name or node.outputs[0].name for node in with_operator(model, "Mul")] == ["a", "y", "u", "q"]
    with unchanged(model):
        assert listing_of(model) is not None
        assert walked(model) == outside
    assert listing_of(model) is None


def test_of_another_model_nothing_is_listed(model: ir.Model) -> None:
    copy = model.clone()
    outside = walked(copy)
    with unchanged(model):
        assert listing_of(copy) is None
        assert walked(copy) == outside
        copy.graph.append(ir.Node("", "Conv", [copy.graph.inputs[0]]))
        assert holds(copy, "Conv") and not holds(model, "Conv")
        with unchanged(copy):
            assert holds(copy, "Conv") and listing_of(model) is None
        assert listing_of(model) is not None


def test_after_it_was_listed_a_model_may_be_changed(model: ir.Model) -> None:
    with unchanged(model):
        assert not holds(model, "Conv")
    model.graph.append(ir.Node("", "Conv", [model.graph.inputs[0]]))
    assert holds(model, "Conv") and with_operator(model, "Conv") == [model.graph[-1]]
    with unchanged(model):
        assert holds(model, "Conv")


def test_what_is_known_of_values_is_everyones_own(model: ir.Model) -> None:
    outside = known_values(model)
    with unchanged(model):
        first, again = known_values(model), known_values(model)
        assert first == again == outside
        first.clear()
        assert known_values(model) == outside
