"""The functions of ``import ortune`` as ``help()`` and editors show them, and their errors, which name arguments."""

from __future__ import annotations

import ast
import inspect
import pydoc
from pathlib import Path

import pytest

import ortune
from ortune import functions
from ortune.api import function, verbs
from ortune.cli.verbs import options_of
from ortune.errors import UsageError
from ortune.functions import as_arguments, flags, options_by_section
from ortune.verbs._shared.spelling import option_fields


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_help_has_a_short_signature_and_every_option_with_its_kind(verb: str) -> None:
    page = pydoc.plain(pydoc.render_doc(function(verb)))
    assert "**options" in page.splitlines()[2] and len(page.splitlines()[2]) < 120
    for heading, lines in options_by_section(options_of(verb).Options).items():
        assert f"{heading}:" in page
        for name, kind, help_ in lines:
            assert f"{name} ({kind}): " in page and help_.endswith(".")
    assert max(map(len, page.splitlines())) <= 130


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_the_example_is_a_call_that_the_function_takes(verb: str) -> None:
    code = ast.parse(options_of(verb).EXAMPLE, mode="eval").body
    call = next(node for node in ast.walk(code) if isinstance(node, ast.Call) and _is(node.func, verb))
    words = [ast.literal_eval(word) for word in call.args]
    named = {keyword.arg or "": ast.literal_eval(keyword.value) for keyword in call.keywords}
    inspect.signature(function(verb)).bind(*words, **named)


def _is(node: ast.expr, verb: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == verb and isinstance(node.value, ast.Name)


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_every_option_is_a_parameter(verb: str) -> None:
    parameters = inspect.signature(function(verb)).parameters
    assert {field.name for field in option_fields(options_of(verb).Options)} <= parameters.keys()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--budget", "budget"),
        ("pass --inputs or --shape NAME:1x3x320x320", "pass inputs or shape='NAME:1x3x320x320'"),
        ("--inputs decides the shapes", "inputs decides the shapes"),
        ("for example --budget 40s, or more", "for example budget='40s', or more"),
        ("add --serve, or --no-wait", "add serve=True, or no_wait=True"),
        ("run ortune tune m.onnx --budget 40s", "run ortune tune m.onnx --budget 40s"),
        ("pip install --user x", "pip install --user x"),
        ("--tolerance 'metric>=99%'", "tolerance='metric>=99%'"),
    ],
)
def test_options_in_a_text_become_arguments_but_in_commands(text: str, said: str) -> None:
    assert as_arguments(text, flags(options_of("compare").Options)) == said


def test_an_error_names_arguments(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        ortune.bench(tmp_path / "m.onnx", shape={"x": "1x2"}, workload=tmp_path / "w.json")
    error = refused.value
    assert error.where == "workload" and not any("--" in text for text in (error.what, error.do))


def test_a_folder_alone_names_the_form_for_all_models_in_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        ortune.bench(tmp_path)
    assert f"ortune.bench([{str(tmp_path)!r}])" in refused.value.do


@pytest.mark.parametrize(
    ("verb", "values", "argument"),
    [
        ("bench", {"model": 3}, "model"),
        ("bench", {"model": "m.onnx", "inputs": {"x": 1}}, "inputs"),
        ("bench", {"model": "m.onnx", "set": 3.5j}, "set"),
        ("bench", {"model": ["m.onnx"], "seed": "one"}, "seed"),
        ("tune", {"model": "m.onnx", "budget": ["3s"]}, "budget"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_argument(
    verb: str, values: dict[str, object], argument: str
) -> None:
    with pytest.raises(UsageError) as refused:
        getattr(ortune, verb)(**values)
    assert refused.value.where == argument and "accepted: " in refused.value.do


def test_a_list_of_targets_is_taken() -> None:
    (field,) = (field for field in option_fields(options_of("tune").Options) if field.name == "targets")
    assert functions.value_of(field, ["cpu", "openvino"]) == "cpu,openvino"


def test_a_type_checker_knows_what_several_models_return() -> None:
    stub = ast.parse(Path(ortune.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    returned: dict[str, list[str]] = {}
    for form in stub.body:
        if isinstance(form, ast.FunctionDef):
            returned.setdefault(form.name, []).append(ast.unparse(form.returns or form))
    assert returned["bench"] == ["Answer[BenchResult]", "Answer[ManyResult]"]
    assert returned["compare"] == ["Answer[CompareResult]", "Answer[ManyResult]"]
    assert returned["doctor"] == ["Answer[DoctorResult]"]
