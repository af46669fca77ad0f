from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path

import msgspec
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from conftest import Bundle, matmul
from facts import facts
from ortune.bundle import format as bundle_format
from ortune.bundle.languages import emit_all
from ortune.bundle.settings import portable, resolve
from ortune.bundle.snippet import python_lines
from ortune.bundle.web import javascript_lines
from ortune.bundle.write import require_writable
from ortune.errors import OrtuneError, UsageError
from ortune.graph.model.open import open_model
from ortune.inputs import user_feeds
from ortune.records import BundleInfo, Case, Comparison, OtherPrograms, Plan, ProviderSpec, Value, Workload

FEEDS = {"x": np.ones((2, 64), np.float32)}


def test_holds_everything_and_reads_back(tmp_path: Path, make_bundle: Bundle) -> None:
    model = matmul(tmp_path / "net.onnx")
    bundle = make_bundle(model, FEEDS, {"intra_op_num_threads": 4, "allow_spinning": False})
    assert bundle == tmp_path / "made" / "net.ortune"
    names = {p.relative_to(bundle).as_posix() for p in bundle.rglob("*") if p.is_file()}
    assert names == {
        "net.onnx", "ortune.json", "report.html", "workload.json", "feeds.npz", "load.py", "load.mjs",
        "load.cpp", "Load.cs", "Load.java", "Load.kt", "load.swift", "load.rs",
        "deploy/env", "deploy/Dockerfile", "deploy/k8s.yaml", "deploy/k8s-check.yaml", "deploy/config.pbtxt",
        "inputs/input_0.pb", "outputs/output_0.pb", "SHA256SUMS",
        "README.md", "manifest.json",
    }  # fmt: skip
    info = bundle_format.read(bundle)
    assert (info.model, info.plain_model, info.hardware_bound) == ("net.onnx", "", False)
    assert info.sha256 == open_model(model).sha256
    assert info.plan.settings == {"intra_op_num_threads": "min(4, cpus)", "allow_spinning": False}
    assert [(a.key, a.value) for a in info.applied] == [
        ("session.intra_op.allow_spinning", 0), ("intra_op_num_threads", "min(4, cpus)"),
    ]  # fmt: skip
    assert list((tmp_path / "made").iterdir()) == [bundle]  # nothing half-made is left


def test_default_winner_gives_an_empty_plan(tmp_path: Path, make_bundle: Bundle) -> None:
    info = bundle_format.read(make_bundle(matmul(tmp_path / "net.onnx"), FEEDS))
    assert info.plan == Plan() and info.applied == ()
    assert "default settings" in info.contains and "no better" in info.contains


def test_the_readme_says_what_it_is_and_names_files_that_are_there(
    tmp_path: Path, make_bundle: Bundle
) -> None:
    model = matmul(tmp_path / "a`<b>|c.onnx")
    bundle = make_bundle(model, FEEDS, {"intra_op_num_threads": 4}, headline="faster: 1.2x in p50")
    text = (bundle / "README.md").read_text(encoding="utf-8")
    facts(text, "# `a<b>|c.onnx`", "faster: 1.2x in p50", "from load import load, run", "ortune compare")
    named = set(re.findall(r"(?m)^\| `([^`]+)` \|", text))
    assert {"ortune.json", "inputs", "outputs", "SHA256SUMS"} <= named
    own = {file.name for file in bundle.iterdir()}
    assert {name for name in named if ".onnx" not in name} <= own
    loaders = {name for name in own if name.lower().startswith("load.")}
    assert {name for name in own if ".onnx" not in name} - loaders - {"README.md"} <= named
    assert "`load.mjs`" in text and "README.md" in (bundle / "SHA256SUMS").read_text(encoding="utf-8")


