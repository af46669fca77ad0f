"""The headroom that the search begins with: what the profiler cost is told from the plain latency."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_text import assemble, model_of, saved
from ortune.engines.profiling.headroom import short_profile
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.sides import SideText, resolve
from ortune.records import Plan
from ortune.show.headroom_words import sentence
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine


def product(path: Path, *, overridable: bool = False) -> Path:
    """One product of matrices, whose weight callers may override."""
    weight = ", float[64,64] w" if overridable else ""
    text = f"g (float[rows,64] x{weight}) => (float[rows,64] y) {{ [product] y = MatMul (x, w) }}"
    return saved(path, model_of(text, weights={"w": np.ones((64, 64), dtype=np.float32)}))


def chain(path: Path) -> Path:
    """Many nodes that do next to nothing."""
    names = ["x", *(f"v{i}" for i in range(199)), "y"]
    nodes = [
        helper.make_node("Neg" if i % 2 else "Abs", [a], [b], name=f"n{i}")
        for i, (a, b) in enumerate(itertools.pairwise(names))
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows"]) for name in "xy"]
    onnx.save(assemble(nodes, ends[:1], ends[1:], opset=13), path)
    return path


@pytest.mark.parametrize(
    ("make", "rows", "words"),
    [(chain, 8, "runs by a factor of"), (product, 8192, "is outside the kernels")],
    ids=["disturbed", "quiet"],
)
def test_what_the_profiler_cost_is_told(
    tmp_path: Path, make: Callable[[Path], Path], rows: int, words: str
) -> None:
    """Nodes of some tenths of a microsecond take longer with the profiler, one of a millisecond does not."""
    dims = {"rows": [(rows, 1.0)]}
    side = resolve(SideText(text=str(make(tmp_path / "m.onnx"))), common=Plan(), scratch=tmp_path)
    baseline = Measuring(
        side, InputOptions(dims=dims), tmp_path, SessionLog(None, ""), lambda _: None, Machine()
    )
    baseline.find_inputs(30.0)
    profiled = short_profile(baseline, 1e6, None, floors=False)
    assert profiled is not None
    found = profiled.headroom
    assert found is not None and words in sentence(found), found
    assert (found.settings_ratio is None) == words.startswith("runs by")


@pytest.mark.parametrize(
    ("overridable", "settings", "rewrites", "why"),
    [
        (False, (), (), ""),
        (False, ("level=disable",), (), "graph optimisation is off"),
        (True, (), (), "1 initializer is also a graph input"),
        (True, (), ("initializers-out-of-inputs",), ""),
    ],
)
def test_what_onnx_runtime_was_not_let_optimise_bounds_nothing(
    tmp_path: Path, overridable: bool, settings: tuple[str, ...], rewrites: tuple[str, ...], why: str
) -> None:
    model = product(tmp_path / "m.onnx", overridable=overridable)
    text = SideText(text=str(model), settings=settings, rewrites=rewrites)
    side = resolve(text, common=Plan(), scratch=tmp_path)
    dims = {"rows": [(8, 1.0)]}
    baseline = Measuring(
        side, InputOptions(dims=dims), tmp_path, SessionLog(None, ""), lambda _: None, Machine()
    )
    baseline.find_inputs(30.0)
    profiled = short_profile(baseline, 1e9, None, floors=False)
    assert profiled is not None
    found = profiled.headroom
    assert found is not None and found.unbounded.startswith(why) and bool(found.unbounded) == bool(why)
    assert sentence(found).startswith("the possible saving is unknown ") == bool(why)
    assert "at most" not in sentence(found)
