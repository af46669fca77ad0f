"""ortune convert MODEL.onnx --to ort: one file for a place, and the set to be measured."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from ort_files import converted, ran

import ortune
import zoo
from facts import facts
from mobile_models import mnist
from onnx_text import assemble
from ortune import monotonic
from ortune.engines.ort_format import places
from ortune.graph.model.open import open_model
from ortune.measuring.clock import Stopwatch
from ortune.measuring.watcher import Watcher
from ortune.records import Matrix
from ortune.show import markdown
from ortune.verbs.convert import run as convert
from ortune.verbs.convert import set_words
from simulated_machine import Lab, Weather, measuring_on
from within import program


@pytest.mark.parametrize(
    ("place", "level", "fused"), [("nnapi", "basic", 0), ("cpu-arm64", "all", 2), ("web-webgpu", "basic", 0)]
)
def test_a_file_for_a_place(here: Path, place: str, level: str, fused: int) -> None:
    text, _ = converted(mnist(here / "m.onnx"), "--for", place)
    assert text.startswith("written to m.ort: 12 -> ") and f"level {level}" in text
    assert open_model(here / "m.ort").op_counts["com.microsoft.FusedConv"] == fused
    np.testing.assert_allclose(ran(here / "m.ort"), ran(here / "m.onnx"), rtol=1e-4, atol=1e-5)
    assert "Conv + Relu   FusedConv" in text
    assert ("Android deprecated NNAPI" in text) == (place == "nnapi")


def test_an_old_file_needs_no_more_inputs_than_before(here: Path) -> None:
    """IR version 3 lists initializers among the inputs; onnxruntime's own .ort then asks for those that were folded."""
    model = onnx.load(mnist(here / "m.onnx"))
    model.ir_version, model.opset_import[0].version = 3, 8
    listed = [helper.make_tensor_value_info(i.name, i.data_type, i.dims) for i in model.graph.initializer]
    model.graph.input.extend(listed)
    onnx.save(model, here / "old.onnx")
    for words in (("--for", "nnapi"), ("--for", "cpu-arm64", "-o", "cpu.ort")):
        text, _ = converted(here / "old.onnx", *words)
        assert "outputs equal" in text
    for file in ("old.ort", "cpu.ort"):
        session = ort.InferenceSession(here / file, providers=["CPUExecutionProvider"])
        assert [value.name for value in session.get_inputs()] == ["Input3"]


def test_what_a_reduced_build_needs_lies_beside_it(here: Path) -> None:
    text, _ = converted(mnist(here / "my model ü.onnx"), "--for", "cpu-amd64", "--needed", "types", "--json")
    made = json.loads(text)["result"]["ort"]
    assert made["needed_path"] == "my model ü.ort.config" and (here / made["needed_path"]).is_file()
    assert any(line.startswith("com.microsoft.nchwc;1;") for line in made["needed"])
    assert any('"float"' in line for line in made["needed"])
    assert made["file"]["level"] == "all, for x86"


def test_the_style_runtime_stores_what_is_fused_later(here: Path) -> None:
    text, _ = converted(mnist(here / "m.onnx"), "--for", "nnapi", "--style", "runtime")
    text = " ".join(text.split())
    assert "which make 2 FusedConv" in text and "enable_saved_runtime_optimizations" in text
    assert not open_model(here / "m.ort").op_counts["com.microsoft.FusedConv"]


@pytest.mark.parametrize("place", [name for name, p in places.PLACES.items() if not p.takes_fusions])
@pytest.mark.parametrize("level", ["extended", "all"])
def test_what_does_not_fit_a_place_is_refused(here: Path, place: str, level: str) -> None:
    with pytest.raises(Exception, match="does not fit") as caught:
        places.choose(places.find(place), level=level)
    assert "FusedConv" in str(caught.value) and "--force" in str(caught.value)
    assert places.choose(places.find(place), level=level, force=True).against


def test_force_converts_all_the_same_and_says_what_is_wrong(here: Path) -> None:
    _, said = converted(mnist(here / "m.onnx"), "--for", "coreml", "--level", "extended", code=2)
    assert "fit coreml" in said and not (here / "m.ort").exists()
    text, _ = converted(mnist(here / "m.onnx"), "--for", "coreml", "--level", "extended", "--force")
    assert "warning" in text and "split the graph" in text


