"""Is the answer at hand? Four jobs on real models, in a terminal of 100x40. Run by hand; about twenty minutes.

    python benchmarks/four_jobs.py [--budget 30] [job ...]

Of each job it says how long it took, in which line the answer stands (it must be one of the first 12), whether the
whole of it fits the terminal, and whether the first of the next commands works when it is pasted.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from terminals import read_all

COLUMNS, LINES, FIRST = 100, 40, 12
COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
COMMAND = re.compile(r"ortune( |$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What somebody wants to know.

    Attributes:
        verbs: Whose output tells it.
        answer: What the answer looks like, whatever it is.
        words: The command for one model of the zoo.
    """

    verbs: tuple[str, ...]
    answer: re.Pattern[str]
    words: Callable[[str], list[str]]


def _path(name: str) -> str:
    from zoo import model_path

    return str(model_path(name))


VERDICT = re.compile(
    r"(faster|slower|(less|more) (memory|CPU time)|equivalent \(within 1 %\)|inconclusive|nothing tested|"
    r"outputs differ|invalid): "
)
"""What every headline of a comparison begins with."""
JOBS = {
    "make it faster": Job(
        verbs=("tune",),
        answer=VERDICT,
        words=lambda name: ["tune", _path(name), "--no-bundle"],
    ),
    "which of these three files": Job(
        verbs=("compare",),
        answer=VERDICT,
        words=lambda name: ["compare", *_three(name)],
    ),
    "did my change make it slower": Job(
        verbs=("compare", "lock"),
        answer=re.compile(rf"{VERDICT.pattern}|unchanged|->|as locked"),
        words=lambda name: ["compare", _path(name), "--b-set", "level=basic"],
    ),
    "why is it slow": Job(
        verbs=("profile", "look"),
        answer=re.compile(r"a run(, profiled)? \(.*\d % |what stands out"),
        words=lambda name: ["profile", _path(name)],
    ),
}
MODELS = ("silero-vad", "ppocrv4-rec", "magika")


def _three(name: str) -> list[str]:
    """A model, the same under other names, and with its weights among the inputs, as old exporters wrote it."""
    from common import disguised_copy, weights_as_inputs

    model, here = Path(_path(name)), Path.cwd()
    return [str(model), str(disguised_copy(model, here)), str(weights_as_inputs(model, here))]


def answer_line(job: Job, text: str) -> int | None:
    """The line, from 1, by which the answer has been said; None where it never is."""
    lines = text.splitlines()
    for n in range(1, len(lines) + 1):
        if job.answer.search(" ".join(" ".join(lines[:n]).split())):
            return n
    return None


def commands(text: str) -> list[str]:
    """The next commands that a text names."""
    lines = text.splitlines()
    if "next:" not in lines:
        return []
    found = []
    for line in lines[lines.index("next:") + 1 :]:
        if not COMMAND.match(line):
            break
        found.append(line)
    return found


def at_a_terminal(words: list[str], environment: dict[str, str]) -> tuple[str, int]:
    """What a command prints at a terminal of that size, without its colours, and its exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    process = subprocess.Popen(words, stdout=theirs, stderr=subprocess.DEVNULL, env=environment)
    os.close(theirs)
    text = COLOUR.sub("", read_all(ours).decode(errors="replace")).replace("\r\n", "\n")
    return "\n".join(line.rstrip() for line in text.splitlines()), process.wait()


def shortened(command: str, budget: float) -> list[str]:
    """The command as it is pasted, but for its time."""
    words = shlex.split(command)
    if "--budget" in words:
        words[words.index("--budget") + 1] = f"{budget:g}s"
    elif words[1] in ("tune", "compare"):
        words += ["--budget", f"{budget:g}s"]
    return [sys.executable, "-m", "ortune", *words[1:]]


def main() -> int:
    """Does the jobs and prints a row each; 1 where one of them falls short."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budget", type=float, default=30, help="seconds for each measurement")
    parser.add_argument("job", nargs="*", choices=[*JOBS, []], help="default: all four")
    asked = parser.parse_args()
    short = 0
    with tempfile.TemporaryDirectory(prefix="ortune-jobs-") as folder:
        environment = {**os.environ, "XDG_DATA_HOME": folder}
        os.chdir(folder)
        print(
            "| job | model | seconds | answer in line | lines | next command |\n|---|---|---:|---:|---:|---|"
        )
        for title in asked.job or JOBS:
            for name in MODELS:
                words = ["ortune", *JOBS[title].words(name)]
                began = time.monotonic()
                text, code = at_a_terminal(shortened(shlex.join(words), asked.budget), environment)
                took, line, named = time.monotonic() - began, answer_line(JOBS[title], text), commands(text)
                works = "none"
                if named:
                    next_code = at_a_terminal(shortened(named[0], 10), environment)[1]
                    works = "works" if next_code in (0, 1) else f"exit code {next_code}: {named[0]}"
                good = code in (0, 1) and line is not None and line <= FIRST and works == "works"
                short += not good
                print(
                    f"| {title} | {name} | {took:.0f} | {line} | {len(text.splitlines())} | {works} |",
                    flush=True,
                )
    return min(short, 1)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    sys.exit(main())
