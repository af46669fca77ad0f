"""Small ONNX models of every kind, and running a proposed workload on them in ONNX Runtime."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

from graphs import drawn
from onnx_text import assemble
from ortune.inputs import workload
from ortune.records import Workload

ort.set_default_logger_severity(4)
RNG = np.random.default_rng(0)


def info(name, dtype, shape):
    return h.make_tensor_value_info(name, dtype, shape)


weight = partial(drawn, RNG, times=0.1)


def ints(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def model(nodes, inputs, outputs, initializers=(), opset=17, domains=()):
    return assemble(nodes, inputs, outputs, initializers, opset=opset, ir_version=9, opsets=dict(domains))


def session(proto):
    return ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])


def run(proto, feeds):
    """Run as the worker does: through numpy, strings as objects, types that numpy lacks as OrtValue."""
    made = {}
    for name, value in feeds.items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "U":
            made[name] = value.astype(object)
        elif isinstance(value, np.ndarray) and value.dtype.name == "bfloat16":
            bits = value.view(np.uint16)
            made[name] = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, T.BFLOAT16)
        else:
            made[name] = value
    if any(isinstance(v, ort.OrtValue) for v in made.values()):
        return session(proto).run_with_ort_values([o.name for o in proto.graph.output], made)
    return session(proto).run(None, made)


def proposed(proto, **options):
    """The workload as proposed, after running all three kinds of feeds of every case."""
    net = ir.from_proto(proto)
    chosen = workload.propose(net, **options)
    for kind in ("usual", "zeros", "extreme"):
        for _, feeds in workload.feeds(net, chosen, kind):
            run(proto, feeds)
    return chosen


def by_name(chosen: Workload, case=0):
    return {c.name: c for c in chosen.cases[case].inputs}


def gpt2_step(layers=2, positions=1024, vocabulary=211):
    """A decoder step: ids, mask over past and new tokens, positions, and a past for each layer."""
    heads, size = 2, 8
    width = heads * size
    inputs = [
        info("input_ids", T.INT64, ["batch_size", "sequence_length"]),
        info("attention_mask", T.INT64, ["batch_size", "past_sequence_length + sequence_length"]),
        info("position_ids", T.INT64, ["batch_size", "sequence_length"]),
    ]
    nodes = [
        h.make_node("Gather", ["words", "input_ids"], ["we"]),
        h.make_node("Gather", ["places", "position_ids"], ["pe"]),
        h.make_node("Add", ["we", "pe"], ["x0"]),
        h.make_node("Cast", ["attention_mask"], ["mask_f"], to=T.FLOAT),
        h.make_node("Unsqueeze", ["mask_f", "axes12"], ["mask4"]),
    ]
    outputs, weights = [], [weight("words", vocabulary, width), weight("places", positions, width)]
    weights += [ints("axes12", 1, 2), ints("split", 0, 0, heads, size), ints("join", 0, 0, width)]
    for i in range(layers):
        for part in ("key", "value"):
            shape = ["batch_size", heads, "past_sequence_length", size]
            inputs.append(info(f"past_key_values.{i}.{part}", T.FLOAT, shape))
            outputs.append(info(f"present.{i}.{part}", T.FLOAT, ["batch_size", heads, f"t{i}{part}", size]))
            weights.append(weight(f"w_{part}{i}", width, width))
            nodes += [
                h.make_node("MatMul", [f"x{i}", f"w_{part}{i}"], [f"{part}{i}"]),
                h.make_node("Reshape", [f"{part}{i}", "split"], [f"{part}{i}s"]),
                h.make_node("Transpose", [f"{part}{i}s"], [f"{part}{i}t"], perm=[0, 2, 1, 3]),
                h.make_node(
                    "Concat", [f"past_key_values.{i}.{part}", f"{part}{i}t"], [f"present.{i}.{part}"], axis=2
                ),
            ]
        nodes += [
            h.make_node("Reshape", [f"x{i}", "split"], [f"q{i}s"]),
            h.make_node("Transpose", [f"q{i}s"], [f"q{i}"], perm=[0, 2, 1, 3]),
            h.make_node("Transpose", [f"present.{i}.key"], [f"kt{i}"], perm=[0, 1, 3, 2]),
            h.make_node("MatMul", [f"q{i}", f"kt{i}"], [f"scores{i}"]),
            h.make_node("Add", [f"scores{i}", "mask4"], [f"masked{i}"]),
            h.make_node("Softmax", [f"masked{i}"], [f"probs{i}"]),
            h.make_node("MatMul", [f"probs{i}", f"present.{i}.value"], [f"ctx{i}"]),
            h.make_node("Transpose", [f"ctx{i}"], [f"ctx{i}t"], perm=[0, 2, 1, 3]),
            h.make_node("Reshape", [f"ctx{i}t", "join"], [f"x{i + 1}"]),
        ]
    outputs.insert(0, info(f"x{layers}", T.FLOAT, ["batch_size", "sequence_length", width]))
    return model(nodes, inputs, outputs, weights)


def encoder(rows=64):
    """Token ids and a table of learned positions, sliced to the sequence's length."""
    nodes = [
        h.make_node("Gather", ["words", "tokens"], ["we"]),
        h.make_node("Shape", ["tokens"], ["shape"]),
        h.make_node("Gather", ["shape", "one"], ["length"]),
        h.make_node("Slice", ["places", "zero1", "length1", "zero1"], ["pe"]),
        h.make_node("Unsqueeze", ["length", "zero1"], ["length1"]),
        h.make_node("Add", ["we", "pe"], ["y"]),
    ]
    nodes[3], nodes[4] = nodes[4], nodes[3]
    weights = [weight("words", 30, 8), weight("places", rows, 8), ints("zero1", 0)]
    weights.append(numpy_helper.from_array(np.array(1, np.int64), "one"))
    return model(nodes, [info("tokens", T.INT32, ["batch", "seq"])], [info("y", T.FLOAT, None)], weights)


def classifier(side, channels=3, layout="NCHW"):
    """Convolution, pooling, flatten and a Gemm that fits one image size only."""
    flat = 4 * (side // 4) ** 2
    first = [] if layout == "NCHW" else [h.make_node("Transpose", ["image"], ["x"], perm=[0, 3, 1, 2])]
    nodes = [
        *first,
        h.make_node("Conv", ["image" if layout == "NCHW" else "x", "w"], ["c"], pads=[1] * 4, strides=[2, 2]),
        h.make_node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        h.make_node("Flatten", ["p"], ["f"]),
        h.make_node("Gemm", ["f", "v"], ["y"], transB=1),
    ]
    shape = ["N", channels, "h", "w_"] if layout == "NCHW" else ["N", "h", "w_", channels]
    return model(
        nodes,
        [info("image", T.FLOAT, shape)],
        [info("y", T.FLOAT, ["N", 5])],
        [weight("w", 4, channels, 3, 3), weight("v", 5, flat)],
    )


def one_node(op, dtype, shape, **attributes):
    """A model of one operator on one input "x"."""
    return model(
        [h.make_node(op, ["x"], ["y"], **attributes)], [info("x", dtype, shape)], [info("y", dtype, None)]
    )
