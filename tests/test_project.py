"""The project as a whole: start-up, version, docstrings, sizes of files, generated pages, links."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import onnx
import pytest
import typer

import ortune
from onnx_text import model_of
from ortune.api import verbs
from ortune.cli.main import app, register
from ortune.errors import UsageError

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src" / "ortune").rglob("*.py"))
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
HEAVY = {"google", "jinja2", "msgspec", "numpy", "onnx", "onnx_ir", "onnxruntime", "psutil", "sympy"}
LIGHT = {
    "__main__",
    "api",
    "cli",
    "errors",
    "files",
    "durations",
    "monotonic",
    "objectives",
    "printable",
    "catalogue",
    "show",
    "verbs",
}  # what of ortune help may import

sys.path.insert(0, str(ROOT / "tools"))

import make_docs  # noqa: E402
import make_glossary  # noqa: E402
import make_stub  # noqa: E402


def run(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    return done.stdout


WORDS = [["--help"], ["--version"], *([verb, "--help"] for verb in verbs())]
STARTED = """
import contextlib, io, json, os, sys
import typer.rich_utils
from ortune.cli.main import main
# Each goes on in a process of its own, which has imported what all are printed with and nothing of other verbs.
for words in json.loads(sys.argv[1]):
    if not os.fork():
        sys.argv = ["ortune", *words]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            main()
        print(json.dumps([words, list(sys.modules)]), flush=True)
        os._exit(0)
    os.wait()
"""


def test_help_imports_nothing_heavy() -> None:
    told = [json.loads(line) for line in run("-c", STARTED, json.dumps(WORDS)).splitlines()]
    assert [words for words, _ in told] == WORDS
    for words, modules in told:
        loaded = [name.split(".") for name in modules]
        assert {name[0] for name in loaded} & HEAVY == set(), words
        assert {name[1] for name in loaded if name[0] == "ortune" and len(name) > 1} <= LIGHT, words
        own = [name for name in loaded if name == ["ortune", "verbs", *words[:1], "run"]]
        assert own == [], words


OF_A_CHECK = {
    "measuring": {"clock", "document", "input_options", "scratch", "watcher"},
    "targets": {"machine", "target"},
}
"""What a check takes of the rooms that measure: words, names and the machine."""
MEASURING = {
    "bundle",
    "runtimes",
    "search",
    "stats",
    "store",
    "worker",
}
CHECKED = """
import json, sys
from ortune.cli.main import main
try:
    main()
except SystemExit:
    print(json.dumps(list(sys.modules)))
