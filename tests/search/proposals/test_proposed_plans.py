"""What is proposed for a load of several sessions, and what waits for permission."""

from __future__ import annotations

import msgspec
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_text import assemble
from ortune import platform
from ortune.catalogue import facts
from ortune.inputs import workload
from ortune.measuring.scratch import scratch_folder
from ortune.measuring.sides import ResolvedSide, SideText, resolve
from ortune.records import Finding, FixSafety, Plan, RewriteSpec
from ortune.search.proposals.plans import Scope, propose


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> ResolvedSide:
    path = tmp_path_factory.mktemp("model") / "relu.onnx"
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in "xy")
    onnx.save(assemble([helper.make_node("Relu", ["x"], ["y"])], [x], [y], opset=13, ir_version=7), path)
    with scratch_folder() as scratch:
        return resolve(SideText(text=str(path)), common=Plan(), scratch=scratch)


@pytest.mark.parametrize(
    ("sessions", "allow", "shared"), [(4, (), False), (4, ("behaviour",), True), (1, (), False)]
)
def test_a_pool_for_all_sessions_is_tried_where_it_is_allowed(
    side: ResolvedSide, sessions: int, allow: tuple[str, ...], shared: bool
) -> None:
    work = msgspec.structs.replace(workload.propose(side.model.ir), sessions=sessions)
    plans, refused = propose(
        facts.facts_of(side.model.ir),
        work,
        platform.host(),
        Scope(ort_version=side.runtime.ort_version, objective="latency", allow=allow, allocators=()),
    )
    assert any("global_thread_pool" in p.plan.settings for p in plans) is shared
    said = [text for text in refused if text.startswith("global_thread_pool=")]
    assert bool(said) is (sessions > 1 and not shared)
    assert all(text.endswith("--allow behaviour") for text in said)
    assert any(p.plan.settings == {"arena_extend_strategy": "power_of_two"} for p in plans) is (sessions > 1)


def test_what_rules_would_change_comes_first_and_within_what_is_allowed(side: ResolvedSide) -> None:
    def finding(code: str, plan: Plan, safety: FixSafety = "exact") -> Finding:
        return Finding(code=code, name="a-rule", what="", plan=plan, safety=safety)

    outside = Plan(rewrites=(RewriteSpec(name="initializers-out-of-inputs"),))
    threads = Plan(settings={"intra_op_num_threads": 1})
    denormals = Plan(settings={"set_denormal_as_zero": True})
    halves = Plan(rewrites=(RewriteSpec(name="float16-to-float32"),))
    found = [
        finding("GRA002", outside),
        Finding(code="GRA003", what="nothing to change"),
        finding("THR001", threads),
        finding("PRC005", denormals, "numerics"),
        finding("PRC002", halves, "numerics"),
    ]
    for allow, first in ((), [outside, threads]), (("numerics",), [outside, threads, denormals, halves]):
        plans, refused = propose(
            facts.facts_of(side.model.ir),
            workload.propose(side.model.ir),
            platform.host(),
            Scope(ort_version=side.runtime.ort_version, objective="latency", allow=allow, allocators=()),
            findings=found,
        )
        assert [p.plan for p in plans[: len(first)]] == first
        assert plans[0].origin == "GRA002 a-rule"
        assert len({p.plan.id for p in plans}) == len(plans)
        waiting = [text for text in refused if "numerics" in text]
        assert any("set_denormal_as_zero" in text for text in waiting) is (not allow)
        assert any("float16-to-float32" in text for text in waiting) is (not allow)


def test_all_rewrites_together_come_before_the_one_of_them_that_a_rule_asks_for(side: ResolvedSide) -> None:
    """A small budget holds two plans: it may not spend both on less than what it has at hand."""
    fold, outside = (RewriteSpec(name=name) for name in ("constant-folding", "initializers-out-of-inputs"))
    finding = Finding(code="GRA002", name="a-rule", what="", plan=Plan(rewrites=(outside,)), safety="exact")
    for findings, first in (([finding], [(fold, outside), (outside,)]), ([], [(fold, outside)])):
        plans, _ = propose(
            facts.facts_of(side.model.ir),
            workload.propose(side.model.ir),
            platform.host(),
            Scope(ort_version=side.runtime.ort_version, objective="latency", allow=(), allocators=()),
            rewritten=[(spec, "") for spec in (fold, outside)],
            row=(fold, outside),
            findings=findings,
        )
        assert [p.plan.rewrites for p in plans[: len(first)]] == first


@pytest.mark.parametrize(
    ("latency_ns", "allocators", "joined"),
    [(1.5e5, ["mimalloc"], True), (3e7, ["mimalloc"], False), (1.5e5, [], False)],
)
def test_a_setting_that_is_likely_to_pay_is_tried_with_the_rewrites_at_once(
    side: ResolvedSide, latency_ns: float, allocators: list[str], joined: bool
) -> None:
    """An allocator pays where a run is short; the time may end before anything is built on what was found."""
    fold = RewriteSpec(name="constant-folding")
    plans, _ = propose(
        facts.facts_of(side.model.ir),
        workload.propose(side.model.ir),
        platform.host(),
        Scope(ort_version=side.runtime.ort_version, objective="latency", allow=(), allocators=allocators),
        rewritten=[(fold, "")],
        latency_ns=latency_ns,
    )
    first = [(p.plan.rewrites, p.plan.settings) for p in plans[:3]]
    both = ((fold,), {"allocator": "mimalloc"})
    assert (both in first) is joined
    if joined:
        assert first == [both, ((fold,), {}), ((), {"allocator": "mimalloc"})]
