"""A plan that crashes ONNX Runtime, hangs, eats memory or gives wrong outputs: in the report, and the rest goes on.

The faults are real. A library that passes for an allocator is preloaded by the plans that ask for it, and takes
the place of a function of the C library that ONNX Runtime's Tan calls.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import onnx
import pytest
from box import Box
from onnx import TensorProto, helper

# Two measurements at once are each other's noise: those that wait for a verdict run one after another.
pytestmark = pytest.mark.xdist_group("measuring")

FAULTS = {
    "crash": "abort(); return x;",
    "hang": "for (;;) pause();",
    "memory": "for (;;) memset(malloc(1 << 24), 1, 1 << 24);",
    "wrong": "return 2 * x;",
}


def broken_library(path: Path, fault: str) -> None:
    """A shared library whose tanf does what it should not."""
    code = f"#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\nfloat tanf(float x) {{ {FAULTS[fault]} }}\n"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-fno-builtin", "-w", "-x", "c", "-", "-o", str(path)],
        input=code, text=True, check=True,
    )  # fmt: skip


def tan_model(path: Path) -> None:
    nodes = [helper.make_node("Tan", ["x"], ["t"]), helper.make_node("Softmax", ["t"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 64]) for name in "xy"]
    graph = helper.make_graph(nodes, "tan", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def tuned(box: Box, budget: str, faults: dict[str, str], *words: str) -> tuple[dict[str, Any], str]:
    """The result of a tuning with such libraries about, and its report as text."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    libraries = box.folder / "lib"
    libraries.mkdir()
    for allocator, fault in faults.items():
        stem = {"tcmalloc": "libtcmalloc_minimal"}.get(allocator, f"lib{allocator}")
        broken_library(libraries / f"{stem}.so.2", fault)
    tan_model(box.folder / "tan.onnx")
    done = box.run(
        "tune", "tan.onnx", "--json", "--budget", budget, *words, env={"LD_LIBRARY_PATH": str(libraries)}
    )
    assert done.code == 0, done.err
    result = done.document["result"]
    return result, (Path(box.folder / result["bundle"]) / "report.html").read_text()


def fates(result: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Fate and reason of the plans that change the allocator alone, by allocator."""
    return {
        c["plan"]["settings"]["allocator"]: (c["fate"], c["why"])
        for c in result["candidates"]
        if set(c["plan"]["settings"]) == {"allocator"}
    }


def test_plans_that_crash_hang_and_lie(box: Box) -> None:
    result, page = tuned(box, "110s", {"mimalloc": "crash", "jemalloc": "hang", "tcmalloc": "wrong"})
    found = fates(result)
    assert found["mimalloc"][0] == "failed", found
    assert "SIGABRT" in found["mimalloc"][1]
    assert found["jemalloc"][0] == "failed"
    assert "timeout" in found["jemalloc"][1]
    assert found["tcmalloc"][0] == "wrong-output"
    assert "allocator" not in result["winner"]["settings"]
    others = [c for c in result["candidates"] if "allocator" not in c["plan"]["settings"] and c["n_blocks"]]
    assert len(others) >= 3
    for text in ("SIGABRT", "timeout", "wrong output"):
        assert text in page


def test_a_plan_that_eats_memory(box: Box) -> None:
    result, page = tuned(box, "60s", {"mimalloc": "memory"}, "--memory", "700m")
    fate, why = fates(result)["mimalloc"]
    assert fate == "failed"
    assert "out-of-memory" in why
    assert "out-of-memory" in page
