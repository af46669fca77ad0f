"""``ortune partition`` from the model to its words: states, what splits, and what replaces it."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import onnx.parser
import pytest

import made_runtimes
import ortune
import targets_here
import zoo
from facts import facts
from ortune.cli import main
from ortune.errors import OrtuneError, UsageError

SPLIT = """
<ir_version: 8, opset_import: ["" : 17]>
split (float[batch,4,8,8] x) => (float[batch,4,8,8] y)
<float[4,4,1,1] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}>
{
    a = Conv (x, w)
    b = Mod <fmod = 1> (a, a)
    c = Conv (b, w)
    y = Relu (c)
}
"""


@pytest.fixture
def split(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(SPLIT), tmp_path / "split.onnx")
    return tmp_path / "split.onnx"


def test_states_regions_and_what_splits(split: Path) -> None:
    answer = ortune.partition(split, providers="nnapi,coreml", dim="batch=1")
    nnapi, coreml = answer.result.providers
    assert [(s.name, s.regions, s.n_taken) for s in nnapi.states] == [("as-is", 0, 0), ("fixed-shapes", 2, 3)]
    assert [(s.name, s.regions, s.n_taken) for s in coreml.states] == [
        ("as-is", 2, 3),
        ("fixed-shapes", 2, 3),
    ]
    first, second = nnapi.regions
    assert (first.operators, first.behind) == ({"Conv": 1}, ())
    assert [(left.op_type, left.reason.code) for left in second.behind] == [("Mod", "not-listed")]
    assert (first.input_bytes, first.output_bytes) == (1024, 1024)
    assert (first.places, second.places) == (((0, 1),), ((2, 2),))
    assert nnapi.costliest is not None and nnapi.costliest.regions_without == 1
    assert answer.verdict == "maybe"
    assert answer.result.inputs == ("x:1x4x8x8",)


def test_words_name_the_verdict_the_reason_and_the_successor_of_nnapi(split: Path) -> None:
    text = ortune.partition(split, providers="nnapi,coreml,coreml-neuralnetwork").summary(verbose=True)
    assert text.startswith("NNAPI has been deprecated since Android 15")
    words = " ".join(text.split())
    facts(words, "nnapi as it is 0 0 of 4 0 % dynamic dimensions")
    facts(words, "Mod (1 node", "operator list)", "1 region")
    assert "set ModelFormat=MLProgram" in text


def test_sizes_with_which_a_model_does_not_load_leave_the_rest() -> None:
    """Silero's model has a branch for another rate, in which these sizes contradict themselves."""
    answer = ortune.partition(zoo.model_path("silero-vad"), providers="nnapi")
    (nnapi,) = answer.result.providers
    assert nnapi.states[0].name == "as-is" and not answer.result.inputs
    assert any("does not load" in note and "--shape" in note for note in answer.result.notes)


def test_a_past_that_grows_is_not_fixed_and_coreml_cannot_take_it_empty(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,2,p,4] past, float[1,2,1,4] k) => (float[1,2,q,4] present, float[1,2,1,q] y)
    {
        present = Concat <axis = 2> (past, k)
        t = Transpose <perm = [0,1,3,2]> (present)
        y = MatMul (k, t)
    }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    result = ortune.partition(tmp_path / "m.onnx", providers="nnapi,coreml").result
    assert not any(state.name == "fixed-shapes" for provider in result.providers for state in provider.states)
    grows, empty = result.notes
    facts(grows, "past", "present", "static cache")
    facts(empty, "CoreML", "without elements", "past")
    (alone,) = ortune.partition(tmp_path / "m.onnx", providers="nnapi").result.notes
    assert "CoreML" not in alone


def test_a_rewrite_that_helps_is_named_with_what_it_brings() -> None:
    answer = ortune.partition(zoo.model_path("ppocrv4-det"), providers="coreml", shape="x:1x3x64x64")
    (coreml,) = answer.result.providers
    states = {state.name: state for state in coreml.states}
    assert states["fixed-shapes"].regions == 2
    assert states["rewritten"].regions == 1
    assert [spec.name for spec in states["rewritten"].rewrites] == ["fixed-dimensions", "affine-into-weights"]
    command = next(line for line in answer.summary().splitlines() if line.startswith("ortune rewrite"))
    assert ".2=64 affine-into-weights" in command
    assert " fixed-dimensions:" in command
    assert coreml.costliest is not None and coreml.costliest.rewrite is not None
    assert (coreml.costliest.left.op_type, coreml.costliest.regions_after) == ("BatchNormalization", 1)


def test_sums_that_split_a_network_are_replaced(tmp_path: Path) -> None:
    """ResNet in the onnx package has Sum where others have Add: 17 regions, and one without it."""
    answer = ortune.partition(zoo.model_path("light-resnet50"), providers="nnapi")
    (nnapi,) = answer.result.providers
    assert [(s.name, s.regions, s.verdict) for s in nnapi.states] == [
        ("as-is", 17, "poor"),
        ("rewritten", 1, "good"),
    ]
    assert nnapi.costliest is not None
    assert (nnapi.costliest.left.op_type, nnapi.costliest.regions_without) == ("Sum", 1)
    assert "after --rewrite plain-arithmetic" in " ".join(answer.summary().split())