def test_the_readme_says_what_other_programs_mean_for_the_gain(tmp_path: Path, make_bundle: Bundle) -> None:
    words = "measured while other programs used 1.6 of 2 CPUs, where fewer threads win by nature"
    others = OtherPrograms(used_cpus=1.6, cpus=2, waited_ratio=0.5, explains=True, favours=True, words=words)
    proof = Comparison(
        statistic="p50 latency", ratio=0.8, ratio_low=0.7, ratio_high=0.9, level=0.95, method="sign-flip",
        n_blocks=12, smallest_effect_ratio=None, verdict="faster", phase="confirm", others=others,
    )  # fmt: skip
    bundle = make_bundle(
        matmul(tmp_path / "net.onnx"), FEEDS, {"intra_op_num_threads": 1}, against_default=proof
    )
    facts((bundle / "README.md").read_text(encoding="utf-8"), "12 fresh blocks", words)


@pytest.mark.parametrize("form", ["inputs", "feeds.npz"])
def test_inputs_are_read_as_the_users_own(tmp_path: Path, make_bundle: Bundle, form: str) -> None:
    model = matmul(tmp_path / "net.onnx")
    bundle = make_bundle(model, {"x": np.arange(64, dtype=np.float32).reshape(1, 64)})
    (read,) = user_feeds.load(bundle / form, open_model(model).ir)
    np.testing.assert_array_equal(read["x"], np.arange(64, dtype=np.float32).reshape(1, 64))


def test_of_the_outputs_those_are_stored_that_the_shipped_model_gives(
    tmp_path: Path, make_bundle: Bundle
) -> None:
    model = matmul(tmp_path / "net.onnx")
    proto = onnx.load(model)
    proto.graph.node.add(op_type="Relu", input=["y"], output=["z"], name="relu")
    proto.graph.output.insert(0, onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["n", 8]))
    onnx.save(proto, tmp_path / "two.onnx")
    bundle = make_bundle(tmp_path / "two.onnx", FEEDS, rewritten=model)
    stored = [onnx.load_tensor(path) for path in (bundle / "outputs").iterdir()]
    assert [tensor.name for tensor in stored] == ["y"]


def test_outputs_are_onnx_tensors(tmp_path: Path, make_bundle: Bundle) -> None:
    model = matmul(tmp_path / "net.onnx")
    bundle = make_bundle(model, FEEDS)
    proto = onnx.TensorProto.FromString((bundle / "outputs" / "output_0.pb").read_bytes())
    expected = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, FEEDS)[0]
    np.testing.assert_array_equal(numpy_helper.to_array(proto), expected)
    assert proto.name == "y"


def test_an_existing_bundle_is_kept_or_replaced(tmp_path: Path, make_bundle: Bundle) -> None:
    model = matmul(tmp_path / "net.onnx")
    first = make_bundle(model, FEEDS)
    (first / "mine.txt").write_text("kept")
    assert make_bundle(model, FEEDS).name == "net-2.ortune"
    assert make_bundle(model, FEEDS).name == "net-3.ortune"
    assert (first / "mine.txt").exists()
    assert make_bundle(model, FEEDS, {"enable_cpu_mem_arena": False}, force=True) == first
    assert not (first / "mine.txt").exists()
    assert bundle_format.read(first).plan.settings == {"enable_cpu_mem_arena": False}
    assert sorted(p.name for p in first.parent.iterdir()) == ["net-2.ortune", "net-3.ortune", "net.ortune"]


def test_force_replaces_no_folder_that_is_no_bundle(tmp_path: Path, make_bundle: Bundle) -> None:
    precious = tmp_path / "made" / "net.ortune"
    precious.mkdir(parents=True)
    (precious / "thesis.tex").write_text("years")
    with pytest.raises(UsageError, match="not a bundle, so it is not replaced"):
        make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, force=True)
    assert (precious / "thesis.tex").read_text() == "years"


