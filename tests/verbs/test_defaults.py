"""A project's file of defaults: what it can set, what it cannot, and where that is named."""

from __future__ import annotations

import html
import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from onnx_text import model_of, saved
from ortune.api import verbs
from ortune.errors import UsageError
from ortune.verbs._shared.defaults import OF_COMMANDS, OF_MODELS, PATHS, defaults
from ortune.verbs._shared.spelling import Option, option_fields
from within import program

NEVER = {
    # Programs, libraries, interpreters, code.
    "runtime", "a_runtime", "b_runtime", "custom_ops", "source_python", "trust_source", "browser", "ort_web",
    "framework", "exporter",
    # Places to write, and what is written.
    "output", "report", "page", "keep", "export", "issue", "store", "save_workload", "force", "in_place", "fix",
    "unsafe_fixes", "bundle",
    # What is asked on a command line alone: which sides there are, what else is read or served.
    "set", "rewrite", "plan", "current", "workload", "resume", "allow", "map", "against", "a_set", "b_set", "a_rewrite",
    "b_rewrite", "a_target", "b_target", "a_ort_web", "b_ort_web", "address", "port", "cert", "key", "serve",
    "open_within", "network", "headful", "watch", "last", "brief", "load", "search", "check", "strict", "diff",
    "dry_run", "no_config", "measure", "inject_wait", "no_wait", "no_why", "no_peak", "quick", "matrix", "needed",
    "opset", "to", "runs_on", "style", "level", "tune", "verify", "aware", "dynamic", "release", "shared_arena",
    "shared_pool", "budget_each", "each", "host", "a_host", "b_host", "on", "hosts", "price",
    # Of a recording: what is installed into an environment, and what a recording holds.
    "install", "uninstall", "duration", "anonymous", "with_inputs",
    # Of a soak: what is done with its sessions.
    "recreate",
    # Of an application: its command, its bundle, and where its models are.
    "app", "b_with", "app_metric", "models",
}  # fmt: skip
SIDES = tuple("cdefgh")
GRAPH = "g (float[N] x) => (float[N] y) { y = Relu (x) }"


def options_of(verb: str) -> Any:
    return importlib.import_module(f"ortune.verbs.{verb}.options").Options


def added(
    folder: Path, text: str, verb: str = "tune", typed: tuple[str, ...] = (), **given: Any
) -> dict[str, Any]:
    (folder / "ortune.toml").write_text(text)
    return dict(defaults(verb, options_of(verb), typed, given, folder).values)


def test_every_option_may_be_set_by_a_file_or_never() -> None:
    names = {f.name for v in verbs() for f in option_fields(options_of(v)) if isinstance(f.spelling, Option)}
    of_sides = {name for name in names if name.partition("_")[0] in SIDES}
    assert names - of_sides == OF_COMMANDS | NEVER and not OF_COMMANDS & NEVER
    assert PATHS < OF_MODELS < OF_COMMANDS


@pytest.mark.parametrize(
    "option", sorted({"runtime", "store", "output", "allow", "custom-ops", "set", "report", "plan"})
)
def test_what_names_a_program_or_a_place_is_refused(option: str, tmp_path: Path) -> None:
    for table in ("tune", 'models."m.onnx"'):
        with pytest.raises(UsageError, match=rf"cannot set {option}"):
            added(tmp_path, f'[{table}]\n{option} = "x"\n')


def test_the_command_line_comes_first_then_the_model_then_the_command(tmp_path: Path) -> None:
    text = """
        [tune]
        budget = "5m"
        objective = "p95"
        tolerance = "1e-3"
        [models."m.onnx"]
        budget = 90
        dim = { batch = 1, seq = [16, 128] }
        [models."other.onnx"]
        budget = "1s"
    """
    model = str(tmp_path / "m.onnx")
    of_both = {"budget": "90", "objective": "p95", "tolerance": "1e-3", "dim": ["batch=1", "seq=16,128"]}
    assert added(tmp_path, text, model=model) == of_both
    assert added(tmp_path, text, model=f"{model}@main") == of_both
    assert added(tmp_path, text, typed=("budget", "dim"), model=model) == {
        "objective": "p95",
        "tolerance": "1e-3",
    }
    assert added(tmp_path, text, model=str(tmp_path / "third.onnx"))["budget"] == "5m"
    # A table of a model serves all commands: partition has no budget.
    assert added(tmp_path, text, "partition", model=model) == {"dim": ["batch=1", "seq=16,128"]}


