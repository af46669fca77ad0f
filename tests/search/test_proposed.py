"""What is proposed for a load of several sessions, and what waits for permission."""

from __future__ import annotations

import msgspec
import onnx
import pytest
from onnx import TensorProto, helper

from ortune import platform
from ortune.inputs import workload
from ortune.knobs import facts
from ortune.records import Plan
from ortune.search.proposals import propose
from ortune.trials.scratch import scratch_folder
from ortune.trials.sides import Resolved, SideText, resolve


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> Resolved:
    path = tmp_path_factory.mktemp("model") / "relu.onnx"
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), path)
    with scratch_folder() as scratch:
        return resolve(SideText(text=str(path)), common=Plan(), scratch=scratch)


@pytest.mark.parametrize(
    ("sessions", "allow", "shared"), [(4, (), False), (4, ("behaviour",), True), (1, (), False)]
)
def test_a_pool_for_all_sessions_is_tried_where_it_is_allowed(
    side: Resolved, sessions: int, allow: tuple[str, ...], shared: bool
) -> None:
    work = msgspec.structs.replace(workload.propose(side.model.ir), sessions=sessions)
    plans, refused = propose(
        facts.facts_of(side.model.ir),
        (),
        work,
        platform.host(),
        ort_version=side.runtime.ort_version,
        objective="latency",
        allow=allow,
        allocators=(),
    )
    assert any("global_thread_pool" in p.plan.settings for p in plans) is shared
    said = [text for text in refused if text.startswith("global_thread_pool=")]
    assert bool(said) is (sessions > 1 and not shared)
    assert all(text.endswith("--allow behaviour") for text in said)
    assert any(p.plan.settings == {"arena_extend_strategy": "power_of_two"} for p in plans) is (sessions > 1)