def test_the_page_draws_the_regions(split: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert (
        main._run(["partition", str(split), "--for", "nnapi", "--dim", "batch=1", "--report", str(page)]) == 0
    )
    shown = page.read_text()
    assert "region 2: 2 nodes" in shown
    assert shown.index("NNAPI has been deprecated") < shown.index(
        "NNAPI supports"
    )  # the successor comes first
    assert "NNAPI" in capsys.readouterr().out


OWN = """
<ir_version: 8, opset_import: ["" : 17, "own.operators" : 1]>
own (float[1,4,8,8] x) => (float[1,4,8,8] y)
<float[4,4,1,1] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}>
{
    a = Conv (x, w)
    b = com.microsoft.Inverse (a)
    y = Relu (b)
}
"""


def test_an_operator_that_no_provider_knows_is_left_with_its_reason(tmp_path: Path) -> None:
    text = OWN.replace('"own.operators"', '"com.microsoft"')
    onnx.save(onnx.parser.parse_model(text), tmp_path / "own.onnx")
    answer = ortune.partition(
        tmp_path / "own.onnx", providers="nnapi,coreml,coreml-neuralnetwork,xnnpack,qnn"
    )
    for provider in answer.result.providers:
        left = {each.op_type: each.reason.code for each in provider.left}
        assert left["com.microsoft:Inverse"] == "fused-operator", provider.provider
        assert [region.operators for region in provider.regions] == [{"Conv": 1}]
    text = " ".join(answer.summary(verbose=True).split())
    assert "not an ONNX operator" in text and "optimiser" not in text


def test_an_operator_that_onnxruntime_does_not_know_is_one_error(tmp_path: Path) -> None:
    onnx.save(
        onnx.parser.parse_model(OWN.replace("com.microsoft.Inverse", "own.operators.Frobnicate")),
        tmp_path / "own.onnx",
    )
    with pytest.raises(OrtuneError, match=r"Frobnicate|own\.operators"):
        ortune.partition(tmp_path / "own.onnx", providers="nnapi")


THRICE = """
<ir_version: 8, opset_import: ["" : 17]>
thrice (float[1,4,8,8] x) => (float[1,4,8,8] y)
<float[4,4,1,1] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}>
{
    a = Conv (x, w)
    b = Mod <fmod = 1> (a, a)
    c = Conv (b, w)
    d = Mod <fmod = 1> (c, c)
    y = Conv (d, w)
}
"""


def test_the_verdict_of_xnnpack_is_about_cpu_kernels(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(THRICE), tmp_path / "poor.onnx")
    text = " ".join(ortune.partition(tmp_path / "poor.onnx", providers="xnnpack,nnapi").summary().split())
    assert "ONNX Runtime's kernels are likely" in text
    assert text.count("the CPU is likely faster") == 1


def test_the_headline_takes_two_lines_for_any_number_of_providers(split: Path) -> None:
    every = "nnapi,coreml,coreml-neuralnetwork,xnnpack,qnn,webgpu"
    headline = ortune.partition(split, providers=every, dim="batch=1").result.headline
    assert len(headline) <= 200, headline
    assert re.match(r"(worth trying|measure it .*phone): \S+.* supports \d+ % .* in \d region", headline)
    assert headline.endswith("3 more below")


def test_a_model_of_which_no_provider_runs_a_node_has_one_sentence(tmp_path: Path) -> None:
    text = SPLIT.replace("Conv (x, w)", "Mod <fmod = 1> (x, x)").replace(
        "Conv (b, w)", "Mod <fmod = 1> (b, b)"
    )
    onnx.save(
        onnx.parser.parse_model(text.replace("Relu (c)", "Mod <fmod = 1> (c, c)")), tmp_path / "none.onnx"
    )
    answer = ortune.partition(tmp_path / "none.onnx", providers="nnapi,coreml", dim="batch=1")
    facts(answer.result.headline, "no node", "NNAPI or CoreML (MLProgram)")


def test_a_provider_that_is_none_is_refused(split: Path) -> None:
    with pytest.raises(UsageError, match="no operator table for 'cuda'"):
        ortune.partition(split, providers="cuda")


@pytest.mark.parametrize(
    ("name", "n_nodes", "n_removed"), [("light-squeezenet", 65, 0), ("minilm-int8", 237, 18)]
)
def test_the_provider_itself_is_asked_where_it_runs_here(name: str, n_nodes: int, n_removed: int) -> None:
    """Neither model is among the nodes that the table was made from."""
    targets_here.allow_software_gpu()
    made_runtimes.require("webgpu")
    answer = ortune.partition(zoo.model_path(name), providers="webgpu", runtime="webgpu")
    (webgpu,) = answer.result.providers
    assert webgpu.agreement is not None, answer.result.notes
    assert (webgpu.agreement.n_nodes, webgpu.agreement.n_removed) == (n_nodes, n_removed)
    assert webgpu.agreement.n_equal / webgpu.agreement.n_nodes >= 0.95
    assert "confirms" in answer.summary()
