"""What rules find in models and in first profiles, beyond each rule's own example."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from rule_facts import (
    CASTS,
    HOST,
    OLD_HOST,
    QUANTIZE,
    TWICE,
    facts_of,
    findings_of,
    info,
    node,
    opened,
    plain,
    profile,
    ran,
    work,
)

from graphs import filled
from ortune import rules
from ortune.records import Finding, InputChoice, Plan, ProfiledNode, ProfileResult, RewriteSpec, TraceInfo
from ortune.rules import Facts
from ortune.rules._words import listed


def test_names_that_are_cut_short_can_still_be_told_apart() -> None:
    names = [f"/head/bottleneck/blocks.{i}/layers.0/norm/BatchNormalization" for i in range(3)]
    first, second, more = listed(names).split(", ")
    assert first != second and more == "1 more"
    assert listed(["a" * 200, "a" * 200]).count("...") == 2


def test_equal_weights_are_found_and_different_ones_are_not(tmp_path: Path) -> None:
    small = facts_of(tmp_path, TWICE, [filled(), filled("v")])
    assert findings_of(small) == {}, "36 KiB are not worth a word"
    nearly = np.full((192, 192), 0.5, np.float32)
    nearly[-1, -1] = 0.25  # differs in its last value only
    assert (
        findings_of(facts_of(tmp_path, TWICE, [filled(size=192), numpy_helper.from_array(nearly, "v")])) == {}
    )
    found = findings_of(facts_of(tmp_path, TWICE, [filled(size=192), filled("v", size=192)]))[
        "duplicate-weights"
    ]
    assert "1 duplicate initializer (50 % of the bytes)" in found.what


def test_text_among_the_weights_has_no_width(tmp_path: Path) -> None:
    words = numpy_helper.from_array(np.array(["w"] * 1024, dtype=object), "words")
    nodes = [node("Gather", ["words", "i"], ["y"], axis=0)]
    given = [info("i", TensorProto.INT64, [2])]
    assert findings_of(facts_of(tmp_path, nodes, [words], inputs=given)) == {}


def test_weights_that_are_only_widened_say_their_type(tmp_path: Path) -> None:
    found = findings_of(facts_of(tmp_path, CASTS, [filled(dtype=np.int8, fill=1)]))["weights-cast-to-float32"]
    assert "1 weight is stored in int8" in found.what and "float32" in found.what


@pytest.mark.parametrize(("host", "severity"), [(HOST, "note"), (OLD_HOST, "warning")])
def test_a_quantized_model_is_worth_a_warning_where_the_processor_is_slow_with_it(
    tmp_path: Path, host: object, severity: str
) -> None:
    found = findings_of(facts_of(tmp_path, QUANTIZE, host=host))["quantized"]
    assert found.severity == severity
    assert "1 DynamicQuantizeLinear" in found.what
    assert ("VNNI" in found.what) == bool(found.fix) == (severity == "warning")


def test_weights_alone_in_8_bits_are_no_matter_of_the_processor(tmp_path: Path) -> None:
    weights = [filled(dtype=np.int8, fill=1), numpy_helper.from_array(np.float32(0.1), "s")]
    nodes = [node("DequantizeLinear", ["w", "s"], ["d"]), node("MatMul", ["x", "d"], ["y"])]
    found = findings_of(facts_of(tmp_path, nodes, weights, host=OLD_HOST))["quantized"]
    assert (found.severity, found.fix) == ("note", "")
    assert found.what.endswith(": 1 DequantizeLinear")


def test_weights_that_callers_feed_are_kept_by_the_fix(tmp_path: Path) -> None:
    both = [info("x", TensorProto.FLOAT, [8, 96]), info("a", 1, [96, 96]), info("b", 1, [96, 96])]
    nodes = [node("MatMul", ["x", "a"], ["z"]), node("MatMul", ["z", "b"], ["y"])]
    weights = [filled("a"), filled("b", 0.25)]
    fed = work(InputChoice(name="a", dtype="float", shape=(96, 96)))
    facts = facts_of(tmp_path, nodes, weights, inputs=both, work=fed)
    found = findings_of(facts)["initializers-in-inputs"]
    assert found.where == ("b",)
    assert found.plan == Plan(
        rewrites=(RewriteSpec(name="initializers-out-of-inputs", params={"keep": "a"}),)
    )
    assert found.safety == "exact"


@pytest.mark.parametrize("name", [None, "?"])
def test_a_size_without_a_name_is_said_as_a_shape(name: str | None, tmp_path: Path) -> None:
    chosen = work(InputChoice(name="x", dtype="float", shape=(8, 96), guessed_axes=(0,)))
    found = findings_of(plain(tmp_path, work=chosen, inputs=[info("x", TensorProto.FLOAT, [name, 96])]))
    assert found["guessed-dimensions"].where == ("x[0]",)
    assert found["guessed-dimensions"].fix.endswith(": --shape x:Nx96")


def test_every_guessed_size_is_in_the_remedy(tmp_path: Path) -> None:
    chosen = work(
        InputChoice(name="x", dtype="float", shape=(8, 96), guessed_axes=(0, 1)),
        InputChoice(name="z", dtype="float", shape=(8, 96), guessed_axes=(0, 1)),
    )
    inputs = [info("x", TensorProto.FLOAT, ["batch", "seq"]), info("z", TensorProto.FLOAT, [None, "seq"])]
    found = findings_of(plain(tmp_path, work=chosen, inputs=inputs))
    assert found["guessed-dimensions"].fix.endswith(": --dim batch=N --dim seq=N --shape z:NxN")


def test_weights_in_the_inputs_are_about_the_nodes_that_read_them(tmp_path: Path) -> None:
    both = [info("x", TensorProto.FLOAT, [8, 96]), info("a", 1, [96, 96])]
    nodes = [
        node("Transpose", ["a"], ["t"], name="t"),
        node("MatMul", ["x", "t"], ["z"], name="m"),
        node("Relu", ["z"], ["y"], name="r"),
    ]
    facts = facts_of(tmp_path, nodes, [filled("a")], inputs=both)
    assert findings_of(facts)["initializers-in-inputs"].share_ratio is None, "nothing ran"
    ran = tuple(
        ProfiledNode(name=name, op_type=kind, time_ns=ns, share_ratio=ns / 1e6, originals=(name,))
        for name, kind, ns in (("t", "Transpose", 2e5), ("m", "MatMul", 5e5), ("r", "Relu", 2e5))
    )
    run = ProfileResult(
        trace=TraceInfo(path="", format="ort-json", n_events=3, n_runs=1),
        n_runs=1,
        wall_ns=1e6,
        categories=(),
        nodes=ran,
    )
    found = findings_of(replace(facts, profile=run))["initializers-in-inputs"]
    assert found.share_ratio == pytest.approx(0.7)
    assert found.evidence.endswith(" 70 % of the run")


HEADS = f"""<ir_version: 8, opset_import: ["" : 17]>
heads (float[1,5,8] x) => (float[1,5,8] y)
<float[8,8] w = {{{",".join(["0.1"] * 64)}}}, float half = {{0.5}}, int64[4] split = {{0,0,2,4}},
 int64[3] join = {{0,0,8}}>
{{ p = MatMul (x, w)
  r = Reshape (p, split)
  q = Transpose <perm = [0,2,1,3]> (r)
  k = Transpose <perm = [0,2,3,1]> (r)
  s = MatMul (q, k)
  d = Mul (s, half)
  a = Softmax <axis = -1> (d)
  o = MatMul (a, q)
  t = Transpose <perm = [0,2,1,3]> (o)
  y = Reshape (t, join) }}"""


@pytest.mark.parametrize(
    ("was", "becomes", "told"),
    [
        ("y = Reshape (t, join)", "y = Identity (t)", "are not merged by Transpose and Reshape"),
        ("o = MatMul", "z = Relu (s)\n  o = MatMul", "also used elsewhere"),
    ],
)
def test_attention_is_mended_by_the_rewrite_or_says_what_keeps_it(
    was: str, becomes: str, told: str, tmp_path: Path
) -> None:
    rule = rules.find_rule("GRA013")

    def found(text: str) -> Finding:
        (finding,) = rule.findings(Facts(model=opened(onnx.parser.parse_model(text), tmp_path)))
        return finding

    whole = found(HEADS)
    assert whole.plan == Plan(rewrites=(RewriteSpec(name="attention"),)) and whole.safety == "exact"
    text = HEADS.replace(was, becomes).replace("=> (float[1,5,8] y)", "=> (float[] y)")
    if "z = " in text:
        text = text.replace("(float[] y)", "(float[] y, float[] z)")
    missed = found(text)
    assert missed.plan is None and missed.fix
    assert told in missed.evidence


def test_a_model_s_own_settings_say_what_was_meant(tmp_path: Path) -> None:
    said = {
        "intra_op_num_thread": 2,
        "memory.enable_memory_arena_shrinkage": "cpu:0",
        "session.intra_op.allow_spinning": "0",
        "inter_op_num_threads": 4,
    }
    rule = rules.find_rule("SES003")
    assert rule.good is not None
    model = rule.good()
    helper.set_model_props(model, {"ort_config": json.dumps({"session_options": said})})
    (found,) = rule.findings(Facts(model=opened(model, tmp_path)))
    assert re.search(r"intra_op_num_thread \([^)]* intra_op_num_threads\?\)", found.what)
    assert "memory.enable_memory_arena_shrinkage (belongs in the run options)" in found.what
    assert re.search(r"session\.intra_op\.allow_spinning \([^)]* session config entries\)", found.what)
    assert "inter-op threads" in found.what


def test_more_threads_in_the_model_than_cpus_are_told(tmp_path: Path) -> None:
    rule = rules.find_rule("SES003")
    assert rule.good is not None
    model = rule.good()
    helper.set_model_props(
        model, {"ort_config": json.dumps({"session_options": {"intra_op_num_threads": 9}})}
    )
    facts = Facts(model=opened(model, tmp_path), host=HOST)
    (found,) = rule.findings(facts)
    assert "9 threads, but only 8 available CPUs" in found.what
    assert rule.findings(replace(facts, host=None)) == []


def test_trees_that_are_fed_many_rows_are_no_finding(tmp_path: Path) -> None:
    rule = rules.find_rule("GRA019")
    assert rule.bad is not None
    model = opened(rule.bad(), tmp_path)
    told = [
        len(rule.findings(Facts(model=model, work=work(InputChoice(name="x", dtype="float", shape=(n, 2))))))
        for n in (1, 128)
    ]
    assert told == [1, 0]


def test_what_a_dynamic_quantization_leaves_unused_is_named(tmp_path: Path) -> None:
    rule = rules.find_rule("QNT002")
    assert rule.bad is not None
    facts = Facts(model=opened(rule.bad(), tmp_path), host=HOST)
    (found,) = rule.findings(facts)
    assert "avx512_vnni" in found.evidence
    (found,) = rule.findings(replace(facts, host=OLD_HOST))
    assert not found.evidence


def test_sizes_that_are_always_the_same_are_fixed_where_they_are_known(tmp_path: Path) -> None:
    rows = [info("x", TensorProto.FLOAT, ["rows", 96])]
    known = work(InputChoice(name="x", dtype="float", shape=(8, 96)))
    sized = [
        helper.make_node("Shape", ["x"], ["size"], "size"),
        helper.make_node("Reshape", ["x", "size"], ["y"]),
    ]
    run = profile(ran("reshape", category="shape-arithmetic"), shape_arithmetic=0.2).profile
    rule = rules.find_rule("SHP002")
    (found,) = rule.findings(facts_of(tmp_path, sized, inputs=rows, work=known, profile=run))
    assert found.plan == Plan(rewrites=(RewriteSpec(name="fixed-dimensions", params={"rows": "8"}),))
    assert found.safety == "behaviour"
    # The label of a classifier is a small integer too.
    assert not rule.findings(replace(plain(tmp_path, inputs=rows, work=known), profile=run))


def test_int8_on_a_cpu_without_its_instructions_is_measured_by_a_command_that_works(tmp_path: Path) -> None:
    facts = replace(plain(tmp_path), host=OLD_HOST)
    assert facts.model is not None
    (finding,) = rules.found_by([rules.find_rule("ENV004")], replace(facts, fed=("--dim", "my rows=4")))
    _, _, command = finding.fix.partition(": ")
    assert shlex.split(command) == [
        "ortune", "compare", str(facts.model.path), "--dim", "my rows=4", "--b-rewrite", "dynamic-int8",
    ]  # fmt: skip
    (unknown,) = rules.find_rule("ENV004").findings(replace(facts, model=None))
    assert "ortune" not in unknown.fix
    without_weights = facts_of(tmp_path, [node("Relu", ["x"], ["y"])], host=OLD_HOST)
    assert not rules.find_rule("ENV004").findings(without_weights)


@pytest.mark.parametrize(
    ("start", "limit", "step"),
    [([0.0, 1.0], [9.0], [1.0]), ([0.0], [np.inf], [1.0]), ([np.nan], [9.0], [1.0]), ([0.0], [9.0], [0.0])],
)
def test_a_range_without_a_length_is_no_constant_that_grows(
    tmp_path: Path, start: list[float], limit: list[float], step: list[float]
) -> None:
    held = [
        numpy_helper.from_array(np.float32(each), name)
        for each, name in zip((start, limit, step), "abc", strict=True)
    ]
    facts = facts_of(tmp_path, [node("Range", ["a", "b", "c"], ["y"])], held)
    assert rules.find_rule("MEM002").findings(facts) == []


def test_only_float32_has_a_blocked_layout_to_leave(tmp_path: Path) -> None:
    rule = rules.find_rule("LAY005")
    for dtype, there in ((np.float32, True), (np.float64, False)):
        numbers = numpy_helper.from_array(np.ones((16, 17, 1, 1), dtype), "w")
        facts = facts_of(tmp_path, [node("Conv", ["x", "w"], ["y"])], [numbers], host=HOST)
        assert bool(rule.findings(facts)) is there


FUNCTION = """
<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
calls (float[2,4,8] x, float[8] s, float[4] k) => (float[2,4,8] z)
{
    z = local.block <last = -1, training = 0, number = 2.0, axes = [-1]> (x, s, k)
}
<opset_import: ["" : 17], domain: "local">
block <last, training, number, axes> (x, s, k) => (z)
{
    a = Add (x, x)
    n = LayerNormalization <axis: int = @last> (a, s)
    g = Gemm (n, s)
    b = BatchNormalization <training_mode: int = @training> (g, k, k, k, k)
    e = Constant <value_float: float = @number> ()
    c = Constant <value_ints: ints = @axes> ()
    m = ReduceMean <axes: ints = @axes> (b)
    d = Sub (b, m)
    q = Pow (d, e)
    v = ReduceMean <axes: ints = @axes> (q)
    t = Add (v, e)
    r = Sqrt (t)
    z = Div (d, r)
}
"""


def test_what_the_caller_of_a_function_says_is_not_known_in_it(tmp_path: Path) -> None:
    facts = Facts(model=opened(onnx.parser.parse_model(FUNCTION), tmp_path), host=HOST)
    for rule in rules.all_rules().values():
        rule.findings(facts)


@pytest.mark.parametrize("value", ["four", 4.0, [4]], ids=repr)
@pytest.mark.parametrize("name", ["bits", "accuracy_level"])
def test_an_attribute_of_anothers_operator_may_be_of_any_kind(
    name: str, value: object, tmp_path: Path
) -> None:
    rule = rules.find_rule("QNT008")
    assert rule.bad is not None
    proto = rule.bad()
    (product,) = (each for each in proto.graph.node if each.op_type == "MatMulNBits")
    kept = [each for each in product.attribute if each.name != name]
    del product.attribute[:]
    product.attribute.extend([*kept, helper.make_attribute(name, value)])
    found = rule.findings(Facts(model=opened(proto, tmp_path), target=rule.target or "cpu"))
    assert [each.code for each in found] == ["QNT008"]  # as if it were not there


def test_of_a_sum_of_dimensions_each_part_is_named_as_dim_takes_it(tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["y"])]
    for dims, offered in ((["p+s", 96], ("--dim p=N", "--dim s=N")), (["2*p", 96], ("--dim p=N",))):
        given = [info("x", TensorProto.FLOAT, dims)]
        chosen = InputChoice(name="x", dtype="float", shape=(8, 96), guessed_axes=(0,))
        known = facts_of(tmp_path, nodes, inputs=given, work=work(chosen))
        found = findings_of(known)["guessed-dimensions"]
        assert found.fix is not None and all(option in found.fix for option in offered), found
        assert found.fix.count("--dim") == len(offered)


def test_a_batch_of_one_is_named_with_the_sizes_that_were_guessed(tmp_path: Path) -> None:
    inputs = [info("x", TensorProto.FLOAT, ["batch", "rows", 96])]

    def of(*guessed: int, origin: str = "name") -> list[Finding]:
        choice = InputChoice(name="x", dtype="float", shape=(1, 8, 96), guessed_axes=guessed, origin=origin)
        facts = plain(tmp_path, work=work(choice), inputs=inputs)
        return rules.find_rule("SHP001").findings(facts)

    (found,) = of(1)
    assert found.where == ("rows", "batch")
    assert "batch=1" in found.what and "--dim batch=N" in found.fix and "--dim rows=N" in found.fix
    (own,) = of(1, origin="user")
    assert "batch" not in own.what
    assert of() == []
