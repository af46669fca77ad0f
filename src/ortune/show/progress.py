"""The progress of a command: one line with a bar, followed by the current ranking."""

from __future__ import annotations

from html import escape as in_html
from typing import TYPE_CHECKING

from ortune.durations import in_words
from ortune.show import escape

if TYPE_CHECKING:
    from ortune.step import Step

_BAR = 20
"""Width of the bar in characters."""
_ENDS = " ,;:"
"""Characters that end a word."""
_LEAST_WHAT = 24
"""Minimum number of characters for the step's description; a bar that would leave less is left out."""


def drawn(step: Step, elapsed_s: float, since_s: float, width: int, *, plain: bool = False) -> list[str]:
    """Return the progress line and the ranking's lines, each cut to the terminal's width.

    Args:
        step: The current step.
        elapsed_s: Seconds since the command began.
        since_s: Seconds since the step began, which are subtracted from the step's remaining time.
        width: Characters per line of the terminal.
        plain: Whether the terminal shows only ASCII characters.
    """
    head = _figures(step, elapsed_s, since_s)
    if step.done_ratio is not None and width >= _BAR + len(head) + _LEAST_WHAT:
        head = f"{_bar(_done(step, since_s), plain=plain)} {head}"
    lines = [f"{head}  {escape.shown(step.what)}", *(f"  {escape.shown(line)}" for line in step.ranking)]
    return [fitted(line, width) for line in lines]


def html(step: Step, elapsed_s: float) -> str:
    """Return the progress as HTML for a notebook."""
    bar = "" if step.done_ratio is None else f'<progress value="{step.done_ratio:.2f}"></progress> '
    lines = [f"{_figures(step, elapsed_s, 0.0)} {step.what}", *step.ranking]
    return bar + "<br>".join(in_html(escape.shown(line)) for line in lines)


def fitted(text: str, width: int) -> str:
    """Shorten a text that is longer than ``width`` at the end of a word, with "…"."""
    if len(text) <= width:
        return text
    kept = text[: max(0, width - 1)]  # one character is left for the ellipsis
    if text[len(kept)] not in _ENDS:
        kept = kept.rpartition(" ")[0] or kept
    return kept.rstrip(_ENDS + "(") + "…"


def _figures(step: Step, elapsed_s: float, since_s: float) -> str:
    if step.done_ratio is None or step.left_s is None:
        return in_words(elapsed_s)
    left_s = step.left_s - since_s
    left = f"{in_words(left_s)} left" if left_s > 0.5 else "ending"
    return f"{100 * _done(step, since_s):3.0f} % {left:>9}"


def _done(step: Step, since_s: float) -> float:
    """Return the fraction of the budget that is used now, estimated from the time since the step began."""
    done, left_s = step.done_ratio or 0.0, step.left_s or 0.0
    if done >= 1.0 or left_s <= 0.0:
        return 1.0
    return min(1.0, done + since_s * (1.0 - done) / left_s)


def _bar(done_ratio: float, *, plain: bool) -> str:
    full, empty = "#-" if plain else "━─"
    n = round(done_ratio * _BAR)
    return full * n + empty * (_BAR - n)
