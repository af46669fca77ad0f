"""Shapes that are worked out against those that come out: of ONNX's own cases, and in profiles of real models."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections import Counter
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper
from onnx.backend.test.case import base
from onnx.reference.ops import op_pool_common

import zoo
from onnx_text import assemble
from ortune.engines.profiling.nodes import executions
from ortune.graph.cost import costs
from ortune.graph.cost.graph import GraphCounter
from ortune.graph.mapping import as_logged, originals, own_shapes
from ortune.graph.model.open import open_model
from ortune.inputs import workload
from ortune.trace.read import read_trace
from ortune.trace.tensors import tensors


@pytest.fixture(scope="module")
def cases():
    """ONNX's own, an operator each."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        # Only the shapes count here; the values that a pool gives, pixel by pixel, take longer than all else, and
        # the source of each case that ONNX reads for its documentation takes half of the rest.
        patch.setattr(op_pool_common, "pool", _zeros_of_a_pool)
        patch.setattr(base, "process_snippet", lambda *_: ("", ""))
        from onnx.backend.test.case.node import collect_testcases

        return [case for case in collect_testcases(None) if case.model is not None and case.data_sets]


def _zeros_of_a_pool(padded, x_shape, kernel, strides, out_shape, *_, **__):
    return np.zeros((*x_shape[:2], *out_shape), padded.dtype)


@pytest.mark.parametrize("known", ["shapes", "values"])
def test_every_operator_has_the_shape_that_its_standard_gives_it(known, cases):
    wrong, n_same = [], 0
    for case in cases:
        proto, ((given, expected), *_) = onnx.ModelProto(), case.data_sets
        proto.CopyFrom(case.model)
        if proto.functions:
            continue
        for output in proto.graph.output:
            # Else the case itself would tell.
            output.type.tensor_type.ClearField("shape")
        feeds = {
            i.name: a for i, a in zip(proto.graph.input, given, strict=False) if isinstance(a, np.ndarray)
        }
        for value in list(proto.graph.input) if known == "values" else ():
            array = feeds.get(value.name)
            if array is not None and array.size <= 64 and array.dtype.kind in "iufb":
                proto.graph.input.remove(value)
                proto.graph.initializer.append(numpy_helper.from_array(feeds.pop(value.name), value.name))
        model = ir.from_proto(proto)
        counter = GraphCounter(model, {name: array.shape for name, array in feeds.items()})
        counter.graph(model.graph, "")
        for value, array in zip(model.graph.outputs, expected, strict=False):
            if not isinstance(array, np.ndarray) or counter.dims(value) is None:
                continue
            n_same += counter.dims(value) == array.shape
            if counter.dims(value) != array.shape:
                wrong.append((case.name, counter.dims(value), array.shape))
    assert wrong == []
    assert n_same > 1500


@pytest.mark.parametrize(
    ("op", "inputs", "n_outputs", "attributes"),
    [
        ("Attention", [(1, 4, 16), (16, 48), (48,), None, (2, 1, 2, 5, 8)], 2, {"num_heads": 2}),
        ("Attention", [(1, 4, 16), (16, 64), (64,)], 1, {"num_heads": 2, "qkv_hidden_sizes": [16, 16, 32]}),
        ("MultiHeadAttention", [(1, 4, 16), (1, 6, 16), (1, 6, 32)], 3, {"num_heads": 2}),
        ("MultiHeadAttention", [(1, 4, 16), (1, 2, 6, 8), (1, 2, 6, 8)], 3, {"num_heads": 2}),
        ("SkipLayerNormalization", [(1, 4, 16), (1, 4, 16), (16,)], 4, {}),
        ("FusedMatMul", [(3, 2, 5, 4), (3, 2, 5, 6)], 1, {"transA": 1}),
        ("FusedMatMul", [(4, 3, 2, 5), (3, 2, 5, 6)], 1, {"transBatchA": 1}),
    ],
)
def test_contributed_operators_have_the_shapes_that_come_out(op, inputs, n_outputs, attributes):
    feeds = {f"x{i}": np.ones(dims, np.float32) for i, dims in enumerate(inputs) if dims is not None}
    names = ["" if dims is None else f"x{i}" for i, dims in enumerate(inputs)]
    outputs = [f"y{i}" for i in range(n_outputs)]
    node = helper.make_node(op, names, outputs, domain="com.microsoft", **attributes)
    given = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, a.shape) for n, a in feeds.items()]
    shown = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in outputs]
    proto = assemble([node], given, shown, ir_version=9, opsets={"com.microsoft": 1})
    model = ir.from_proto(proto)
    counter = GraphCounter(model, {name: array.shape for name, array in feeds.items()})
    counter.graph(model.graph, "")
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    assert [counter.dims(v) for v in model.graph.outputs] == [a.shape for a in session.run(None, feeds)]


@lru_cache(maxsize=1)  # the tests of a model run one after another, on one worker
def fed(name):
    """The model, and what it is fed."""
    opened = open_model(zoo.model_path(name))
    work = workload.propose(opened.ir)
    return opened.ir, work, next(iter(workload.feeds(opened.ir, work)))