@pytest.mark.parametrize("location", ["net.data", "weights/part one.bin", "load.py", "inputs/w"])
def test_external_data_comes_along(tmp_path: Path, make_bundle: Bundle, location: str) -> None:
    model = matmul(tmp_path / "src" / "net.onnx", external=location)
    bundle = make_bundle(model, FEEDS)
    info = bundle_format.read(bundle)
    expected = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, FEEDS)[0]
    (model.parent / location).unlink()
    shipped = bundle / info.model
    assert open_model(shipped).sha256 == info.sha256
    np.testing.assert_array_equal(
        ort.InferenceSession(shipped, providers=["CPUExecutionProvider"]).run(None, FEEDS)[0], expected
    )
    assert (bundle / "load.py").read_text(encoding="utf-8").startswith('"""Loads the model')


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
@pytest.mark.parametrize("name", ["a:b.onnx", "\\x.onnx"])
def test_a_name_that_windows_takes_for_a_place_is_changed(
    tmp_path: Path, make_bundle: Bundle, name: str
) -> None:
    model = matmul(tmp_path / "in" / name)
    rewritten = matmul(tmp_path / "cache" / "abc.onnx")
    for bundle in (make_bundle(model, FEEDS), make_bundle(model, FEEDS, rewritten=rewritten)):
        info = bundle_format.read(bundle)
        assert info.model == name.replace(":", "_").replace("\\", "_")
        assert open_model(bundle / info.model).sha256 == info.sha256


def test_overwriting_the_users_model_leaves_the_bundle(tmp_path: Path, make_bundle: Bundle) -> None:
    model = matmul(tmp_path / "net.onnx")
    bundle = make_bundle(model, FEEDS)
    model.write_bytes(b"another export, written in place")
    assert open_model(bundle / "net.onnx").sha256 == bundle_format.read(bundle).sha256


def test_hardware_bound_model_has_the_plain_one_beside_it(tmp_path: Path, make_bundle: Bundle) -> None:
    plain = matmul(tmp_path / "net.onnx", external="net.data")
    rewritten = matmul(tmp_path / "cache" / "abc.onnx", external="net.data")
    bundle = make_bundle(plain, FEEDS, rewritten=rewritten, hardware_bound=True)
    info = bundle_format.read(bundle)
    assert (info.model, info.plain_model) == ("net.onnx", "plain/net.onnx")
    assert info.hardware_bound
    assert open_model(bundle / info.plain_model).sha256 == open_model(plain).sha256


def test_workload_names_nothing_outside(tmp_path: Path, make_bundle: Bundle) -> None:
    library = tmp_path / "libops.so"
    library.write_bytes(b"code")
    given = Workload(
        cases=(Case(name="c", inputs=()),),
        inputs_path=str(tmp_path / "mine"),
        custom_ops=(str(library),),
        seed=7,
    )
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS, workload=given)
    written = msgspec.json.decode((bundle / "workload.json").read_bytes(), type=Workload)
    assert (written.inputs_path, written.custom_ops, written.seed) == (
        "inputs",
        ("custom_ops/0-libops.so",),
        7,
    )
    assert (bundle / "custom_ops" / "0-libops.so").read_bytes() == b"code"
    for name in ("ortune.json", "workload.json", "load.py", "load.mjs"):
        assert str(tmp_path) not in (bundle / name).read_text(encoding="utf-8")


def test_a_target_that_cannot_be_written_is_one_clear_error(tmp_path: Path, make_bundle: Bundle) -> None:
    model = matmul(tmp_path / "net.onnx")
    folder = tmp_path / "locked"
    folder.mkdir()
    if os.geteuid() == 0:
        folder = Path("/proc/self")  # root may write everywhere but here
    else:
        folder.chmod(0o500)
    with pytest.raises(UsageError, match="cannot be written") as caught:
        make_bundle(model, FEEDS, directory=folder)
    assert "--output" in caught.value.do


def test_a_target_that_is_a_file_is_one_clear_error(tmp_path: Path, make_bundle: Bundle) -> None:
    (tmp_path / "made").write_text("a file")
    with pytest.raises(UsageError, match="cannot be written"):
        make_bundle(matmul(tmp_path / "net.onnx"), FEEDS)


