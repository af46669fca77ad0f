"""Draw what ortune printed as the picture of the README: text on a dark ground, in SVG, with no font fetched.

    ortune report ID | python tools/make_picture.py 'ortune tune model.onnx' docs/answer.svg

From the answer's first line to the line before its code; the command stands above it.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

WIDTH, LINE, MARGIN, LETTER = 100, 19, 16, 8.05


def picture(command: str, lines: list[str]) -> str:
    """The SVG; the first paragraph of the answer is the headline."""
    headline = lines.index("")
    rows = [f'<tspan fill="#8b949e">$ {escape(command)}</tspan>']
    for number, line in enumerate(lines):
        colour = ' fill="#56d364" font-weight="bold"' if number < headline else ""
        rows.append(f"<tspan{colour}>{escape(line)}</tspan>")
    width, height = WIDTH * LETTER + 2 * MARGIN, len(rows) * LINE + 2 * MARGIN
    text = "\n".join(
        f'<text x="{MARGIN}" y="{MARGIN + LINE * (n + 1) - 5}" xml:space="preserve">{row}</text>'
        for n, row in enumerate(rows)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" '
        f'aria-label="What {escape(command, quote=True)} prints">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n'
        f'<g font-family="ui-monospace,Menlo,Consolas,monospace" font-size="13.4" fill="#e6edf3">\n{text}\n'
        f"</g>\n</svg>\n"
    )


def answer(lines: list[str]) -> list[str]:
    """The answer alone: what is said before it, code and next commands are left out."""
    lines = [line.rstrip() for line in lines]
    if "not measured now" in " ".join(lines[: lines.index("")]):
        lines = lines[lines.index("") + 1 :]
    ends = [n for n, line in enumerate(lines) if line.startswith(("bundle ", "to paste:", "next:"))]
    lines = lines[: min(ends, default=len(lines))]
    while lines and not lines[-1]:
        lines.pop()
    return lines


if __name__ == "__main__":
    said, place = sys.argv[1], Path(sys.argv[2])
    place.write_text(picture(said, answer(sys.stdin.read().splitlines())), encoding="utf-8")