def test_a_model_with_open_sizes_is_to_be_fixed_first(here: Path) -> None:
    model = onnx.load(mnist(here / "m.onnx"))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, here / "open.onnx")
    for place, asked in (("nnapi", True), ("xnnpack", False), ("cpu-arm64", False)):
        text, _ = converted(here / "open.onnx", "--for", place, "--force")
        command = "open.onnx fixed-dimensions:batch=1, and convert the result"
        assert (command in " ".join(text.split())) is asked, place


def test_a_model_whose_branches_onnxruntime_inlines_is_converted(here: Path) -> None:
    converted(zoo.model_path("silero-vad"), "--for", "nnapi", "-o", "vad.ort")
    assert open_model(here / "vad.ort").facts.format == "ort"


def test_the_set_has_each_file_with_its_benches(here: Path) -> None:
    text, _ = converted(mnist(here / "m.onnx"), "--for", "nnapi", "--matrix", "--budget", "0")
    folder = here / "m-nnapi"
    matrix = msgspec.json.decode((folder / "matrix.json").read_bytes(), type=Matrix)
    assert [(e.name, e.provider, e.level) for e in matrix.entries] == [
        ("cpu", "cpu", "all"), ("nnapi-basic", "nnapi", "basic"),
    ]  # fmt: skip
    assert any("supports every node" in reason for reason in matrix.left_out)
    (value,) = matrix.inputs
    assert (value.name, value.type, value.shape) == ("Input3", "FLOAT", (1, 1, 28, 28))
    assert (folder / value.file).stat().st_size == 4 * 28 * 28
    assets = folder / "android/src/androidTest/assets"
    assert {p.name for p in assets.iterdir()} == {"cpu.ort", "nnapi-basic.ort", value.file}
    assert not [p for p in folder.iterdir() if p.name.startswith(".")]
    np.testing.assert_allclose(ran(folder / "cpu.ort"), ran(folder / "nnapi-basic.ort"), rtol=1e-4, atol=1e-5)
    assert "m-nnapi/android/gradlew connectedAndroidTest" in text and "phone.json" in text
    assert os.access(folder / "android/gradlew", os.X_OK)
    _, said = converted(here / "m.onnx", "--for", "nnapi", "--matrix", code=2)
    assert "already exists" in " ".join(said.split())
    readme = (folder / "README.md").read_text()
    assert "cpu.ort" in readme and "connectedAndroidTest" in readme and "of this machine" not in readme
    converted(here / "m.onnx", "--for", "nnapi", "--matrix", "--budget", "0", "--force")


def test_the_files_of_the_set_are_compared_on_this_cpu(here: Path) -> None:
    # Processes alike: by chance one in a hundred races of equals is claimed, and which follows from the files' bytes.
    with measuring_on(Lab(3, Weather(process=0.0), differ=False)):
        answer = ortune.convert(mnist(here / "m.onnx"), to="ort", runs_on="nnapi", matrix=True, budget="60s")
    on_cpu = answer.result.on_cpu
    assert on_cpu is not None and on_cpu.comparison is not None
    assert (on_cpu.base.label, on_cpu.comparison.verdict) == ("cpu.ort", "equivalent")
    for text in (answer.summary(), (here / "m-nnapi/README.md").read_text()):
        facts(text, "the CPU of this", "against cpu.ort")
        assert "no difference (within 1 %)" in text and "no difference between" in text
    slower = msgspec.structs.replace(on_cpu.comparison, verdict="slower", ratio=1.2)
    result = msgspec.structs.replace(answer.result, on_cpu=msgspec.structs.replace(on_cpu, comparison=slower))
    text = markdown.render(set_words.readme(result))
    assert "| slower | +20.0 % |" in text and "no difference" not in text


def test_converting_is_no_part_of_the_budget_of_comparing(here: Path) -> None:
    model = str(mnist(here / "m.onnx"))
    options = convert.Options(source=model, to="ort", runs_on="nnapi", matrix=True, budget="60s")
    with measuring_on(Lab(3, Weather(process=0.0), differ=False)):
        envelope = convert.run(options, Watcher(clock=Stopwatch(monotonic.now_s() - 3600)))
    on_cpu = envelope.result.on_cpu
    assert on_cpu is not None and on_cpu.comparison is not None and on_cpu.comparison.verdict == "equivalent"


