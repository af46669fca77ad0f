"""A provider is named in the catalogue alone: other code asks for what is true of it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ortune.catalogue import files, providers
from ortune.catalogue.provider import Provider

PACKAGE = Path(providers.__file__).parents[1]
APART = ("targets", "worker")
"""What runs trials, and what is sent elsewhere as one file."""

CPU = providers.CPU.target
COMMON = {CPU, providers.NODE.target}
"""Targets whose names have other meanings too."""
NAMES = {name for p in providers.all_providers() for name in (p.name, p.target)} - {"", *COMMON}
WORDS = re.compile(rf"\w*{providers.SUFFIX}\b|(?<=target )(?:{'|'.join(NAMES | COMMON)})\b")

NAMED = {
    "runtimes/probe_script.py": {
        "CPUExecutionProvider",
        "ExecutionProvider",
    },  # it is sent to another interpreter
    "recorder/apply_hook.py": {
        "CPUExecutionProvider",
        "AzureExecutionProvider",
    },  # of another interpreter
    "catalogue/computed/web_build.py": {"wasm", "webgl"},  # builds of onnxruntime-web are called so too
    "rules/__init__.py": {"cuda"},  # and so is a family of rules
}
"""Where a name stands all the same."""


def named(tree: ast.Module) -> Iterator[str]:
    """The names of providers and targets in the literals of a file; common words count only where a target is meant."""
    documentation = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare | ast.AnnAssign | ast.keyword | ast.Assign):
            own = [part.value for part in ast.iter_child_nodes(node) if isinstance(part, ast.Constant)]
            if "target" in ast.unparse(node).lower():
                yield from COMMON.intersection(part for part in own if isinstance(part, str))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield from [node.value] if node.value in NAMES else WORDS.findall(node.value)


def test_names_stand_in_one_place() -> None:
    found: dict[str, set[str]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        place = file.relative_to(PACKAGE)
        if place.parts[0] in APART or place.parent.name == "catalogue":
            continue
        if names := {*named(ast.parse(file.read_text(encoding="utf-8")))}:
            found[place.as_posix()] = names
    assert found == NAMED


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ('"""Of tensorrt."""\nx = 1', set()),
        ("gpu = name in ('cuda', 'other')", {"cuda"}),
        ("short = name.removesuffix('ExecutionProvider')", {"ExecutionProvider"}),
        ("do = f'--target web-wasm, or {name}'", {"web-wasm"}),
        ("objective = 'cpu'", set()),
        ("if facts.target != 'cpu': pass", {"cpu"}),
        ("class Options:\n    target: str = 'cpu'", {"cpu"}),
    ],
)
def test_a_new_one_is_found(code: str, names: set[str]) -> None:
    assert {*named(ast.parse(code))} == names


def test_every_provider_has_one_file_and_one_name() -> None:
    every = providers.all_providers()
    targets = [p.target for p in every if p.target]
    for names in ([p.name for p in every], targets):
        twice = [name for name, n in Counter(names).items() if n > 1]
        assert twice == [], "remove one of the two; others.toml has providers without a target"
    tables = files.provider_tables()
    for target in targets:
        file = target.replace("-", "_")
        assert tables[file]["provider"]["target"] == target, (
            "the file of a provider is named after its target"
        )


@pytest.mark.parametrize("provider", providers.all_providers(), ids=lambda p: p.name)
def test_a_row_has_the_types_of_its_fields(provider: Provider) -> None:
    assert msgspec.convert(msgspec.to_builtins(provider), Provider) == provider


def test_a_file_begins_with_its_provider() -> None:
    for file, table in files.provider_tables().items():
        assert set(table) <= {"provider", "providers"}, file
    for file, table in files.setting_tables().items():
        assert set(table) <= {"settings", "general"}, file
        assert "settings" not in table or "provider" in files.provider_tables()[file], file


def test_of_a_name_that_is_nobodys_nothing_is_known() -> None:
    nobody = providers.find("NobodyExecutionProvider")
    assert nobody == providers.of_profile(nobody.name) == Provider(name="NobodyExecutionProvider")
    assert not providers.of_target("").name and not providers.of_target("nobody").in_page


def test_names_in_profiles_lead_to_the_target_that_ran() -> None:
    told = {
        "JsExecutionProvider": "web-webgpu",
        "WebGpuExecutionProvider": "webgpu",
        "CPUExecutionProvider": "cpu",
    }
    assert {name: providers.of_profile(name).target for name in told} == told
