"""ortune convert MODEL.onnx --to ort --aware: nodes that a provider takes are kept as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx import helper
from ort_files import converted, ran

import made_runtimes
import targets_here
from facts import facts
from mobile_models import mnist
from onnx_text import assemble
from ortune import targets
from ortune.graph.model.open import open_model
from ortune.inputs.feed_files import write_feeds
from ortune.records import Failed, FeedRef, Measured, Plan, TrialRequest
from ortune.targets.machine import Machine
from ortune.targets.runner import run
from ortune.targets.task import TrialTask
from ortune.targets.tool import ToolProcess
from within import program


def partly_taken(path: Path) -> Path:
    """A convolution that NNAPI takes, and one over a line with a HardSigmoid, which it leaves to the CPU."""
    rng = np.random.default_rng(0)
    weights = [
        onnx.numpy_helper.from_array(rng.standard_normal((4, 1, 3, 3), dtype=np.float32), "w"),
        onnx.numpy_helper.from_array(rng.standard_normal((2, 4, 3), dtype=np.float32), "v"),
        onnx.numpy_helper.from_array(np.array([1, 4, 676]), "line"),
    ]
    nodes = [
        helper.make_node("Conv", ["Input3", "w"], ["c"], name="wide"),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Reshape", ["r", "line"], ["l"], name="flat"),
        helper.make_node("Conv", ["l", "v"], ["d"], name="narrow"),
        helper.make_node("HardSigmoid", ["d"], ["y"], name="gate"),
    ]
    onnx.save(assemble(nodes, "float[1,1,28,28] Input3", "float[1,2,674] y", weights), path)
    return path


def test_an_aware_file_keeps_what_nnapi_takes(here: Path) -> None:
    text, _ = converted(partly_taken(here / "m.onnx"), "--for", "nnapi", "--aware")
    facts(text, "3 nodes", "nnapi")
    assert "kept plain" in text
    kinds = [node.op_type for node in open_model(here / "m.ort").ir.graph]
    assert kinds == ["Conv", "Relu", "Reshape", "FusedConv"]
    np.testing.assert_allclose(ran(here / "m.ort"), ran(here / "m.onnx"), rtol=1e-4, atol=1e-5)
    code, looked, _ = program(["look", "m.ort", "--budget", "0"])
    assert code == 0
    facts(" ".join(looked.split()), "except for the nodes", "nnapi")


def test_an_aware_file_keeps_what_xnnpack_takes(here: Path) -> None:
    converted(partly_taken(here / "m.onnx"), "--for", "xnnpack", "--aware")
    kinds = [node.op_type for node in open_model(here / "m.ort").ir.graph]
    assert kinds == ["Conv", "Relu", "Reshape", "FusedConv"]
    np.testing.assert_allclose(ran(here / "m.ort"), ran(here / "m.onnx"), rtol=1e-4, atol=1e-5)


LINE = """
<ir_version: 8, opset_import: ["" : 17]>
line (float[1,1,28,28] Input3) => (float[1,2,19998] y)
<float[1,1,3,3] w = {1,2,3,2,1,2,3,2,1}, int64[3] flat = {1,1,1}, int64[3] long = {1,1,20000},
 float[2,1,3] v = {0.1,0.2,0.3,0.4,0.5,0.6}>
{
    c = Conv (Input3, w)
    r = Relu (c)
    m = GlobalAveragePool (r)
    l = Reshape (m, flat)
    e = Expand (l, long)
    d = Conv (e, v)
    y = HardSigmoid (d)
}
"""


def test_an_aware_file_keeps_what_coreml_takes(here: Path) -> None:
    """CoreML takes no tensor with a dimension of 20,000: the convolution of it is fused for the CPU."""
    onnx.save(onnx.parser.parse_model(LINE), here / "m.onnx")
    text, _ = converted(here / "m.onnx", "--for", "coreml", "--aware")
    facts(text, "4 nodes", "coreml")
    assert "set ModelFormat=MLProgram" in text
    kinds = [node.op_type for node in open_model(here / "m.ort").ir.graph]
    assert kinds == ["Conv", "Relu", "GlobalAveragePool", "Reshape", "Expand", "FusedConv"]
    np.testing.assert_allclose(ran(here / "m.ort"), ran(here / "m.onnx"), rtol=1e-4, atol=1e-5)


DOUBLES = """
<ir_version: 8, opset_import: ["" : 17]>
doubles (float[1,1,28,28] Input3) => (float[1,1,28,28] y)
<float[1,1,1,1] w = {2}>
{
    a = Conv (Input3, w)
    d = Cast <to = 11> (a)
    t = Transpose <perm = [0,1,3,2]> (d)
    m = MatMul (t, d)
    y = Cast <to = 1> (m)
}
"""


def test_an_aware_file_keeps_what_qnn_takes(here: Path) -> None:
    """QNN takes the convolution; products of doubles are left to the CPU, which has one operator for them."""
    onnx.save(onnx.parser.parse_model(DOUBLES), here / "m.onnx")
    converted(here / "m.onnx", "--for", "qnn", "--aware")
    nodes = [(node.domain, node.op_type) for node in open_model(here / "m.ort").ir.graph]
    assert ("", "Conv") in nodes and ("com.microsoft", "FusedMatMul") in nodes
    np.testing.assert_allclose(ran(here / "m.ort"), ran(here / "m.onnx"), rtol=1e-4, atol=1e-5)
    text, _ = converted(mnist(here / "n.onnx"), "--for", "qnn", "--aware")
    facts(text, "qnn", "supports every node")
    assert not (here / "n.ort").exists()


def test_an_aware_file_that_gains_nothing_is_not_written(here: Path) -> None:
    text, _ = converted(mnist(here / "m.onnx"), "--for", "nnapi", "--aware")
    facts(text, "nnapi", "supports every node")
    assert "not written" in text
    assert not (here / "m.ort").exists()


MIXED = """
<ir_version: 8, opset_import: ["" : 17]>
mixed (float[2,4] x) => (float[2,2] y)
<double[2,4] w = {1,2,3,4,5,6,7,8}>
{
    a = Relu (x)
    d = Cast <to = 11> (a)
    t = Transpose <perm = [1,0]> (w)
    m = MatMul (d, t)
    n = Transpose <perm = [1,0]> (m)
    k = MatMul (n, m)
    f = Cast <to = 1> (k)
    y = Sigmoid (f)
}
"""


def test_why_no_aware_file_is_made_for_webgpu(here: Path) -> None:
    """In an .ort the nodes of the CPU get no tensors from the GPU; of an .onnx they are fused when it is loaded."""
    targets_here.allow_software_gpu()
    runtime = made_runtimes.require("webgpu").runtime
    onnx.save(onnx.parser.parse_model(MIXED), here / "m.onnx")
    converted(here / "m.onnx", "--for", "web-webgpu")
    plan = Plan(providers=targets.find("webgpu").providers)
    tool = ToolProcess(runtime=runtime, folder=here, plan=plan)
    tool("optimize", here / "m.onnx", here / "fused.onnx", {"level": "extended"})
    assert "com.microsoft.FusedMatMul" in open_model(here / "fused.onnx").op_counts
    outcomes = []
    for file in ("m.onnx", "m.ort"):
        folder = here / f"run-{file}"
        folder.mkdir()
        write_feeds(folder / "feeds", {"x": np.ones((2, 4), np.float32)})
        feed = FeedRef(name="all", path=str(folder / "feeds"))
        request = TrialRequest(model=str(here / file), feeds=(feed,), warmup_runs=1, warmup_ns=0)
        task = TrialTask(plan=plan, runtime=runtime, request=request, folder=folder, scratch=here)
        outcomes += run([task], Machine()) or ()
    good, bad = outcomes
    assert isinstance(good, Measured), good
    assert isinstance(bad, Failed) and "WebGPU buffers" in bad.what
