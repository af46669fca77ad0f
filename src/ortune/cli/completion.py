"""Shell completion: the words that the scripts of ``--install-completion`` hand over, and the candidates they get.

typer writes the scripts and finds the option that a word belongs to.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from collections.abc import Callable, Sequence

from ortune.cli.output import write

VARIABLE = "_ORTUNE_COMPLETE"
"""Set by the script of a shell that asks for candidates."""
_BASH, _BASH_PLACE, _OTHERS = "COMP_WORDS", "COMP_CWORD", "_TYPER_COMPLETE_ARGS"


def typed() -> list[str]:
    """Return the words after the program's name, the last of them unfinished."""
    if _BASH in os.environ:
        words = _split(os.environ[_BASH])[: int(os.environ[_BASH_PLACE]) + 1]
        begun = len(words) > int(os.environ[_BASH_PLACE])
    else:
        words = _split(os.environ.get(_OTHERS, ""))
        begun = not os.environ.get(_OTHERS, "").endswith(" ")
    return words[1:] if begun else [*words[1:], ""]


def answer(words: Sequence[str], run: Callable[[], object]) -> None:
    """Print the candidates.

    Args:
        words: What was typed after the program's name, the last word unfinished, as ortune reads it.
        run: Lets typer answer.
    """
    kept = ""
    if _BASH in os.environ:
        # bash cuts words at "=" and ":", and replaces the last part alone.
        words, kept = _joined(words)
        os.environ[_BASH] = shlex.join(["ortune", *words])
        os.environ[_BASH_PLACE] = str(len(words))
    else:
        finished, last = shlex.join(["ortune", *words[:-1]]), words[-1]
        os.environ[_OTHERS] = f"{finished} {shlex.quote(last) if last else ''}"
    os.environ["COLUMNS"] = "1000"  # typer folds what a candidate is at the width of a terminal
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        run()
    lines = said.getvalue().splitlines()
    write(sys.stdout, "".join(f"{line.removeprefix(kept)}\n" for line in lines), safe=True)


def _split(text: str) -> list[str]:
    """Return the words of a command line whose last quote may be open."""
    for end in ("", "'", '"'):
        with contextlib.suppress(ValueError):
            return shlex.split(text + end)
    return text.split()


def _joined(words: Sequence[str]) -> tuple[list[str], str]:
    """Return the words as they were typed, and what of the last one bash keeps."""
    joined: list[str] = []
    after_sign = False
    kept = ""
    for word in words:
        sign = word in ("=", ":") and bool(joined)
        if sign or after_sign:
            kept = joined[-1] + (word if sign else "")
            joined[-1] += word
        else:
            kept = ""
            joined.append(word)
        after_sign = sign
    return joined, kept
