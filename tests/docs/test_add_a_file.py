"""The whole files that the pages on adding one show: they are what they say, by the checks of real ones."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from ortune import rules
from ortune.catalogue import files
from ortune.graph.model.open import open_model
from ortune.rules import Facts

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def shown(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ModuleType]:
    """The first file of a page, as a module of the package that it is for."""
    page, name = request.param
    text = re.search(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert text is not None
    file = tmp_path / f"{name.rpartition('.')[2]}.py"
    file.write_text(text[1], encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


@pytest.mark.parametrize("shown", [("add-a-rule.md", "ortune.rules.graph.example")], indirect=True)
def test_the_rule_finds_what_it_marks(shown: ModuleType, tmp_path: Path) -> None:
    rule = rules.rule_of(shown)
    assert rule.bad is not None and rule.good is not None
    onnx.save(rule.bad(), tmp_path / "bad.onnx")
    onnx.save(rule.good(), tmp_path / "good.onnx")
    (finding,) = rule.findings(Facts(model=open_model(tmp_path / "bad.onnx")))
    assert finding.where == ("bad_softmax",)
    assert rule.findings(Facts(model=open_model(tmp_path / "good.onnx"))) == []


def toml_of(page: str) -> dict[str, Any]:
    """The first TOML of a page."""
    text = re.search(r"```toml\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert text is not None
    return tomllib.loads(text[1])


def test_the_setting_is_a_row_of_the_catalogue() -> None:
    ((name, row),) = toml_of("add-a-knob.md")["general"].items()
    assert files.setting_tables()["cpu"]["general"][name] == row


def test_the_provider_is_one_of_the_catalogue() -> None:
    assert toml_of("add-a-target.md") == files.provider_tables()["xnnpack"]


@pytest.mark.parametrize("shown", [("add-a-rewrite.md", "ortune.rewrites.example")], indirect=True)
def test_the_rewrite_changes_one_model_and_not_the_other(shown: ModuleType) -> None:
    bad, good = (ir.from_proto(onnx.parser.parse_model(text)) for text in (shown.BAD, shown.GOOD))
    assert shown.REWRITE.apply(bad, {}).modified
    (where,) = bad.graph
    assert where.op_type == "Where"
    assert [value and value.name for value in where.inputs] == ["mask", "z", "x"]
    assert not shown.REWRITE.apply(good, {}).modified
