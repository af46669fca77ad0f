"""Commands that an answer names: they can be pasted."""

from __future__ import annotations

import msgspec

import golden
from ortune import rewrites
from ortune.records import Case, Plan, ProviderSpec, RewriteSpec, Side, Workload
from ortune.show.answer_commands import change_line, compare_line, why_line, workload_options

WORK = Workload(cases=(Case(name="default", inputs=()),))


def test_another_model_is_profiled_against_the_base_whose_inputs_are_known() -> None:
    base, new = golden.side("a.onnx"), golden.side("b.onnx", intra_op_num_threads=1)
    assert why_line(base, new, WORK)[:3] == ["ortune", "profile", "b.onnx"]  # the same file under two names
    other = msgspec.structs.replace(new, model=msgspec.structs.replace(new.model, sha256="1" * 64))
    words = why_line(base, other, WORK)
    assert words[:5] == ["ortune", "profile", "a.onnx", "--against", "b.onnx"]
    assert words[5:] == ["--b-set", "intra_op_num_threads=1"]


def test_a_change_that_was_not_proven_is_measured_as_the_tuning_was_asked_for() -> None:
    wasm, change = Plan(providers=(ProviderSpec(name="wasm"),)), Plan(rewrites=(RewriteSpec(name="gelu"),))
    asked = "ortune tune 'a b.onnx' --target web --shape x:1x3 --allow mean --allow p95 --ort-web 1.22.0 --budget 10s"
    words = change_line(asked, wasm, change)
    assert words[:5] == ["ortune", "compare", "a b.onnx", "--target", "web-wasm"]
    assert words[5:] == ["--shape", "x:1x3", "--ort-web", "1.22.0", "--b-rewrite", "gelu"]
    first = "ortune runtime add openvino\nortune tune m.onnx --targets cpu,openvino --objective p95"
    assert change_line(first, Plan(), change) == [
        "ortune", "compare", "m.onnx", "--objective", "p95", "--b-rewrite", "gelu",
    ]  # fmt: skip
    assert change_line("", Plan(), change) == change_line("ortune 'tune", Plan(), change) == []


def test_a_comparison_of_rewrites_can_be_asked_again() -> None:
    spec = RewriteSpec(name="fixed-dimensions", params={"batch": "1", "seq": "128"})
    base, new = golden.side("a.onnx", allow_spinning=False), golden.side("a.onnx")
    new = msgspec.structs.replace(new, plan=Plan(rewrites=(RewriteSpec(name="gelu"), spec)))
    words = compare_line(base, new, WORK, "", reproduce="")
    assert words[:5] == ["ortune", "compare", "a.onnx", "--a-set", "allow_spinning=0"]
    assert words[5:] == ["--b-rewrite", "gelu", "--b-rewrite", "fixed-dimensions:batch=1,seq=128"]
    assert rewrites.parse(words[-1]) == spec
    swapped = compare_line(new, base, WORK, "", reproduce="")
    assert "--a-rewrite" in swapped and set(swapped) >= {"--b-set", "gelu"}
    comma = Plan(rewrites=(RewriteSpec(name="kept-outputs", params={"outputs": "a,b"}),))
    assert compare_line(base, msgspec.structs.replace(new, plan=comma), WORK, "", reproduce="") == []
    model = msgspec.structs.replace(new.model, path="out/m.ortune/model.onnx")
    bundle = msgspec.structs.replace(new, label="m.ortune", bundle="m.ortune", model=model)
    assert compare_line(base, bundle, WORK, "", reproduce="") == [], "its file is rewritten already"


def test_equal_sides_are_both_named() -> None:
    for name in ("a.onnx", "copy.onnx"):  # the same file, and another one of equal content
        words = compare_line(golden.side("a.onnx"), golden.side(name), WORK, "", reproduce="")
        assert words == ["ortune", "compare", "a.onnx", name]