def test_force_replaces_no_other_folder(here: Path) -> None:
    (here / "m-nnapi").mkdir()
    (here / "m-nnapi" / "mine.txt").write_text("")
    _, said = converted(mnist(here / "m.onnx"), "--for", "nnapi", "--matrix", "--force", code=2)
    assert "not replaced" in said and (here / "m-nnapi" / "mine.txt").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--for cpu-arm64"),
        (("--for", "gpu"), "not a known place"),
        (("--for", "nnapi", "--level", "most"), "allowed: basic"),
        (("--for", "cpu-arm64", "--aware"), "no provider to keep nodes for"),
        (("--for", "web-webgpu", "--aware"), "gets no copies between GPU and CPU"),
        (("--for", "web-webgpu", "--matrix"), "not available for web-webgpu"),
        (("--for", "nnapi", "--matrix", "--level", "basic"), "omit it"),
        (("--for", "nnapi", "-o", "m2.onnx"), "m2.ort"),
    ],
)
def test_wrong_words_are_one_error(here: Path, words: tuple[str, ...], said: str) -> None:
    _, text = converted(mnist(here / "m.onnx"), *words, code=2)
    assert said in text
    assert list(here.iterdir()) == [here / "m.onnx"]


def test_a_model_in_ort_format_is_finished(here: Path) -> None:
    converted(mnist(here / "m.onnx"), "--for", "nnapi")
    _, said = converted(here / "m.ort", "--for", "nnapi", "-o", "n.ort", code=2)
    assert "ORT format already" in said
    _, said = converted(Path("missing.pt2"), "--for", "nnapi", code=2)
    assert "convert it to ONNX first" in said


def test_a_model_above_two_gigabytes_is_refused_before_anything_is_done(here: Path) -> None:
    rows = 1 << 20
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[rows, 600], data_location=1)
    for key, value in (("location", "w.bin"), ("length", str(4 * rows * 600))):
        weight.external_data.add(key=key, value=value)
    with (here / "w.bin").open("wb") as file:
        file.truncate(4 * rows * 600)  # a hole: no disk is used
    onnx.save(
        assemble([helper.make_node("Gather", ["w", "i"], ["y"])], "int64[1] i", "float[1,600] y", [weight]),
        "big.onnx",
    )
    _, said = converted(here / "big.onnx", "--for", "nnapi", code=2)
    assert "2.5 GB" in said and "ORT format holds less" in said


def test_an_operator_that_nobody_knows_is_named(here: Path) -> None:
    onnx.save(
        assemble(
            [helper.make_node("Frobnicate", ["x"], ["y"], domain="own.operators")],
            "float[1] x",
            "float[1] y",
            opsets={"own.operators": 1},
        ),
        "own.onnx",
    )
    _, said = converted(here / "own.onnx", "--for", "nnapi", code=2)
    assert "Frobnicate" in said or "own.operators" in said
    assert not (here / "own.ort").exists()


@pytest.mark.parametrize("damage", ["version", "cut"])
def test_a_file_of_another_version_or_cut_is_one_error(here: Path, damage: str) -> None:
    converted(mnist(here / "m.onnx"), "--for", "nnapi")
    data = (here / "m.ort").read_bytes()
    version = b"\x01\x00\x00\x006\x00"
    assert version in data
    changed = data.replace(version, version.replace(b"6", b"9")) if damage == "version" else data[:-200]
    (here / "bad.ort").write_bytes(changed)
    code, text, said = program(["look", "bad.ort", "--budget", "0"])
    assert code != 0
    if damage == "version":
        assert "format version '9' is unknown" in " ".join(text.split())
    else:
        assert "truncated or damaged" in said
    code, text, said = program(["partition", "bad.ort", "--for", "nnapi"])
    if damage == "version":  # the graph is known; what reads the file says so elsewhere
        assert code == 0 and "NNAPI supports" in text
    else:
        assert code == 2 and "truncated or damaged" in said


def test_names_with_spaces_and_letters_beyond_ascii_are_names(here: Path) -> None:
    name = "mein Modell ü 模型"
    text, _ = converted(mnist(here / f"{name}.onnx"), "--for", "nnapi")
    assert f"written to {name}.ort" in text
    code, text, said = program(["partition", f"{name}.ort", "--for", "nnapi,coreml"])
    assert code == 0, said
    converted(here / f"{name}.onnx", "--for", "coreml", "--matrix", "--budget", "0")
    assert (here / f"{name}-coreml" / "apple/Bench.swift").is_file()