def test_damaged_feeds_leave_no_bundle_behind(tmp_path: Path, make_bundle: Bundle) -> None:
    from ortune.inputs.value_files import read_index, write_protobufs

    model = matmul(tmp_path / "net.onnx")
    make_bundle(model, FEEDS)
    feeds = tmp_path / "work" / "feeds"
    (feeds / "0.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(OrtuneError, match="'x'"):
        write_protobufs(read_index(feeds, "feeds"), tmp_path / "new", "input")
    (feeds / "feeds.json").write_text('{"version": 1, "feeds": [{"name": 1}]}')
    with pytest.raises(OrtuneError, match="cannot be read"):
        read_index(feeds, "feeds")


@pytest.mark.parametrize("name", ["../net.onnx", "/etc/passwd", "a/../../b", "C:\\x.onnx", "..\\x", ""])
def test_a_bundle_reaches_nothing_outside(tmp_path: Path, make_bundle: Bundle, name: str) -> None:
    bundle = make_bundle(matmul(tmp_path / "net.onnx"), FEEDS)
    index = bundle / "ortune.json"
    index.write_text(json.dumps({**json.loads(index.read_text()), "model": name}))
    with pytest.raises(UsageError, match="outside the bundle"):
        bundle_format.read(bundle)


def test_snippet_is_python_that_gives_the_session(tmp_path: Path) -> None:
    model = matmul(tmp_path / "it's.onnx")
    plan = Plan(
        settings={"intra_op_num_threads": 1, "graph_optimization_level": "basic", "allow_spinning": False},
        providers=(ProviderSpec(name="CPUExecutionProvider"),),
    )
    text = python_lines(plan, str(model))
    names: dict[str, object] = {}
    exec(compile(text, "snippet", "exec"), names)
    options = names["session"].get_session_options()  # type: ignore[attr-defined]
    assert options.intra_op_num_threads == 1
    assert options.graph_optimization_level == ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_snippet_of_the_default_is_two_lines() -> None:
    lines = [line for line in python_lines(Plan()).splitlines() if line]
    assert lines == [
        "import onnxruntime as ort",
        "session = ort.InferenceSession('model.onnx', providers=['CPUExecutionProvider'])",
    ]


def test_snippet_registers_the_wheel_that_brings_the_provider() -> None:
    plan = Plan(
        settings={"openvino_precision": "f32"},
        providers=(ProviderSpec(name="OpenVINOExecutionProvider"), ProviderSpec(name="CPUExecutionProvider")),
    )
    built_in = python_lines(plan)
    ast.parse(built_in)
    assert "('OpenVINOExecutionProvider'," in built_in and "register" not in built_in
    plugged = python_lines(plan, plugins={"OpenVINOExecutionProvider": "onnxruntime-ep-openvino 1.8.1"})
    statements = [type(node).__name__ for node in ast.parse(plugged).body]
    assert statements == ["Import", "Import", "Expr", "Assign", "Assign", "Assign", "Expr", "Assign"]
    assert "onnxruntime_ep_openvino.get_library_path()" in plugged and "providers=" not in plugged
    assert all(len(line) <= 100 for text in (built_in, plugged) for line in text.splitlines())


def test_snippet_says_what_to_start_with() -> None:
    text = python_lines(Plan(settings={"allocator": "mimalloc"}))
    assert text.startswith("# start with: LD_PRELOAD=libmimalloc.so python ...")
    both = python_lines(Plan(settings={"process_affinity": "0,2", "transparent_huge_pages": "never"}))
    assert both.splitlines()[:2] == [
        "# start with: taskset -c 0,2 python ...",
        "# transparent_huge_pages=never: start it from a program that calls prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)",
    ]
    assert python_lines(Plan(settings={"transparent_huge_pages": "system"})) == python_lines(Plan())


@pytest.mark.parametrize(("preloaded", "arena"), [("", True), ("/usr/lib/libmimalloc.so.2", False)])
def test_pasted_code_turns_the_arena_off_only_beside_the_allocator_that_makes_it_pay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preloaded: str, arena: bool
) -> None:
    model = matmul(tmp_path / "m.onnx")
    text = python_lines(Plan(settings={"allocator": "mimalloc", "enable_cpu_mem_arena": False}), str(model))
    monkeypatch.setenv("LD_PRELOAD", preloaded)
    names: dict[str, object] = {}
    exec(compile(text, "snippet", "exec"), names)
    options = names["session"].get_session_options()  # type: ignore[attr-defined]
    assert options.enable_cpu_mem_arena is arena
    # What pays by itself needs nothing beside it.
    assert "if " not in python_lines(Plan(settings={"enable_cpu_mem_arena": False}))


