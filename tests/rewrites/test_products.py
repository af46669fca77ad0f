"""Equations that are products, and products of one tensor."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from structural_checks import apply, kinds, same

from facts import facts
from onnx_text import assemble, model_of

A, B, C, D, E = 2, 3, 4, 5, 6


SUMS = [
    ("bqhd,bkhd->bhqk", ((2, 5, 3, 4), (2, 6, 3, 4)), "MatMul"),
    ("bhqk,bkhd->bqhd", ((2, 3, 5, 6), (2, 6, 3, 4)), "MatMul"),
    ("btd,de->bte", ((2, 3, 4), (4, 5)), "MatMul"),
    ("ed,btd->bte", ((5, 4), (2, 3, 4)), "MatMul"),
    ("ij , jk -> ki", ((2, 3), (3, 4)), "MatMul"),
    ("abc->cab", ((2, 3, 4),), ""),
    # Several rows beside shared indices, several sums, several columns, and a vector.
    ("bhwc,hkc->bhwk", ((2, 3, 4, 5), (3, 6, 5)), "MatMul"),
    ("nctkv,kvw->nctw", ((2, 3, 4, 5, 6), (5, 6, 7)), "MatMul"),
    ("ijk,jkl->il", ((2, 3, 4), (3, 4, 5)), "MatMul"),
    ("abij,cdji->dacb", ((2, 3, 4, 5), (6, 7, 5, 4)), "MatMul"),
    ("ai,bci->cab", ((2, 3), (4, 5, 3)), "MatMul"),
    ("baci,bdie->ebcad", ((2, 3, 4, 5), (2, 6, 5, 7)), "MatMul"),
    ("bi,bij->bj", ((2, 3), (2, 3, 4)), "MatMul"),
    ("i,i->", ((3,), (3,)), "Mul ReduceSum"),
    ("ij,ji->i", ((2, 3), (3, 2)), "Mul ReduceSum"),
    ("i,j->ji", ((2,), (3,)), "Mul"),
    ("bhw,bchw->bwhc", ((2, 3, 4), (2, 5, 3, 4)), "Mul"),
    ("ij,j->ij", ((2, 3), (3,)), "Mul"),
    # Of three tensors, a pair with an index to sum comes first.
    ("ij,jk,kl->il", ((A, B), (B, C), (C, D)), "MatMul MatMul"),
    ("bij,bjk,bkl->bli", ((A, B, C), (A, C, D), (A, D, E)), "MatMul MatMul"),
    ("bxi,oij,byj->boxy", ((A, B, C), (D, C, E), (A, 7, E)), "MatMul MatMul"),
    ("bi,ij,bj->b", ((A, B), (B, C), (A, C)), "MatMul Mul ReduceSum"),
    ("bhqk,bkhd,hde->bqe", ((A, B, C, D), (A, D, B, E), (B, E, 7)), "MatMul MatMul"),
    ("i,j,k->kij", ((A,), (B,), (C,)), "Mul Mul"),
    ("bi,bj,bij->b", ((A, B), (A, C), (A, B, C)), "MatMul Mul ReduceSum"),
    ("bi,bi,bi->b", ((A, B), (A, B), (A, B)), "Mul Mul ReduceSum"),
    ("ij,jk,kl,lm->mi", ((A, B), (B, C), (C, D), (D, E)), "MatMul MatMul MatMul"),
]


def einsum(equation: str, shapes: tuple[tuple[int, ...], ...], opset: int = 17) -> onnx.ModelProto:
    names = "xzuv"[: len(shapes)]
    inputs = ", ".join(f"float[{','.join(map(str, s))}] {n}" for n, s in zip(names, shapes, strict=True))
    out = ",".join(f"o{k}" for k in range(len(equation.partition("->")[2].strip().replace("...", "b"))))
    kind = f"float[{out}]" if out else "float"
    text = f'g ({inputs}) => ({kind} y) {{ y = Einsum <equation = "{equation}"> ({", ".join(names)}) }}'
    return model_of(text, opset)


@pytest.mark.parametrize("opset", [12, 17])
@pytest.mark.parametrize(("equation", "shapes", "operators"), SUMS)
def test_equations_that_are_products(
    equation: str, shapes: tuple[tuple[int, ...], ...], operators: str, opset: int
) -> None:
    proto = einsum(equation, shapes, opset)
    made, result = apply("einsum-to-matmul", proto)
    assert result.modified and "1 Einsum " in result.what
    moved = {"Transpose", "Reshape", "Unsqueeze", "Squeeze", "Constant"}
    assert {op: n for op, n in kinds(made).items() if op not in moved} == Counter(operators.split())
    same(proto, made, *shapes, exact=False)
    assert not apply("einsum-to-matmul", made)[1].modified


@pytest.mark.parametrize(
    "equation", ["bqd,bkd->bqk", "bqhd,bkhd->bhqk", "bxi,oij,byj->boxy", "bqhd,hde->bqe", "bq,bk->bqk"]
)
def test_sizes_that_are_open_stay_open(equation: str) -> None:
    sizes = {"b": 2, "q": 3, "k": 5, "x": 3, "y": 5}
    terms = equation.partition("->")[0].split(",")
    fixed = dict.fromkeys("dhijoe", 4)
    shapes = tuple(tuple({**sizes, **fixed}[index] for index in term) for term in terms)
    proto = einsum(equation, shapes)
    for value, term in zip(proto.graph.input, terms, strict=True):
        for dim, index in zip(value.type.tensor_type.shape.dim, term, strict=True):
            if index in sizes:
                dim.dim_param = index
    made, result = apply("einsum-to-matmul", proto)
    assert result.modified and not kinds(made)["Einsum"]
    same(proto, made, *shapes, exact=False)


def test_an_equation_of_what_an_equation_gives() -> None:
    proto = model_of(
        """g (float[2,3] x, float[3,4] w, float[2,5] v) => (float[a,b] y)
        { t = Einsum <equation = "ij,jk -> ki"> (x, w) y = Einsum <equation = "ij,jk -> ki"> (t, v) }"""
    )
    made, result = apply("einsum-to-matmul", proto)
    assert "2 Einsums" in result.what
    assert not kinds(made)["Einsum"]
    assert not apply("einsum-to-matmul", made)[1].modified


@pytest.mark.parametrize(
    ("equation", "shapes", "why"),
    [
        ("ij,jk->k", ((2, 3), (3, 4)), "sums over an index of a single tensor"),
        ("ii->i", ((3, 3),), "a repeated index"),
        ("...ij,...jk->...ik", ((2, 3, 4), (2, 4, 5)), "an ellipsis"),
    ],
)
def test_equations_that_stay(equation: str, shapes: tuple[tuple[int, ...], ...], why: str) -> None:
    proto = einsum(equation, shapes)
    _, result = apply("einsum-to-matmul", proto)
    assert not result.modified
    assert why in result.reasons[0]


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        # What is fed may be of one there, and is repeated then.
        ("float[n,k] x, float[5,4] z", "may broadcast"),
        ("float[n,k] x, float[k,4] z", "may broadcast"),
        ("int8[2,3] x, int8[3,4] z", "MatMul does not support"),
    ],
)
def test_an_equation_that_says_more_than_a_product(inputs: str, why: str) -> None:
    kind = inputs.partition("[")[0]
    proto = model_of(f'g ({inputs}) => ({kind}[a,b] y) {{ y = Einsum <equation = "ij,jk->ik"> (x, z) }}')
    _, result = apply("einsum-to-matmul", proto)
    assert not result.modified
    assert why in result.reasons[0]


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("gemm", [False, True])
def test_products_of_one_tensor(opset: int, gemm: bool) -> None:
    rng = np.random.default_rng(1)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in {"q": (4, 3), "k": (5, 4) if gemm else (4, 5), "v": (4, 2), "kb": (5,)}.items()
    ]
    products = [
        helper.make_node("Gemm", ["x", "q"], ["a"], name="q")
        if gemm
        else helper.make_node("MatMul", ["x", "q"], ["a"], name="q"),
        helper.make_node("Gemm", ["x", "k", "kb"], ["b"], name="k", transB=1)
        if gemm
        else helper.make_node("MatMul", ["x", "k"], ["b"], name="k"),
        helper.make_node("Gemm" if gemm else "MatMul", ["x", "v"], ["c"], name="v"),
        helper.make_node("Neg", ["b"], ["n"], name="neg"),
    ]
    proto = assemble(
        products,
        "float[1,4] x",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["m", "n"]) for name in ("a", "n", "c")],
        weights,
        opset=opset,
        ir_version=7,
    )
    made, result = apply("merged-products", proto)
    assert result.what == "Merged 3 matrix multiplications into 1."
    assert kinds(made) == {"Gemm" if gemm else "MatMul": 1, "Split": 1, "Neg": 1}
    same(proto, made, (1, 4), exact=False)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    _, result = apply("merged-products", proto)
    assert not result.modified
    facts(result.reasons[0], "several rows")