def test_a_comparison_in_a_browser_can_be_asked_again() -> None:
    base, new = golden.side("a.onnx"), golden.side("a.onnx", web_threads=2)
    there = msgspec.structs.replace(base.runtime, ort_web="1.30.0")
    in_page = (ProviderSpec(name="wasm"),)
    base, new = (
        msgspec.structs.replace(s, runtime=there, plan=msgspec.structs.replace(s.plan, providers=in_page))
        for s in (base, new)
    )
    words = compare_line(base, new, WORK, "", reproduce="")
    assert words[:5] == ["ortune", "compare", "a.onnx", "--b-set", "web_threads=2"]
    assert words[5:9] == ["--target", "web-wasm", "--ort-web", "1.30.0"]
    said = "ortune compare a.onnx --target web-wasm --browser '/opt/my chrome' --headful"
    again = compare_line(base, new, WORK, "", reproduce=said)
    assert again == [*words, "--browser", "/opt/my chrome", "--headful"]

    def made(side: Side, version: str, dist: str) -> Side:
        used = msgspec.structs.replace(there, ort_web=version, ort_web_dist=dist)
        return msgspec.structs.replace(side, runtime=used)

    for version, dist, written in (
        ("1.30.0", "/home/u/.cache/ortune/onnxruntime-web-1.30.0/dist", "1.30.0"),
        ("1.30.0", "/home/u/build/dist", "/home/u/build/dist"),
        ("", "/home/u/build/dist", "/home/u/build/dist"),
    ):
        sides = made(base, version, dist), made(new, version, dist)
        assert compare_line(*sides, WORK, "", reproduce="")[7:9] == ["--ort-web", written]
    other = made(new, "1.30.0", "/home/u/other/dist")
    assert compare_line(made(base, "1.30.0", "/home/u/build/dist"), other, WORK, "", reproduce="") == []
    native = msgspec.structs.replace(new, plan=msgspec.structs.replace(new.plan, providers=()))
    assert compare_line(base, native, WORK, "", reproduce="") == [], "two targets"


def test_a_bundle_is_compared_again_as_a_bundle() -> None:
    plain, new = golden.side("a.onnx"), golden.side("a.onnx", openvino_precision="f32")
    model = msgspec.structs.replace(new.model, path="out/m.ortune/model.onnx")
    plan = Plan(settings=new.plan.settings, providers=(ProviderSpec(name="OpenVINOExecutionProvider"),))
    made = msgspec.structs.replace(
        new.runtime, python="/made/bin/python", name="openvino", origin="--runtime"
    )
    bundle = msgspec.structs.replace(
        new, label="m.ortune", bundle="out/m.ortune", model=model, plan=plan, runtime=made
    )
    base = msgspec.structs.replace(plain, label="m.ortune (plain)", bundle="out/m.ortune", model=model)
    words = compare_line(base, bundle, WORK, "", reproduce="")
    assert words == [
        *("ortune", "compare", "out/m.ortune", "--b-set", "openvino_precision=f32"),
        *("--b-runtime", "openvino"),
    ]
    # A bundle that keeps the default too: its model alone would be one side.
    kept = msgspec.structs.replace(base, label="m.ortune")
    assert compare_line(base, kept, WORK, "", reproduce="") == ["ortune", "compare", "out/m.ortune"]


def test_a_mix_of_sizes_is_written_as_a_user_would() -> None:
    def written(**weights: float) -> str:
        total = sum(weights.values())
        cases = tuple(Case(name=f"n={size[1:]}", weight=w / total, inputs=()) for size, w in weights.items())
        words = workload_options(Workload(cases=cases))
        assert words is not None
        return words[words.index("--dim") + 1]

    assert written(_16=1, _256=1) == "n=16,256"
    assert written(_16=2, _256=1) == "n=16:2,256:1"
    assert written(_16=0.25, _64=0.25, _256=0.5) == "n=16:1,64:1,256:2"
    assert written(_16=1, _256=2**0.5) == "n=16:0.414213562373,256:0.585786437627", "no whole parts"
