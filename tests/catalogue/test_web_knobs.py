"""Settings of onnxruntime-web: proposed for pages alone, and given to them as what JavaScript wants."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from onnx import helper

from knob_models import build, transformer_block
from ortune.catalogue import knobs
from ortune.catalogue.facts import ModelFacts, facts_of
from ortune.catalogue.in_page import InPage, in_page
from ortune.catalogue.knob import WEB
from ortune.catalogue.providers import WEB_WASM as WASM
from ortune.errors import UsageError
from ortune.records import Channel, Host, Plan, ProviderSpec, Runtime, Value, Workload
from ortune.search.proposals.plans import Scope, propose
from ortune.search.proposals.settings import SettingProposal, proposals
from ortune.targets import requests

BLOCK = facts_of(ir.from_proto(transformer_block()))
CHANNELS: tuple[Channel, ...] = (*WEB, "provider_option")
ALLOW = ("numerics", "behaviour")


def of_a_page(provider: str, facts: ModelFacts = BLOCK, **more: str) -> list[SettingProposal]:
    return proposals(facts, 4, "1.30.0", [], allow=ALLOW, providers=[provider], channels=CHANNELS, **more)[0]  # type: ignore[arg-type]


def names(found: list[SettingProposal]) -> set[str]:
    return {name for each in found for name in each.settings}


def test_a_page_is_proposed_its_own_settings_and_no_other() -> None:
    found = names(of_a_page("wasm"))
    assert {"web_threads", "web_build", "web_graph_optimization_level", "web_mem_pattern"} <= found
    assert all(knobs.find(name).is_only_in_browsers for name in found)
    assert not any(knobs.find(name).provider not in ("", "wasm") for name in found)


def test_a_process_is_proposed_none_of_them() -> None:
    for providers in ([], ["CPUExecutionProvider"], ["WebGpuExecutionProvider"]):
        found = proposals(BLOCK, 4, "1.31.1", [], allow=ALLOW, providers=providers)[0]
        assert found and not any(knobs.find(name).is_only_in_browsers for name in names(found))


def test_what_a_search_proposes_for_a_page_are_settings_of_pages() -> None:
    host = Host(
        system="Linux", machine="x86_64", cpu="Box", cores=4, logical=4, affinity=4, effective_cpus=4,
        memory_bytes=1 << 33, features=(),
    )  # fmt: skip
    found, _ = propose(
        BLOCK,
        Workload(cases=(), sessions=2),
        host,
        Scope(
            ort_version="1.30.0", objective="latency", allow=ALLOW, providers=["webgpu"], channels=CHANNELS
        ),
    )
    assert found
    assert all(knobs.find(name).is_only_in_browsers for each in found for name in each.plan.settings)


def test_a_build_is_proposed_where_it_has_the_provider() -> None:
    def builds(provider: str) -> set[Value]:
        return {p.settings["web_build"] for p in of_a_page(provider) if "web_build" in p.settings}

    assert builds("webgpu") == builds("webnn") == {"jspi", "asyncify"}
    assert "wasm" in builds("wasm")
    assert builds("webgl") == set()


def test_graph_capture_comes_with_tensors_on_the_gpu_and_not_with_control_flow() -> None:
    (found,) = [p for p in of_a_page("webgpu") if "web_graph_capture" in p.settings]
    assert found.settings == {
        "web_graph_capture": True,
        "web_input_location": "gpu-buffer",
        "web_output_location": "gpu-buffer",
    }
    branch = helper.make_graph([], "b", [], [])
    nodes = [helper.make_node("If", ["x"], ["y"], then_branch=branch, else_branch=branch)]
    controlled = facts_of(ir.from_proto(build(nodes)))
    assert "web_graph_capture" not in names(of_a_page("webgpu", controlled))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("web_threads", "2", 2),
        ("web_proxy", "1", True),
        ("web_preferred_layout", "NCHW", "NCHW"),
        ("web_int64", "1", "1"),
        ("web_force_cpu_nodes", "/a/b;c", ["/a/b", "c"]),
        ("web_free_dimensions", "batch=1;__proto__=2", {"batch": 1, "__proto__": 2}),
    ],
)
def test_values_are_what_javascript_wants(name: str, text: str, expected: object) -> None:
    knob = knobs.find(name)
    given = knob.javascript(knob.applied(knobs.parse_value(knob, text)).value)
    assert given == expected and type(given) is type(expected)


@pytest.mark.parametrize("text", ["batch", "batch=0", "batch=x", "=1", "a=1;;b=2", "a=1\nb=2"])
def test_sizes_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        knobs.parse_settings([f"web_free_dimensions={text}"])


def test_a_build_without_the_provider_is_refused() -> None:
    runtime = Runtime(python="python", ort_version="1.30.0")
    plan = Plan(settings={"web_build": "wasm"}, providers=(ProviderSpec(name="webgpu"),))
    with pytest.raises(requests.CannotApply):
        requests.applied(plan, runtime)


@pytest.mark.parametrize(
    ("native", "web", "refused"),
    [("1.23.2", "1.30.0", False), ("1.31.1", "1.22.0", True), ("1.23.2", None, False), ("1.31.1", "", False)],
)
def test_the_version_of_a_page_is_that_of_its_onnxruntime_web(
    native: str, web: str | None, refused: bool
) -> None:
    """None is a runtime that says nothing of one, "" one that has no version."""
    runtime = Runtime(
        python="python", ort_version=native, ort_web=web or "", ort_web_dist="" if web is None else "dist"
    )
    settings: dict[str, Value] = {"web_build": "asyncify", "web_storage_buffer_cache": "simple"}
    plan = Plan(settings=settings, providers=(ProviderSpec(name="webgpu"),))
    if refused:
        with pytest.raises(requests.CannotApply, match=f"onnxruntime-web 1.29; this is {web}"):
            requests.applied(plan, runtime)
    else:
        assert len(requests.applied(plan, runtime)) == 2


def test_a_setting_is_refused_in_a_build_that_does_not_read_it() -> None:
    for name, knob in knobs.all_knobs().items():
        if not knob.builds:
            continue
        text = f"{name}={knob.choices[-1] if knob.choices else 'a'}"
        for which in ("", "jsep", "asyncify", "jspi"):
            settings = knobs.parse_settings([text, *([f"web_build={which}"] if which else [])])
            plan = Plan(settings=settings, providers=(ProviderSpec(name="webgpu"),))
            runtime = Runtime(python="python", ort_version="1.31.1")
            if (which or "jsep") in knob.builds:
                assert requests.applied(plan, runtime)
            else:
                with pytest.raises(
                    requests.CannotApply, match=f"{name} does nothing in the {which or 'jsep'} build "
                ):
                    requests.applied(plan, runtime)


def test_a_setting_is_proposed_with_a_build_that_reads_it() -> None:
    (alone,) = [p.settings for p in of_a_page("webgpu") if "web_int64" in p.settings]
    assert alone == {"web_build": "asyncify", "web_int64": "1"}
    (usual,) = [p.settings for p in of_a_page("webgpu") if "web_power_preference" in p.settings]
    assert usual == {"web_power_preference": "high-performance"}
    for which, proposed in (("jspi", {"web_int64"}), ("jsep", {"web_power_preference"})):
        found, left_out = proposals(
            BLOCK,
            4,
            "1.30.0",
            [],
            allow=ALLOW,
            providers=["webgpu"],
            channels=CHANNELS,
            asked={"web_build": which},
        )
        assert names(found) & {"web_int64", "web_power_preference"} == proposed
        assert any(f"the {which} build " in why for why in left_out)
        assert not any("web_build" in p.settings and "web_int64" in p.settings for p in found)


def test_the_proxy_and_outputs_on_the_gpu_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="mutually exclusive"):
        knobs.parse_settings(["web_proxy=1", "web_output_location=gpu-buffer"])


def test_a_page_is_told_all_that_is_set_and_nothing_of_another_provider() -> None:
    settings: dict[str, Value] = {
        "web_threads": 2, "web_build": "jspi", "web_int64": "1", "web_prepacking_off": "1", "web_webnn_device": "npu",
        "web_preferred_layout": "nchw", "web_input_location": "gpu-buffer",
    }  # fmt: skip
    applied = [knobs.find(name).applied(value) for name, value in settings.items()]
    told = in_page(ProviderSpec(name="webgpu", options={"validationMode": "full"}), applied)
    assert told == InPage(
        build="jspi",
        env={"wasm.numThreads": 2},
        session={
            "executionProviders": [{"name": "webgpu", "validationMode": "full", "preferredLayout": "NCHW"}],
            "extra": {
                "ep": {"webgpuexecutionprovider": {"enableInt64": "1"}},
                "session": {"disable_prepacking": "1"},
            },
        },
        inputs="gpu-buffer",
    )


def test_a_provider_by_its_name_alone_has_no_options() -> None:
    form = [knobs.find("web_provider_form").applied("string")]
    assert in_page(ProviderSpec(name="webgpu"), form).session == {"executionProviders": ["webgpu"]}
    told = in_page(ProviderSpec(name="webnn", options={"numThreads": "4"}), form).session
    assert told == {"executionProviders": [{"name": "webnn", "numThreads": 4}]}


def test_a_plan_says_no_word_twice() -> None:
    wasm = ProviderSpec(name=WASM.name)
    assert (
        Plan(settings={"web_build": "wasm"}, providers=(wasm,)).describe() == "web_build=wasm, provider wasm"
    )
    assert Plan(settings={"web_build": "jsep"}, providers=(wasm,)).describe() == "web_build=jsep, wasm"
