"""A command in a fix names the file that was checked, as a shell takes it."""

from __future__ import annotations

import shlex
from pathlib import Path

import onnx

from ortune import rules
from ortune.model.open import open_model


def test_a_command_in_a_fix_names_the_file_and_not_an_example(tmp_path: Path) -> None:
    rule = rules.all_rules()["GRA013"]
    assert rule.bad is not None
    path = tmp_path / "my model.onnx"
    onnx.save(rule.bad(), path)
    facts = rules.Facts(model=open_model(path), target=rule.target)
    assert next(f.fix for f in rule.findings(facts)).count(" model.onnx ") == 1, "as the rule writes it"
    (finding,) = rules.found_by([rule], facts)
    words = shlex.split(finding.fix)
    assert words[words.index("--input") + 1] == str(path)
    assert words[words.index("--output") + 1] == "fused.onnx"
