"""``ortune quantize`` on what is large in use: a decoder with its past in 4 bits, and memory that is said first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import simulated_machine
from facts import facts
from onnx_text import assemble
from ortune.errors import Interrupted
from ortune.measuring.watcher import Watcher
from ortune.targets.tool import ToolFailed, ToolProcess, peak_bytes
from ortune.verbs.quantize import requirements
from ortune.verbs.quantize import run as verb
from ortune.verbs.quantize.result import QuantizeResult
from simulated_machine import Lab, measuring_on
from within import program

LAYERS, HEADS, SIZE, VOCABULARY = 2, 4, 32, 200
WIDTH = HEADS * SIZE


def decoder(path: Path) -> Path:
    """A step of a decoder: blocks of attention over keys and values of the past, and of two wide layers."""
    rng = np.random.default_rng(8)
    value, info = numpy_helper.from_array, helper.make_tensor_value_info
    nodes, weights = [helper.make_node("Gather", ["words", "input_ids"], ["x0"])], []
    inputs = [info("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"])]
    outputs = [info("logits", TensorProto.FLOAT, ["batch_size", "sequence_length", VOCABULARY])]

    def weight(name: str, *shape: int) -> str:
        scale = np.sqrt(1 / shape[0])
        weights.append(value((rng.standard_normal(shape) * scale).astype(np.float32), name))
        return name

    def node(kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    weight("words", VOCABULARY, WIDTH)
    weights.append(value(np.asarray([0, 0, HEADS, SIZE]), "split"))
    weights.append(value(np.asarray([0, 0, WIDTH]), "join"))
    weights.append(value(np.float32(SIZE**-0.5), "root"))
    weights.append(value(np.ones(WIDTH, np.float32), "ones"))
    for i in range(LAYERS):
        normed = node("LayerNormalization", [f"x{i}", "ones"], f"n{i}", axis=-1)
        turned = {}
        for part in ("query", "key", "value"):
            product = node("MatMul", [normed, weight(f"w_{part}{i}", WIDTH, WIDTH)], f"{part}{i}")
            apart = node("Reshape", [product, "split"], f"{part}{i}_apart")
            turned[part] = node("Transpose", [apart], f"{part}{i}_heads", perm=[0, 2, 1, 3])
        for part in ("key", "value"):
            shape = ["batch_size", HEADS, "past_sequence_length", SIZE]
            inputs.append(info(f"past_key_values.{i}.{part}", TensorProto.FLOAT, shape))
            present = f"present.{i}.{part}"
            outputs.append(info(present, TensorProto.FLOAT, [*shape[:2], f"all{i}{part}", SIZE]))
            node("Concat", [f"past_key_values.{i}.{part}", turned[part]], present, axis=2)
        keys = node("Transpose", [f"present.{i}.key"], f"keys{i}", perm=[0, 1, 3, 2])
        scores = node("Mul", [node("MatMul", [turned["query"], keys], f"products{i}"), "root"], f"scores{i}")
        mixed = node("MatMul", [node("Softmax", [scores], f"shares{i}"), f"present.{i}.value"], f"mixed{i}")
        joined = node("Transpose", [mixed], f"mixed{i}_turned", perm=[0, 2, 1, 3])
        joined = node("Reshape", [joined, "join"], f"joined{i}")
        attended = node("MatMul", [joined, weight(f"w_out{i}", WIDTH, WIDTH)], f"attended{i}")
        y = node("Add", [f"x{i}", attended], f"y{i}")
        normed = node("LayerNormalization", [y, "ones"], f"m{i}", axis=-1)
        wide = node("MatMul", [normed, weight(f"w_up{i}", WIDTH, 4 * WIDTH)], f"up{i}")
        wide = node("Relu", [wide], f"wide{i}")
        narrow = node("MatMul", [wide, weight(f"w_down{i}", 4 * WIDTH, WIDTH)], f"down{i}")
        node("Add", [y, narrow], f"x{i + 1}")
    node("MatMul", [f"x{LAYERS}", weight("head", WIDTH, VOCABULARY)], "logits")
    onnx.save(assemble(nodes, inputs, outputs, weights, name="decoder"), path)
    return path


def answered(folder: Path, *words: str, faster: str) -> QuantizeResult:
    """The result of the command."""
    with measuring_on(Lab(1, faster_rewrite=faster)):
        code, out, said = program(
            [
                "quantize",
                str(folder / "m.onnx"),
                "--store",
                str(folder / "store"),
                "--no-bundle",
                "--json",
                *words,
            ]
        )
    assert code == 0, said
    document: dict[str, Any] = json.loads(out)
    return msgspec.convert(document["result"], QuantizeResult)


def test_a_decoder_with_its_past_is_decided_in_4_bits(tmp_path: Path) -> None:
    decoder(tmp_path / "m.onnx")
    words = ["--dim", "past_sequence_length=9", "--tolerance", "0.5", "--budget", "60s"]
    result = answered(tmp_path, *words, faster="weight-only-bits")
    bits = {
        row.plan.rewrites[-1].params.get("bits", "8"): row
        for row in result.methods
        if row.plan.rewrites[-1].name == "weight-only-bits"
    }
    assert {*bits} == {"8", "4"}
    for row in bits.values():
        # Logits, and what the next step gets of this one: keys and values of every layer.
        assert not row.why and row.outputs is not None
        names = {each.name for each in row.outputs.outputs}
        assert (
            "logits" in names
            and {f"present.{i}.{part}" for i in range(LAYERS) for part in ("key", "value")} <= names
        )
    four, eight = bits["4"], bits["8"]
    assert four.outputs is not None and eight.outputs is not None
    assert eight.outputs.relative_l2 < four.outputs.relative_l2 < 0.5
    assert four.size_bytes is not None and four.size_bytes < (tmp_path / "m.onnx").stat().st_size / 3
    assert result.winner.rewrites[-1].name == "weight-only-bits"
    walked = [row for row in result.front if 0 < row.n_float < row.n_layers]
    assert any(row.plan.rewrites[-1].name == "weight-only-bits" for row in walked)


def test_a_decoder_is_judged_by_what_it_predicts_and_timed_in_its_step(tmp_path: Path) -> None:
    """Files hold token ids alone; what a step takes is measured at the sizes that were named."""
    decoder(tmp_path / "m.onnx")
    (tmp_path / "tokens").mkdir()
    rng = np.random.default_rng(2)
    for i in range(4):
        np.savez(tmp_path / "tokens" / f"{i}.npz", input_ids=rng.integers(0, VOCABULARY, (1, 16)))
    words = [
        "quantize", str(tmp_path / "m.onnx"), "--store", str(tmp_path / "store"), "--no-bundle", "--json",
        "--data", str(tmp_path / "tokens"), "--metric", "perplexity", "--tolerance", "metric>=90%",
        "--dim", "sequence_length=1", "--dim", "past_sequence_length=9", "--budget", "5m",
    ]  # fmt: skip
    with measuring_on(Lab(1, faster_rewrite="weight-only-bits")):
        code, out, said = program(words)
    assert code == 0, said
    document: dict[str, Any] = json.loads(out)
    shapes = {each["name"]: each["shape"] for each in document["workload"]["cases"][0]["inputs"]}
    assert shapes["input_ids"] == [1, 1] and shapes["past_key_values.0.key"] == [1, HEADS, 9, SIZE]
    result = msgspec.convert(document["result"], QuantizeResult)
    assert result.judged_by == "perplexity"
    assert "perplexity" in result.headline
    tried = [row for row in result.methods if row.plan.rewrites[-1].name == "weight-only-bits"]
    for row in tried:
        assert row.outputs is not None and row.outputs.metric is not None, row.why
    params = [{"bits": "8"} | row.plan.rewrites[-1].params for row in tried]
    for bits in ("8", "4"):
        assert {"bits": bits} in params
        assert {"bits": bits, "block": "128"} in params and {"bits": bits, "products": "float32"} in params
    assert result.winner.rewrites[-1].name == "weight-only-bits"


@pytest.mark.parametrize(
    ("size", "peaks"),
    [(0.3e9, (5.56, 4.58, 5.24, 2.04, 3.25)), (0.6e9, (5.20, 4.20, 5.12, 1.70, 3.13)),
     (1.1e9, (3.19, 3.15, 3.16, 1.46, 2.99)), (2.2e9, (3.14, 3.12, 3.12, 1.40, 2.95))],
)  # fmt: skip
def test_the_memory_of_each_task_is_at_least_what_was_measured(size: float, peaks: tuple[float, ...]) -> None:
    tasks = ("quantize-prepare", "quantize-dynamic", "quantize-static", "quantize-weights", "smooth")
    for task, peak in zip(tasks, peaks, strict=True):
        assert peak * size <= peak_bytes(task, int(size)) <= 1.6 * peak * size


def test_models_that_are_not_made_in_time_take_it_from_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt ends after a minute: soon no other one is begun, and the answer names a longer budget."""
    decoder(tmp_path / "m.onnx")
    lab, attempts = Lab(1), list[str]()
    words = ["--store", str(tmp_path / "store"), "--no-bundle", "--json", "--budget", "2m"]
    with measuring_on(lab):
        use = ToolProcess.__call__

        def late(tool: ToolProcess, task: str, source: Path, target: Path, params: Mapping[str, str]) -> str:
            if not task.startswith("quantize"):
                return use(tool, task, source, target, params)
            attempts.append(task)
            lab.now_s += 60.0
            raise ToolFailed("timed out after 60 s of loading", task=task, where="", reason="timeout")

        monkeypatch.setattr(ToolProcess, "__call__", late)
        code, out, said = program(["quantize", str(tmp_path / "m.onnx"), *words])
        monkeypatch.undo()
    assert code == 0, said
    result = msgspec.convert(json.loads(out)["result"], QuantizeResult)
    assert len(attempts) <= 2
    facts(
        result.headline,
        "nothing tested",
        "no quantized model was created and tested in time",
        "--budget 480s",
    )
    assert result.enough_s == 480


def test_the_memory_that_a_large_model_needs_is_said_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "LARGE_BYTES", 1 << 20)
    decoder(tmp_path / "m.onnx")
    options = verb.Options(model=tmp_path / "m.onnx", store=tmp_path / "store", bundle=False)
    sentences: list[str] = []
    with measuring_on(Lab(1)), pytest.raises(Interrupted):  # before its first trial
        verb.run(options, Watcher(say=sentences.append, stop=lambda: True))
    facts(" ".join(sentences), "a model of 1.70 MiB", "8.00 GiB are free")

    monkeypatch.setattr(simulated_machine, "MEMORY_LEFT_BYTES", 4 << 20)
    with measuring_on(Lab(1)):
        code, out, said = program(["quantize", str(tmp_path / "m.onnx"), "--store", str(tmp_path / "store")])
    assert code == 2 and not out
    facts(said, "4.00 MiB are free", "free memory")
