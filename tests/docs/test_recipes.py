"""Every recipe does what it says: its files are written, its commands run and its programs start."""

from __future__ import annotations

import itertools
import re
import shlex
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import typer
import typer.main

from ortune.api import verbs
from ortune.cli.verbs import command
from ortune.verbs.compare import words as compare_words
from within import place, program

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import golden  # noqa: E402
import make_recipes  # noqa: E402

PAGES = make_recipes.pages()
PAGE = """\
```python title="hello.py"
print("took", 12.5, "ms")
```

<!-- recipe: holds: took 3 ms -->
```console
$ python hello.py
$ python hello.py; exit 2
```
"""


SHARED = ("compare", "tune", "report")
"""The first steps compare and tune too; what is stored is told again in tests/verbs/report."""


def started(words: list[str], folder: Path, environment: dict[str, str]) -> CompletedProcess[str]:
    """A command of ortune alone runs within this process, which saves its start; all else in one of its own."""
    shell, _, text = words
    if shell != "bash" or not text.startswith("ortune ") or set(text) & set("|&;<>*$#"):
        return make_recipes.started(words, folder, environment)
    with place(folder, environment):
        code, out, err = program(shlex.split(text)[1:])
    return CompletedProcess(words, code, out, err)


@pytest.mark.parametrize(
    "page",
    # A recipe measures what its page is about; what they share with each other is in the pages of the verbs.
    [
        pytest.param(p, marks=[pytest.mark.long] if p.parent.name == "recipes" or p.stem in SHARED else [])
        for p in PAGES
    ],
    ids=lambda p: p.stem,
)
def test_a_recipe_runs(page: Path, tmp_path: Path) -> None:
    for step in make_recipes.steps(page.read_text(encoding="utf-8")):
        found = make_recipes.run(step, tmp_path, quick=True, start=started)
        assert make_recipes.trouble(step, found, quick=True) == []


def command_lines(page: Path) -> list[list[str]]:
    """The words of every command of ortune on a page."""
    found = []
    for step in make_recipes.steps(page.read_text(encoding="utf-8")):
        reader = shlex.shlex(step.text if step.kind == "command" else "", posix=True, punctuation_chars=True)
        reader.whitespace_split = True
        for piped, words in itertools.groupby(reader, lambda word: set(word) <= set("|&;")):
            word, *rest = words
            if not piped and word == "ortune":
                found.append(rest)
    return found


@pytest.mark.parametrize("page", [p for p in PAGES if command_lines(p)], ids=lambda p: p.stem)
def test_a_page_asks_only_for_what_there_is(page: Path) -> None:
    for arguments in command_lines(page):
        verb, *rest = arguments if arguments[0] in verbs() else ["look", *arguments]
        app = typer.Typer()
        app.command(name=verb)(command(verb))
        typer.main.get_command(app).make_context(verb, rest)


def test_an_option_that_is_gone_is_found() -> None:
    app = typer.Typer()
    app.command(name="compare")(command("compare"))
    with pytest.raises(Exception, match="--b-sets"):
        typer.main.get_command(app).make_context("compare", ["m.onnx", "--b-sets", "intra=1"])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_what_a_recipe_promises_is_in_its_pasted_output(page: Path) -> None:
    steps = make_recipes.steps(page.read_text(encoding="utf-8"))
    assert steps or page.name == "index.md"
    for step in steps:
        if step.kind == "command":
            assert make_recipes.trouble(step, step) == []
        if step.text.startswith("ortune") and "--output" not in step.text:
            assert step.shown, f"{step.text}: run tools/make_recipes.py"


def test_no_path_of_the_machine_that_ran_them_is_in_the_recipes() -> None:
    for page in PAGES:
        assert not re.search(r"/(tmp|home|root|work|Users)/", page.read_text(encoding="utf-8")), page.name


def test_outputs_are_pasted_with_their_exit_codes(tmp_path: Path) -> None:
    done = [make_recipes.run(step, tmp_path) for step in make_recipes.steps(PAGE)]
    page = make_recipes.written(PAGE, done)
    assert (
        "$ python hello.py\ntook 12.5 ms\n$ python hello.py; exit 2\ntook 12.5 ms\n(exit code 2)\n```" in page
    )
    assert make_recipes.written(page, done) == page
    assert [step.exit_code for step in make_recipes.steps(page) if step.kind == "command"] == [0, 2]


def test_a_newcomer_has_an_empty_home_and_the_environment_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", "/somewhere/else")
    monkeypatch.setenv("XDG_DATA_HOME", "/somewhere/else")
    code = "import os; print([os.environ.get(n) for n in ('HOME', 'VIRTUAL_ENV', 'XDG_DATA_HOME')])"
    found = make_recipes.run(make_recipes.Step(kind="python", text=code, block=0), tmp_path)
    assert found.shown == ("['home', '.venv', None]",)  # the folder's own path is left out of what is pasted


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_pasted_tables_look_as_they_are_printed_now(page: Path) -> None:
    text = golden.printed(compare_words.document(golden.compared()), 80, whole=True)
    printed = make_recipes.shapes(tuple(line.rstrip() for line in text.splitlines()))
    assert {"first run", "p90 / p10 in a process"} <= set(printed)
    for step in make_recipes.steps(page.read_text(encoding="utf-8")):
        if step.text.startswith("ortune compare"):
            pasted = make_recipes.shapes(step.shown)
            stale = {name for name in pasted if name in printed and pasted[name] != printed[name]}
            assert stale == set(), f"{step.text}: run tools/make_recipes.py"


