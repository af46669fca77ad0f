"""How far the options of a command go before its first trial.

python tools/walk_options.py [VERB ...]    prints a line for each verb, and the files that receive the options

The command runs on the simulated machine of the tests. A file receives the options when they are an argument of one of
its functions, or an attribute of one. A climb is the return of such a function to another file; each function counts
once for each file that calls it. Properties and methods of the options themselves are not counted. The floors are the
files between the command line and the trial, and the files entered are all that ran any function until then.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import ortune  # noqa: E402
from simulated_machine import Faults, Killed, Lab, measuring_on, net  # noqa: E402
from within import program  # noqa: E402

PACKAGE = Path(ortune.__file__).parent
VERBS: dict[str, tuple[str, ...]] = {
    "compare": ("compare", "net.onnx", "--b-set", "opt=basic"),
    "tune": ("tune", "net.onnx", "--no-bundle"),
}


@dataclass
class Walk:
    """What was seen on the way to the first trial.

    Attributes:
        files: The files that received the options, in order.
        climbs: Functions that returned to another file, each with that file.
        floors: Files on the call stack of the first trial, from the command line down.
        entered: All files that ran a function before the first trial.
    """

    files: list[str] = field(default_factory=list)
    climbs: set[tuple[str, str]] = field(default_factory=set)
    floors: list[str] = field(default_factory=list)
    entered: set[str] = field(default_factory=set)

    @property
    def rooms(self) -> list[str]:
        """The folders of the files that received the options."""
        return list(dict.fromkeys(str(Path(file).parent) for file in self.files))

    def __str__(self) -> str:
        return (
            f"{len(self.files)} files in {len(self.rooms)} folders receive the options, {len(self.climbs)} climbs; "
            f"{len(self.floors)} floors, {len(self.entered)} files entered"
        )


def walk(verb: str) -> Walk:
    """Run a verb until its first trial, and return where its options went."""
    found, inside = Walk(), []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(str(PACKAGE)) or code.co_name.startswith("<"):
            return
        file = str(Path(code.co_filename).relative_to(PACKAGE))
        found.entered.add(file)
        if event == "call" and _receives_options(frame, verb):
            inside.append(frame)
            if file not in found.files:
                found.files.append(file)
        elif event == "return" and inside and inside[-1] is frame:
            inside.pop()
            caller = frame.f_back
            if caller is not None and caller.f_code.co_filename != code.co_filename:
                found.climbs.add((f"{file}:{code.co_name}", caller.f_code.co_filename))

    found.floors = _until_first_trial(VERBS[verb], watch)
    return found


def _receives_options(frame: FrameType, verb: str) -> bool:
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = [frame.f_locals.get(name) for name in names]
    if given and names[0] == "self" and _is_options(given[0], verb):
        return False
    return any(
        _is_options(value, verb)
        for each in given
        for value in (each, *getattr(each, "__dict__", {}).values())
    )


def _is_options(value: object, verb: str) -> bool:
    return type(value).__module__ == f"ortune.verbs.{verb}.options"


def _until_first_trial(words: tuple[str, ...], watch: Callable[[FrameType, str, Any], None]) -> list[str]:
    lab = Lab(1)
    lab.faults = Faults(killed_at=0)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), measuring_on(lab):
        net(Path(folder))
        sys.setprofile(watch)
        try:
            program([*words, "--budget", "25s", "--store", f"{folder}/store"])
        except Killed as killed:
            files = (Path(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(killed.__traceback__))
            return list(
                dict.fromkeys(str(file.relative_to(PACKAGE)) for file in files if PACKAGE in file.parents)
            )
        finally:
            sys.setprofile(None)
    raise AssertionError(f"no trial ran: {' '.join(words)}")


def main() -> None:
    """Print the walk of each verb."""
    for verb in sys.argv[1:] or VERBS:
        found = walk(verb)
        print(f"{verb}: {found}")
        print(*(f"  {file}" for file in found.files), sep="\n")


if __name__ == "__main__":
    main()
