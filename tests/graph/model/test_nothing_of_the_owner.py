"""Of ten models every text and every list of integers that no operator's schema has is looked for in the skeleton."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from google.protobuf.message import Message
from onnx import TensorProto as T
from onnx import defs, helper, numpy_helper

from ortune.graph.model import operators
from ortune.graph.skeleton import skeleton

SECRET = [8675309, 4815162342, 271828, 314159]
PUBLIC_TEXTS = {"Einsum", "BRANCH_LEQ", "LEAF", "NONE", "bilinear", "nearest", "linear", "forward"}


def model(
    *nodes: onnx.NodeProto,
    inputs: dict[str, tuple[int, list[Any]]],
    outputs: dict[str, int],
    functions: Any = (),
    opset: int = 17,
) -> onnx.ModelProto:
    sides = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()]
    made = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()]
    domains = {"": opset, "ai.onnx.ml": 4, "com.microsoft": 1} | {
        n.domain: 1 for n in nodes if n.domain not in ("", "ai.onnx.ml")
    }
    imports = [helper.make_opsetid(*each) for each in domains.items()]
    graph = helper.make_graph(nodes, "otter_graph", sides, made)
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=list(functions))


def labels(**attributes: Any) -> onnx.ModelProto:
    node = helper.make_node("LabelEncoder", ["otter_in"], ["otter_out"], domain="ai.onnx.ml", **attributes)
    kind = T.STRING if any("strings" in key for key in attributes) else T.INT64
    return model(node, inputs={"otter_in": (kind, ["otter_n"])}, outputs={"otter_out": T.INT64})


def trees() -> onnx.ModelProto:
    node = helper.make_node(
        "TreeEnsembleClassifier", ["otter_in"], ["otter_label", "otter_scores"], domain="ai.onnx.ml",
        nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values=[0.5, 0.0, 0.0], nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0], class_treeids=[0, 0], class_nodeids=[1, 2], class_ids=[0, 1],
        class_weights=[1.0, 1.0], classlabels_int64s=SECRET[:3], post_transform="NONE",
    )  # fmt: skip
    return model(
        node,
        inputs={"otter_in": (T.FLOAT, [1, 2])},
        outputs={"otter_label": T.INT64, "otter_scores": T.FLOAT},
    )


def function(domain: str, name: str) -> onnx.ModelProto:
    inner = helper.make_node("LeakyRelu", ["otter_a"], ["otter_b"])
    inner.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="otter_slope")
    imports = [helper.make_opsetid("", 17)]
    made = helper.make_function(domain, name, ["otter_a"], ["otter_b"], [inner], imports, ["otter_slope"])
    call = helper.make_node(name, ["otter_in"], ["otter_out"], domain=domain, otter_slope=0.1)
    return model(
        call, inputs={"otter_in": (T.FLOAT, [2, 3])}, outputs={"otter_out": T.FLOAT}, functions=[made]
    )


def foreign(domain: str, op_type: str) -> onnx.ModelProto:
    inside = helper.make_graph([], "otter_body", [], [])
    node = helper.make_node(
        op_type, ["otter_in"], ["otter_out"], domain=domain, otter_mode="otter_stripes", equation="otter,kit->r",
        otter_ids=SECRET, mode="constant otter", scales=[float(n) for n in SECRET], otter_body=inside, axis=3,
        otter_table=numpy_helper.from_array(np.array(SECRET), "otter_table"), perm=SECRET,
    )  # fmt: skip
    return model(node, inputs={"otter_in": (T.FLOAT, [2, 3])}, outputs={"otter_out": T.FLOAT})


def einsum(equation: str, *shapes: list[int]) -> onnx.ModelProto:
    names = [f"otter_{i}" for i in range(len(shapes))]
    node = helper.make_node("Einsum", names, ["otter_out"], equation=equation)
    return model(
        node,
        inputs={n: (T.FLOAT, s) for n, s in zip(names, shapes, strict=True)},
        outputs={"otter_out": T.FLOAT},
    )


UNKNOWN = helper.make_node(
    "Relu", ["otter_in"], ["otter_out"], otter_note="otter river", otter_ids=SECRET, axis=77
)
WORDS = helper.make_node(
    "TfIdfVectorizer", ["otter_in"], ["otter_out"], mode="TF", min_gram_length=1, max_gram_length=1, max_skip_count=0,
    ngram_counts=[0], ngram_indexes=[0, 1, 2, 3], pool_int64s=SECRET,
)  # fmt: skip
STOP = helper.make_node(
    "StringNormalizer", ["otter_in"], ["otter_out"], stopwords=["mean", "otters"], case_change_action="LOWER",
)  # fmt: skip
MODELS: dict[str, onnx.ModelProto] = {
    "foreign operator": foreign("otter.den", "OtterOp"),
    "foreign operator of a public domain": foreign("com.microsoft", "OtterOp"),
    "foreign operator of an extension": foreign("ai.onnx.contrib", "OtterOp"),
    "foreign operator of ONNX": foreign("", "OtterOp"),
    "function": function("otter.den", "OtterAct"),
    "function of a public domain": function("com.microsoft", "OtterAct"),
    "function for a public operator": function("com.microsoft", "FastGelu"),
    "unknown attributes": model(UNKNOWN, inputs={"otter_in": (T.FLOAT, [2])}, outputs={"otter_out": T.FLOAT}),
    "equation": einsum("otr,kir->otki", [2, 2, 2], [2, 2, 2]),
    "equation without an arrow": einsum("zebra,zebra", [2] * 5, [2] * 5),
    "texts": labels(keys_strings=["otter one", "mean", "tanh", "max"], values_int64s=SECRET),
    "numbers": labels(keys_int64s=SECRET, values_int64s=SECRET[::-1]),
    "tables": labels(
        keys_tensor=numpy_helper.from_array(np.array(SECRET), "otter_k"),
        values_tensor=numpy_helper.from_array(np.array(SECRET[::-1]), "otter_v"),
        default_tensor=numpy_helper.from_array(np.array([1]), "otter_d"),
    ),
    "trees": trees(),
    "pool": model(WORDS, inputs={"otter_in": (T.INT64, [4])}, outputs={"otter_out": T.FLOAT}),
    "stop words": model(STOP, inputs={"otter_in": (T.STRING, [4])}, outputs={"otter_out": T.STRING}),
}  # fmt: skip
RUN_BY_NOBODY = {name for name in MODELS if name.startswith("foreign") or name == "unknown attributes"}

NOT_RUN = {"function for a public operator", "stop words"}
"""ONNX Runtime refuses the first as it is, and the second where a language is not installed."""


def texts(message: Message) -> Iterator[str]:
    """Every text that a message holds, however deep."""
    for field, value in message.ListFields():
        for each in value if field.is_repeated else [value]:
            if isinstance(each, Message):
                yield from texts(each)
            elif isinstance(each, str):
                yield each
            elif isinstance(each, bytes) and field.name != "raw_data":
                yield each.decode()


def integers(proto: onnx.ModelProto) -> Iterator[list[int]]:
    """Every list of integers, but for those of a schema's attributes that say what an operator does."""
    for node in proto.graph.node:
        for attribute in node.attribute:
            known = attribute.name in (operators.attributes(node.domain, node.op_type) or ())
            meant = known and not attribute.name.startswith(("keys", "values", "class", "pool"))
            if attribute.ints and (not meant or attribute.name.startswith("classlabels")):
                yield list(attribute.ints)
            if attribute.HasField("t"):
                yield numpy_helper.to_array(attribute.t).ravel().tolist()


