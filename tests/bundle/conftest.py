from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import chromium
from onnx_text import assemble
from ortune import platform
from ortune.bundle.write import write_bundle
from ortune.graph.model.open import open_model
from ortune.inputs.feed_files import write_feeds
from ortune.records import Case, Figures, Host, Plan, ProviderSpec, Runtime, Side, Value, Workload
from ortune.verbs._shared.bundling import delivery
from ortune.verbs.tune.result import BudgetReport, TuneResult
from ortune.worker.values import write_outputs

ONNXRUNTIME_NODE = "1.30.0"
Bundle = Callable[..., Path]


def matmul(path: Path, name: str = "x", *, external: str = "") -> Path:
    """A model with one input and one output, its weights in a file of its own where that is named."""
    weights = np.random.default_rng(0).standard_normal((64, 8)).astype(np.float32)
    path.parent.mkdir(parents=True, exist_ok=True)
    model = assemble(
        [helper.make_node("MatMul", [name, "w"], ["y"], name="product")],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64])],
        "float[n,8] y",
        {"w": weights},
        ir_version=9,
    )
    if external:
        (path.parent / external).parent.mkdir(parents=True, exist_ok=True)
        onnx.save(model, path, save_as_external_data=True, location=external, size_threshold=0)
    else:
        onnx.save(model, path)
    return path


def one_node(path: Path, node: Any, inputs: list[Any], outputs: list[Any], opset: int = 17) -> Path:
    """A model of a single node."""
    onnx.save(assemble([node], inputs, outputs, opset=opset, ir_version=9), path)
    return path


def result_of(model: Path, plan: Plan, **changes: Any) -> TuneResult:
    """A session's answer, as far as a bundle reads it."""
    figures = Figures(
        latency_ns=1e6,
        latency_low_ns=9e5,
        latency_high_ns=2e6,
        load_ns=1e6,
        first_run_ns=1e6,
        cpu_per_run_ns=1e6,
    )
    runtime = Runtime(python=sys.executable, ort_version=ort.__version__)
    return TuneResult(
        side=Side(label=model.name, model=open_model(model).info, plan=Plan(), runtime=runtime),
        objective="latency",
        statistic="p50 latency (of each process)",
        worth_ratio=0.01,
        winner=plan,
        default_figures=figures,
        budget=BudgetReport(budget_s=1.0, trial_s=0.1, promise=""),
        **changes,
    )


@pytest.fixture
def make_bundle(tmp_path: Path) -> Bundle:
    """Makes a bundle from a model and feeds; the outputs are ONNX Runtime's own for those feeds."""

    def make(
        model: Path,
        feeds: Mapping[str, Any],
        settings: Mapping[str, Value] | None = None,
        *,
        providers: tuple[ProviderSpec, ...] = (),
        rewritten: Path | None = None,
        hardware_bound: bool = False,
        host: Host | None = None,
        workload: Workload | None = None,
        directory: Path | None = None,
        force: bool = False,
        with_outputs: bool = True,
        **changes: Any,
    ) -> Path:
        work = tmp_path / "work"
        shutil.rmtree(work, ignore_errors=True)
        write_feeds(work / "feeds", dict(feeds))
        if with_outputs:
            session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
            given = {
                n: v.astype(object) if getattr(v, "dtype", np.dtype("f")).kind == "U" else v
                for n, v in feeds.items()
            }
            found = session.run(None, given)
            outputs = session.get_outputs()
            write_outputs(str(work / "outputs"), [o.name for o in outputs], [o.type for o in outputs], found)
        plan = Plan(settings=dict(settings or {}), providers=providers)
        return write_bundle(
            delivery(result_of(model, plan, hardware_bound=hardware_bound, **changes)),
            workload or Workload(cases=(Case(name="only", inputs=()),)),
            host or platform.host(),
            model=model,
            rewritten=rewritten,
            feeds=work / "feeds",
            outputs=work / "outputs" if with_outputs else None,
            report_html="<!doctype html><title>report</title>",
            directory=directory or tmp_path / "made",
            force=force,
            model_settings=("graph_optimization_level",) if hardware_bound else (),
        )

    return make


def run_python(
    *arguments: str | Path, python: str = sys.executable, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs the test's interpreter, or another, with nothing of this process's preloads or thread counts."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LD_PRELOAD", "ORT_", "GLIBC_"))}
    command = [python, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, env={**kept, **variables}, timeout=60, check=False
    )


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """A real onnxruntime-node, installed once into the repository's cache."""
    return chromium.installed("onnxruntime-node", ONNXRUNTIME_NODE, f"node-{ONNXRUNTIME_NODE}")


@pytest.fixture(scope="session")
def web_modules() -> Path:
    """A real onnxruntime-web, likewise."""
    return chromium.installed("onnxruntime-web", chromium.ONNXRUNTIME_WEB, f"web-{chromium.ONNXRUNTIME_WEB}")
