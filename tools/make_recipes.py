"""Run the commands of the first steps, the verbs' pages and the recipes, and paste what they really print.

A page is Markdown that a person writes. What is run in it, in order, in one empty folder a page:

- a ``python`` block with a title is written to the file of that name; one without a title is run;
- in a ``console`` block each line that begins with ``$`` is a command, and what follows is its output: stdout, and
  stderr too where the exit code is not 0, with the exit code as a last line;
- nothing else: a ``sh`` block is for what cannot be run in an empty folder.

A comment above a console block, ``<!-- recipe: long; holds: one | two -->``, is about its last command. It says what is
checked besides the exit code and the names of rows: phrases that the output must hold (figures in them stand for any
figure). ``long`` keeps its measurement out of the quick check, which gives it one second: the model is made, fed and
run, the settings reach it, and then the budget is too small, which is exit code 2. ``compare`` ends with figures then,
and claims nothing: how each setting was read back and whether the outputs are equal is known all the same. What the
page shows of settings, and phrases about either, must be said there too. ``after long`` is a command that tells of such
a comparison: in the quick check its rows may be others. Options after ``quick:`` are added
in the quick check, and all else still holds. ``slow`` is left out of it, and ``needs NAME`` wherever that allocator is
not installed: the command stays as it is.

    python tools/make_recipes.py            runs every page and writes the outputs into it
    python tools/make_recipes.py --check    runs every page and writes nothing; 1 where something no longer holds
    python tools/make_recipes.py PAGE --only WORD    what is Python's, and the commands that have the word
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ortune.platform.preload import allocator_library

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
VERBS = ("bench", "compare", "doctor", "lock", "look", "profile", "report", "tune")
BLOCK = re.compile(
    r"(?:^<!-- recipe: (?P<marks>[^\n]*?) -->\n)?"
    r"^```(?P<kind>console|python)(?P<info>[^\n]*)\n(?P<body>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
TITLE = re.compile(r'title="([^"]+)"')
EXIT = re.compile(r"\(exit code (\d+)\)")
FIGURE = re.compile(r"[-+]?\d+(\.\d+)?(e-?\d+)?")
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")
UNIT = re.compile(r"\b(?:[num]?s|bytes|[KMG]iB|runs/s)(?!\w)|%")
OF_THE_MOMENT = frozenset(
    {
        "busy", "failed", "finding", "meanwhile", "note", "outside the run", "p10", "p25", "p95", "p99", "p99.9",
        "profiling", "unexplained", "waiting for other threads", "why",
    }
)  # fmt: skip
"""Rows of what happened just then; high percentiles are told where there were requests enough, of the parts of a run
those that took time, of the statistics the one that was steadiest in calibration, and a cause where a difference is."""
TOO_SHORT, SAID_TOO_SHORT = 2, "is too short to confirm even one change"
"""The exit code where the budget holds no measurement, and what is said then."""
SAID_UNPROVEN = "cannot confirm"
SAID_UNTRIED = "nothing tested"
ARRIVED = re.compile(r"\S+=\S+ (?:verified|accepted|not verified)")
"""How a comparison tells that a setting of B reached ONNX Runtime."""
FIRST_RUN = re.compile(r"verified|accepted|outputs (identical|equal|alike|differ)|accepts it")
"""What a phrase is about that is known before anything is timed."""
UNQUIET = 3  # the exit code where the machine was too unquiet for any verdict
TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something to do, and what the page says comes of it.

    Attributes:
        kind: ``command``, ``file`` (``text`` goes into ``name``) or ``python``.
        shown: The output as the page has it.
        exit_code: As the page states it.
        holds: Phrases that must be in the output.
        long: Its measurement is left out of the quick check.
        after_long: It tells of such a measurement.
        quick: Further options in the quick check.
        needs: The allocator without which it cannot be run.
        slow: It is left out of the quick check.
        block: Which block of the page it stands in, from 0.
    """

    kind: str
    text: str
    block: int
    name: str = ""
    shown: tuple[str, ...] = ()
    exit_code: int = 0
    holds: tuple[str, ...] = ()
    long: bool = False
    after_long: bool = False
    quick: str = ""
    needs: str = ""
    slow: bool = False


def pages() -> list[Path]:
    """Every page that is run."""
    verbs = [DOCS / f"{verb}.md" for verb in VERBS]
    return [DOCS / "start.md", *verbs, *sorted((DOCS / "recipes").glob("*.md"))]


def steps(text: str) -> list[Step]:
    """What a page says to do, in its order."""
    return [step for n, match in enumerate(BLOCK.finditer(text)) for step in _steps_of(n, match)]