def varints(numbers: list[int]) -> bytes:
    packed = onnx.AttributeProto(ints=numbers).SerializeToString()
    return packed[2:]  # without the field and its length


@pytest.mark.parametrize("name", MODELS)
def test_no_text_and_no_list_is_left(name: str, tmp_path: Path) -> None:
    proto = MODELS[name]
    onnx.save(proto, tmp_path / "m.onnx")
    data = skeleton(tmp_path / "m.onnx").proto.SerializeToString()
    public = {schema.name for schema in defs.get_all_schemas()} | operators.PUBLIC_DOMAINS | PUBLIC_TEXTS
    public |= {a for n in proto.graph.node for a in operators.attributes(n.domain, n.op_type) or ()}
    public |= {"FastGelu", "alpha", "TF", "LOWER", "axis"} - ({"axis"} if name in RUN_BY_NOBODY else set())
    left = [each for each in texts(proto) if len(each) > 2 and each not in public and each.encode() in data]
    assert not left
    assert b"otter" not in data.lower() and b"zebra" not in data
    lists = [each for each in integers(proto) if len(each) > 2]
    for numbers in lists:
        assert varints(numbers) not in data and np.array(numbers, np.int64).tobytes() not in data
        assert all(varints([n]) not in data for n in numbers if n > 1 << 16)
    if name not in RUN_BY_NOBODY and name not in NOT_RUN:
        onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    "equation", ["otr,kir->otki", "zebra,zeb", "Zeb,Zar->eb", "b...ij,bjk", "cab,cd->bd", "ZaA,aY->ZY"]
)
def test_an_equation_means_the_same(equation: str, tmp_path: Path) -> None:
    letters = sorted({c for c in equation if c.isalpha()})
    sizes = {letter: 2 + place for place, letter in enumerate(letters)}
    parts = equation.split("->", maxsplit=1)[0].split(",")
    shapes = [
        [n for c in part.replace("...", ".") for n in ([3] if c == "." else [sizes[c]])] for part in parts
    ]
    proto = einsum(equation, *shapes)
    onnx.save(proto, tmp_path / "m.onnx")
    made = skeleton(tmp_path / "m.onnx").proto
    values = [
        np.random.default_rng(i).standard_normal(shape).astype(np.float32) for i, shape in enumerate(shapes)
    ]
    results = []
    for each in (proto, made):
        session = onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"])
        feeds = {side.name: value for side, value in zip(session.get_inputs(), values, strict=True)}
        results.append(session.run(None, feeds)[0])
    np.testing.assert_array_equal(*results)


