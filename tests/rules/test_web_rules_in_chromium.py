"""What the rules on WebGPU claim, in a real browser: operators without a kernel, wrong outputs, sessions that fail."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from rule_facts import dequantized

from chromium import ran
from ortune import rules
from ortune.graph.model.open import open_model
from ortune.graph.model.save import save_model
from ortune.inputs import workload
from ortune.rewrites.int64_to_int32 import REWRITE
from web_models import convert, convolutions, products

NATIVE, JSEP = "ort.webgpu.bundle.min.mjs", "ort.bundle.min.mjs"
SHOWN = {"WEB001": "NonZero", "WEB002": "FusedGemm", "WEB006": "Add", "QNT006": "MatMulInteger"}
IN_JSEP = (*SHOWN, "WEB004", "WEB016")


def feeds_of(path: Path) -> dict[str, np.ndarray]:
    model = open_model(path).ir
    ((_, feeds),) = workload.feeds(model, workload.propose(model))
    return {name: np.asarray(value) for name, value in feeds.items()}


def on_cpu(path: Path, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return {
        o.name: np.asarray(v) for o, v in zip(session.get_outputs(), session.run(None, feeds), strict=True)
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models that the rules show, those of the example, and their repairs."""
    place = tmp_path_factory.mktemp("models")
    for code in (*SHOWN, "WEB004"):
        shown = rules.find_rule(code).bad
        assert shown is not None
        onnx.save(shown(), place / f"{code}.onnx")
    narrow = open_model(place / "WEB006.onnx").ir.clone()
    assert REWRITE.apply(narrow).modified
    save_model(narrow, place / "narrow.onnx")
    dequantized(place, "jsep")
    (place / "m.onnx").rename(place / "WEB016.onnx")
    made, sources = place / "made", place / "sources"
    made.mkdir()
    sources.mkdir()
    products(made / "products.onnx").rename(sources / "products.onnx")
    # One convolution of them: what runs the others takes a GPU that is software seconds to compile.
    extract = onnx.utils.extract_model
    extract(convolutions(made / "all.onnx"), sources / "convolutions.onnx", ["x"], ["stem_r"])
    for level in ("basic", "all"):
        for path in convert(sources, level):
            path.rename(place / f"{path.name.partition('.')[0]}-{level}.ort")
    for path in sources.iterdir():
        path.rename(place / path.name)
    return place


@functools.cache
def _seen(folder: Path, build: str) -> dict[str, Any]:
    models = [
        path
        for path in sorted(folder.iterdir())
        if path.suffix in (".onnx", ".ort") and (build == NATIVE or path.stem in IN_JSEP)
    ]
    return ran(folder, {path.name: feeds_of(path) for path in models}, build)


def seen(folder: Path, file: str, build: str = NATIVE) -> dict[str, Any]:
    found: dict[str, Any] = _seen(folder, build)[file]
    if "adapter" in found.get("failed", ""):
        pytest.skip(found["failed"])
    return found


def furthest(folder: Path, file: str, build: str = NATIVE) -> float:
    """The largest difference from the CPU, over the largest number there."""
    found, path = seen(folder, file, build), folder / file
    assert "failed" not in found, found
    wanted = on_cpu(path, feeds_of(path))
    return max(
        float(np.abs(np.asarray(found["outputs"][name]) - value.ravel()).max())
        / max(1.0, float(np.abs(value).max()))
        for name, value in wanted.items()
    )


@pytest.mark.parametrize("code", SHOWN)
def test_what_has_no_kernel_runs_on_the_cpu_and_is_right(code: str, folder: Path) -> None:
    for build in (NATIVE, JSEP):
        assert SHOWN[code] in seen(folder, f"{code}.onnx", build)["without"]
        assert furthest(folder, f"{code}.onnx", build) < 1e-4


def test_in_32_bits_all_of_it_has_a_kernel(folder: Path) -> None:
    assert seen(folder, "narrow.onnx")["without"] == ["Cast"] * seen(folder, "narrow.onnx")["without"].count(
        "Cast"
    )
    assert furthest(folder, "narrow.onnx") == 0


def test_a_residual_is_left_out_without_a_word(folder: Path) -> None:
    assert furthest(folder, "WEB004.onnx") > 1e-2
    assert "requires 2 or 3 inputs" in seen(folder, "WEB004.onnx", JSEP)["failed"]


def test_jsep_reads_8_bits_wrong_and_the_native_build_does_not(folder: Path) -> None:
    assert furthest(folder, "WEB016.onnx") < 1e-4
    assert furthest(folder, "WEB016.onnx", JSEP) > 1e-2


def test_fused_convolutions_in_ort_format_make_no_session(folder: Path) -> None:
    assert "kernel" in seen(folder, "convolutions-all.ort")["failed"].lower()
    assert furthest(folder, "convolutions-basic.ort") < 1e-4
    assert furthest(folder, "convolutions.onnx") < 1e-4


def test_fused_products_in_ort_format_leave_the_gpu(folder: Path) -> None:
    assert "FusedGemm" in seen(folder, "products-all.ort")["without"]
    assert furthest(folder, "products-all.ort") < 1e-4
    for file in ("products.onnx", "products-basic.ort"):
        assert not seen(folder, file)["without"]
        assert furthest(folder, file) < 1e-4
