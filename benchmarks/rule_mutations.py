"""Plants defects in real models without any, and counts which of them the rules find from the file alone.

    python benchmarks/rule_mutations.py

Each defect is planted wherever a model has room for it. A defect is found where its rule fires that did not before.
What fires on the untouched models above a note is printed, to be looked at by hand. Nothing is run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from ortune import rules
from ortune.model.open import open_model
from ortune.records import Host, Plan
from ortune.rules import ABOUT_MODELS, Facts, Selection
from ortune.targets.machine import Machine
from zoo import model_path

HEALTHY = (
    "ppocrv4-rec", "ppocrv2-cls", "magika", "basic-pitch", "oww-embedding", "oww-alexa", "oww-hey-jarvis",
    "oww-timer", "silero-vad-16k-sequence", "oww-melspectrogram",
)  # fmt: skip
Plant = Callable[[onnx.ModelProto], bool]
DEFAULT = Plan()


@dataclass(frozen=True, kw_only=True)
class Defect:
    """What is planted, and the rule that is to find it.

    Attributes:
        plant: Changes the model; whether it has room for the defect.
        plan: Settings that are wrong, where the defect is in those.
    """

    code: str
    plant: Plant = lambda model: True
    plan: Plan = DEFAULT


def _opset(model: onnx.ModelProto) -> int:
    return max(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))


def _first(model: onnx.ModelProto, *ops: str) -> onnx.NodeProto | None:
    return next((node for node in model.graph.node if node.op_type in ops), None)


def _before(model: onnx.ModelProto, node: onnx.NodeProto, *made: onnx.NodeProto) -> None:
    at = list(model.graph.node).index(node)
    for each in reversed(made):
        model.graph.node.insert(at, each)


def _round_trip(model: onnx.ModelProto) -> bool:
    node = _first(model, "Conv", "Gemm", "MatMul")
    if node is None:
        return False
    down = helper.make_node("Cast", [node.input[0]], ["planted_half"], to=TensorProto.FLOAT16)
    up = helper.make_node("Cast", ["planted_half"], ["planted_float"], to=TensorProto.FLOAT)
    _before(model, node, down, up)
    node.input[0] = "planted_float"
    return True


def _listed_weights(model: onnx.ModelProto) -> bool:
    listed = {value.name for value in model.graph.input}
    stored = [tensor for tensor in model.graph.initializer if tensor.name not in listed]
    for tensor in stored:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return bool(stored)


def _dead(model: onnx.ModelProto) -> bool:
    model.graph.node.append(helper.make_node("Exp", [model.graph.input[0].name], ["planted_dead"]))
    return model.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT


def _unused(model: onnx.ModelProto) -> bool:
    size = max(1 << 17, sum(len(tensor.raw_data) for tensor in model.graph.initializer) // 8)
    model.graph.initializer.append(numpy_helper.from_array(np.ones(size, np.float32), "planted_weights"))
    return True


def _denormal(model: onnx.ModelProto) -> bool:
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and np.prod(tensor.dims) >= 1024:
            values = numpy_helper.to_array(tensor).copy()
            values.reshape(-1)[:64] = 1e-40
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
            return True
    return False


def _norm(model: onnx.ModelProto) -> bool:
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    node = next((n for n in model.graph.node if n.op_type == "Conv" and n.input[1] in stored), None)
    if node is None or _opset(model) < 14:
        return False
    ones = np.ones(stored[node.input[1]].dims[0], np.float32)
    names = [f"planted_{part}" for part in ("scale", "shift", "mean", "variance")]
    model.graph.initializer.extend(numpy_helper.from_array(ones, name) for name in names)
    made, node.output[0] = node.output[0], "planted_before"
    norm = helper.make_node(
        "BatchNormalization", ["planted_before", *names], [made, "planted_m", "planted_v"], training_mode=1
    )
    model.graph.node.insert(list(model.graph.node).index(node) + 1, norm)
    return True


def _table(model: onnx.ModelProto) -> bool:
    """A large table beside an output, made of constants."""
    model.graph.initializer.append(numpy_helper.from_array(np.array([64, 1024, 1024]), "planted_shape"))
    table = helper.make_node("ConstantOfShape", ["planted_shape"], ["planted_zeros"])
    model.graph.node.extend([table, helper.make_node("ReduceMax", ["planted_zeros"], ["planted_zero"])])
    model.graph.output.append(helper.make_tensor_value_info("planted_zero", TensorProto.FLOAT, None))
    return True


def _integer(model: onnx.ModelProto) -> bool:
    node = next((n for n in model.graph.node if n.op_type == "Conv" and len(n.input) == 2), None)
    if node is None:
        return False
    numbers = ["planted_numbers", "planted_scale", "planted_zero_point"]
    _before(model, node, helper.make_node("DynamicQuantizeLinear", [node.input[0]], numbers))
    stored = next((t for t in model.graph.initializer if t.name == node.input[1]), None)
    if stored is None:
        return False
    model.graph.initializer.append(
        numpy_helper.from_array(np.ones(tuple(stored.dims), np.uint8), "planted_w")
    )
    del node.input[:]
    node.input.extend(["planted_numbers", "planted_w"])
    node.op_type = "ConvInteger"
    return True


def _pairs(unsigned: bool, closed: bool) -> Plant:
    """A convolution between pairs, with or without a sign in its weights, closed by a QuantizeLinear or not."""

    def plant(model: onnx.ModelProto) -> bool:
        stored = {tensor.name: tensor for tensor in model.graph.initializer}
        node = next((n for n in model.graph.node if n.op_type == "Conv" and n.input[1] in stored), None)
        if node is None or _opset(model) < 10:
            return False
        kind = np.uint8 if unsigned else np.int8
        given = {
            "planted_s": np.float32(0.1), "planted_z": np.uint8(0), "planted_t": kind(0),
            "planted_w": np.ones(tuple(stored[node.input[1]].dims), kind),
        }  # fmt: skip
        model.graph.initializer.extend(
            numpy_helper.from_array(np.asarray(a), name) for name, a in given.items()
        )
        q, d = "QuantizeLinear", "DequantizeLinear"
        _before(
            model, node,
            helper.make_node(q, [node.input[0], "planted_s", "planted_z"], ["planted_q"]),
            helper.make_node(d, ["planted_q", "planted_s", "planted_z"], ["planted_x"]),
            helper.make_node(d, ["planted_w", "planted_s", "planted_t"], ["planted_dw"]),
        )  # fmt: skip
        node.input[0], node.input[1] = "planted_x", "planted_dw"
        if closed:
            made, node.output[0] = node.output[0], "planted_c"
            at = list(model.graph.node).index(node)
            close = helper.make_node(q, ["planted_c", "planted_s", "planted_z"], ["planted_qc"])
            wide = helper.make_node(d, ["planted_qc", "planted_s", "planted_z"], [made])
            model.graph.node.insert(at + 1, wide)
            model.graph.node.insert(at + 1, close)
        return True

    return plant


def _wrong_size(model: onnx.ModelProto) -> bool:
    output = model.graph.output[0].type.tensor_type.shape
    first = model.graph.input[0].type.tensor_type.shape
    if not output.dim or not all(dim.dim_value for dim in (*output.dim, *first.dim)):
        return False
    output.dim[-1].dim_value += 1
    return True


def _settings(model: onnx.ModelProto) -> bool:
    helper.set_model_props(model, {"ort_config": '{"session_options": {"intra_op_threads": 2}}'})
    return True


DEFECTS = {
    "weights among the inputs": Defect(code="GRA002", plant=_listed_weights),
    "float16 and back": Defect(code="PRC004", plant=_round_trip),
    "a node for nobody": Defect(code="GRA007", plant=_dead),
    "batch normalisation in training": Defect(code="GRA008", plant=_norm),
    "a table of constants": Defect(code="MEM002", plant=_table),
    "weights for nobody": Defect(code="MEM003", plant=_unused),
    "denormal weights": Defect(code="PRC005", plant=_denormal),
    "dynamic quantization of a Conv": Defect(code="QNT002", plant=_integer),
    "weights without a sign": Defect(code="QNT003", plant=_pairs(unsigned=True, closed=True)),
    "a Conv left in float": Defect(code="QNT004", plant=_pairs(unsigned=False, closed=False)),
    "a wrong size declared": Defect(code="SHP003", plant=_wrong_size),
    "a setting misspelt in the file": Defect(code="SES003", plant=_settings),
    "the level basic": Defect(code="SES002", plan=Plan(settings={"graph_optimization_level": "basic"})),
    "threads for nothing": Defect(code="THR003", plan=Plan(settings={"inter_op_num_threads": 8})),
}


def main() -> None:
    """Prints what was found, defect by defect, and what fires on the untouched models."""
    # With the instructions that some defects are slow on, whatever this machine has.
    host = msgspec.structs.replace(Machine().host, features=("avx2", "avx512_vnni"))
    asked = [rule for rule in Selection(preview=True).rules() if rule.family in ABOUT_MODELS]
    found: dict[str, list[int]] = {name: [0, 0] for name in DEFECTS}
    wrong: list[str] = []
    with TemporaryDirectory() as folder:
        for name in HEALTHY:
            healthy = onnx.load(model_path(name))
            before = codes(healthy, Path(folder), Plan(), host, asked)
            wrong += [
                f"{name}: {code} {what}" for code, (severity, what) in before.items() if severity != "note"
            ]
            for title, defect in DEFECTS.items():
                model = onnx.ModelProto()
                model.CopyFrom(healthy)
                if defect.plant(model):
                    after = codes(model, Path(folder), defect.plan, host, asked)
                    found[title][0] += defect.code in after and after[defect.code] != before.get(defect.code)
                    found[title][1] += 1
    print("| defect | rule | found | planted |\n|---|---|---|---|")
    for title, (hits, planted) in found.items():
        print(f"| {title} | {DEFECTS[title].code} | {hits} | {planted} |")
    hits, planted = (sum(pair[i] for pair in found.values()) for i in (0, 1))
    print(
        f"\nFound {hits} of {planted}; {len(wrong)} findings above a note on {len(HEALTHY)} untouched models:"
    )
    print("\n".join(wrong))


def codes(
    model: onnx.ModelProto, folder: Path, plan: Plan, host: Host, asked: Sequence[rules.Rule]
) -> dict[str, tuple[str, str]]:
    """What fires, by code."""
    path = folder / "model.onnx"
    onnx.save(model, path)
    facts = Facts(model=open_model(path), plan=plan, host=host)
    return {f.code: (f.severity, f.what) for f in rules.found_by(asked, facts)}


if __name__ == "__main__":
    main()