"""


def test_a_check_imports_nothing_that_measures(tmp_path: Path) -> None:
    model = model_of("clean (float[2,8] x) => (float[2,8] y) { y = Relu (x) }")
    onnx.save(model, tmp_path / "clean.onnx")
    *_, listed = run("-c", CHECKED, "check", str(tmp_path / "clean.onnx")).splitlines()
    loaded = [name.split(".") for name in json.loads(listed)]
    assert "rules" in {name[1] for name in loaded if name[0] == "ortune" and len(name) > 1}
    assert {name[0] for name in loaded} & {"http", "jinja2", "onnxruntime", "scipy", "ssl"} == set()
    rooms: dict[str, set[str]] = {}
    for name in loaded:
        if name[0] == "ortune" and len(name) > 2:
            rooms.setdefault(name[1], set()).add(name[2])
    assert MEASURING & rooms.keys() == set()
    assert {room: rooms[room] for room in OF_A_CHECK if rooms[room] - OF_A_CHECK[room]} == {}


def test_type_checkers_are_told_of_the_functions_as_they_are() -> None:
    assert make_stub.STUB.read_text(encoding="utf-8") == make_stub.stub(), "run: python tools/make_stub.py"


def test_a_function_takes_what_its_verb_can_be_asked() -> None:
    taken = inspect.signature(ortune.compare).parameters
    assert list(taken)[:2] == ["a", "b"]
    assert taken["b_set"].kind is inspect.Parameter.KEYWORD_ONLY
    with pytest.raises(UsageError, match="pass a model"):
        ortune.compare(b_set=["intra=1"])
    with pytest.raises(TypeError, match="has no argument 'intra'"):
        ortune.compare("m.onnx", intra=1)
    with pytest.raises(UsageError, match="is not a duration"):
        ortune.compare("m.onnx", budget="soon")


def test_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert ortune.__version__ == project["version"]
    assert run("-m", "ortune", "--version").strip() == f"ortune {ortune.__version__}"
    assert f"## {ortune.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_what_a_release_needs_is_there_and_says_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"Documentation", "Source", "Changelog", "Issues"} <= set(project["urls"])
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {project['version']}\n" in citation and f"license: {project['license']}\n" in citation
    assert project["urls"]["Source"] in citation
    minors = [c.rpartition(".")[2] for c in project["classifiers"] if re.search(r"Python :: 3\.\d+$", c)]
    assert minors and f">=3.{minors[0]}" == project["requires-python"]
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert "python tools/make_dist.py" in workflow and "id-token: write" in workflow
    assert "docs/security.md" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_wheel_works_in_clean_environments() -> None:
    assert "both ways to install the wheel work" in run(str(ROOT / "tools" / "make_dist.py"))


def test_every_file_has_a_docstring() -> None:
    texts = {str(path.relative_to(ROOT / "src")): path.read_text(encoding="utf-8") for path in SOURCES}
    assert [name for name, text in texts.items() if not ast.get_docstring(ast.parse(text))] == []


def test_no_test_module_imports_another() -> None:
    """What two of them need is in a module of its own."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    importing = re.compile(r"^(?:from|import) (?:\w+\.)*test_\w+", flags=re.MULTILINE)
    found = {
        str(file.relative_to(ROOT)): names
        for file in files
        # A program that a test starts may import the test's own module.
        if (names := [n for n in importing.findall(file.read_text(encoding="utf-8")) if file.stem not in n])
    }
    assert found == {}


@pytest.mark.xdist_group("measuring")
def test_what_measures_runs_on_one_worker(request: pytest.FixtureRequest) -> None:
    """A pytest that is too new for xdist's groups loses them without a word: two measurements ran at once."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("the tests run on one worker anyway")
    assert request.node.nodeid.endswith("@measuring")


def test_typed_marker_is_shipped() -> None:
    assert (ROOT / "src" / "ortune" / "py.typed").is_file()


@pytest.mark.parametrize("name", make_docs.PAGES)
def test_the_page_is_as_generated(name: str) -> None:
    written = (make_docs.DOCS / name).read_text(encoding="utf-8")
    assert written == make_docs.PAGES[name](), "run: python tools/make_docs.py"


def test_the_glossary_is_as_generated_and_its_names_exist() -> None:
    assert make_glossary.PAGE.read_text(encoding="utf-8") == make_glossary.page(), "run: make docs"
    terms = [term for group in make_glossary.GROUPS.values() for term in group]
    assert len({term.word for term in terms}) == len(terms)
    for term in terms:
        make_glossary.resolved(term.name)
    with pytest.raises(AttributeError):
        make_glossary.resolved("records:Picture")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [t for t in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in t]
    for target in targets:
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), target
        if anchor and found.suffix == ".md":
            heads = re.findall(r"^#+ (.+)$", found.read_text(encoding="utf-8"), flags=re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
            assert anchor in slugs, target


def test_every_page_is_reached_from_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        linked = page.name == "index.md" or f"({page.name})" in index
        assert linked, f"docs/index.md: add a row for {page.name}"


@pytest.mark.parametrize("verb", verbs())
def test_every_option_is_documented(verb: str) -> None:
    register(verb)
    path = ROOT / "docs" / f"{verb}.md"
    assert path.is_file(), f"write docs/{verb}.md"
    page = path.read_text(encoding="utf-8")
    for parameter in typer.main.get_command(app).commands[verb].params:  # type: ignore[attr-defined]
        if getattr(parameter, "hidden", False):  # likewise of a further side
            continue
        for name in [o for o in parameter.opts if o.startswith("--")][:1]:  # then older spellings
            assert f"`{name}" in page, f"docs/{verb}.md: add {name} to the table of options"
