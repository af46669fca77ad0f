"""What a tuning hands over to the bundle."""

from __future__ import annotations

import html
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import parser

import golden
import golden_tune
from ortune import rewrites
from ortune.engines.racing import pasted
from ortune.inputs.feed_files import write_feeds
from ortune.records import Case, Plan, RewriteSpec, Runtime, Value, Workload
from ortune.verbs._shared.bundling import _model_settings, with_bundle

RUNTIME = Runtime(python=sys.executable, ort_version=ort.__version__)
OPTIMIZED = RewriteSpec(name="ort-optimized-model")
PLAIN = RewriteSpec(name="initializers-out-of-inputs")


@pytest.mark.parametrize(
    ("specs", "settings", "names"),
    [
        ((OPTIMIZED,), {"graph_optimization_level": "disable"}, ("graph_optimization_level",)),
        ((OPTIMIZED, PLAIN), {"graph_optimization_level": "disable"}, ("graph_optimization_level",)),
        # The user's own choice, and a model that runs everywhere.
        ((OPTIMIZED,), {"graph_optimization_level": "basic"}, ()),
        ((PLAIN,), {"graph_optimization_level": "disable"}, ()),
        ((), {"intra_op_num_threads": 1}, ()),
    ],
)
def test_settings_that_a_bound_rewrite_brought(
    specs: tuple[RewriteSpec, ...], settings: dict[str, Value], names: tuple[str, ...]
) -> None:
    plan = Plan(rewrites=specs, settings={"allow_spinning": False, **settings})
    assert _model_settings(plan) == names


def test_what_a_rewrite_brings_is_found_in_its_own_plan() -> None:
    plan = Plan(rewrites=(OPTIMIZED,), settings=rewrites.settings_for([OPTIMIZED]))
    assert set(_model_settings(plan)) == set(plan.settings) != set()


def relu(path: Path, output: str) -> Path:
    """A model that its output tells from another."""
    path.parent.mkdir(exist_ok=True)
    text = f'<ir_version: 8, opset_import: ["": 17]> small (float[4] x) => (float[4] {output}) {{ {output} = Relu(x) }}'
    onnx.save(parser.parse_model(text), path)
    return path


def baseline(model: Path, runtime: Runtime = RUNTIME) -> Any:
    """What is known of a model and its machine before it is tuned."""
    return SimpleNamespace(
        host=golden.HOST,
        work=Workload(cases=(Case(name="only", inputs=()),)),
        refs=[SimpleNamespace(path=model.parent / "feeds")],
        machine=SimpleNamespace(allocators={}),
        side=SimpleNamespace(
            model=SimpleNamespace(path=model), runtime=runtime, runtime_of=lambda plan: runtime
        ),
    )


def delivered(folder: Path, winner: Plan, rewritten: Path | None) -> Any:
    """The result of such a tuning."""
    return document(folder, winner, rewritten).result


def document(folder: Path, winner: Plan, rewritten: Path | None) -> Any:
    """The answer of a tuning whose winner runs that file, with its bundle in the current folder."""
    write_feeds(folder / "feeds", {"x": np.ones(4, np.float32)})
    base = baseline(relu(folder / "small.onnx", "old"))
    run = SimpleNamespace(
        baseline=base,
        side=base.side,
        models=SimpleNamespace(made=lambda plan: rewritten if plan.rewrites else None),
        reference_outputs=lambda: None,
    )
    code = pasted.loading_lines(base, winner, rewritten)
    envelope = golden_tune.tuned(winner=winner, code=code)
    return with_bundle(run, envelope, envelope.result, Path(), force=False, again=[])  # type: ignore[arg-type]


def test_a_disk_that_is_full_when_the_page_gets_its_lines_leaves_the_bundle_whole(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = relu(tmp_path / "rewritten" / "small.onnx", "new")
    monkeypatch.chdir(tmp_path)
    delivered(tmp_path, Plan(rewrites=(PLAIN,)), made)
    block = os.statvfs(small_disk).f_frsize
    sizes = [path.stat().st_size for path in Path("small.ortune").rglob("*") if path.is_file()]
    needed = sum(-(-size // block) * block for size in sizes)
    monkeypatch.chdir(small_disk)
    Path("ballast").write_bytes(bytes((1 << 20) - needed - block))
    done = document(tmp_path, Plan(rewrites=(PLAIN,)), made)
    assert done.status == "error" and done.error is not None
    assert "No space left" in done.error.what and done.error.where == "small.ortune/report.html"
    page = Path(done.result.report).read_text()
    assert page.rstrip().endswith("</html>")  # as it was written first
    assert not [path for path in Path("small.ortune").iterdir() if path.suffix == ".part"]
    assert str(Path("small.ortune") / "small.onnx") in done.result.code


@pytest.mark.parametrize("suffix", [".onnx", ".ort"])
def test_the_lines_to_paste_load_the_rewritten_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.chdir(tmp_path)
    made = relu(tmp_path / "rewritten" / "small.onnx", "new")
    if suffix == ".ort":
        options = ort.SessionOptions()
        options.optimized_model_filepath = str(made.with_suffix(suffix))
        options.add_session_config_entry("session.save_model_format", "ORT")
        ort.InferenceSession(made, options)
    result = delivered(tmp_path, Plan(rewrites=(PLAIN,)), made.with_suffix(suffix))
    space: dict[str, Any] = {}
    exec(result.code, space)
    assert [value.name for value in space["session"].get_outputs()] == ["new"]
    page = html.unescape(Path(result.report).read_text())
    assert str(Path("small.ortune") / f"small{suffix}") in page and "small-rewritten" not in page


def test_a_rewrite_that_changed_nothing_leaves_the_lines_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    usual = delivered(tmp_path, Plan(), None).code
    assert "InferenceSession('small.onnx'" in usual
    assert delivered(tmp_path, Plan(rewrites=(PLAIN,)), tmp_path / "small.onnx").code == usual


def test_without_a_bundle_the_lines_do_not_load_the_model_of_before(tmp_path: Path) -> None:
    made = tmp_path / "rewritten" / "small.onnx"
    lines = pasted.loading_lines(baseline(tmp_path / "small.onnx"), Plan(rewrites=(PLAIN,)), made)
    assert "# the rewritten model (initializers-out-of-inputs)" in lines
    assert "InferenceSession('small-rewritten.onnx'" in lines
