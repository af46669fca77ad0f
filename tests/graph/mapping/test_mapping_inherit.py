"""Work of fused nodes: counted where the operator is known, else that of the nodes they replaced."""

from __future__ import annotations

import msgspec
import pytest
from mapping_models import Mapped, f32, mapped, of_file

import zoo
from ortune.graph.cost import costs
from ortune.graph.mapping import Mapping, inherited
from ortune.graph.mapping.model_view import ModelView
from ortune.records import NodeCost

GELU = """g (float[2,8] x) => (float[2,8] y) {
    m = MatMul(x, w)
    k = Div(m, root)
    e = Erf(k)
    p = Add(e, one)
    q = Mul(m, p)
    y = Mul(q, half)
}"""


def gelu() -> Mapped:
    numbers = {"root": 2**0.5, "one": 1.0, "half": 0.5}
    return mapped(GELU, {"w": f32(8, 8), **{name: f32() * 0 + number for name, number in numbers.items()}})


def unknown(nodes: tuple[NodeCost, ...], operator: str) -> list[NodeCost]:
    """As if there were no formula for an operator."""
    return [
        NodeCost(name=n.name, op_type=n.op_type, inside=n.inside, known=False, note="no formula")
        if n.op_type == operator
        else n
        for n in nodes
    ]


def test_a_known_operator_is_counted_as_it_is() -> None:
    found = gelu()
    counted = costs(found.after, {}).nodes
    work = inherited(found.mapping, counted, ())
    assert work == {n.name: (n.flops, n.bytes_read + n.bytes_written) for n in counted}


def test_an_unknown_one_does_what_its_originals_do_and_moves_what_crosses_its_border() -> None:
    found = gelu()
    counted = unknown(costs(found.after, {}).nodes, "Gelu")
    (name,) = [name for name, operator in found.mapping.operators.items() if operator == "Gelu"]
    flops, moved = inherited(found.mapping, counted, costs(found.before, {}).nodes)[name]
    assert flops == 5 * 16  # divide, erf, add, multiply twice
    # x once though two nodes read it, y, and the three numbers; not the four values in between.
    assert moved == 4 * (16 + 16 + 3)


def test_what_nothing_is_known_of_is_left_out() -> None:
    found = gelu()
    counted = unknown(costs(found.after, {}).nodes, "Gelu")
    before = unknown(costs(found.before, {}).nodes, "Erf")
    assert set(inherited(found.mapping, counted, before)) == {"/m/MatMul"}


def test_one_name_with_different_work_is_left_out() -> None:
    found = gelu()
    counted = list(costs(found.after, {}).nodes)
    other = msgspec.structs.replace(counted[0], flops=counted[0].flops + 1, inside="If_1/then_branch")
    assert counted[0].name not in inherited(found.mapping, [*counted, other], ())
    assert counted[0].name in inherited(found.mapping, [*counted, counted[0]], ())


@pytest.mark.parametrize(
    "text",
    [
        """g (float[4,4] x, bool c) => (float[4,4] y) {
            a = Relu(x)
            b = If (c) <
                then_branch = t () => (float[4,4] o1) { d = Exp(a)  o1 = MatMul(d, a) },
                else_branch = e () => (float[4,4] o2) { f = Sin(a)  o2 = Neg(f) }
            >
            y = Tanh(b)
        }""",
        """g (float[4,4] x) => (float[4,4] y) {
            p = local.block(x)
            q = local.block(p)
            y = Exp(q)
        }
        <domain: "local", opset_import: ["" : 17]> block (a) => (o) { m = MatMul(a, a)  o = Tanh(m) }
        """,
    ],
    ids=["branches", "functions"],
)
@pytest.mark.parametrize("named", [True, False])
def test_nodes_are_called_as_the_count_calls_them(text: str, named: bool) -> None:
    found = mapped(text, named=named)
    counted = costs(found.before, {}).nodes
    assert [n.op_type for n in counted] == [step.op_type for step in ModelView(found.before).steps]
    alone = {step.name: (step.name,) for step in ModelView(found.before).steps}
    every = [msgspec.structs.replace(n, flops=place, known=True) for place, n in enumerate(counted)]
    work = inherited(Mapping(originals=alone), (), every)
    assert [work[name][0] for name in alone] == list(range(len(counted)))


def test_both_ways_agree_on_a_real_model() -> None:
    """At level extended fusion changes no arithmetic: what is counted is what the originals add up to."""
    found = of_file(zoo.model_path("ppocrv2-cls"), "extended")
    shapes = {"x": (1, 3, 48, 192)}
    after, before = costs(found.after, shapes).nodes, costs(found.before, shapes).nodes
    counted = inherited(found.mapping, after, ())
    nothing = [NodeCost(name=n.name, op_type=n.op_type, known=False) for n in after]
    taken_over = inherited(found.mapping, nothing, before)
    assert len(taken_over) > 140
    for name, (flops, moved) in taken_over.items():
        assert flops == pytest.approx(counted[name][0], rel=0.1), name
        assert moved == pytest.approx(counted[name][1], rel=0.2), name
