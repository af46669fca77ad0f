"""What a page tells of its trial is checked before anything is computed from it: it may be a stranger's."""

from __future__ import annotations

import msgspec
import pytest

from ortune.records import CaseTimes, FeedRef, TrialDone
from ortune.targets.browser.page_report import PageAbout, fallbacks_of, placement_of, untrue
from ortune.targets.browser.remote import CaseRun, heat

GOOD = TrialDone(
    load_ns=5,
    cases=(CaseTimes(case="default", weight=1.0, first_ns=9, latency_ns=[4, 5, 6]),),
    cpu_ns=0,
    wall_ns=15,
    n_runs=3,
)
ASKED = [FeedRef(name="default", path="feeds")]


def test_a_report_is_taken_as_it_is() -> None:
    assert untrue(GOOD, ASKED) is None
    start = msgspec.structs.replace(
        GOOD, cases=(msgspec.structs.replace(GOOD.cases[0], latency_ns=[]),), n_runs=0, wall_ns=0
    )
    assert untrue(start, ASKED) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cases": (), "n_runs": 0}, "protocol"),
        ({"n_runs": 0}, "protocol"),
        ({"wall_ns": -1}, "protocol"),
        ({"wall_ns": 0}, "unsupported"),
        ({"cases": (msgspec.structs.replace(GOOD.cases[0], latency_ns=[0, 0, 0]),)}, "unsupported"),
        ({"cases": (msgspec.structs.replace(GOOD.cases[0], latency_ns=[4, -5, 6]),)}, "protocol"),
        ({"cases": (msgspec.structs.replace(GOOD.cases[0], case="other"),)}, "protocol"),
        ({"cases": (msgspec.structs.replace(GOOD.cases[0], weight=2.0),)}, "protocol"),
        ({"cases": (msgspec.structs.replace(GOOD.cases[0], turn_runs=(2,)),)}, "protocol"),
        ({"cases": (msgspec.structs.replace(GOOD.cases[0], waits_ns=[1]),)}, "protocol"),
        ({"cases": (msgspec.structs.replace(GOOD.cases[0], first_ns=10**30),)}, "protocol"),
        ({"load_ns": 10**19}, "protocol"),
    ],
)
def test_what_cannot_be_is_a_failed_trial(change: dict[str, object], reason: str) -> None:
    found = untrue(msgspec.structs.replace(GOOD, **change), ASKED)
    assert found is not None and found[0] == reason


@pytest.mark.parametrize(
    "told",
    [
        {"resolution_ns": "x"},
        {"resolution_ns": 1e300},
        {"adapter": "x"},
        {"env": []},
        {"env": {"wasm.proxy": "x" * 2000}},
        {"env": {"x" * 2000: 1}},
        {"env": {"wasm.numThreads": 10**30}},
        {"env": {"wasm.numThreads": {"a": 1}}},
        {"env": dict.fromkeys(map(str, range(200)))},
        {"files": ["x" * 2000]},
        {"files": ["x"] * 200},
        {"fetch_ns": -1},
        {"agent": "x" * 2000},
    ],
)
def test_what_a_page_tells_of_itself_has_its_types(told: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(told, PageAbout)


def test_values_that_a_page_reads_back_keep_their_types() -> None:
    env = {
        "wasm.numThreads": 4,
        "wasm.proxy": False,
        "webgpu.powerPreference": "low-power",
        "webgl.pack": None,
    }
    told = msgspec.convert({"env": env}, PageAbout).env
    assert told == env and [type(value) for value in told.values()] == [type(value) for value in env.values()]


def test_heat_of_a_clock_that_stood_still_is_not_known() -> None:
    ran = [
        CaseRun(plan="a", case="c", start_s=start, end_s=start + 10, latency_ns=[0, 0])
        for start in (0.0, 170.0)
    ]
    assert heat(ran) is None


def test_placement_and_reasons_are_read_off_the_log() -> None:
    place = "2026-11-23 [V:onnxruntime:, session_state.cc:%d VerifyEachNodeIsAssignedToAnEp] "
    console = [
        "[I:onnxruntime:, x.cc:6] webgpu kernel not found in registries for Op type: Shrink node name: s",
        "[I:onnxruntime:, x.cc:6] webgpu kernel not found in registries for Op type: FusedGemm node name: fused a/gemm",
        place % 1377 + "Node placements",
        place % 1383 + " Node(s) placed on [WebGpuExecutionProvider]. Number of nodes: 2",
        place % 1385 + "  Conv (c0_token_1)",
        place % 1385 + "  Conv (c1)",
        place % 1383 + " Node(s) placed on [CPUExecutionProvider]. Number of nodes: 1",
        place % 1385 + "  Shrink (s)",
        "something else",
    ]
    found = {p.provider: (p.n_nodes, p.operators) for p in placement_of(console)}
    assert found == {"WebGpuExecutionProvider": (2, {"Conv": 2}), "CPUExecutionProvider": (1, {"Shrink": 1})}
    assert fallbacks_of(console) == ("Shrink s", "FusedGemm fused a/gemm")
    alone = [place % 1260 + " All nodes placed on [WebGpuExecutionProvider]. Number of nodes: 157"]
    assert [(p.provider, p.n_nodes) for p in placement_of(alone)] == [("WebGpuExecutionProvider", 157)]
    assert placement_of(["no such line"]) == ()