def _steps_of(number: int, match: re.Match[str]) -> Iterator[Step]:
    title = TITLE.search(match["info"])
    if match["kind"] == "python":
        kind = "file" if title else "python"
        yield Step(kind=kind, text=match["body"], block=number, name=title[1] if title else "")
        return
    marks = dict([*m.strip().split(":", 1), ""][:2] for m in (match["marks"] or "").split(";"))
    holds = tuple(filter(None, (phrase.strip() for phrase in marks.get("holds", "").split("|"))))
    commands = re.split(r"^\$ ", match["body"], flags=re.MULTILINE)[1:]
    for n, part in enumerate(commands):
        command, *shown = part.rstrip("\n").split("\n")
        last = n == len(commands) - 1
        stated = EXIT.fullmatch(shown[-1]) if shown else None
        yield Step(
            kind="command",
            text=command,
            block=number,
            shown=tuple(shown),
            exit_code=int(stated[1]) if stated else 0,
            holds=holds if last else (),
            long="long" in marks and last,
            after_long="after long" in marks and last,
            quick=marks.get("quick", "").strip() if last else "",
            needs=next((m.split()[1] for m in marks if m.startswith("needs ")), "") if last else "",
            slow="slow" in marks and last,
        )


Start = Callable[[list[str], Path, dict[str, str]], subprocess.CompletedProcess[str]]
"""Runs words in a folder, with an environment."""


def started(words: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A process of its own."""
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def run(step: Step, folder: Path, *, quick: bool = False, start: Start = started) -> Step:
    """Does a step and returns it with what came of it.

    Args:
        step: What to do.
        folder: The folder of the page.
        quick: Give the measurement of a long step one second only.
        start: How its command is run.
    """
    if step.kind == "file":
        (folder / step.name).write_text(step.text, encoding="utf-8")
        return step
    if _left_out(step, quick=quick):
        return step
    # In a second, a fast machine sees some configurations of a tuning.
    budget = "0.3s" if "ortune tune" in step.text else "1s"
    options = f"--budget {budget}" if step.long else step.quick
    text = f"{step.text} {options}".rstrip() if quick else step.text
    words = [sys.executable, "-c", text] if step.kind == "python" else ["bash", "-c", text]
    for _ in range(TRIES):
        done = start(words, folder, _environment(folder))
        if done.returncode != UNQUIET or step.exit_code == UNQUIET:
            break
    lines = [line.rstrip() for line in done.stdout.replace(f"{folder}/", "").splitlines()]
    if done.returncode:
        said = done.stderr.replace(f"{folder}/", "").splitlines()
        lines += [*(line.rstrip() for line in said), f"(exit code {done.returncode})"]
    while lines and not lines[-1]:
        lines.pop()
    return replace(step, shown=tuple(lines), exit_code=done.returncode)


def _left_out(step: Step, *, quick: bool) -> bool:
    return (quick and step.slow) or (bool(step.needs) and allocator_library(step.needs) is None)


def _environment(folder: Path) -> dict[str, str]:
    """A newcomer's: the environment ``.venv`` of the folder is active, an empty home, no colours."""
    own, home = folder / ".venv", folder / "home"
    if not own.exists():
        own.symlink_to(sys.prefix)
    home.mkdir(exist_ok=True)
    kept = {n: v for n, v in os.environ.items() if not n.startswith("XDG_")}
    path = f"{own / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {
        **kept,
        "VIRTUAL_ENV": str(own),
        "PATH": path,
        "HOME": str(home),
        "NO_COLOR": "1",
        "COLUMNS": "80",
    }


def trouble(stated: Step, found: Step, *, quick: bool = False) -> list[str]:
    """What of a page no longer holds: one sentence each.

    Args:
        stated: The step as the page has it.
        found: The same step as it came out.
        quick: Whether long steps had one second only.
    """
    if stated.kind == "file" or _left_out(stated, quick=quick):
        return []
    said = "\n".join(found.shown)
    nothing = quick and (stated.long or stated.after_long)
    expected = {*([TOO_SHORT] if stated.long else []), 0} if nothing else {stated.exit_code}
    if found.exit_code not in expected:
        return [f"{stated.text}: exit code {found.exit_code}, not {min(expected)}\n{said}"]
    if nothing:
        unproven = SAID_UNTRIED if "ortune tune" in stated.text else SAID_UNPROVEN
        short = SAID_TOO_SHORT if found.exit_code == TOO_SHORT else unproven
        own = list(stated.holds) if stated.after_long else [short]
        own = [] if "--output" in stated.text else own
        # A setting's value is no figure that may be another.
        lost = [
            phrase
            for phrase in (*first_run(stated), *own)
            if not (phrase in " ".join(said.split()) if ARRIVED.fullmatch(phrase) else _holds(phrase, found))
        ]
        return [f"{stated.text}: {phrase!r} is not said\n{said}" for phrase in lost]
    was, now = shapes(stated.shown), shapes(found.shown)
    other = sorted(name for name in was if name in now and was[name] != now[name])
    gone = labels(stated.shown) - labels(found.shown) - OF_THE_MOMENT
    fresh = labels(found.shown) - labels(stated.shown) - OF_THE_MOMENT
    missing = [phrase for phrase in stated.holds if not _holds(phrase, found)]
    stale = [phrase for phrase in stated.holds if not _holds(phrase, stated)]
    if quick and any(line.startswith("skipped:") for line in found.shown):
        gone, missing = set(), []  # a busy machine left steps out, and the answer names them
    return [
        *(f"{stated.text}: no row {name!r} any more\n{said}" for name in sorted(gone)),
        *(f"{stated.text}: row {name!r} is new\n{said}" for name in sorted(fresh)),
        *(f"{stated.text}: row {name!r} looks different: {now[name]}, not {was[name]}" for name in other),
        *(f"{stated.text}: {phrase!r} is not said\n{said}" for phrase in missing),
        *(f"{stated.text}: {phrase!r} is not in the page" for phrase in stale),
    ]