def test_sizes_of_an_upsampling_stay_and_no_other_scales(tmp_path: Path) -> None:
    scales = [1.0, 1.0, 2.0, 3.0, 1.0, 1.5]
    node = helper.make_node("Upsample", ["x"], ["y"], scales=scales, mode="nearest")
    proto = model(node, inputs={"x": (T.FLOAT, [1] * 6)}, outputs={"y": T.FLOAT}, opset=7)
    onnx.save(proto, tmp_path / "m.onnx")
    (made,) = skeleton(tmp_path / "m.onnx").proto.graph.node
    assert next(list(a.floats) for a in made.attribute if a.name == "scales") == scales
    node.attribute[0].floats[:] = [float(n) for n in range(100, 200)]
    proto = model(node, inputs={"x": (T.FLOAT, [1] * 6)}, outputs={"y": T.FLOAT}, opset=7)
    onnx.save(proto, tmp_path / "m.onnx")
    (made,) = skeleton(tmp_path / "m.onnx").proto.graph.node
    kept = {f for a in made.attribute for f in a.floats}
    assert not kept & set(range(100, 200))


def test_attributes_of_all_versions_are_public() -> None:
    assert {"activations", "drop_states"} <= set(operators.attributes("", "GRUUnit") or ())
    assert {"operator", "overload_name"} <= set(operators.attributes("ai.onnx", "ATen") or ())
    assert set(operators.attributes("", "Crop") or ()) == {"border", "scale"}
    assert operators.attributes("", "OtterOp") is None