@lru_cache(maxsize=2)
def traced(name, level):
    """The model, its shapes, the graph that ran, and the profile of one run.

    Prepacked weights are not in a profile: without optimisation none are prepacked.
    """
    with tempfile.TemporaryDirectory() as folder:
        return _traced(name, level, Path(folder), prepack=level != "ORT_DISABLE_ALL")


def _traced(name, level, folder, *, prepack):
    original, _, (case, feeds) = fed(name)
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.enable_profiling, options.profile_file_prefix = True, str(folder / "trace")
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.disable_prepacking", str(int(not prepack)))
    session = ort.InferenceSession(zoo.model_path(name), options, providers=["CPUExecutionProvider"])
    session.run(None, feeds)
    trace = read_trace(Path(session.end_profiling()))
    shapes = {choice.name: choice.shape for choice in case.inputs}
    return original, shapes, open_model(folder / "optimised.onnx").ir, trace


def grouped(name):
    marks = [pytest.mark.xdist_group(f"traced {name}")]
    return pytest.param(name, marks=[*marks, pytest.mark.long] if name in zoo.ALIKE else marks)


MULTIPLIED = ["oww-embedding", "basic-pitch", "ppocrv2-cls", "ppocrv4-rec", "piper-joe"]
VALUES_DECIDE = {"piper-joe"}
QUICK = [name for name in zoo.MODELS if not name.startswith("light-vgg") and name not in ("sigmoid", "mul-1")]


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
@pytest.mark.parametrize("name", [grouped(name) for name in QUICK])
def test_every_shape_is_the_one_that_the_profile_tells(name, level):
    original, shapes, optimised, trace = traced(name, level)
    logged = list(zip(trace.name.texts, trace.nodes.op_type, strict=True))
    mapping = as_logged(originals(original, optimised), logged)
    ran = executions(optimised.graph, mapping.keys, trace)
    assert len(ran) > 0.9 * len(trace.name.texts) - 1
    before = costs(original, shapes)
    counter = GraphCounter(optimised, shapes, sizes=own_shapes(mapping, optimised.graph, before.nodes))
    counter.graph(optimised.graph, "")
    wrong, unknown = [], Counter()
    for node, (first, *_) in ran.items():
        for value, told in zip([v for v in node.outputs if v.name], first.outputs, strict=False):
            dims = counter.dims(value)
            if dims is None:
                unknown[counter.why(value)] += 1
            elif value in counter.blocked:
                padding = told[1] - dims[1]
                if not 0 <= padding < 16 or dims != (told[0], told[1] - padding, *told[2:]):
                    wrong.append((node.name, dims, told))
            elif dims != told:
                wrong.append((node.name, dims, told))
    assert wrong == []
    assert bool(unknown) == (name in VALUES_DECIDE)
    assert all("depends on values" in why for why in unknown)


@pytest.mark.parametrize("name", [grouped(name) for name in MULTIPLIED])
def test_what_ran_multiplies_as_much_as_the_model(name):
    original, shapes, optimised, trace = traced(name, "ORT_ENABLE_ALL")
    mapping = as_logged(
        originals(original, optimised), list(zip(trace.name.texts, trace.nodes.op_type, strict=True))
    )
    ran = executions(optimised.graph, mapping.keys, trace)
    told = {v.name: e[0].outputs[0] for n, e in ran.items() if len(e[0].outputs) == 1 for v in n.outputs}
    before = costs(original, shapes, sizes=told)
    own = own_shapes(mapping, optimised.graph, before.nodes)
    after = costs(optimised, shapes, ran=ran, sizes=own)
    assert (before.unknown, after.unknown) == ({}, {})
    assert after.macs == before.macs


def multiplied(trace):
    """The multiply-adds of a run by the shapes that a profile tells, without any of what counts them else."""
    found = 0
    for op, executions_of in zip(trace.nodes.op_type, trace.nodes.executions, strict=True):
        for (before, after), times in executions_of.items():
            x, y = ([shape for _, shape in tensors(text) or ()] for text in (before, after))
            match op:
                case "Conv" | "ConvInteger":
                    found += times * math.prod(y[0]) * math.prod(x[1][1:])
                case "ConvTranspose":
                    found += times * math.prod(x[0]) * math.prod(x[1][1:])
                case "MatMul" | "MatMulInteger":
                    found += times * math.prod(y[0]) * x[0][-1]
                case "Gemm":
                    found += times * math.prod(y[0]) * (math.prod(x[0]) // y[0][0])
                case "LSTM":
                    found += times * math.prod(x[0][:2]) * math.prod(x[1][:2]) * (x[1][2] + x[2][2])
    return found


@pytest.mark.parametrize(
    "name",
    [
        grouped(name)
        for name in (
            "ppocrv4-det", "ppocrv4-rec", "ppocrv2-cls", "silero-vad", "silero-vad-16k-sequence", "magika",
            "minilm-int8", "basic-pitch", "oww-embedding", "oww-melspectrogram", "oww-hey-jarvis",
            "light-shufflenet",
        )
    ],
)  # fmt: skip
def test_products_are_counted_as_they_ran(name):
    original, shapes, _, trace = traced(name, "ORT_DISABLE_ALL")
    (values,) = workload.whole_numbers(original, fed(name)[1])
    assert costs(original, shapes, values).macs == multiplied(trace)
