"""The program ends once its answer is written: nothing is taken apart that the system gives back anyway."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys
from ortune.cli.main import main

class Held:
    def __del__(self):
        print("taken apart", file=sys.__stdout__, flush=True)

held = Held()
main()
"""


@pytest.mark.parametrize(
    ("words", "code"), [(["--version"], 0), (["explain", "GRA001"], 0), (["explain", "no-rule"], 2)]
)
def test_it_ends_with_its_answer_and_its_code(words: list[str], code: int) -> None:
    done = subprocess.run([sys.executable, "-c", CODE, *words], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert done.stdout if code == 0 else done.stderr
    assert "taken apart" not in done.stdout


def test_an_error_of_whoever_called_it_is_theirs() -> None:
    caller = "try:\n    main()\nexcept SystemExit:\n    raise ValueError('mine') from None\n"
    done = subprocess.run(
        [sys.executable, "-c", CODE.replace("main()\n", caller), "--version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
