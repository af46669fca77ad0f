"""Inputs that get longer from step to step, and inputs that only look like that."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_text import model_of
from ortune.graph.shapes.growing import growing_dimensions, growing_inputs
from ortune.inputs import workload
from ortune.rewrites.fixed_dimensions import REWRITE, why_not_fixed

GROWING = {
    "a past": """g (float[1,2,p,4] past, float[1,2,s,4] k) => (float[1,2,t,4] present)
    { present = Concat <axis = 2> (past, k) }""",
    "a past of another layout": """g (float[b,p,2,4] past, float[b,2,s,4] k) => (float[b,total,2,4] present)
    { turned = Transpose <perm = [0,2,1,3]> (past) long = Concat <axis = 2> (turned, k)
      present = Transpose <perm = [0,2,1,3]> (long) }""",
    "stacked pasts": """g (float[2,1,2,p,4] past, float[1,2,1,4] k) => (float[1,1,2,t,4] present)
    <int64 first = {0}, int64[1] zero = {0}>
    { one = Gather <axis = 0> (past, first) long = Concat <axis = 2> (one, k) present = Unsqueeze (long, zero) }""",
    "a list of memories": """g (float[n,8] past, float[1,8] token) => (float[1,8] y)
    <int64[1] zero = {0}>
    { all = Concat <axis = 0> (past, token) y = ReduceSum (all, zero) }""",
}
STEADY = {
    "a static cache": """g (float[1,2,16,4] past, float[1,2,1,4] k, bool[1,1,16,1] here) => (float[1,2,16,4] new)
    { new = Where (here, k, past) }""",
    "a window that moves": """g (float[1,p,4] past, float[1,s,4] x) => (float[1,p,4] new)
    <int64[1] one = {1}, int64[1] end = {1000}, int64[1] axis = {1}>
    { all = Concat <axis = 1> (past, x) new = Slice (all, one, end, axis) }""",
    "a batch and its mirror": """g (float[n,8] past) => (float[m,8] y)
    { turned = Neg (past) y = Concat <axis = 0> (past, turned) }""",
    "a class token in front": """g (float[1,n,4] past) => (float[1,m,4] y)
    <float[1,1,4] token = {1,1,1,1}> { y = Concat <axis = 1> (token, past) }""",
    "another axis": """g (float[n,8] past, float[n,1] x) => (float[n,9] y) { y = Concat <axis = 1> (past, x) }""",
    "read alone": """g (float[1,2,p,4] past) => (float[1,2,p,4] y) { y = Relu (past) }""",
}


@pytest.mark.parametrize("kind", GROWING)
def test_an_input_that_a_step_extends_gets_no_fixed_length(kind: str) -> None:
    model = ir.from_proto(model_of(GROWING[kind]))
    (growing,) = growing_inputs(model)
    assert growing.name == "past"
    assert growing.output == ("present" if "present" in GROWING[kind] else "")
    assert REWRITE.proposes(model, workload.propose(model)) == []
    assert "static cache" in why_not_fixed(model)


@pytest.mark.parametrize("kind", STEADY)
def test_an_input_that_keeps_its_length_may_be_fixed(kind: str) -> None:
    model = ir.from_proto(model_of(STEADY[kind]))
    assert growing_inputs(model) == ()
    assert why_not_fixed(model) == ""


def test_a_mask_over_past_and_new_tokens_grows_with_the_past() -> None:
    text = """g (float[1,2,p,4] past, float[1,2,s,4] k, float[1,"p+s"] mask) => (float[1,2,t,4] present, float[1,u] m)
    { present = Concat <axis = 2> (past, k) m = Relu (mask) }"""
    model = ir.from_proto(model_of(text.replace('"p+s"', "q")))
    mask = model.graph.inputs[2]
    mask.shape = ir.Shape([1, ir.SymbolicDim("p+s")])
    assert growing_dimensions(model) == {"p", "p+s"}


def test_sizes_of_a_past_that_are_asked_for_are_fixed_with_a_warning() -> None:
    model = ir.from_proto(model_of(GROWING["a past"]))
    result = REWRITE.change(model, {"p": "7"})
    assert result.modified and "static cache" in result.what
    assert "static cache" not in REWRITE.change(model, {"s": "1"}).what


STANDARD = """g (float[1,s,8] q, float[1,m,8] k, float[1,m,8] v, float[1,2,p,4] past_k, float[1,2,p,4] past_v)
  => (float[1,s,8] y, float[1,2,t,4] new_k, float[1,2,t,4] new_v)
{ y, new_k, new_v = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, v, , past_k, past_v) }"""
CROSS = """g (float[1,s,8] q, float[1,m,8] memory) => (float[1,s,8] y)
{ y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, memory, memory) }"""


def test_the_present_of_an_attention_operator_is_named_and_not_its_answer() -> None:
    found = growing_inputs(ir.from_proto(model_of(STANDARD, 23, ir_version=11)))
    assert [(item.name, item.output) for item in found] == [("past_k", "new_k"), ("past_v", "new_v")]


def test_a_memory_that_attention_only_reads_is_no_past() -> None:
    model = ir.from_proto(model_of(CROSS, contrib=True))
    assert growing_inputs(model) == ()
    assert why_not_fixed(model) == ""


QUANTIZED = """g (float[1,1,16] x, int8[1,p,16] past) => (float[1,1,16] y, int8[1,t,16] present)
<float scale = {0.03}, int8 zero = {0}>
{ q = QuantizeLinear (x, scale, zero) present = Concat <axis = -2> (past, q)
  f = DequantizeLinear (present, scale, zero) turned = Transpose <perm = [0,2,1]> (f)
  a = MatMul (x, turned) p0 = Softmax (a) y = MatMul (p0, f) }"""
SPLIT = """g (float[1,2,1,16] k, float[1,2,1,16] v, float[2,2,p,16] kv) => (float[2,2,t,16] kv_out)
{ old_k, old_v = Split <axis = 0> (kv) new_k = Concat <axis = 2> (old_k, k) new_v = Concat <axis = 2> (old_v, v)
  kv_out = Concat <axis = 0> (new_k, new_v) }"""


@pytest.mark.parametrize(("text", "grows"), [(QUANTIZED, ("past", "present")), (SPLIT, ("kv", "kv_out"))])
def test_a_past_in_int8_or_of_keys_and_values_in_one_tensor_grows(text: str, grows: tuple[str, str]) -> None:
    model = ir.from_proto(model_of(text))
    assert [(item.name, item.output) for item in growing_inputs(model)] == [grows]
    assert "static cache" in why_not_fixed(model)


def test_an_attention_operator_appends_to_its_past_too() -> None:
    text = """g (float[1,s,8] q, float[1,s,8] k, float[1,s,8] v, float[1,2,p,4] past_k, float[1,2,p,4] past_v)
      => (float[1,s,8] y, float[1,2,{present},4] new_k, float[1,2,{present},4] new_v)
    {{ y, new_k, new_v = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v, , , , past_k, past_v) }}"""
    grows = ir.from_proto(model_of(text.format(present="t"), contrib=True))
    assert [item.name for item in growing_inputs(grows)] == ["past_k", "past_v"]
    shared = ir.from_proto(model_of(text.format(present="p"), contrib=True))
    assert growing_inputs(shared) == ()
