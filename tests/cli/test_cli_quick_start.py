"""The program does not wait for libraries that it never uses, and they still work where they are used after all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from onnx_text import model_of, saved

CODE = """
import sys
from ortune.cli.main import main
try:
    main()
except SystemExit as done:
    assert not done.code
import onnx_ir
assert "onnx_ir._core" in sys.modules and "sympy.core" not in sys.modules
print((onnx_ir.SymbolicDim("n") + 1).value, "sympy.core" in sys.modules)
"""


@pytest.mark.parametrize("verb", ["check", "compare", "profile", "diagnose", "look", "bench", "bisect"])
def test_a_verb_imports_no_templates_and_nothing_of_a_watched_page_before_it_needs_them(verb: str) -> None:
    code = f"import sys, ortune.verbs.{verb}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"jinja2", "ortune.targets.browser.watch", "ortune.bundle.languages"} & {*done.stdout.split()}


def test_sympy_is_imported_where_a_dimension_is_computed_with_and_not_before(tmp_path: Path) -> None:
    saved(tmp_path / "m.onnx", model_of("relu (float[n,4] x) => (float[n,4] y) { y = Relu (x) }"))
    words = [sys.executable, "-c", CODE, "lock", "m.onnx"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "n + 1 True"
