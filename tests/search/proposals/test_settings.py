"""What a model holds, and which settings are proposed for it."""

from __future__ import annotations

import sys

import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from knob_models import build, transformer_block
from ortune import platform
from ortune.catalogue import knobs
from ortune.catalogue.facts import ModelFacts, facts_of
from ortune.records import Plan, Runtime, Value
from ortune.search.proposals import priors
from ortune.search.proposals.settings import SettingProposal, proposals
from ortune.targets import requests


def facts(nodes: list[onnx.NodeProto]) -> ModelFacts:
    return facts_of(ir.from_proto(build(nodes)))


def test_facts_of_a_transformer_block() -> None:
    found = facts_of(ir.from_proto(transformer_block()))
    assert found.n_nodes == 9
    assert found.operators["Add"] == 3
    assert found.layer_norm
    assert found.gelu
    assert not (found.decomposed_layer_norm or found.attention or found.qdq or found.float16)
    assert (found.branches, found.parallelism_ratio) == (1, 1.0)
    assert found.feeds({"Add"}, {"LayerNormalization"})
    assert not found.feeds({"LayerNormalization"}, {"Add"})


def test_attention_written_out_is_seen() -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"]),
        helper.make_node("MatMul", ["x", "t"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"]),
        helper.make_node("Cast", ["p"], ["c"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["c"], ["c2"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["c2", "x"], ["y"]),
    ]
    found = facts(nodes)
    assert found.attention
    assert found.float16
    assert found.feeds({"Cast"}, {"Cast"})
    assert not facts(nodes[:3]).attention


def test_branches_are_counted_in_heavy_operators() -> None:
    heads = [helper.make_node("MatMul", ["x", "x"], [f"h{i}"]) for i in range(4)]
    joined = [helper.make_node("Sum", [f"h{i}" for i in range(4)], ["s"])]
    last = [helper.make_node("MatMul", ["s", "s"], ["y"])]
    found = facts(heads + joined + last)
    assert (found.branches, found.parallelism_ratio) == (4, 2.5)
    assert facts([helper.make_node("Relu", ["x"], ["y"])]).branches == 0


def test_subgraphs_are_looked_into() -> None:
    body = helper.make_graph(
        [helper.make_node("DequantizeLinear", ["x", "x"], ["z"])],
        "then",
        [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
    )
    found = facts([helper.make_node("If", ["x"], ["y"], then_branch=body, else_branch=body)])
    assert found.qdq
    assert found.n_nodes == 3
    assert not found.blockwise_weights


def test_few_bit_weights_are_told_apart() -> None:
    nodes = [
        helper.make_node("MatMulNBits", ["x"], [f"y{i}"], domain="com.microsoft", bits=bits)
        for i, bits in enumerate((4, 2, 4))
    ]
    assert facts(nodes).weight_bits == (2, 4)
    assert facts([helper.make_node("DequantizeLinear", ["x", "x"], ["y"], block_size=32)]).blockwise_weights


# --- what is proposed ------------------------------------------------------------------------------------

BLOCK = facts_of(ir.from_proto(transformer_block()))
CHAIN = facts([helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])])


def settings_of(found: list[SettingProposal]) -> list[dict[str, Value]]:
    return [proposal.settings for proposal in found]


def test_one_change_at_a_time_best_first() -> None:
    found, _ = proposals(BLOCK, 4, "1.31.1", ["mimalloc"])
    assert [p.prior for p in found] == sorted((p.prior for p in found), reverse=True)
    assert {"disabled_optimizers": "SkipLayerNormFusion"} in settings_of(found)[:3]
    assert len({str(p.settings) for p in found}) == len(found)
    for proposal in found:
        needs = {pair.partition("=")[0] for name in proposal.settings for pair in knobs.find(name).needs}
        # An allocator takes the arena's place in a proposal of its own.
        replaces = (
            {"enable_cpu_mem_arena"} & proposal.settings.keys() if "allocator" in proposal.settings else set()
        )
        assert len(proposal.settings) == 1 + len(needs) + len(replaces)
        assert knobs.check_conflicts(proposal.settings) == proposal.settings


@pytest.mark.parametrize(
    ("cpus", "threads"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (4, [1, 2, 3, 4]), (8, [1, 4, 7, 8])]
)
def test_threads_fit_the_machine(cpus: int, threads: list[int]) -> None:
    found, _ = proposals(BLOCK, cpus, "1.31.1", [])
    tried = [s["intra_op_num_threads"] for s in settings_of(found) if "intra_op_num_threads" in s]
    assert sorted(tried) == threads


def test_what_the_model_lacks_is_not_tried() -> None:
    names = {name for s in settings_of(proposals(CHAIN, 8, "1.31.1", [])[0]) for name in s}
    acting = {"disabled_optimizers", "execution_mode", "inter_op_num_threads", "disable_prepacking"}
    assert not names & acting
    assert {"graph_optimization_level": "extended"} not in settings_of(proposals(CHAIN, 8, "1.31.1", [])[0])


def test_wide_graphs_are_run_in_parallel() -> None:
    wide = facts([helper.make_node("MatMul", ["x", "x"], [f"h{i}"]) for i in range(3)])
    found = settings_of(proposals(wide, 8, "1.31.1", [])[0])
    assert {"execution_mode": "parallel"} in found
    assert {"execution_mode": "parallel", "inter_op_num_threads": 4} in found


def test_what_paid_on_models_alike_counts_most() -> None:
    allocator: dict[str, Value] = {"allocator": "mimalloc"}
    short, long, unknown = (priors.adjusted(0.3, allocator, 2, ns) for ns in (1.5e5, 3e7, None))
    assert short > 0.35 > unknown > long
    measured = priors.measured()
    models = {model for ratios in measured.effects.values() for model in ratios}
    assert measured.latency_ns.keys() == models


def test_what_is_left_out_has_its_reason() -> None:
    found, left_out = proposals(BLOCK, 4, "1.22.1", ["mimalloc"])
    assert {"allocator": "mimalloc"} in settings_of(found)
    assert {"allocator": "mimalloc", "enable_cpu_mem_arena": False} in settings_of(found)
    assert [why for why in left_out if why.startswith("allocator=jemalloc:") and "not installed" in why]
    assert "spin_duration_us needs onnxruntime 1.26; this is 1.22.1" in left_out
    assert [why for why in left_out if why.startswith("gelu_approximation=1") and "--allow numerics" in why]
    assert len(left_out) == len(set(left_out))


@pytest.mark.parametrize("allow", [["numerics"], ["gelu_approximation"]])
def test_what_is_allowed_is_proposed(allow: list[str]) -> None:
    found, left_out = proposals(BLOCK, 4, "1.31.1", [], allow=allow)
    assert {"gelu_approximation": True} in settings_of(found)
    assert not any(reason.startswith("gelu_approximation") for reason in left_out)


def test_the_objective_decides_what_comes_first() -> None:
    assert proposals(BLOCK, 4, "1.31.1", [], objective="cpu")[0][0].settings == {"allow_spinning": False}
    memory = proposals(BLOCK, 4, "1.31.1", [], objective="memory")[0]
    assert memory[0].settings == {"enable_cpu_mem_arena": False}
    cold = settings_of(proposals(BLOCK, 4, "1.31.1", [], objective="cold-start")[0])
    assert {"graph_optimization_level": "disable"} in cold
    assert {"parallel_prepacking": True} in cold
    assert {"parallel_prepacking": True} not in settings_of(proposals(BLOCK, 4, "1.31.1", [])[0])


def test_older_names_of_optimisers_are_used() -> None:
    old = settings_of(proposals(BLOCK, 4, "1.19.2", [])[0])
    assert {"disabled_optimizers": "GeluFusion"} in old
    new = settings_of(proposals(BLOCK, 4, "1.31.1", [])[0])
    assert {"disabled_optimizers": "GeluFusionL1;GeluFusionL2"} in new


def test_every_proposal_is_a_plan_that_can_be_sent() -> None:
    everything = facts_of(ir.from_proto(transformer_block()))
    runtime = Runtime(python=sys.executable, ort_version="1.31.1")
    found, _ = proposals(
        everything, 4, "1.31.1", list(platform.allocators()), allow=["numerics", "behaviour"]
    )
    assert len(found) > 20
    for proposal in found:
        sent = requests.applied(Plan(settings=proposal.settings), runtime)
        assert {item.knob for item in sent} == set(proposal.settings)


def test_a_number_type_without_instructions_is_left_out_with_the_reason() -> None:
    def types(features: list[str]) -> tuple[set[object], list[str]]:
        found, left_out = proposals(
            BLOCK,
            4,
            "1.32.0",
            [],
            allow=["numerics"],
            providers=["OpenVINOExecutionProvider"],
            features=features,
        )
        return {
            p.settings["openvino_precision"] for p in found if "openvino_precision" in p.settings
        }, left_out

    bf16, lacking = types(["avx2", "avx512_bf16"])
    assert bf16 == {"bf16"} and [text for text in lacking if text.startswith("openvino_precision=f16")]
    both, _ = types([])  # unknown
    assert both == {"bf16", "f16"}
