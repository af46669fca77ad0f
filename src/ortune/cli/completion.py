"""Shell completion: the words that the scripts of ``--install-completion`` hand over, and the candidates they get.

typer writes the scripts and determines the option of a word.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence

from ortune.cli.output import write

VARIABLE = "_ORTUNE_COMPLETE"
"""Environment variable that a shell's completion script sets to request candidates."""
_BASH, _BASH_PLACE, _OTHERS = "COMP_WORDS", "COMP_CWORD", "_TYPER_COMPLETE_ARGS"
_INSTALLING = ("--install-completion", "--show-completion")
_NO_DETECTION = "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"
"""Environment variable that makes typer accept a shell name after the options in ``_INSTALLING``."""


def with_named_shell(arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments, split for typer if ``--install-completion`` or ``--show-completion`` names a shell."""
    option, _, name = (arguments[0] if arguments else "").partition("=")
    if option not in _INSTALLING:
        return arguments
    words = [option, *([name] if name else []), *arguments[1:]]
    if len(words) > 1 and not words[1].startswith("-"):
        os.environ[_NO_DETECTION] = "1"
    return words


def typed() -> list[str]:
    """Return the typed words after the program's name; the last word is the unfinished one, "" if not begun."""
    if _BASH in os.environ:
        words = _split(os.environ[_BASH])[: int(os.environ[_BASH_PLACE]) + 1]
        begun = len(words) > int(os.environ[_BASH_PLACE])
    else:
        words = _split(os.environ.get(_OTHERS, ""))
        begun = not os.environ.get(_OTHERS, "").endswith(" ")
    return words[1:] if begun else [*words[1:], ""]


def answer(words: Sequence[str], run: Callable[[], object]) -> None:
    """Print the completion candidates for the last word.

    Args:
        words: Words after the program's name as ortune reads them; the last one is unfinished.
        run: Runs typer, which prints its candidates to stdout.
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
    os.environ["COLUMNS"] = "1000"  # typer wraps a candidate's description at this width
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        run()
    lines = [line.removeprefix(kept) for line in said.getvalue().splitlines()]
    if _BASH not in os.environ:
        option, sign, _ = words[-1].partition("=")
        if sign and option.startswith("-"):  # these shells replace the whole word
            lines = [_whole(line, option) for line in lines]
        lines = [_with_quotes(line) for line in lines] if _is_zsh() else lines
    write(sys.stdout, "".join(f"{line}\n" for line in lines), safe=True)


def _is_zsh() -> bool:
    return os.environ.get(VARIABLE) == "complete_zsh"


def _whole(line: str, option: str) -> str:
    """Return a candidate line with "OPTION=" before its value, for shells that replace the whole word."""
    if not _is_zsh():
        return f"{option}={line}" if line else line
    # One candidate per line in quotes; the first follows the beginning of the command that zsh runs.
    return re.sub(r'^(_arguments \'\*: :\(\()?"', rf"\g<0>{option}=", line)


def _with_quotes(line: str) -> str:
    """Return a line for zsh with the quotes that typer doubles restored, because zsh would drop doubled quotes."""
    return line.replace("''", r"'\''").replace('""', r"\"")


def _split(text: str) -> list[str]:
    """Return the words of a command line whose last quote may be unclosed."""
    for end in ("", "'", '"'):
        with contextlib.suppress(ValueError):
            return shlex.split(text + end)
    return text.split()


def _joined(words: Sequence[str]) -> tuple[list[str], str]:
    """Rejoin the words that bash split at "=" and ":"; return them and the prefix of the last word that bash keeps."""
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