def test_what_no_longer_holds_is_found(tmp_path: Path) -> None:
    done = [make_recipes.run(step, tmp_path) for step in make_recipes.steps(PAGE)]
    _, _, last = make_recipes.steps(make_recipes.written(PAGE, done))
    assert make_recipes.trouble(last, done[2]) == []
    assert make_recipes.trouble(last, done[1])  # another exit code
    silent = make_recipes.replace(done[2], shown=("(exit code 2)",))
    assert make_recipes.trouble(last, silent)  # the phrase is not said
    row = make_recipes.replace(last, shown=("latency  3 ms", *last.shown))
    assert make_recipes.trouble(row, done[2])  # a row went away
    assert make_recipes.trouble(done[2], row)  # one is new
    inner = make_recipes.replace(last, shown=("  headroom  at most 3 %", *last.shown))
    assert make_recipes.trouble(inner, done[2])  # indented rows count
    ranked = make_recipes.replace(last, shown=("  Conv  3 ms  12 %", *last.shown))
    assert make_recipes.trouble(ranked, done[2]) == []  # what is dearest is another each time
    moment = make_recipes.replace(last, shown=("meanwhile  busy machine", *last.shown))
    assert make_recipes.trouble(moment, done[2]) == []  # not all rows are there each time
    was, now = (
        make_recipes.replace(last, shown=(f"spread  {value}", *last.shown))
        for value in ("1.07", "1.07 (1.05-1.09)")
    )
    assert make_recipes.trouble(was, now) == [
        f"{last.text}: row 'spread' looks different: ('# (##)',), not ('#',)"
    ]


def test_what_is_left_out_stays_as_it_is(tmp_path: Path) -> None:
    page = "<!-- recipe: {} -->\n```console\n$ echo new\nold\n```\n"
    slow, needing = make_recipes.steps(page.format("slow") + page.format("needs nothing-that-there-is"))
    assert make_recipes.run(slow, tmp_path, quick=True).shown == ("old",)
    assert make_recipes.run(slow, tmp_path).shown == ("new",)
    assert make_recipes.run(needing, tmp_path).shown == ("old",)
    assert make_recipes.trouble(needing, needing) == []


def test_quick_options_are_for_the_quick_check_alone(tmp_path: Path) -> None:
    (step,) = make_recipes.steps("<!-- recipe: quick: --less -->\n```console\n$ echo took\n```\n")
    assert make_recipes.run(step, tmp_path, quick=True).shown == ("took --less",)
    assert make_recipes.run(step, tmp_path).shown == ("took",)


TOO_SHORT = "ortune: 1 s is too short to confirm even one change"


UNPROVEN = "inconclusive: 1 block cannot confirm a change in p50 (6 needed)"


@pytest.mark.parametrize(
    ("marks", "said", "code", "lost"),
    [
        ("long; holds: a=1 accepted | faster", f"{UNPROVEN}\na=1 accepted", 0, []),
        ("long; holds: a=1 accepted | faster", f"{UNPROVEN}\nb=1 accepted", 0, ["a=1 accepted"]),
        (
            "long; holds: outputs identical",
            f"{UNPROVEN}; outputs equal within 1e-3",
            0,
            ["outputs identical"],
        ),
        ("long; holds: a=1 accepted", f"{UNPROVEN}\na=2 accepted", 0, ["a=1 accepted"]),
        ("long", "faster, 9 blocks", 0, ["cannot confirm"]),
        ("long", TOO_SHORT, 2, []),
        ("long", "ortune: no setting is called 'blok'", 2, ["is too short to confirm even one change"]),
        ("after long; holds: CPUs busy", "2 CPUs busy", 0, []),
        ("after long; holds: CPUs busy", "nothing", 0, ["CPUs busy"]),
    ],
)
def test_what_the_quick_check_demands_of_a_long_measurement(
    tmp_path: Path, marks: str, said: str, code: int, lost: list[str]
) -> None:
    """Exit code 2 is also that of a mistake."""
    (tmp_path / "said").write_text(said)
    command = f"cat said >&{'2' if code else '1'}; exit {code};:"
    (step,) = make_recipes.steps(f"<!-- recipe: {marks} -->\n```console\n$ {command}\n```\n")
    found = make_recipes.run(step, tmp_path, quick=True)
    told = make_recipes.trouble(step, found, quick=True)
    assert [re.findall(r"'([^']*)' is not said", sentence)[0] for sentence in told] == lost


def test_what_tells_of_a_comparison_is_no_mistake(tmp_path: Path) -> None:
    (step,) = make_recipes.steps("<!-- recipe: after long -->\n```console\n$ exit 2;:\n```\n")
    found = make_recipes.run(step, tmp_path, quick=True)
    assert "exit code 2, not 0" in make_recipes.trouble(step, found, quick=True)[0]


LONG = [
    pytest.param(step, id=f"{page.stem}-{step.block}")
    for page in PAGES
    for step in make_recipes.steps(page.read_text(encoding="utf-8"))
    if step.long and step.text.startswith("ortune compare") and "--output" not in step.text
]


def test_most_recipes_compare() -> None:
    assert len(LONG) >= 15


@pytest.mark.parametrize("step", LONG)
def test_the_quick_check_of_a_long_comparison_can_fail(step: make_recipes.Step) -> None:
    assert step.shown
    found = make_recipes.first_run(step)
    assert found
    # One setting of B at least, beside what both sides share.
    assert len(found) >= step.text.count("--b-set ")


def test_a_setting_that_the_page_shows_must_arrive_in_the_quick_check() -> None:
    page = "<!-- recipe: long; holds: outputs identical -->\n```console\n$ ortune compare m\nsettings  a=1\n"
    (step,) = make_recipes.steps(f"{page}          verified; b=2 not verified\n```\n")
    assert make_recipes.first_run(step) == ["a=1 verified", "b=2 not verified", "outputs identical"]
