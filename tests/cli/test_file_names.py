"""Names of files that look like options stay names: on the command line, in a hook, and in commands to paste."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import onnx.parser
import pytest

import ortune
from git_repository import commit, git
from ortune.cli import main
from ortune.show import terminal
from ortune.verbs._shared import spelling
from ortune.verbs.check.words import document
from ortune.verbs.look import options as look

ROOT = Path(__file__).resolve().parents[2]
MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
m (float[1,4] x) => (float[1,4] y) { y = Sin (x) }
"""
OLD = """
<ir_version: 4, opset_import: ["" : 17]>
m (float[1] x, float[1] w) => (float[1] y) <float[1] w = {2}> { y = Add (x, w) }
"""
NAMES = (
    "--report=model.onnx",
    "--report=models/model.onnx",
    "--output=model.onnx",
    "-omodel.onnx",
    "--in-place.onnx",
    "--report=model.onnx\n",
)
"""Names that git keeps, and that are options where nothing says that they are names."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save("model.onnx")
    save("models/model.onnx")
    return tmp_path


def save(name: str, text: str = MODEL) -> bytes:
    path = Path.cwd() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return path.read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_no_option(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = save(name)
    assert main._run(["check", "--fail-on", "never", "--fix", name, "model.onnx"]) == 0
    assert capsys.readouterr().out.startswith("No findings in 2 models")
    assert {path.read_bytes() for path in folder.rglob("*") if path.is_file()} == {before}
    # Before the verb is known, too.
    assert main._run([name, "--release=1"]) == 2
    out, said = capsys.readouterr()
    assert out == "" and "unknown option --release" in said


def test_what_follows_two_dashes_is_no_option(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("--help", "--json", "--resume"):
        save(name)
    assert main._run(["check", "--", "--help", "--json", "--resume"]) == 0
    assert capsys.readouterr().out.startswith("No findings in 3 models")


def test_an_option_is_one_where_no_file_has_its_name(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save("old.onnx", OLD)
    assert main._run(["check", "old.onnx", "--fix", "--output=mended.onnx"]) == 0
    assert Path("mended.onnx").is_file()


def test_commands_to_paste_have_no_name_that_is_an_option(folder: Path) -> None:
    save("--in-place.onnx", OLD)
    again = spelling.words(look.Options(model="--in-place.onnx", dim=["n=2"]))
    assert again[0] == "./--in-place.onnx"
    answer = ortune.check("--in-place.onnx", fix=True)
    (line,) = (text for text in terminal.plain(document(answer)).splitlines() if "ortune compare" in text)
    words = shlex.split(line.partition(": ")[2])
    assert words == ["ortune", "compare", "./--in-place.onnx", "./--in-place.fixed.onnx"]


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with our hook, whose package is what is installed here: nothing is fetched or built."""
    folder = tmp_path_factory.mktemp("hooks")
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", folder)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    places = {str(Path(ortune.__file__).parents[1]), sysconfig.get_path("purelib")}
    (folder / "backend.py").write_text(f"""
import zipfile
def build_wheel(folder, *ignored):
    name, about = "ortune-0-py3-none-any.whl", "ortune-0.dist-info/"
    with zipfile.ZipFile(folder + "/" + name, "w") as wheel:
        wheel.writestr("ortune.pth", {chr(10).join(sorted(places))!r})
        wheel.writestr(about + "METADATA", "Metadata-Version: 2.1\\nName: ortune\\nVersion: 0\\n")
        wheel.writestr(about + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(about + "entry_points.txt", "[console_scripts]\\nortune = ortune.cli.main:main\\n")
        wheel.writestr(about + "RECORD", "")
    return name
""")
    git(folder, "init", "-q", "-b", "main")
    commit(folder)
    return folder


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_hook_of_pre_commit_takes_no_file_for_an_option(hooks: Path, folder: Path) -> None:
    before = [save(name) for name in NAMES]
    save("old.onnx", OLD)
    git(folder, "init", "-q", "-b", "main")
    (folder / ".pre-commit-config.yaml").write_text(
        f"repos:\n  - repo: {hooks}\n    rev: {git(hooks, 'rev-parse', 'HEAD')}\n"
        "    hooks: [{id: ortune-check, args: [--fail-on, note, --select, GRA002], verbose: true}]\n"
    )
    git(folder, "add", "-A")
    done = subprocess.run(
        [sys.executable, "-m", "pre_commit", "run", "--all-files", "--color", "never"],
        env={
            **os.environ,
            "PRE_COMMIT_HOME": str(hooks / "home"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "PIP_NO_INDEX": "1",
            "VIRTUALENV_NO_PERIODIC_UPDATE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert [(folder / name).read_bytes() for name in NAMES] == before
    assert "exit code: 1" in done.stdout, done.stdout + done.stderr  # what args asks for
    batches = re.findall(r"in (\d+) models?", done.stdout)
    assert "GRA002" in done.stdout and sum(map(int, batches)) == len(NAMES) + 3
    found = {path.name for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts}
    assert found == {Path(name).name for name in NAMES} | {
        "model.onnx",
        "old.onnx",
        ".pre-commit-config.yaml",
    }
