"""Fewer bits for models whose weights lie in files of their own, and the memory that quantizers need for large ones."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import TensorProto

from onnx_text import assemble, model_of
from ortune import platform, rewrites
from ortune.graph.model.open import open_model
from ortune.inputs.feed_files import write_feeds
from ortune.records import FeedRef, Runtime
from ortune.targets.tool import ToolFailed, ToolProcess, peak_bytes
from ortune.worker.graph_tools import is_large

HERE = Runtime(python=sys.executable, ort_version=ort.__version__)
MEANS = (
    "dynamic-int8:scales=channel",
    "static-int8",
    "static-int8:bias=corrected",
    "weight-only-bits",
    "weight-only-bits:bits=4",
)
FREE_BYTES = 14 << 30
"""What quantizing 2.2 GB takes, and the float model that outputs are compared with."""


def matrices(path: Path, size: int, *, one_file: bool) -> Path:
    """Three products with square weights in external data, which no exporter has to call ``.data``."""
    values: NDArray[np.float32] = np.random.default_rng(5).standard_normal((size, size), np.float32)
    values /= np.sqrt(np.float32(size))
    text = (
        f"g (float[1,{size}] x) => (float[1,{size}] y) "
        "{ a = MatMul(x, w0) b = Relu(a) c = MatMul(b, w1) d = Relu(c) y = MatMul(d, w2) }"
    )
    model = model_of(text)
    for i in range(3):
        tensor = model.graph.initializer.add(name=f"w{i}", dims=values.shape, data_type=TensorProto.FLOAT)
        tensor.data_location = TensorProto.EXTERNAL
        location, offset = ("weights.bin", i * values.nbytes) if one_file else (f"w{i}", 0)
        for key, value in (("location", location), ("offset", offset), ("length", values.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        with (path.parent / location).open("ab") as file:
            np.roll(values, i, axis=1).tofile(file)
    onnx.save(model, path)
    return path


def fed(folder: Path, size: int, count: int = 2) -> tuple[FeedRef, ...]:
    refs = []
    for seed in range(count):
        x = np.random.default_rng(seed).standard_normal((1, size), np.float32)
        write_feeds(folder / f"feeds-{seed}", {"x": x})
        refs.append(FeedRef(name=str(seed), path=str(folder / f"feeds-{seed}")))
    return tuple(refs)


def outputs(path: Path, size: int) -> NDArray[np.float32]:
    x = {"x": np.random.default_rng(0).standard_normal((1, size), np.float32)}  # calibrated on it too
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    y: NDArray[np.float32] = session.run(None, x)[0]
    return y


@pytest.mark.parametrize("one_file", [True, False], ids=["one file", "a file each"])
@pytest.mark.parametrize("text", MEANS)
@pytest.mark.parametrize("sympy", [True, False], ids=["sympy", "no sympy"])
def test_weights_in_files_of_any_name_are_quantized(
    text: str, one_file: bool, sympy: bool, tmp_path: Path
) -> None:
    """Where sympy is missing, ONNX Runtime's preparation loses what lies beside the model."""
    if not sympy and (not one_file or text.startswith("weight")):
        pytest.skip("covered by the others")
    source = matrices(tmp_path / "m.onnx", 192, one_file=one_file)
    runtime = HERE if sympy else without_sympy(tmp_path)
    tool = ToolProcess(runtime=runtime, folder=tmp_path, feeds=fed(tmp_path, 192))
    made = rewrites.apply_all(open_model(source), [rewrites.parse(text)], tmp_path / "made", tool)
    before, after = outputs(source, 192), outputs(made, 192)
    away = float(np.linalg.norm(after - before) / np.linalg.norm(before))
    assert 0 < away < (0.25 if "bits=4" in text else 0.1)
    opened = open_model(made)
    assert opened.size_bytes < open_model(source).size_bytes / 2
    # Its weights are where a copy has them, and nothing reads the files of the original.
    assert all(tensor.file.path.parent == made.parent for tensor in opened.external)


def without_sympy(folder: Path) -> Runtime:
    python = folder / "python"
    python.write_text(
        f"#!{sys.executable}\nimport runpy, sys\nsys.modules['sympy'] = None\n"
        "at = next(i for i, a in enumerate(sys.argv) if i and not a.startswith('-'))\n"
        "sys.argv = sys.argv[at:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    python.chmod(0o755)
    return Runtime(python=str(python), ort_version=ort.__version__)


def test_a_model_is_large_by_its_own_weights() -> None:
    """Not by files that end in .data beside it, and without its weights in memory."""

    def declared(*sizes: int) -> onnx.ModelProto:
        tensors = [
            TensorProto(name=f"w{i}", dims=[n], data_type=TensorProto.FLOAT16) for i, n in enumerate(sizes)
        ]
        for tensor in tensors:
            tensor.data_location = TensorProto.EXTERNAL
        return assemble([], (), (), tensors)

    limit = 1 << 29  # elements of two bytes
    assert not is_large(declared(limit // 2, limit // 2))
    assert is_large(declared(limit // 2, limit // 2, 1))
    assert is_large(declared(5 * limit))


def test_a_quantizer_begins_only_where_its_memory_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = matrices(tmp_path / "m.onnx", 192, one_file=True)
    needed = peak_bytes("quantize-dynamic", open_model(source).size_bytes)
    tool = ToolProcess(runtime=HERE, folder=tmp_path)
    monkeypatch.setattr(platform, "memory_left_bytes", lambda: needed)
    with pytest.raises(ToolFailed, match=r"needs about 0\.0 GiB of memory; 0\.0 GiB are free") as caught:
        rewrites.apply_all(open_model(source), [rewrites.parse("dynamic-int8")], tmp_path / "made", tool)
    assert caught.value.code == "tool-out-of-memory" and "Free memory" in caught.value.do
    monkeypatch.undo()
    assert rewrites.apply_all(open_model(source), [rewrites.parse("dynamic-int8")], tmp_path / "made", tool)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 2.2 GB, which protobuf cannot hold."""
    left = platform.memory_left_bytes()
    if left is not None and left < FREE_BYTES:
        pytest.skip(f"{FREE_BYTES >> 30} GiB of memory are not free")
    source = matrices(tmp_path_factory.mktemp("large") / "m.onnx", LARGE, one_file=True)
    assert open_model(source).size_bytes > 1 << 31
    return source


LARGE = 13_568


@pytest.mark.long
@pytest.mark.parametrize("text", [text for text in MEANS if "corrected" not in text])
def test_more_than_protobuf_holds_is_quantized(text: str, large: Path, tmp_path: Path) -> None:
    tool = ToolProcess(runtime=HERE, folder=tmp_path, feeds=fed(tmp_path, LARGE))
    made = rewrites.apply_all(open_model(large), [rewrites.parse(text)], tmp_path / "made", tool)
    before, after = outputs(large, LARGE), outputs(made, LARGE)
    away = float(np.linalg.norm(after - before) / np.linalg.norm(before))
    assert 0 < away < (0.25 if "bits=4" in text else 0.1)
    assert open_model(made).size_bytes < open_model(large).size_bytes / (6 if "bits=4" in text else 3)


@pytest.mark.long
def test_biases_of_a_large_model_are_not_corrected_and_that_is_said(large: Path, tmp_path: Path) -> None:
    tool = ToolProcess(runtime=HERE, folder=tmp_path, feeds=fed(tmp_path, LARGE))
    specs = [rewrites.parse("static-int8:bias=corrected")]
    with pytest.raises(ToolFailed, match="biases of a model above 1 GB are not corrected"):
        rewrites.apply_all(open_model(large), specs, tmp_path / "made", tool)