def first_run(step: Step) -> list[str]:
    """What a long comparison says of B's first run, before its budget is looked at."""
    if not step.long:
        return []
    shown = ARRIVED.findall(" ".join(" ".join(step.shown).split()))
    return [*shown, *(phrase for phrase in step.holds if FIRST_RUN.search(phrase))]


def labels(lines: tuple[str, ...]) -> set[str]:
    """The names that rows begin with, indented or not: what is shown apart from the figures.

    A row with a share of its own stands in a ranking, whose rows are others each time. What a busy machine adds to a
    title is in parentheses.
    """
    rows = [
        re.split(" {2,}", re.sub(r" \((mean run, .*?|without interference)\)", "", line.strip()))
        for line in lines
    ]
    ranked = re.compile(r"(under )?\d+(\.\d+)? %")
    return {
        row[0]
        for row in rows
        if len(row) > 1 and re.match("[a-zA-Z]", row[0]) and not any(map(ranked.fullmatch, row))
    }


def shapes(lines: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """What the figures of a row look like, by its name: "1.07 (1.05-1.09)" is "# (##)", "3.70 ms" is "# u".

    Rows that hold any words are left out: those differ from run to run.
    """
    found = {}
    for line in lines:
        name, *cells = re.split(r" {2,}", line)
        masked = tuple(UNIT.sub("u", NUMBER.sub("#", cell)) for cell in cells)
        if re.match("[a-zA-Z]", name) and cells and all(re.fullmatch(r"[#u ()x/]+", cell) for cell in masked):
            found[name] = masked
    return found


def _holds(phrase: str, step: Step) -> bool:
    """Whether the output has the phrase, over line ends, whatever the figures."""
    return _masked(phrase) in _masked(" ".join(step.shown))


def _masked(text: str) -> str:
    return FIGURE.sub("#", " ".join(text.split()))


def written(text: str, done: list[Step]) -> str:
    """The page with the outputs of ``done`` in it."""
    number = -1

    def block(match: re.Match[str]) -> str:
        nonlocal number
        number += 1
        if match["kind"] != "console":
            return match[0]
        lines = [line for s in done if s.block == number for line in (f"$ {s.text}", *s.shown)]
        head = f"<!-- recipe: {match['marks']} -->\n" if match["marks"] else ""
        return f"{head}```console{match['info']}\n" + "\n".join(lines) + "\n```"

    return BLOCK.sub(block, text)


def main() -> int:
    """Runs every page, or those named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 on a difference")
    parser.add_argument("--quick", action="store_true", help="with --check: leave long measurements out")
    parser.add_argument("page", nargs="*", type=Path, help="default: every page")
    parser.add_argument(
        "--only", metavar="WORD", default="", help="run only the commands that have this word"
    )
    asked = parser.parse_args()
    if asked.check and asked.only:
        parser.error("--only is for writing")
    wrong = 0
    for page in asked.page or pages():
        print(page.name, flush=True)
        text = page.read_text(encoding="utf-8")
        quick = asked.check and asked.quick
        with tempfile.TemporaryDirectory() as folder:
            done = [
                run(step, Path(folder).resolve(), quick=quick)
                if step.kind == "file" or step.text.startswith("python ") or asked.only in step.text
                else step
                for step in steps(text)
            ]
        if not asked.check:
            # Read again: somebody may have written in it meanwhile, and only outputs are ours.
            page.write_text(written(page.read_text(encoding="utf-8"), done), encoding="utf-8")
            continue
        for stated, found in zip(steps(text), done, strict=True):
            for sentence in trouble(stated, found, quick=quick):
                wrong += 1
                print(sentence)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