def test_the_nearest_file_is_read(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.ortune.tune]\nbudget = "5m"\n')
    (inner / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    assert dict(defaults("tune", options_of("tune"), (), {}, inner).values) == {"budget": "5m"}
    assert added(inner, "[tune]\nseed = 3\n") == {"seed": 3}


def test_paths_stay_in_the_folder_of_the_file(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    outside.mkdir()
    (project / "data").mkdir(parents=True)
    (project / "link").symlink_to(outside)
    assert added(project, '[tune]\ndata = "data"\n') == {"data": str(project / "data")}
    for place in ("../outside", str(outside), "link", "data/../../outside"):
        with pytest.raises(UsageError, match="outside the folder"):
            added(project, f'[tune]\ndata = "{place}"\n')


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('metric = "mine:accuracy"', "cannot name a function"),
        ("budget = [1]", "not understood"),
        ("budget = 2020-01-01", "not understood"),
        ("dim = [[[1]]]", "not understood"),
        ("bugdet = 3", "cannot set bugdet"),
    ],
)
def test_what_is_not_understood_is_named_with_its_file(line: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=told) as error:
        added(tmp_path, f"[tune]\n{line}\n")
    assert error.value.where.endswith("ortune.toml")


@pytest.mark.parametrize(
    ("text", "told"),
    [("[tunes]\nbudget = '5m'", "tunes.*did you mean .tune."), ("budget = '5m'", "budget is in no table")],
)
def test_a_table_that_no_command_reads_is_named(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        added(tmp_path, text)
    assert re.search(told, f"{caught.value.what} {caught.value.do}") and "ortune.toml" in caught.value.where


def test_what_is_no_table_is_named(tmp_path: Path) -> None:
    for text in ("tune = 3\n", "models = 3\n", '[models]\n"m.onnx" = 3\n'):
        with pytest.raises(UsageError, match="is not a table"):
            added(tmp_path, text)


def test_what_a_file_set_is_in_the_first_lines_and_in_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = saved(tmp_path / "m.onnx", model_of(GRAPH))
    monkeypatch.chdir(tmp_path)
    Path("ortune.toml").write_text(f'[models."{model.name}"]\ndim = {{ N = 3 }}\n')
    code, out, _ = program(["partition", str(model)])
    assert code == 0 and f"set by {tmp_path / 'ortune.toml'}: --dim N=3" in out.replace("\n", " ")
    code, out, _ = program(["partition", str(model), "--format", "html"])
    text = html.unescape(re.sub(r"<[^>]*>", "", out))
    assert code == 0 and f"set by {tmp_path / 'ortune.toml'}: --dim N=3" in text
    code, out, _ = program(["partition", str(model), "--json"])
    assert json.loads(out)["configured"] == {"file": str(tmp_path / "ortune.toml"), "options": ["--dim N=3"]}
    code, out, _ = program(["partition", str(model), "--json", "--no-config"])
    assert code == 0 and not json.loads(out).get("configured")


def test_an_error_about_what_a_file_set_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = saved(tmp_path / "m.onnx", model_of(GRAPH))
    monkeypatch.chdir(tmp_path)
    Path("ortune.toml").write_text("[partition]\ndim = { other = 3 }\n")
    code, _, said = program(["partition", str(model)])
    assert code == 2 and "--dim other" in said
    assert str(tmp_path / "ortune.toml") in said.replace("\n", "") and "--no-config" in said
    document = json.loads(program(["partition", str(model), "--json"])[1])
    assert document["status"] == "error" and document["configured"]["options"] == ["--dim other=3"]
    assert "ortune.toml" not in program(["partition", str(model), "--dim", "other=3"])[2]


def test_a_table_of_a_model_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = saved(tmp_path / "m.onnx", model_of(GRAPH))
    monkeypatch.chdir(tmp_path)
    Path("ortune.toml").write_text('[models."m.onnx"]\ndim = {N = 3}\n[models."n.onnx"]\ndim = {N = 3}\n')
    said = program(["partition", str(model)])[2].replace("\n", " ")
    assert 'n.onnx"] matches no file' in said and 'm.onnx"] matches' not in said
    assert "matches no file" not in program(["partition", str(model), "--no-config"])[2]


def test_a_check_ignores_the_file_where_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = saved(tmp_path / "m.onnx", model_of(GRAPH, opset=9))
    monkeypatch.chdir(tmp_path)
    Path("ortune.toml").write_text('[check]\nignore = ["GRA004"]\n')
    assert "GRA004" not in program(["check", str(model)])[1]
    assert "GRA004" in program(["check", str(model), "--no-config"])[1]


@pytest.mark.parametrize("value", ["5", '"six"', "6.5", "true"])
def test_a_value_keeps_the_bounds_of_its_option(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ortune.toml").write_text(f"[compare]\nmax-blocks = {value}\n")
    code, out, said = program(["compare", "a.onnx", "b.onnx"])
    assert (code, out) == (2, "")
    assert "--max-blocks" in said and "ortune.toml" in said