def test_pasted_code_has_every_channel_of_a_plan_or_says_what_is_lost() -> None:
    text = python_lines(
        Plan(settings={"call_style": "io_binding", "memory_arena_shrinkage": "cpu:0"}),
        custom_ops=("/lib/ops.so",),
    )
    assert "options.register_custom_ops_library('/lib/ops.so')" in text
    facts(text, "session.run does not use")
    facts(text, "session.run_with_iobinding(binding, run_options)")
    page = Plan(settings={"web_threads": 4}, providers=(ProviderSpec(name="wasm"),))
    assert "cross-origin isolated" in javascript_lines(page)
    alone = Plan(settings={"web_threads": 1}, providers=page.providers)
    assert "cross-origin isolated" not in javascript_lines(alone)
    both = Plan(providers=(ProviderSpec(name="webgpu"), *page.providers))
    facts(javascript_lines(both), "webgpu", "not available", "load.web.mjs", "wasm next")


PROOF = Comparison(
    statistic="p50 latency", ratio=0.9, ratio_low=0.88, ratio_high=0.92, level=0.95, method="wilcoxon",
    n_blocks=16, smallest_effect_ratio=0.02, phase="confirm", verdict="faster",
)  # fmt: skip


@pytest.mark.parametrize(
    ("proof", "settings", "claim"),
    [
        (None, {}, "with the default settings: no better ones were confirmed"),
        (None, {"intra_op_num_threads": 1}, "settings that were not confirmed to be better"),
        (
            msgspec.structs.replace(PROOF, verdict="inconclusive"),
            {"intra_op_num_threads": 1},
            "settings that were not confirmed to be better",
        ),
        (PROOF, {"intra_op_num_threads": 1}, "settings that were confirmed to be better than the default"),
    ],
)
def test_code_claims_no_more_than_the_proof(
    proof: Comparison | None, settings: dict[str, Value], claim: str
) -> None:
    plan = portable(Plan(settings=settings))
    info = BundleInfo(
        schema="ortune/bundle/1", model="m.onnx", sha256="", plan=plan, applied=resolve(plan), proof=proof
    )
    for name, text in emit_all(info).items():
        assert claim in text.partition("\n\n")[0] or claim in text[:600], name
        assert "fastest" not in text[:600], name


def test_a_rewrite_that_changed_nothing_ships_a_copy_of_the_users_model(
    tmp_path: Path, make_bundle: Bundle
) -> None:
    model = matmul(tmp_path / "net.onnx", external="net.data")
    bundle = make_bundle(model, FEEDS, rewritten=model, hardware_bound=True)
    info = bundle_format.read(bundle)
    assert (info.model, info.plain_model, info.hardware_bound) == ("net.onnx", "", False)
    for name in ("net.onnx", "net.data"):
        assert not (bundle / name).samefile(tmp_path / name)
    (tmp_path / "net.data").write_bytes(b"another export")
    assert open_model(bundle / "net.onnx").sha256 == info.sha256


def test_settings_of_a_bound_model_are_named(tmp_path: Path, make_bundle: Bundle) -> None:
    model = matmul(tmp_path / "net.onnx")
    rewritten = matmul(tmp_path / "cache" / "abc.onnx")
    for bound, names in ((True, ("graph_optimization_level",)), (False, ())):
        bundle = make_bundle(model, FEEDS, rewritten=rewritten, hardware_bound=bound)
        assert bundle_format.read(bundle).model_settings == names


@pytest.mark.parametrize("name", ["x.json", "x.HTML", "x.md", "x.txt"])
def test_a_folder_of_a_bundle_has_no_name_of_a_report(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        require_writable(tmp_path / name)
    facts(str(error.value.do), "--json >", "x.json")
    assert not (tmp_path / name).exists()
    (tmp_path / name).mkdir()
    require_writable(tmp_path / name)
