"""A command in a fix names the file that was checked, and what it is fed, as a shell takes it."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
import typer
from rule_examples import EXAMPLES
from rule_facts import plain

from ortune import rules
from ortune.cli import main
from ortune.graph.model.open import open_model
from ortune.inputs.written_sizes import parse_dim, parse_shape
from ortune.measuring.input_options import InputOptions
from ortune.rules import Facts, Rule

FED = ("--dim", "my rows=4,8", "--shape", "image:1x3x8x8")


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


def on_bad_example(rule: Rule, folder: Path) -> Facts:
    """What a rule fires on, with a model in any case."""
    if rule.bad is None:
        facts = EXAMPLES[rule.code].bad(folder)
        return facts if facts.model is not None else replace(facts, model=plain(folder).model)
    onnx.save(rule.bad(), folder / "bad.onnx")
    return Facts(model=open_model(folder / "bad.onnx"), target=rule.target)


@pytest.mark.parametrize("rule", rules.all_rules().values(), ids=lambda rule: rule.code)
def test_a_command_in_a_fix_feeds_the_model_as_it_was_fed_here(rule: Rule, tmp_path: Path) -> None:
    facts = replace(on_bad_example(rule, tmp_path), fed=FED)
    assert facts.model is not None
    path = str(facts.model.facts.path)
    commands = [
        shlex.split(text)
        for finding in rules.found_by([rule], facts)
        for text in re.findall(r"ortune [a-z]+ [^;]+", finding.fix)
        if path in text
    ]
    for _, verb, *words in commands:
        place = words.index(path)
        assert tuple(words[place + 1 : place + 1 + len(FED)]) == FED
        main.register(verb, "check")
        assert typer.main.get_command(main.app).commands[verb].make_context(verb, words)  # type: ignore[attr-defined]
    if rule.code == "LAY007":
        assert commands


@pytest.mark.parametrize(
    "words",
    [
        ("--dim", "n=4"),
        ("--dim", "my seq=16,128", "--dim", "b=1"),
        ("--dim", "seq=16:0.75,128:0.25"),
        ("--shape", "x:1x3x8x8", "--dim", "n=2"),
        ("--inputs", "my inputs.npz"),
        ("--custom-ops", "/lib/a.so"),
        (),
    ],
)
def test_what_was_said_of_inputs_is_said_again_in_the_same_words(words: tuple[str, ...]) -> None:
    pairs = list(zip(words[::2], words[1::2], strict=True))
    given = InputOptions(
        shapes=dict(parse_shape(text) for option, text in pairs if option == "--shape"),
        dims=dict(parse_dim(text) for option, text in pairs if option == "--dim"),
        inputs=next((Path(text) for option, text in pairs if option == "--inputs"), None),
        custom_ops=[text for option, text in pairs if option == "--custom-ops"],
    )
    assert given.words == words
