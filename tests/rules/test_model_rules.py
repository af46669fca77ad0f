"""What rules find in models and in first profiles, beyond each rule's own example."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from rule_examples import (
    CASTS,
    HOST,
    OLD_HOST,
    QUANTIZE,
    TWICE,
    facts_of,
    info,
    node,
    operators,
    plain,
    weight,
    work,
)

from ortune import rules
from ortune.records import (
    Finding,
    InputChoice,
    Plan,
    ProfiledNode,
    ProfileResult,
    RewriteSpec,
    TraceInfo,
)
from ortune.rules import Facts


def seen(facts: Facts) -> dict[str, Finding]:
    """What stands out, by name."""
    return {found.name: found for found in rules.findings(facts)}


def test_equal_weights_are_found_and_different_ones_are_not(tmp_path: Path) -> None:
    small = facts_of(tmp_path, TWICE, [weight(), weight("v")])
    assert seen(small) == {}, "36 KiB are not worth a word"
    nearly = np.full((192, 192), 0.5, np.float32)
    nearly[-1, -1] = 0.25  # differs in its last value only
    assert seen(facts_of(tmp_path, TWICE, [weight(size=192), numpy_helper.from_array(nearly, "v")])) == {}
    found = seen(facts_of(tmp_path, TWICE, [weight(size=192), weight("v", size=192)]))["duplicate-weights"]
    assert "1 weight (50 % of the bytes)" in found.what


def test_text_among_the_weights_has_no_width(tmp_path: Path) -> None:
    words = numpy_helper.from_array(np.array(["w"] * 1024, dtype=object), "words")
    nodes = [node("Gather", ["words", "i"], ["y"], axis=0)]
    given = [info("i", TensorProto.INT64, [2])]
    assert seen(facts_of(tmp_path, nodes, [words], inputs=given)) == {}


def test_weights_that_are_only_widened_say_their_type(tmp_path: Path) -> None:
    found = seen(facts_of(tmp_path, CASTS, [weight(dtype=np.int8, fill=1)]))["widened-weights"]
    assert found.what.startswith("1 int8 weight only cast to float32")


@pytest.mark.parametrize(("host", "severity"), [(HOST, "note"), (OLD_HOST, "warning")])
def test_a_quantized_model_is_worth_a_warning_where_the_processor_is_slow_with_it(
    tmp_path: Path, host: object, severity: str
) -> None:
    found = seen(facts_of(tmp_path, QUANTIZE, host=host))["quantized"]
    assert found.severity == severity
    assert "1 DynamicQuantizeLinear" in found.what
    assert ("VNNI" in found.what) == bool(found.fix) == (severity == "warning")


def test_weights_that_callers_feed_are_kept_by_the_fix(tmp_path: Path) -> None:
    both = [info("x", TensorProto.FLOAT, [8, 96]), info("a", 1, [96, 96]), info("b", 1, [96, 96])]
    nodes = [node("MatMul", ["x", "a"], ["z"]), node("MatMul", ["z", "b"], ["y"])]
    weights = [weight("a"), weight("b", 0.25)]
    fed = work(InputChoice(name="a", dtype="float", shape=(96, 96)))
    facts = facts_of(tmp_path, nodes, weights, inputs=both, work=fed)
    found = seen(facts)["initializers-in-inputs"]
    assert found.where == ("b",)
    assert found.plan == Plan(
        rewrites=(RewriteSpec(name="initializers-out-of-inputs", params={"keep": "a"}),)
    )
    assert found.safety == "exact"


def test_a_size_without_a_name_is_said_as_a_shape(tmp_path: Path) -> None:
    chosen = work(InputChoice(name="x", dtype="float", shape=(8, 96), guessed_axes=(0,)))
    found = seen(plain(tmp_path, work=chosen, inputs=[info("x", TensorProto.FLOAT, [None, 96])]))
    assert (found["guessed-sizes"].where, found["guessed-sizes"].fix) == (("x[0]",), "--shape x:Nx96")


def test_every_guessed_size_is_in_the_remedy(tmp_path: Path) -> None:
    chosen = work(
        InputChoice(name="x", dtype="float", shape=(8, 96), guessed_axes=(0, 1)),
        InputChoice(name="z", dtype="float", shape=(8, 96), guessed_axes=(0, 1)),
    )
    inputs = [info("x", TensorProto.FLOAT, ["batch", "seq"]), info("z", TensorProto.FLOAT, [None, "seq"])]
    found = seen(plain(tmp_path, work=chosen, inputs=inputs))
    assert found["guessed-sizes"].fix == "--dim batch=N --dim seq=N --shape z:NxN"


@pytest.mark.parametrize(("slowdown", "trusted"), [(1.1, True), (None, True), (4.0, False)])
def test_shares_of_a_profile_that_the_profiler_made_are_not_believed(
    slowdown: float | None, trusted: bool
) -> None:
    facts = operators(Conv=0.8, Cast=0.2)
    changed = msgspec.structs.replace(facts.operators, slowdown_ratio=slowdown)
    found = seen(replace(facts, operators=changed))
    assert ({"dominant-node", "data-movement"} <= found.keys()) == trusted
    if trusted:
        assert "20 %" in found["data-movement"].what


def test_an_inserted_node_says_what_it_is_for_and_a_fused_one_for_whom_it_stands() -> None:
    facts = operators(ReorderInput=0.7, Conv=0.1)
    assert facts.operators is not None
    first, other = facts.operators.nodes

    def dominant(**changes: object) -> Finding:
        nodes = (msgspec.structs.replace(first, **changes), other)
        return seen(replace(facts, operators=msgspec.structs.replace(facts.operators, nodes=nodes)))[
            "dominant-node"
        ]

    inserted = dominant(purpose="into blocked layout")
    assert inserted.what.endswith("the ReorderInput (ReorderInput, inserted: into blocked layout)")
    fused = dominant(op_type="Conv", originals=("conv", "relu"))
    assert fused.where == ("conv", "relu") and fused.what.endswith("conv +1 (Conv)")


def test_weights_in_the_inputs_are_about_the_nodes_that_read_them(tmp_path: Path) -> None:
    both = [info("x", TensorProto.FLOAT, [8, 96]), info("a", 1, [96, 96])]
    nodes = [
        node("Transpose", ["a"], ["t"], name="t"),
        node("MatMul", ["x", "t"], ["z"], name="m"),
        node("Relu", ["z"], ["y"], name="r"),
    ]
    facts = facts_of(tmp_path, nodes, [weight("a")], inputs=both)
    assert seen(facts)["initializers-in-inputs"].share_ratio is None, "nothing ran"
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
    found = seen(replace(facts, profile=run))["initializers-in-inputs"]
    assert found.share_ratio == pytest.approx(0.7)
    assert found.evidence == "nodes that read them take 70 % of the run"
